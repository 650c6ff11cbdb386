import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { eventually, startTicks } from './tmux-server.ts';

it('ends the tmux servers of a test process that was killed', async () => {
  const support = JSON.stringify(join(import.meta.dirname, 'tmux-server.ts'));
  const code = `const { startTmux } = await import(${support});
    console.log(await (await startTmux()).pid()); setInterval(() => {}, 1e6);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const pid = await new Promise<number>((resolve) => {
    child.stdout.once('data', (text) => resolve(Number(text)));
  });
  expect(await startTicks(pid)).toBeDefined();
  child.kill('SIGKILL');
  await eventually(async () => (await startTicks(pid)) === undefined, 'the server is gone');
});
