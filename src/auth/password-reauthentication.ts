import { join } from 'node:path';
import type { AccountStore } from './account-store.ts';
import type { PasswordProof } from './password-proof.ts';
import { type Reauthentication, ReauthenticationRequiredError } from './reauthentication.ts';
import type { Viewer } from './viewer.ts';

/** Re-authentication by the caller's own password, or by a key with RESTART that an ADMIN made. */
export class PasswordReauthentication implements Reauthentication {
  readonly #accounts: Pick<AccountStore, 'passwordHash'>;
  readonly #proof: PasswordProof;
  readonly #adminKeyFile: string;

  constructor(
    accounts: Pick<AccountStore, 'passwordHash'>,
    proof: PasswordProof,
    stateDir: string,
  ) {
    this.#accounts = accounts;
    this.#proof = proof;
    this.#adminKeyFile = join(stateDir, 'admin.key');
  }

  async require(
    viewer: Viewer,
    password: string | undefined,
    address: string | null,
  ): Promise<void> {
    if (viewer.via === 'API_KEY' && viewer.madeByAdmin && viewer.scopes.has('RESTART')) return;
    const { id, login } = viewer.member;
    if ((this.#accounts.passwordHash(id) ?? null) === null) {
      throw new ReauthenticationRequiredError(
        `This needs a password and member '${login}' has none. Set one with \`muxwarden members passwd ${login}\`, or use the key in ${this.#adminKeyFile}.`,
      );
    }
    if (password === undefined || password === '') {
      throw new ReauthenticationRequiredError(
        'This needs your own password again: give it as `password`. A key with the scope RESTART that an ADMIN made stands for it.',
      );
    }
    const proof = await this.#proof.prove(`member ${id}`, id, password, address);
    switch (proof.kind) {
      case 'RIGHT':
        return;
      case 'BUSY':
        throw new ReauthenticationRequiredError(
          'Too many passwords are being checked at the moment. Try again in a few seconds.',
          proof.left,
          proof.retryAt,
        );
      case 'WRONG':
        throw new ReauthenticationRequiredError(
          proof.left > 0
            ? `The password is wrong. Tries left: ${proof.left}.`
            : 'No tries are left for now. Wait until `retryAt`.',
          proof.left,
          proof.retryAt,
        );
    }
  }
}
