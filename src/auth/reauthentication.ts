import type { Scope, Viewer } from './viewer.ts';

/** The act needs its caller's password again, and did not get it. */
export class ReauthenticationRequiredError extends Error {
  override readonly name = 'ReauthenticationRequiredError';
  readonly attemptsLeft: number | null;
  readonly retryAt: Date | null;
  constructor(message: string, attemptsLeft: number | null = null, retryAt: Date | null = null) {
    super(message);
    this.attemptsLeft = attemptsLeft;
    this.retryAt = retryAt;
  }
}

/** What re-authentication is given for, and nothing else: the act, and whom or what it is about. */
export interface ProvenAct {
  readonly action: string;
  /** The tmux servers, each in the life that was seen; the exact list where it is an act on many. */
  readonly targets: readonly { readonly id: string; readonly generation: string }[];
  /** The member whose account it is about; null for an act on tmux servers, and for a new member. */
  readonly memberId: string | null;
  /** Which of the four, for an act on a member's Linux account: leave to suspend it is none to delete it. */
  readonly provision?: string;
}

/** "A person, now", as the input of an act holds it. */
export interface GivenProof {
  readonly password?: string | null | undefined;
  readonly grant?: string | null | undefined;
}

/**
 * That the caller may go on. A grant is used up by the intent of the act, not by a refusal before
 * it: `spend` comes last before the intent is written, `giveBack` when it could not be written.
 */
export interface Consent {
  /** @throws ReauthenticationRequiredError where another call has used it meanwhile */
  spend(): Promise<void>;
  giveBack(): Promise<void>;
}

export interface Grant {
  /** Shown once; its hash is stored. */
  readonly grant: string;
  readonly expiresAt: Date;
}

/** "A person, now": the own password, a grant that it gave, or a key that an ADMIN made for this. */
export interface Reauthentication {
  /**
   * Returns when the viewer may do this act now.
   * @param address counted beside the account, so that guesses from one place are limited
   * @throws ReauthenticationRequiredError; a wrong password counts as one of 5 tries in 15 minutes
   */
  require(
    viewer: Viewer,
    given: GivenProof,
    address: string | null,
    act: ProvenAct,
  ): Promise<Consent>;
  /** A grant for one such act of this viewer. @throws ReauthenticationRequiredError, counted alike */
  grant(viewer: Viewer, password: string, address: string | null, act: ProvenAct): Promise<Grant>;
  /** Nobody can use it any more. */
  withdraw(grant: Grant): Promise<void>;
}

const keyScopes = {
  RESTART_TMUX_SERVER: 'RESTART',
  REPAIR_TMUX_SERVER: 'RESTART',
  CREATE_API_KEY: 'ADMIN',
  CREATE_MEMBER: 'ADMIN',
  UPDATE_MEMBER: 'ADMIN',
  DELETE_MEMBER: 'ADMIN',
  PROVISION_MEMBER: 'ADMIN',
  RESTART_SERVICE: 'ADMIN',
} as const satisfies Record<string, Scope>;
export type ReauthenticatedAction = keyof typeof keyScopes;

/** The acts that need re-authentication. */
export function needsReauthentication(action: string): action is ReauthenticatedAction {
  return Object.hasOwn(keyScopes, action);
}

/** Whether the viewer comes by a key that stands for the password: of that scope, made by an ADMIN. */
export function isKeyFor({ via, madeByAdmin, scopes }: Viewer, action: string): boolean {
  if (via !== 'API_KEY' || !madeByAdmin || !needsReauthentication(action)) return false;
  return scopes.has(keyScopes[action]);
}
