import type { Audit } from '../../src/audit/audit.ts';
import type { Accounts, ApiKey } from '../../src/auth/accounts.ts';
import type { Viewer } from '../../src/auth/viewer.ts';
import { scopes } from '../../src/auth/viewer.ts';
import { Bell } from '../../src/concurrency/bell.ts';
import { type Config, readConfig } from '../../src/config.ts';
import { createLogger } from '../../src/log.ts';
import type { Member, Role } from '../../src/members/member.ts';
import { type RunningServer, startServer } from '../../src/server/server.ts';
import type { Fleet } from '../../src/tmux/fleet.ts';
import { noChanges, noSigning, satisfied } from './acting.ts';
import { memberUuid, SyntheticFleet } from './synthetic-fleet.ts';

/** Members and credentials that a test sets; the bearer key of a member is `mw_<login>`. */
export class SyntheticAccounts implements Accounts {
  readonly changed = new Bell();
  #members: readonly Member[] = [];
  #viewers = new Map<string, Viewer>();
  #sessions = new Map<string, Viewer>();
  readonly links = new Map<string, string>();
  keys: readonly ApiKey[] = [];

  add(login: string, role: Role, over: Partial<Viewer> & { osUser?: string | null } = {}): Member {
    const { osUser = login, ...narrow } = over;
    const member: Member = {
      id: memberUuid(this.#members.length + 1),
      login,
      role,
      osUser,
      disabled: false,
      createdAt: new Date('2026-11-01T00:00:00.000Z'),
    };
    this.#members = [...this.#members, member].sort((one, other) =>
      one.login < other.login ? -1 : 1,
    );
    const credentialId = memberUuid(1_000_000 + this.#members.length);
    this.let(login, {
      member,
      scopes: new Set(scopes),
      memberIds: null,
      via: 'API_KEY',
      credentialId,
      madeByAdmin: true,
      expiresAt: null,
      ...narrow,
    });
    return member;
  }

  /** This viewer comes by `mw_<name>` from now on; undefined: nobody does. */
  let(name: string, viewer: Viewer | undefined): void {
    if (viewer === undefined) this.#viewers.delete(name);
    else this.#viewers.set(name, viewer);
    this.changed.ring();
  }

  viewer(name: string): Viewer {
    const viewer = this.#viewers.get(name);
    if (viewer === undefined) throw new Error(`no viewer ${name}`);
    return viewer;
  }

  setRole(login: string, role: Role): void {
    this.#members = this.#members.map((member) =>
      member.login === login ? { ...member, role } : member,
    );
    const member = this.memberByLogin(login);
    const viewer = this.#viewers.get(login);
    if (member !== undefined && viewer !== undefined) this.let(login, { ...viewer, member });
  }

  beginSession(token: string, login: string): void {
    this.#sessions.set(token, { ...this.viewer(login), via: 'SIGN_IN_LINK' });
  }

  members = () => this.#members;
  member = (id: string) => this.#members.find((member) => member.id === id);
  memberByLogin = (login: string) => this.#members.find((member) => member.login === login);
  apiKeys = () => this.keys;
  current = (viewer: Viewer) => {
    const all = [...this.#viewers.values(), ...this.#sessions.values()];
    return all.find(
      ({ credentialId, via }) => credentialId === viewer.credentialId && via === viewer.via,
    );
  };

  apiKey = (key: string) => this.#viewers.get(key.replace(/^mw_/, ''));
  session = async (token: string) => this.#sessions.get(token);
  redeemLink = async (token: string) => {
    const login = this.links.get(token);
    if (login === undefined) return undefined;
    this.links.delete(token);
    this.beginSession(`cookie-of-${login}`, login);
    return {
      id: 'session',
      memberId: this.viewer(login).member.id,
      token: `cookie-of-${login}`,
      expiresAt: new Date(Date.now() + 3_600_000),
    };
  };
}

const noAudit: Audit = {
  append: async (entry) => ({
    ...entry,
    id: memberUuid(1),
    chain: 'none',
    sequence: 1,
    at: new Date(0),
    hash: '0'.repeat(64),
  }),
  event: async () => undefined,
  problems: () => [],
  added: new Bell(),
} as Partial<Audit> as Audit;

export interface Service<On extends Fleet = SyntheticFleet> extends AsyncDisposable {
  readonly fleet: On;
  readonly accounts: SyntheticAccounts;
  readonly server: RunningServer;
  readonly url: string;
  /** Log lines so far. */
  readonly log: string[];
  reasons: string[];
  post(body: unknown, options?: PostOptions): Promise<Response>;
  /** The parsed answer to a query of that member. */
  query<Data>(as: string, query: string, variables?: object): Promise<Answer<Data>>;
}
export interface PostOptions {
  readonly as?: string;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
}
export interface Answer<Data> {
  readonly data?: Data;
  readonly errors?: readonly {
    readonly message: string;
    readonly path?: readonly (string | number)[];
    readonly extensions: { readonly code: string; readonly requestId: string };
  }[];
}

/** The real server on a free port of loopback, in front of a synthetic fleet. */
export function startService(
  over: Partial<Config> = {},
  fleet = new SyntheticFleet(),
  audit: Partial<Audit> = {},
): Promise<Service> {
  return startServiceOn(fleet, over, audit);
}

/** The same in front of any fleet. */
export async function startServiceOn<On extends Fleet>(
  fleet: On,
  over: Partial<Config> = {},
  audit: Partial<Audit> = {},
): Promise<Service<On>> {
  const accounts = new SyntheticAccounts();
  const log: string[] = [];
  const config = { ...readConfig({ MUXWARDEN_PORT: '0' }), ...over };
  const service = { reasons: [] as string[] };
  const server = await startServer({
    config,
    fleet,
    accounts,
    audit: { ...noAudit, ...audit },
    reauthentication: satisfied,
    changes: noChanges,
    signing: { ...noSigning, redeemLink: accounts.redeemLink },
    installation: { version: '0.0.0', startedAt: new Date(0), eventLoopDelayP99Ms: () => 0 },
    authenticator: accounts,
    readiness: async () => service.reasons,
    logger: createLogger({ destination: { write: (line) => void log.push(line) } }),
  });
  const post = (body: unknown, { as, headers, signal }: PostOptions = {}) =>
    fetch(`${server.url}/graphql`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(as === undefined ? {} : { authorization: `Bearer mw_${as}` }),
        ...headers,
      },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    });
  return Object.assign(service, {
    fleet,
    accounts,
    server,
    url: server.url,
    log,
    post,
    async query<Data>(as: string, query: string, variables?: object): Promise<Answer<Data>> {
      const response = await post({ query, variables }, { as });
      return (await response.json()) as Answer<Data>;
    },
    [Symbol.asyncDispose]: () => server.stop(1_000),
  });
}
