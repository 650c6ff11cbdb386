import { type Command, exactly, readWords } from './command.ts';

export const schema: Command = {
  summary: 'print the GraphQL schema',
  help: `muxwarden schema

Prints the schema of this version in the schema definition language.`,
  async run(words, io) {
    exactly(readWords(words, {}).positionals);
    const [{ printSchema }, { schema: built }] = await Promise.all([
      import('graphql'),
      import('../schema/index.ts'),
    ]);
    io.out(printSchema(built));
    return 0;
  },
};
