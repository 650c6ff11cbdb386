import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { systemClock } from '../../src/concurrency/clock.ts';
import { ControlClient } from '../../src/tmux/output/control-client.ts';

/**
 * The same as decode.c in Node. argv: `decoded`, by our control client; or `dropped`, which looks for
 * the last byte and at nothing else. Then the byte that ends it, and the control client to run.
 */
const [how, end = '', command = '', ...words] = process.argv.slice(2);
const tmux = spawn(command, words, { stdio: ['pipe', 'pipe', 'inherit'] });
const last = end.charCodeAt(0);
let bytes = 0;
let began: { readonly at: number; readonly used: NodeJS.CpuUsage } | undefined;

function took(data: Uint8Array): void {
  began ??= { at: performance.now(), used: process.cpuUsage() };
  bytes += data.length;
  if (!data.includes(last)) return;
  const { user, system } = process.cpuUsage(began.used);
  const ms = performance.now() - began.at;
  console.log(JSON.stringify({ bytes, ms, cpuMs: (user + system) / 1_000 }));
  tmux.stdin.end();
}

if (how === 'dropped') {
  await once(tmux.stdout, 'data');
  console.log('ready');
  tmux.stdout.on('data', took);
} else {
  const ended = once(tmux, 'exit').then(() => {});
  const connection = {
    ...{ pid: tmux.pid ?? 0, version: '', input: tmux.stdin, output: tmux.stdout, ended },
    [Symbol.asyncDispose]: async () => void tmux.stdin.end(),
  };
  const client = new ControlClient(
    connection,
    { output: (_pane, data) => took(data), notification: () => {}, drained: () => {} },
    systemClock,
  );
  await client.ping(5_000);
  console.log('ready');
}
