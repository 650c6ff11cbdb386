import type { Audit } from '../audit/audit.ts';
import type { AccountChanges } from '../auth/account-changes.ts';
import type { Accounts } from '../auth/accounts.ts';
import type { Signing } from '../auth/authentication.ts';
import type { Reauthentication } from '../auth/reauthentication.ts';
import type { NewSession } from '../auth/sessions.ts';
import type { Viewer } from '../auth/viewer.ts';
import type { Config } from '../config.ts';
import type { Fleet } from '../tmux/fleet.ts';
import type { Installation } from './installation.ts';
import type { RequestError } from './request-error.ts';

/** The cookie of a browser's session, as the answer will set it. */
export interface SessionCookie {
  /** From here on the viewer of the operation is this one. */
  begin(session: NewSession, viewer: Viewer): void;
  end(): void;
}

/** What every resolver gets: who asks, from where, and the parts that can answer. */
export interface Context {
  readonly viewer: Viewer;
  readonly requestId: string;
  /** Where the request came from, as the connection (and a trusted proxy) says. */
  readonly address: string | null;
  readonly userAgent: string | null;
  readonly fleet: Fleet;
  readonly accounts: Accounts;
  readonly audit: Audit;
  readonly reauthentication: Reauthentication;
  readonly signing: Signing;
  readonly changes: AccountChanges;
  /** Where the answer can set a cookie; else why it can't. */
  readonly cookie: SessionCookie | RequestError;
  readonly installation: Installation;
  readonly config: Config;
  /** Aborted when the caller is gone: its connection closed, or it unsubscribed. */
  readonly signal?: AbortSignal;
  /** Aborted when the service drains: streams end with a reason, acts finish. */
  readonly draining?: AbortSignal;
}
