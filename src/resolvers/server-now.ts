import { escapeText } from '../escape.ts';
import { NotFoundError } from '../tmux/errors.ts';
import type { ListingStatus, ServerRef, ServerView } from '../tmux/model.ts';
import type { Context } from './context.ts';
import { memberNode, type ServerNode } from './nodes.ts';

/**
 * A server after an act on it, as it is listed at the moment of the answer; whoever was allowed to
 * act may see it. Where it is in no listing it is ABSENT if we could look, else UNKNOWN.
 */
export async function serverNow(context: Context, ref: ServerRef): Promise<ServerNode> {
  const member = context.accounts.member(ref.memberId);
  if (member === undefined) throw new NotFoundError();
  const listing = await context.fleet.read(ref.memberId);
  const view =
    listing?.servers?.find(
      (each) => each.ref.pathHex === ref.pathHex && each.ref.generation === ref.generation,
    ) ?? unlisted(ref, listing?.servers ? listing.status : undefined);
  return { __typename: 'TmuxServer', member: memberNode(member, listing), view };
}

function unlisted(ref: ServerRef, status: ListingStatus | undefined): ServerView {
  const looked = status !== undefined;
  return {
    ref,
    socketPath: serverLabel(ref.pathHex),
    status: looked ? 'ABSENT' : 'UNKNOWN',
    reason: looked ? null : 'NOT_YET_ASKED',
    detail: null,
    generation: null,
    pid: null,
    startedAt: null,
    version: null,
    installedVersion: null,
    outdated: null,
    binaryDeleted: null,
    openFiles: null,
    openFilesLimit: null,
    cpuPercent: null,
    attachedClients: null,
    idle: null,
    workingAgents: looked ? 0 : null,
    activity: [],
    tmuxStartTime: null,
    listing: status ?? {
      state: 'UNKNOWN',
      version: 'unlisted',
      observedAt: null,
      reason: 'NOT_YET_ASKED',
      detail: null,
      consecutiveFailures: 0,
      nextAttemptAt: null,
    },
    sessions: looked ? [] : null,
  };
}

/** The path as people read it, from an id; it may hold any byte. */
export const serverLabel = (pathHex: string) => escapeText(Buffer.from(pathHex, 'hex').toString());
