import { readConfig } from '../config.ts';
import { migrate as bring } from '../database/migrate.ts';
import { type Command, exactly, readWords } from './command.ts';
import { withUnmigrated } from './with-database.ts';

export const migrate: Command = {
  summary: 'bring the database to what this version needs',
  help: `muxwarden migrate

Applies what is missing and says what. \`muxwarden serve\` does the same at its start; this is for
those who want it done before.`,
  async run(words, io) {
    exactly(readWords(words, {}).positionals);
    const applied = await withUnmigrated(readConfig(io.environment), bring);
    io.out(
      applied.length === 0
        ? 'The database is up to date.'
        : applied.map((name) => `Applied ${name}.`).join('\n'),
    );
    return 0;
  },
};
