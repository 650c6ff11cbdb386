import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { Journal } from '../../src/audit/journal.ts';
import { TableWriter } from '../../src/audit/table-writer.ts';
import { ProcessHelper } from '../../src/tmux/helper/helper.ts';
import { type LiveProcess, Processes } from '../../src/tmux/helper/process.ts';
import type { CrashPointName } from './crash-points.ts';

/**
 * Loaded before the service (`node --import`), kills it by SIGKILL exactly at the crash point that
 * MUXWARDEN_TEST_DIE_AT names. It stands around the methods that an act goes through, so the product
 * knows nothing of it. It looks only from the intent on: what a start closes is no act.
 */
const chosen = process.env.MUXWARDEN_TEST_DIE_AT;
const action = '"action":"RESTART_TMUX_SERVER"';
const sessionBeingRestored = 'second';
let begun = false;
let startRequest = '';

function reach(point: CrashPointName): void {
  if (point !== chosen) return;
  // It is kept at a clean end alone; without it every start would compile all again.
  flushCompileCache();
  process.kill(process.pid, 'SIGKILL');
  for (;;);
}

const { prepare } = Journal.prototype;
Journal.prototype.prepare = async function (lines, last) {
  const ours = lines().filter((line) => line.includes(action));
  const isIntent = ours.some((line) => line.includes('"phase":"INTENT"'));
  const isOutcome = begun && ours.some((line) => line.includes('"phase":"OUTCOME"'));
  if (isIntent) reach('before the intent is written');
  if (isOutcome) reach('it is restored, and the outcome not written');
  const write = await prepare.call(this, lines, last);
  return async () => {
    await write();
    begun ||= isIntent;
    if (isIntent) reach('the intent is in the journal');
    if (isOutcome) reach('the outcome is in the journal');
  };
};

const { store } = TableWriter.prototype;
TableWriter.prototype.store = async function (group, onDisk) {
  const taken = await store.call(this, group, onDisk);
  for (const { row } of group) {
    if (!begun || row.action !== 'RESTART_TMUX_SERVER') continue;
    reach(row.phase === 'INTENT' ? 'the intent is in the table' : 'the outcome is in the table');
  }
  return taken;
};

const { act, start } = ProcessHelper.prototype;
ProcessHelper.prototype.act = async function (request, options) {
  const answer = await act.call(this, request, options);
  if (begun && request.startsWith('kill-server ')) reach('it was told to end');
  if (begun && request.startsWith('await ')) reach('it was seen to have ended');
  return answer;
};
ProcessHelper.prototype.start = function (request, plan, options) {
  startRequest = request;
  return start.call(this, request, plan, options);
};

const { open } = Processes.prototype;
Processes.prototype.open = async function (command, kind, signal) {
  const started = await open.call(this, command, kind, signal);
  if (begun && command.args.includes('act')) reach('the helper that ends it has started');
  return command.args.includes('start') ? watched(started) : started;
};

/** Once it has its whole request, nothing else runs here until what we wait for is there. */
function watched(helper: LiveProcess): LiveProcess {
  const end = helper.stdin.end.bind(helper.stdin);
  const hex = (name: string) =>
    Buffer.from(new RegExp(`${name}=([0-9a-f]+)`).exec(startRequest)?.[1] ?? '', 'hex').toString();
  const [socket, tmux] = [hex('socket'), hex('tmux')];
  helper.stdin.end = ((...last: []) => {
    const ended = end(...last);
    if (chosen === 'the new server is there' || chosen === 'its sessions are being restored') {
      while (!existsSync(socket));
      if (chosen === 'its sessions are being restored') while (!hasSession(tmux, socket));
      reach(chosen);
    }
    return ended;
  }) as typeof helper.stdin.end;
  return helper;
}

function hasSession(tmux: string, socket: string): boolean {
  try {
    const target = `=${sessionBeingRestored}`;
    execFileSync(tmux, ['-S', socket, 'has-session', '-t', target], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
