import { escapeText } from '../../escape.ts';
import { ListingUnknownError, StaleGenerationError, UnsupportedError } from '../errors.ts';
import { HelperError } from '../member-helper.ts';
import type { MemberTmux } from '../member-tmux.ts';
import type { ServerView } from '../model.ts';
import { unknownServer } from '../restart/look-again.ts';
import { type RepairPlan, refuseStopped } from './repair-plan.ts';

/** Below this share of its limit a server lacks nothing. */
const usedShare = 3 / 4;
const usualLimit = 1_024;
/** Some for the clients that wait, and some to go on with. */
const leastRoom = 16;

/**
 * A soft limit of open files well above those that it has open, up to its hard limit, which only root
 * can raise. Servers up to 3.5a spin without a free one, and go on as if nothing had been.
 */
export async function raiseDescriptorLimit(
  tmux: MemberTmux,
  server: ServerView,
): Promise<RepairPlan> {
  refuseStopped(server);
  const { openFiles, openFilesLimit } = server;
  if (openFiles === null || openFilesLimit === null) throw unknownServer(server);
  const { pid, ticks } = tmux.targetProcess(server);
  if (openFiles < openFilesLimit * usedShare) {
    throw new UnsupportedError(
      `There is nothing to repair: the tmux server (pid ${pid}) has ${openFiles} of ${openFilesLimit} files open. Its limit was not touched.`,
      server.version,
    );
  }
  const hard = await hardLimit(tmux, server);
  const wanted = Math.max(usualLimit, 4 * openFiles);
  const limit = Math.min(wanted, hard);
  if (limit <= openFilesLimit || limit < openFiles + leastRoom) {
    throw new UnsupportedError(
      `Its hard limit of open files is ${hard}, and ${openFiles} are open: the member may not raise it further. Root can: prlimit --pid ${pid} --nofile=${wanted}:${wanted}`,
      server.version,
    );
  }
  return {
    request: `rescue pid=${pid} ticks=${ticks} limit=${limit}`,
    isDone: ({ status, listing, ...now }) =>
      (now.openFilesLimit ?? 0) >= limit && status === 'RUNNING' && listing.state === 'FRESH',
    notSeen: `Its limit of open files was to become ${limit}, and it does not answer yet`,
  };
}

async function hardLimit(tmux: MemberTmux, server: ServerView): Promise<number> {
  const { pid, ticks } = tmux.targetProcess(server);
  try {
    const { rows, failure } = await tmux.helper.ask(`limits pid=${pid} ticks=${ticks}`);
    if (failure?.code === 'EGONE') throw new StaleGenerationError(server.generation ?? '', null);
    const [, , hard] = rows.find(([kind]) => kind === 'limit') ?? [];
    if (failure === null && hard !== undefined && /^\d{1,20}$/.test(hard)) return Number(hard);
    const said = failure === null ? 'no limit' : `${failure.code}: ${failure.detail}`;
    throw new ListingUnknownError('MALFORMED_ANSWER', null, escapeText(said));
  } catch (error) {
    if (!(error instanceof HelperError)) throw error;
    throw new ListingUnknownError(error.reason, null, error.message, { cause: error });
  }
}
