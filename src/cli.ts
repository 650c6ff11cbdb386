import { run } from './cli/run.ts';
import { processIo } from './cli/terminal.ts';

process.exitCode = await run(process.argv.slice(2), processIo());
