import type { Viewer } from './viewer.ts';

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

/** "A person, now": the caller's own password in the input, or a key with RESTART that an ADMIN made. */
export interface Reauthentication {
  /**
   * Returns when the viewer may do a server act now.
   * @param address counted beside the account, so that guesses from one place are limited
   * @throws ReauthenticationRequiredError; a wrong password counts as one of 5 tries in 15 minutes
   */
  require(viewer: Viewer, password: string | undefined, address: string | null): Promise<void>;
}
