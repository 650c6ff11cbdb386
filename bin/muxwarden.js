#!/usr/bin/env node
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/**
 * The command `muxwarden`. Plain JavaScript that Node 20 reads too: the service needs Node 24.7, and
 * where the machine's own is older, the one that npm installed beside us takes over. It is a child
 * then, so signals go down to it, its exit status comes up, and it ends when we are killed.
 */

const needed = [24, 7];
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
const newEnough = major > needed[0] || (major === needed[0] && minor >= needed[1]);

/**
 * V8 would let its space for young objects grow to 128 MiB and hardly give any back. This is 32, and can
 * only be said before it starts.
 */
const bounded = '--max-semi-space-size=16';
const isBounded = [...process.execArgv, process.env.NODE_OPTIONS ?? ''].some((option) =>
  option.includes('--max-semi-space-size'),
);

if (newEnough) {
  if (process.argv[2] === 'serve' && !isBounded) beginAgain();
  endWithParent();
  await run();
} else {
  handOver();
}

/** The sources in a clone; what `tsc` made of them in a package, where Node refuses to strip types. */
async function run() {
  const root = join(dirname(fileURLToPath(import.meta.url)), '..');
  const source = join(root, 'src/cli.ts');
  await import(pathToFileURL(existsSync(source) ? source : join(root, 'dist/cli.js')).href);
}

/** As the same process, in the same place. */
function beginAgain() {
  const [node, ...words] = process.argv;
  process.execve(node, [node, bounded, ...process.execArgv, ...words], process.env);
}

function handOver() {
  const node = ownNode();
  if (node === undefined) {
    process.stderr.write(
      `muxwarden needs Node.js ${needed.join('.')} or newer and this is ${process.versions.node}: install that, or run npm install again without --omit=optional, which brings one along (Linux on x64 and arm64).\n`,
    );
    process.exit(1);
  }
  // The channel carries no messages: that it closes is how the child learns of our death.
  const words = [bounded, fileURLToPath(import.meta.url), ...process.argv.slice(2)];
  const child = spawn(node, words, {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  });
  const ownTerminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGHUP', 'SIGUSR2', 'SIGWINCH']) {
    // A terminal sends Ctrl-C to both of us; once is enough.
    const fromTerminal = ownTerminal && ['SIGINT', 'SIGQUIT', 'SIGWINCH'].includes(signal);
    process.on(signal, () => fromTerminal || child.kill(signal));
  }
  child.on('error', (error) => {
    process.stderr.write(`muxwarden can't start ${node}: ${error.message}\n`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => {
    process.exit(code ?? 128 + (constants.signals[signal] ?? 0));
  });
}

function ownNode() {
  try {
    const from = createRequire(import.meta.url);
    const node = join(
      dirname(from.resolve(`node-${process.platform}-${process.arch}/package.json`)),
      'bin/node',
    );
    return existsSync(node) ? node : undefined;
  } catch {
    return undefined;
  }
}

function endWithParent() {
  if (process.connected === undefined) return;
  process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  process.channel?.unref();
}
