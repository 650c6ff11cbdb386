import { run } from './cli/run.ts';
import { processIo } from './cli/terminal.ts';

const status = await run(process.argv.slice(2), processIo());
// Set where the output was lost.
process.exitCode ??= status;
