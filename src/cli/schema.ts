import { type Command, exactly, readWords } from './command.ts';

export const schema: Command = {
  summary: 'print the GraphQL schema',
  help: `muxwarden schema

Prints the schema of this version in the schema definition language.`,
  async run(words, io) {
    exactly(readWords(words, {}).positionals);
    const { printedSchema } = await import('../schema/sdl.ts');
    io.out(printedSchema().trimEnd());
    return 0;
  },
};
