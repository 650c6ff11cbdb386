import type { Audit } from '../../src/audit/audit.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import type { AuditEvent } from '../../src/audit/record.ts';
import { type AccountStore, openAccounts } from '../../src/auth/account-store.ts';
import { ApiKeys, type NewApiKey } from '../../src/auth/api-keys.ts';
import { openAuthentication } from '../../src/auth/authentication.ts';
import { hashPassword } from '../../src/auth/passwords.ts';
import { scopes } from '../../src/auth/viewer.ts';
import { systemClock } from '../../src/concurrency/clock.ts';
import { createLogger } from '../../src/log.ts';
import type { Member, Role } from '../../src/members/member.ts';
import { Members } from '../../src/members/members.ts';
import { startServer } from '../../src/server/server.ts';
import type { Fleet } from '../../src/tmux/fleet.ts';
import { keptLog } from './audit.ts';
import {
  type DatabaseKind,
  openTestDatabase,
  type PostgresServer,
  type TestDatabase,
} from './postgres.ts';
import { SyntheticFleet } from './synthetic-fleet.ts';

/** The real server with real accounts, credentials and audit on a real database; the fleet as given. */
export interface AccountsService<On extends Fleet = SyntheticFleet> extends AsyncDisposable {
  readonly url: string;
  readonly database: TestDatabase;
  readonly fleet: On;
  readonly accounts: AccountStore;
  readonly audit: Audit;
  readonly members: Members;
  readonly keys: ApiKeys;
  /** Log lines so far, and every answer over HTTP. */
  readonly log: string[];
  readonly answers: string[];
  add(login: string, role: Role, password?: string): Promise<Member>;
  /** The text of a new key. */
  key(owner: Member, over?: Partial<NewApiKey>): Promise<string>;
  post(query: string, variables: object, by?: By): Promise<Answered>;
  /** The value of the one field at the top. @throws Error with what `errors` says */
  ask<Value = Record<string, unknown>>(query: string, variables: object, by?: By): Promise<Value>;
  /** Rows of the record, oldest first. */
  rows(): Promise<readonly AuditEvent[]>;
}

export interface By {
  readonly key?: string;
  readonly cookie?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answered {
  readonly status: number;
  readonly headers: Headers;
  readonly data?: Record<string, unknown> | null;
  readonly errors?: readonly {
    readonly message: string;
    readonly extensions: { readonly code: string };
  }[];
}

export function startAccountsService(kind: DatabaseKind = 'embedded'): Promise<AccountsService> {
  return startAccountsServiceOn(new SyntheticFleet(), kind);
}

export async function startAccountsServiceOn<On extends Fleet>(
  fleet: On,
  kind: DatabaseKind = 'embedded',
  environment: Readonly<Record<string, string>> = {},
  postgres?: PostgresServer,
): Promise<AccountsService<On>> {
  await using parts = new AsyncDisposableStack();
  const test = parts.use(
    await openTestDatabase(kind, {
      environment: { MUXWARDEN_PORT: '0', ...environment },
      ...(postgres && { server: postgres }),
    }),
  );
  const { config, database } = test;
  const log: string[] = [];
  const answers: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void log.push(line) } });
  const accounts = parts.use(await openAccounts(database, systemClock, { log: logger }));
  const audit = parts.use(await openAudit(config.stateDir, database, keptLog()));
  const authentication = openAuthentication(database, accounts, config, systemClock, logger);
  const server = await startServer({
    config,
    fleet,
    accounts,
    audit,
    reauthentication: authentication.reauthentication,
    signing: authentication.signing,
    changes: authentication.changes,
    installation: { version: '0.0.0', startedAt: new Date(0), eventLoopDelayP99Ms: () => 0 },
    authenticator: authentication,
    readiness: async () => [],
    logger,
  });
  parts.defer(() => server.stop(1_000));
  const members = new Members(database);
  const keys = new ApiKeys(database);
  const post = async (query: string, variables: object, { key, cookie, headers }: By = {}) => {
    const response = await fetch(`${server.url}/graphql`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(cookie === undefined ? {} : { ...browser(server.url), cookie }),
        ...headers,
      },
      body: JSON.stringify({ query, variables }),
    });
    const text = await response.text();
    answers.push(text);
    return { ...JSON.parse(text), status: response.status, headers: response.headers };
  };
  const owned = parts.move();
  return {
    url: server.url,
    database: test,
    fleet,
    accounts,
    audit,
    members,
    keys,
    log,
    answers,
    post,
    async ask(query, variables, by) {
      const { data, errors } = await post(query, variables, by);
      if (errors?.length) throw new Error(JSON.stringify(errors));
      const [value] = Object.values(data);
      return value as never;
    },
    async add(login, role, password) {
      const member = await members.add({ login, role, osUser: login });
      if (password !== undefined)
        await members.setPassword(member.id, await hashPassword(password));
      await accounts.reload();
      return member;
    },
    async key(owner, over = {}) {
      const wanted = { memberId: owner.id, name: 'a key', scopes, memberIds: null };
      const made = await keys.create({ ...wanted, expiresAt: null, madeByAdmin: true, ...over });
      await accounts.reload();
      return made.key;
    },
    async rows() {
      const { edges } = await audit.page({ visibleTo: null }, 400);
      return edges.map(({ event }) => event).sort((one, other) => one.sequence - other.sequence);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** What a page of ours sends with every request. */
export function browser(url: string): Readonly<Record<string, string>> {
  return { 'x-muxwarden-csrf': '1', origin: url };
}

/** `name=value` of the cookie that an answer sets; undefined where it sets none. */
export function cookieOf({ headers }: { readonly headers: Headers }): string | undefined {
  return headers.get('set-cookie')?.split(';')[0];
}
