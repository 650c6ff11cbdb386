import type { Held } from '../../concurrency/keyed-mutex.ts';
import { escapeText } from '../../escape.ts';
import type { PreparedAct, RestartPaneRequest, RestartPaneResult } from '../acts.ts';
import {
  ListingUnknownError,
  NotFoundError,
  OperationInProgressError,
  OutcomeUnknownError,
  StaleGenerationError,
  TmuxServerStuckError,
  WorkingDirectoryMissingError,
} from '../errors.ts';
import { HelperError, type ServerTarget, serverWords } from '../member-helper.ts';
import { type LocatedPane, type MemberTmux, serverKey } from '../member-tmux.ts';
import type { PaneRef, PaneView, ServerView } from '../model.ts';
import { lookAgain, unknownServer } from './look-again.ts';
import { serverLabel, stateOf } from './server-state.ts';
import { type ProcessId, survivorsAmong } from './survivors.ts';
import { underLock } from './under-lock.ts';
import { workingDirectory } from './working-directory.ts';

/**
 * What runs in a pane ended and the pane's own command started again, in the directory where it was.
 *
 * The respawn is guarded inside tmux by the server's generation, the pane's id and the pid that was
 * looked at, so neither a new life of the server nor a pane that was restarted meanwhile is touched.
 * That it happened is seen from the pane's new pid, in the listing or, where that program has ended by
 * then too (3.8 tells no pid of such a pane), behind the respawn. A pane whose program has ended
 * (`remain-on-exit`) is started again just so.
 *
 * @throws OperationInProgressError after 20 s behind another act, StaleGenerationError,
 * NotFoundError, ListingUnknownError, TmuxServerStuckError, WorkingDirectoryMissingError: all
 * before anything was sent
 */
export async function prepareRestartPane(
  tmux: MemberTmux,
  request: RestartPaneRequest,
): Promise<PreparedAct<RestartPaneResult>> {
  const { pane } = request;
  // An id of another life is refused at once, whatever is going on there.
  refuseKnownStale(tmux, pane);
  const held = await acquireWithin(tmux, serverKey({ pathHex: pane.pathHex }), lockMs);
  return await underLock(held, async () => {
    const server = await lookAgain(
      tmux,
      { memberId: pane.memberId, pathHex: pane.pathHex },
      pane.generation,
    );
    refuseSilent(server);
    const located = tmux.locatePane(pane);
    const directory = await workingDirectory(tmux, located);
    const processes = await processesOf(tmux, pane, located.target);
    return {
      before: stateOf(server),
      targetLabel: `${serverLabel(server)} ${paneLabel(located)}`,
      run: () => respawn(tmux, pane, located, { directory, processes }),
    };
  });
}

/** A restart of the server ends within this. */
const lockMs = 20_000;

async function acquireWithin(tmux: MemberTmux, key: string, ms: number): Promise<Held> {
  const holder = tmux.locks.holder(key);
  const acquired = tmux.locks.acquire(key);
  const late = Promise.withResolvers<undefined>();
  const cancel = tmux.clock.after(ms, () => late.resolve(undefined));
  const held = await Promise.race([acquired, late.promise]);
  cancel();
  if (held !== undefined) return held;
  // The lock still comes, and nobody will be there to use it.
  void acquired.then((unused) => unused[Symbol.dispose]());
  throw new OperationInProgressError(tmux.locks.holder(key) ?? holder ?? '');
}

function refuseKnownStale(tmux: MemberTmux, pane: PaneRef): void {
  const known = tmux.server({ memberId: pane.memberId, pathHex: pane.pathHex });
  if (known?.generation && known.status === 'RUNNING' && known.generation !== pane.generation) {
    throw new StaleGenerationError(pane.generation, known.generation);
  }
}

function refuseSilent(server: ServerView): void {
  if (server.status === 'STOPPED') {
    throw new TmuxServerStuckError(
      server.pid ?? 0,
      server.status,
      server.socketPath,
      false,
      `The tmux server is stopped (pid ${server.pid}); nothing was sent, for it would take effect later. Let it run first.`,
    );
  }
  if (server.status !== 'RUNNING' || server.listing.state !== 'FRESH') throw unknownServer(server);
}

interface Before {
  /** As hex. */
  readonly directory: string;
  readonly processes: readonly ProcessId[];
}

/** What lives in the pane, so that what outlives it can be named. */
async function processesOf(
  tmux: MemberTmux,
  ref: PaneRef,
  target: ServerTarget,
): Promise<readonly ProcessId[]> {
  try {
    const { rows, failure } = await tmux.helper.ask(
      `processes ${serverWords(target)} pane=${ref.pane}`,
    );
    if (failure?.code === 'ESTALE' || failure?.code === 'ENOENT') throw await whyStale(tmux, ref);
    if (failure !== null) {
      const detail = `${failure.code}: ${escapeText(failure.detail)}`;
      throw new ListingUnknownError(null, null, detail);
    }
    return rows.map(([, , pid, ticks]) => ({ pid: Number(pid), ticks: ticks ?? '' }));
  } catch (error) {
    if (!(error instanceof HelperError)) throw error;
    throw new ListingUnknownError(error.reason, null, error.message, { cause: error });
  }
}

async function respawn(
  tmux: MemberTmux,
  ref: PaneRef,
  { server, target, pane }: LocatedPane,
  { directory, processes }: Before,
): Promise<RestartPaneResult> {
  let doubt: HelperError | undefined;
  let refused: string | undefined;
  let isNew = false;
  try {
    const { failure, rows } = await tmux.helper.act(
      `respawn-pane ${serverWords(target)} pane=${pane.pane} panepid=${pane.pid ?? 0} dir=${directory}`,
    );
    if (failure?.code === 'ESTALE' || failure?.code === 'ENOENT') throw await whyStale(tmux, ref);
    if (failure?.code === 'ENOCWD') {
      throw new WorkingDirectoryMissingError(pathOf(directory), escapeText(failure.detail));
    }
    if (failure !== null) refused = `${failure.code}: ${escapeText(failure.detail)}`;
    isNew = rows.some(([kind, pid]) => kind === 'respawned' && Number(pid) !== pane.pid);
  } catch (error) {
    if (!(error instanceof HelperError)) throw error;
    doubt = error;
  } finally {
    tmux.writeThrough(server.ref, { kind: 'touched' });
  }
  await tmux.refresh();
  const after = tmux.server(server.ref);
  const state = after === undefined ? stateOf(tmux.absentServer(server.ref)) : stateOf(after);
  const now = paneNow(after, ref);
  if (now === 'unknown' || (now !== undefined && now.pid === pane.pid && !isNew)) {
    throw new OutcomeUnknownError(
      `The restart of %${ref.pane} was sent and could not be seen (${refused ?? doubt?.message ?? 'it still shows its old process'}). Look again before you decide.`,
      { cause: doubt },
    );
  }
  const survivors = await survivorsAmong(tmux, processes);
  if (survivors === undefined) {
    throw new OutcomeUnknownError(
      `%${ref.pane} was restarted; whether programs of before live on could not be seen.`,
    );
  }
  return { pane: now === undefined ? null : ref, after: state, survivors };
}

/** The guard inside tmux said no, so nothing was touched. */
async function whyStale(tmux: MemberTmux, ref: PaneRef): Promise<Error> {
  await tmux.refresh();
  const server = tmux.server({ memberId: ref.memberId, pathHex: ref.pathHex });
  return server?.generation === ref.generation && paneNow(server, ref) === undefined
    ? new NotFoundError('The pane')
    : new StaleGenerationError(ref.generation, server?.generation ?? null);
}

/** The pane as listed after the act; undefined when it is gone, or its server is. */
function paneNow(server: ServerView | undefined, ref: PaneRef): PaneView | undefined | 'unknown' {
  if (server === undefined || server.status === 'ABSENT') return undefined;
  if (server.generation !== null && server.generation !== ref.generation) return undefined;
  if (server.sessions === null || server.listing.state !== 'FRESH') return 'unknown';
  return server.sessions
    .flatMap(({ windows }) => windows)
    .flatMap(({ panes }) => panes)
    .find(({ pane }) => pane === ref.pane);
}

function paneLabel({ session, window, pane }: LocatedPane): string {
  return `${escapeText(session.name).slice(0, 100)}:${window.index}.${pane.index} (%${pane.pane})`;
}

function pathOf(hex: string): string {
  return Buffer.from(hex, 'hex').toString('utf8');
}
