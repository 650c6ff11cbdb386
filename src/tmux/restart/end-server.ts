import { OutcomeUnknownError, StaleGenerationError, TmuxServerStuckError } from '../errors.ts';
import { type HelperAnswer, HelperError, serverWords } from '../member-helper.ts';
import type { MemberTmux, TargetProcess } from '../member-tmux.ts';
import type { ServerView } from '../model.ts';

/**
 * Ending a tmux server: `kill-server` by its own binary, then TERM, then (only when told to) KILL,
 * each with three seconds, and each step only when the one before did not do it.
 *
 * It has ended when its process is gone, or a zombie, and that was seen, never because a command
 * exited 0. A stopped server gets neither of the first two: they would stay pending and end it
 * whenever it runs again.
 */
export interface EndOptions {
  /** It is stopped and stays so: only KILL reaches it. */
  readonly stopped: boolean;
  readonly force: boolean;
}

/** `taken`: it has ended, and somebody else listens on its path now. */
export type Ended = 'free' | 'taken';

const stepMs = 3_000;
const graceMs = 2_000;

/**
 * @throws TmuxServerStuckError, OutcomeUnknownError, StaleGenerationError (then nothing was sent)
 */
export async function endServer(
  tmux: MemberTmux,
  server: ServerView,
  options: EndOptions,
): Promise<Ended> {
  const process = tmux.targetProcess(server);
  const words = `pid=${process.pid} ticks=${process.ticks}`;
  const steps = [
    ...(options.stopped
      ? []
      : [`kill-server ${killWords(tmux, server)}`, `signal ${words} signal=term`]),
    ...(options.force ? [`signal ${words} signal=kill`] : []),
  ].filter((step) => step !== 'kill-server ');
  let doubt: unknown;
  for (const step of steps) {
    const began = tmux.clock.monotonic();
    try {
      const { failure } = await tmux.helper.act(step, { deadlineMs: stepMs + graceMs });
      if (failure?.code === 'ESTALE') throw stale(server);
    } catch (error) {
      if (!(error instanceof HelperError)) throw error;
      doubt = error;
    }
    const left = Math.max(300, stepMs - (tmux.clock.monotonic() - began));
    const seen = await awaitEnd(tmux, server, process, Math.round(left));
    if (seen === 'unknown') doubt ??= new Error('nobody could say whether it has ended');
    else if (seen !== 'alive') return seen;
    else doubt = undefined;
  }
  if (doubt !== undefined) {
    throw new OutcomeUnknownError(
      `It was told to end and nobody could see whether it did (pid ${process.pid}). Look again before you decide.`,
      { cause: doubt },
    );
  }
  throw new TmuxServerStuckError(
    process.pid,
    server.status,
    server.socketPath,
    true,
    `The tmux server (pid ${process.pid}) did not end${options.force ? ', not even by SIGKILL' : ''}. ${
      options.force
        ? 'Root has to look at that process.'
        : 'Use force (SIGKILL), or end that process as root.'
    }`,
  );
}

/** Looks until the process is gone and nobody listens, for `ms` at most. */
async function awaitEnd(
  tmux: MemberTmux,
  server: ServerView,
  process: TargetProcess,
  ms: number,
): Promise<Ended | 'alive' | 'unknown'> {
  let answer: HelperAnswer;
  try {
    answer = await tmux.helper.act(
      `await pid=${process.pid} ticks=${process.ticks} socket=${server.ref.pathHex} ms=${ms}`,
      { deadlineMs: ms + graceMs },
    );
  } catch (error) {
    if (error instanceof HelperError) return 'unknown';
    throw error;
  }
  const row = answer.rows.find(([kind]) => kind === 'gone');
  if (answer.failure !== null || row === undefined) return 'unknown';
  const [, gone, , listening] = row;
  if (gone !== '1') return 'alive';
  return listening === '0' ? 'free' : listening === '1' ? 'taken' : 'unknown';
}

/** Empty while the start time inside tmux is not known: then it can't be asked, only signalled. */
function killWords(tmux: MemberTmux, server: ServerView): string {
  return server.tmuxStartTime === null ? '' : serverWords(tmux.target(server));
}

function stale(server: ServerView): StaleGenerationError {
  return new StaleGenerationError(server.generation ?? '', null);
}
