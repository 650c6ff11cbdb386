import { sleep } from '../../concurrency/clock.ts';
import { escapeText } from '../../escape.ts';
import type { PreparedAct, Repair, RepairServerRequest, RepairServerResult } from '../acts.ts';
import {
  OutcomeUnknownError,
  StaleGenerationError,
  TmuxServerStuckError,
  UnsupportedError,
} from '../errors.ts';
import { type HelperAnswer, HelperError } from '../member-helper.ts';
import { type MemberTmux, serverKey } from '../member-tmux.ts';
import type { ServerView } from '../model.ts';
import { lookAgain } from '../restart/look-again.ts';
import { serverLabel, stateOf, wasLookedAt } from '../restart/server-state.ts';
import { underLock } from '../restart/under-lock.ts';
import { continueStopped } from './continue-stopped.ts';
import { raiseDescriptorLimit } from './raise-descriptor-limit.ts';
import { recreateSocket } from './recreate-socket.ts';
import type { PlanRepair, RepairPlan } from './repair-plan.ts';

/**
 * A server mended without ending it. Every repair is one request to the helper, about the one process
 * that was looked at, and is done when a later look shows that it helped: never because something
 * was sent. Where it can't help, or there is nothing to mend, it is refused and nothing is touched.
 */
const repairs: Readonly<Record<Repair, PlanRepair>> = {
  RAISE_DESCRIPTOR_LIMIT: raiseDescriptorLimit,
  RECREATE_SOCKET: recreateSocket,
  CONTINUE_STOPPED: continueStopped,
};

/**
 * @throws OperationInProgressError, StaleGenerationError, NotFoundError, ListingUnknownError,
 * TmuxServerStuckError, UnsupportedError: all before anything was sent
 */
export async function prepareRepairServer(
  tmux: MemberTmux,
  request: RepairServerRequest,
): Promise<PreparedAct<RepairServerResult>> {
  const held = await tmux.locks.acquireAlone(serverKey(request.server), request.operationId);
  return await underLock(held, async () => {
    const server = await lookAgain(tmux, request.server, request.expectedGeneration);
    const plan = await repairs[request.repair](tmux, server);
    return {
      before: stateOf(server),
      targetLabel: serverLabel(server),
      run: () => repair(tmux, server, plan),
    };
  });
}

async function repair(
  tmux: MemberTmux,
  server: ServerView,
  plan: RepairPlan,
): Promise<RepairServerResult> {
  let doubt: HelperError | undefined;
  try {
    const { failure } = await tmux.helper.act(plan.request);
    if (failure !== null) throw refusal(server, failure);
  } catch (error) {
    if (!(error instanceof HelperError)) throw error;
    doubt = error;
  } finally {
    tmux.writeThrough(server.ref, { kind: 'touched' });
  }
  return await seen(tmux, server, plan, doubt);
}

/** The helper looked once more and did not send it. */
function refusal(
  server: ServerView,
  { code, detail }: NonNullable<HelperAnswer['failure']>,
): StaleGenerationError | UnsupportedError {
  if (code === 'EGONE' || code === 'ESTALE') {
    return new StaleGenerationError(server.generation ?? '', null);
  }
  return new UnsupportedError(
    `Nothing was sent: ${escapeText(detail)} (${code}). Look again, then decide.`,
    server.version,
  );
}

const lookMs = 8_000;
const pauseMs = 200;

/** Looks until the repair shows, or the server is gone, or time is up. */
async function seen(
  tmux: MemberTmux,
  server: ServerView,
  plan: RepairPlan,
  doubt: HelperError | undefined,
): Promise<RepairServerResult> {
  const end = tmux.clock.monotonic() + lookMs;
  let last: ServerView | undefined;
  for (;;) {
    const since = tmux.clock.now();
    const listing = await tmux.refresh();
    if (wasLookedAt(listing, since)) {
      last = listing.servers?.find(
        ({ ref, generation }) =>
          ref.pathHex === server.ref.pathHex && generation === server.generation,
      );
      if (last === undefined) {
        const now = tmux.server(server.ref) ?? tmux.absentServer(server.ref);
        return { after: stateOf(now), ended: true };
      }
      if (plan.isDone(last)) return { after: stateOf(last), ended: false };
    }
    if (tmux.clock.monotonic() >= end) break;
    await sleep(pauseMs, tmux.clock);
  }
  const pid = server.pid ?? 0;
  if (doubt !== undefined || last === undefined) {
    throw new OutcomeUnknownError(
      `The repair was sent (pid ${pid}), and nobody could see whether it helped. Look again before you decide.`,
      { cause: doubt },
    );
  }
  const { status, socketPath } = last;
  throw new TmuxServerStuckError(pid, status, socketPath, true, `${plan.notSeen} (pid ${pid}).`);
}
