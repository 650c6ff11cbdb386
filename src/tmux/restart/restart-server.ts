import type { PreparedAct, RestartServerRequest, RestartServerResult } from '../acts.ts';
import {
  ListingUnknownError,
  TmuxServerBusyError,
  TmuxServerStuckError,
  UnsupportedError,
} from '../errors.ts';
import { idleness } from '../idle.ts';
import { HelperError } from '../member-helper.ts';
import { type InstalledTmux, type MemberTmux, serverKey } from '../member-tmux.ts';
import type { ServerView } from '../model.ts';
import { type Ended, endServer } from './end-server.ts';
import { heldSessions } from './held-sessions.ts';
import { lookAgain } from './look-again.ts';
import { askDescription, checkCommands, type Restoration, restorationOf } from './restoration.ts';
import { isOutOfDescriptors, serverLabel, stateOf } from './server-state.ts';
import { startServer } from './start-server.ts';
import { underLock } from './under-lock.ts';

/**
 * A server ended and started again with what it held.
 *
 * Held from the first look to the last: the server's lock, so that nobody else acts on it and an old
 * id never finds the new life half made. Before the intent nothing is sent. What it holds is read
 * before it is ended; where that can't be done, it is not ended, unless `force` says so. And on a
 * path whose server lives, or which somebody else took meanwhile, none is started.
 *
 * @throws OperationInProgressError, StaleGenerationError, NotFoundError, ListingUnknownError,
 * TmuxServerStuckError, TmuxServerBusyError, UnsupportedError: all before anything was sent
 */
export async function prepareRestartServer(
  tmux: MemberTmux,
  request: RestartServerRequest,
): Promise<PreparedAct<RestartServerResult>> {
  const held = await tmux.locks.acquireAlone(serverKey(request.server), request.operationId);
  return await underLock(held, async () => {
    const server = await lookAgain(tmux, request.server, request.expectedGeneration);
    refuseUnreachable(server, request);
    if (request.onlyIfIdle) refuseBusy(tmux, server);
    checkCommands(server, request);
    const installed = installedTmux(tmux, server);
    const restoration = await restorationBefore(tmux, server, request, installed);
    if (request.onlyIfIdle) {
      // Somebody may have come back while what it holds was read.
      refuseBusy(tmux, await lookAgain(tmux, request.server, request.expectedGeneration));
    }
    return {
      before: stateOf(server),
      targetLabel: serverLabel(server),
      holds: restoration?.holds ?? heldSessions(lastKnown(tmux, server), undefined),
      run: () => restart(tmux, server, request, installed, restoration),
    };
  });
}

function refuseUnreachable(server: ServerView, request: RestartServerRequest): void {
  if (server.status === 'STOPPED' && !request.continueStopped && !request.force) {
    throw new TmuxServerStuckError(
      server.pid ?? 0,
      server.status,
      server.socketPath,
      false,
      `The tmux server is stopped (pid ${server.pid}); nothing was sent, for it would take effect later. Let it run first (continueStopped), or end it by force.`,
    );
  }
  if (server.reason === 'PATH_TAKEN') {
    throw new UnsupportedError(
      "Another tmux server listens on its path now, so it can't be started there again. End it by its pid, or move what runs in it.",
      server.version,
    );
  }
}

function refuseBusy(tmux: MemberTmux, server: ServerView): void {
  const seenAt = server.listing.observedAt ?? new Date(0);
  const { idle, evidence } = idleness(server, seenAt, tmux.config.idleAfterMs);
  if (idle !== true) throw new TmuxServerBusyError(evidence);
}

function installedTmux(tmux: MemberTmux, server: ServerView): InstalledTmux {
  const installed = tmux.installedTmux();
  if (installed !== undefined) return installed;
  throw new UnsupportedError(
    'There is no installed tmux that runs, so nothing was ended. Install tmux, or set MUXWARDEN_TMUX_BIN.',
    server.version,
  );
}

/** What to restore, where it can be read now. Undefined: it has to be read after the server runs again. */
async function restorationBefore(
  tmux: MemberTmux,
  server: ServerView,
  request: RestartServerRequest,
  installed: InstalledTmux,
): Promise<Restoration | undefined> {
  if (request.restore === 'NONE')
    return restorationOf(lastKnown(tmux, server), undefined, request, installed);
  if (server.status === 'STOPPED') {
    return request.continueStopped
      ? undefined
      : restorationOf(lastKnown(tmux, server), { failure: 'it is stopped' }, request, installed);
  }
  if (server.status === 'SPINNING' || isOutOfDescriptors(server)) return undefined;
  const described = await askDescription(tmux, server);
  if ('failure' in described && !request.force) {
    throw new ListingUnknownError(
      described.reason ?? server.reason,
      null,
      `what it holds can't be read (${described.failure}), so it could not be restored. Use force to restart it all the same`,
    );
  }
  return restorationOf(lastKnown(tmux, server), described, request, installed);
}

/** Who is shown nothing that is old would have lost all of what can't be asked any more. */
function lastKnown(tmux: MemberTmux, server: ServerView): ServerView {
  return server.sessions === null ? { ...server, sessions: tmux.lastSessions(server) } : server;
}

async function restart(
  tmux: MemberTmux,
  server: ServerView,
  request: RestartServerRequest,
  installed: InstalledTmux,
  before: Restoration | undefined,
): Promise<RestartServerResult> {
  const stopped = server.status === 'STOPPED' && !request.continueStopped;
  if (server.status === 'STOPPED' && request.continueStopped) {
    await send(tmux, server, 'signal', ' signal=cont');
  }
  if (isOutOfDescriptors(server)) {
    await send(
      tmux,
      server,
      'rescue',
      ` limit=${Math.max(1024, 2 * (server.openFilesLimit ?? 0))}`,
    );
  }
  const restoration = before ?? (await restorationAfterRescue(tmux, server, request, installed));
  let ended: Ended;
  try {
    ended = await endServer(tmux, server, { stopped, force: request.force });
  } catch (error) {
    tmux.writeThrough(server.ref, { kind: 'touched' });
    throw error;
  }
  return await startServer(tmux, server, installed, restoration, ended);
}

/** A step on the way whose effect the next one shows; that it failed is no reason to stop. */
async function send(
  tmux: MemberTmux,
  server: ServerView,
  request: 'signal' | 'rescue',
  words: string,
): Promise<void> {
  const { pid, ticks } = tmux.targetProcess(server);
  try {
    await tmux.helper.act(`${request} pid=${pid} ticks=${ticks}${words}`);
  } catch (error) {
    if (!(error instanceof HelperError)) throw error;
  }
  tmux.writeThrough(server.ref, { kind: 'touched' });
}

/** Read as soon as the server, let run or given descriptors, answers; three tries. */
async function restorationAfterRescue(
  tmux: MemberTmux,
  server: ServerView,
  request: RestartServerRequest,
  installed: InstalledTmux,
): Promise<Restoration> {
  let described = await askDescription(tmux, server);
  for (let again = 0; again < 2 && 'failure' in described; again += 1) {
    described = await askDescription(tmux, server);
  }
  if ('failure' in described && !request.force) {
    throw new TmuxServerStuckError(
      server.pid ?? 0,
      server.status,
      server.socketPath,
      false,
      `The tmux server (pid ${server.pid}) does not answer (${described.failure}), so what it holds could not be restored, and it was not ended. Use force, or ask without restore.`,
    );
  }
  return restorationOf(lastKnown(tmux, server), described, request, installed);
}
