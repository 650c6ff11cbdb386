import type { IncomingMessage } from 'node:http';
import type { BlockList } from 'node:net';
import type { Viewer } from '../auth/viewer.ts';
import type { Logger } from '../log.ts';
import { type Authenticator, authenticate, csrfHeader, shown } from './credential.ts';
import type { Documents } from './documents.ts';
import type { KeptAnswers } from './kept-answers.ts';
import { addressOf, type Origins } from './origin.ts';
import type { PartedAnswer } from './parted-answer.ts';
import type { RecentlyUsed } from './recently-used.ts';
import type { Parts } from './request-context.ts';
import type { SubscriptionCount } from './subscription-count.ts';
import type { Yoga } from './yoga.ts';

/** What everything that takes requests shares. */
export interface Door {
  readonly parts: Parts;
  readonly yoga: Yoga;
  readonly authenticator: Authenticator;
  readonly origins: Origins;
  /** Undefined where a browser session would not be safe. */
  readonly cookie: string | undefined;
  readonly trusted: BlockList;
  readonly subscriptions: SubscriptionCount;
  readonly documents: Documents;
  readonly kept: KeptAnswers;
  /** How to make an answer again in parts; null: only as a whole. */
  readonly parted: RecentlyUsed<PartedAnswer | null>;
  readonly draining: AbortSignal;
  readonly logger: Logger;
}

export interface Refusal {
  readonly status: 401 | 403;
  readonly code: 'UNAUTHENTICATED' | 'FORBIDDEN';
  readonly message: string;
}

/** The refusal of a request that comes through a page of another site; undefined: it may go on. */
export function refuseOrigin({ origins }: Door, request: IncomingMessage): Refusal | undefined {
  const { host, origin } = request.headers;
  if (!origins.allowsHost(host))
    return forbidden('This host name is not one of ours. Set MUXWARDEN_ALLOWED_HOSTS.');
  if (origin !== undefined && !origins.allowsOrigin(origin, host))
    return forbidden('This origin is not allowed. Set MUXWARDEN_ALLOWED_ORIGINS.');
  return undefined;
}

/** Who asks, or why that is not known. A cookie counts only with the CSRF header and an Origin. */
export function admit(
  door: Door,
  request: IncomingMessage,
): Viewer | Refusal | Promise<Viewer | Refusal> {
  const credential = shown(request.headers, door.cookie);
  const unsafe =
    credential?.kind === 'cookie' ? refuseForgery(request, 'A request with a cookie') : undefined;
  if (unsafe !== undefined) return unsafe;
  const viewer = authenticate(door.authenticator, credential);
  return viewer instanceof Promise
    ? viewer.then((known) => known ?? unauthenticated)
    : (viewer ?? unauthenticated);
}

/**
 * The refusal of a cookie, sent or to be set, in a request that another site's page could make.
 * @param what the subject of the sentence that the caller reads
 */
export function refuseForgery({ headers }: IncomingMessage, what: string): Refusal | undefined {
  if (headers[csrfHeader] !== '1')
    return forbidden(`${what} needs the header \`${csrfHeader}: 1\`.`);
  if (headers.origin === undefined) return forbidden(`${what} needs an Origin header.`);
  return undefined;
}

export function isRefusal(outcome: Viewer | Refusal): outcome is Refusal {
  return 'status' in outcome;
}

export function clientAddress({ trusted }: Door, request: IncomingMessage): string | null {
  const forwarded = request.headers['x-forwarded-for'];
  return addressOf(
    request.socket.remoteAddress,
    Array.isArray(forwarded) ? forwarded.join(',') : forwarded,
    trusted,
  );
}

export function userAgentOf({ headers }: IncomingMessage): string | null {
  return headers['user-agent']?.slice(0, 512) ?? null;
}

const unauthenticated: Refusal = {
  status: 401,
  code: 'UNAUTHENTICATED',
  message:
    'Who are you? Send `Authorization: Bearer mw_…` with a key that is valid, or sign in again.',
};

function forbidden(message: string): Refusal {
  return { status: 403, code: 'FORBIDDEN', message };
}
