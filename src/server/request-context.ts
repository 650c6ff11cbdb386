import type { Audit } from '../audit/audit.ts';
import type { AccountChanges } from '../auth/account-changes.ts';
import type { Accounts } from '../auth/accounts.ts';
import type { Signing } from '../auth/authentication.ts';
import type { Reauthentication } from '../auth/reauthentication.ts';
import type { Viewer } from '../auth/viewer.ts';
import type { Config } from '../config.ts';
import type { Context, SessionCookie } from '../resolvers/context.ts';
import type { Installation } from '../resolvers/installation.ts';
import type { RequestError } from '../resolvers/request-error.ts';
import type { Fleet } from '../tmux/fleet.ts';

/** The parts of the service that answers come from. */
export interface Parts {
  readonly config: Config;
  readonly accounts: Accounts;
  readonly fleet: Fleet;
  readonly audit: Audit;
  readonly reauthentication: Reauthentication;
  readonly signing: Signing;
  readonly changes: AccountChanges;
  readonly installation: Installation;
}

/** What is known of a request before its operation is. */
export interface Arrival {
  readonly viewer: Viewer;
  readonly requestId: string;
  readonly address: string | null;
  readonly userAgent: string | null;
  readonly signal: AbortSignal;
  readonly draining: AbortSignal;
  readonly cookie: SessionCookie | RequestError;
}

/**
 * The context of one operation. `viewer` is always its present form, since a stream outlives changes
 * of role and a sign-in makes another one; the parts are looked up when they are used, so that who hands them out can notice it.
 */
export function requestContext(parts: Parts, arrival: Arrival): Context {
  return {
    requestId: arrival.requestId,
    address: arrival.address,
    userAgent: arrival.userAgent,
    signal: arrival.signal,
    draining: arrival.draining,
    cookie: arrival.cookie,
    get viewer() {
      return parts.accounts.current(arrival.viewer) ?? withoutAuthority(arrival.viewer);
    },
    get config() {
      return parts.config;
    },
    get fleet() {
      return parts.fleet;
    },
    get accounts() {
      return parts.accounts;
    },
    get audit() {
      return parts.audit;
    },
    get reauthentication() {
      return parts.reauthentication;
    },
    get changes() {
      return parts.changes;
    },
    get signing() {
      return parts.signing;
    },
    get installation() {
      return parts.installation;
    },
  };
}

const nothing: Viewer['scopes'] = new Set();

function withoutAuthority(viewer: Viewer): Viewer {
  return { ...viewer, scopes: nothing, memberIds: new Set() };
}
