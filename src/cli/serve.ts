import { readConfig } from '../config.ts';
import { type Command, exactly, readWords } from './command.ts';

export const serve: Command = {
  summary: 'run the service',
  help: `muxwarden serve

Runs the service until SIGTERM or Ctrl-C. Everything is set by the environment and every default
works; the commonest:

  MUXWARDEN_HOST, MUXWARDEN_PORT   where it listens (127.0.0.1, 4000; port 0: any free one)
  MUXWARDEN_STATE_DIR              what it keeps (~/.local/state/muxwarden)
  DATABASE_URL                     a PostgreSQL server (default: its own, in the state directory)
  MUXWARDEN_MODE                   local (your own tmux servers) or system (those of all members)

docs/configuration.md has all of them.`,
  async run(words, io) {
    exactly(readWords(words, {}).positionals);
    const config = readConfig(io.environment);
    const { serve: run } = await import('../main.ts');
    await run(config);
    return 0;
  },
};
