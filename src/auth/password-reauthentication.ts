import { join } from 'node:path';
import type { AccountStore } from './account-store.ts';
import type { Grants } from './grants.ts';
import type { PasswordProof } from './password-proof.ts';
import {
  type Consent,
  type GivenProof,
  type Grant,
  isKeyFor,
  type ProvenAct,
  type Reauthentication,
  ReauthenticationRequiredError,
} from './reauthentication.ts';
import type { Viewer } from './viewer.ts';

/** Re-authentication by the caller's own password, a grant, or a key that an ADMIN made for it. */
export class PasswordReauthentication implements Reauthentication {
  readonly #accounts: Pick<AccountStore, 'passwordHash'>;
  readonly #proof: PasswordProof;
  readonly #grants: Grants;
  readonly #adminKeyFile: string;

  constructor(
    accounts: Pick<AccountStore, 'passwordHash'>,
    proof: PasswordProof,
    grants: Grants,
    stateDir: string,
  ) {
    this.#accounts = accounts;
    this.#proof = proof;
    this.#grants = grants;
    this.#adminKeyFile = join(stateDir, 'admin.key');
  }

  async require(
    viewer: Viewer,
    { password, grant }: GivenProof,
    address: string | null,
    act: ProvenAct,
  ): Promise<Consent> {
    if (isKeyFor(viewer, act.action)) return nothingToSpend;
    if (grant) return await this.#granted(viewer, grant, act);
    await this.#prove(viewer, password ?? undefined, address);
    return nothingToSpend;
  }

  async grant(
    viewer: Viewer,
    password: string,
    address: string | null,
    act: ProvenAct,
  ): Promise<Grant> {
    await this.#prove(viewer, password, address);
    return await this.#grants.give(viewer, act);
  }

  withdraw({ grant }: Grant): Promise<void> {
    return this.#grants.withdraw(grant);
  }

  async #granted(viewer: Viewer, grant: string, act: ProvenAct): Promise<Consent> {
    if (!(await this.#grants.holds(viewer, grant, act))) throw unusable();
    return {
      spend: async () => {
        if (!(await this.#grants.use(viewer, grant, act))) throw unusable();
      },
      giveBack: () => this.#grants.unuse(grant),
    };
  }

  async #prove(
    { member: { id, login } }: Viewer,
    password: string | undefined,
    address: string | null,
  ): Promise<void> {
    if ((this.#accounts.passwordHash(id) ?? null) === null) {
      throw new ReauthenticationRequiredError(
        `This needs a password and member '${login}' has none. Set one with \`muxwarden members passwd ${login}\`, or use the key in ${this.#adminKeyFile}.`,
      );
    }
    if (password === undefined || password === '') {
      throw new ReauthenticationRequiredError(
        'This needs your own password again: give it as `password`, or a `grant` that `reauthenticate` gave for it. A key that an ADMIN made for this (scope RESTART for tmux servers, ADMIN for accounts) stands for both.',
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

const nothingToSpend: Consent = { spend: async () => {}, giveBack: async () => {} };

function unusable(): ReauthenticationRequiredError {
  return new ReauthenticationRequiredError(
    'This grant was used, is older than 60 s, or is for another act, other targets or another sign-in. Get a new one by `reauthenticate`.',
  );
}
