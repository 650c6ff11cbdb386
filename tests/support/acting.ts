import { randomUUID } from 'node:crypto';
import type { Audit } from '../../src/audit/audit.ts';
import type { AccountChanges } from '../../src/auth/account-changes.ts';
import type { Signing } from '../../src/auth/authentication.ts';
import type { Consent, Reauthentication } from '../../src/auth/reauthentication.ts';
import type { Scope, Viewer } from '../../src/auth/viewer.ts';
import { Bell } from '../../src/concurrency/bell.ts';
import { type Config, readConfig } from '../../src/config.ts';
import type { Member, Role } from '../../src/members/member.ts';
import type { Context } from '../../src/resolvers/context.ts';
import { RequestError } from '../../src/resolvers/request-error.ts';
import type { RestartTmuxServer } from '../../src/resolvers/restart-server.ts';
import type {
  PreparedAct,
  RepairServerResult,
  RestartPaneResult,
  RestartServerRequest,
  RestartServerResult,
  ServerState,
} from '../../src/tmux/acts.ts';
import { OperationInProgressError, UnsupportedError } from '../../src/tmux/errors.ts';
import type { Fleet } from '../../src/tmux/fleet.ts';
import type { ServerRef, ServerView } from '../../src/tmux/model.ts';

/** What acts stand on, without tmux: a fleet that does what the test says, and a caller. */

export const bootId = '11111111-2222-4333-8444-555555555555';
export const generation = `${bootId}:100:1000`;
export const pathHex = Buffer.from('/tmp/tmux-1000/default').toString('hex');

export const state = (change: Partial<ServerState> = {}): ServerState => ({
  generation,
  pid: 100,
  version: '3.3a',
  status: 'RUNNING',
  sessionCount: 1,
  ...change,
});

export function member(role: Role, login: string = role.toLowerCase()): Member {
  return { id: randomUUID(), login, role, osUser: login, disabled: false, createdAt: new Date(0) };
}

export function viewer(of: Member, change: Partial<Viewer> = {}): Viewer {
  return {
    member: of,
    scopes: new Set<Scope>(['READ', 'STREAM', 'ACT', 'RESTART', 'ADMIN']),
    memberIds: null,
    via: 'API_KEY',
    credentialId: randomUUID(),
    madeByAdmin: true,
    expiresAt: null,
    ...change,
  };
}

/** A restart of the server at `pathHex`, asked for in the plainest way. */
export const serverRestart = (of: Member, idempotencyKey: string): RestartTmuxServer => ({
  server: { memberId: of.id, pathHex },
  expectedGeneration: generation,
  idempotencyKey,
  reason: null,
  password: undefined,
  grant: undefined,
  onlyIfIdle: false,
  continueStopped: false,
  force: false,
  restore: 'LAYOUT',
  restoreCommands: [],
});

/** One server for each path; its lock, a count of what ran, and the test's own `run`. */
export class ScriptedFleet implements Fleet {
  readonly ran: string[] = [];
  readonly #busy = new Map<string, string>();
  /** Instead of the lock and the look. */
  prepare: () => Promise<void> = async () => {};
  run: (request: RestartServerRequest) => Promise<RestartServerResult> = async ({ server }) => ({
    server: view(server),
    after: state({ generation: `${bootId}:200:2000`, pid: 200 }),
    survivors: [{ pid: 7, command: 'sleep' }],
    notRestored: [{ what: 'option', detail: 'unknown here' }],
  });
  runPane: () => Promise<RestartPaneResult> = async () => ({
    pane: null,
    after: state(),
    survivors: [],
  });
  runRepair: () => Promise<RepairServerResult> = async () => ({ after: state(), ended: false });
  now: ServerState | Error = state();

  async prepareRestartServer(
    request: RestartServerRequest,
  ): Promise<PreparedAct<RestartServerResult>> {
    return await this.#prepared(request.server, request.operationId, () => this.run(request));
  }

  async prepareRestartPane(request: Parameters<Fleet['prepareRestartPane']>[0]) {
    return await this.#prepared(request.pane, request.operationId, () => this.runPane());
  }

  async prepareRepairServer(request: Parameters<Fleet['prepareRepairServer']>[0]) {
    return await this.#prepared(request.server, request.operationId, () => this.runRepair());
  }

  prepareProvision(): Promise<never> {
    return Promise.reject(new UnsupportedError('Accounts are not made here.'));
  }

  async #prepared<Result>(
    { memberId, pathHex: path }: { readonly memberId: string; readonly pathHex: string },
    operationId: string,
    run: () => Promise<Result>,
  ): Promise<PreparedAct<Result>> {
    const key = `${memberId}/${path}`;
    const holder = this.#busy.get(key);
    if (holder !== undefined) throw new OperationInProgressError(holder);
    this.#busy.set(key, operationId);
    try {
      await this.prepare();
    } catch (error) {
      this.#busy.delete(key);
      throw error;
    }
    return {
      before: state(),
      targetLabel: 'alice: /tmp/tmux-1000/default',
      run: () => {
        this.ran.push(operationId);
        return run();
      },
      [Symbol.dispose]: () => {
        this.#busy.delete(key);
      },
    };
  }

  wouldEnd(): Promise<never> {
    throw new Error('not scripted');
  }
  async look(): Promise<ServerState> {
    if (this.now instanceof Error) throw this.now;
    return this.now;
  }
  setAccounts(): void {}
  edition() {
    return 0;
  }
  peek() {
    return undefined;
  }
  async read() {
    return undefined;
  }
  async refresh() {
    return undefined;
  }
  async *follow() {}
  async *output() {}
  async *screens() {}
  capture(): Promise<never> {
    throw new Error('not scripted');
  }
  problems() {
    return [];
  }
  figures() {
    return {
      installedTmuxVersion: null,
      tmuxBinary: null,
      helperCalls: 0,
      liveSockets: 0,
      orphanedSockets: 0,
    };
  }
  async [Symbol.asyncDispose]() {}
}

function view(ref: ServerRef): ServerView {
  return {
    ref,
    socketPath: '/tmp/tmux-1000/default',
    status: 'RUNNING',
    reason: null,
    detail: null,
    generation: `${bootId}:200:2000`,
    pid: 200,
    startedAt: new Date(0),
    version: '3.3a',
    installedVersion: '3.3a',
    outdated: false,
    binaryDeleted: false,
    openFiles: null,
    openFilesLimit: null,
    cpuPercent: null,
    attachedClients: 0,
    idle: null,
    workingAgents: 0,
    activity: [],
    tmuxStartTime: 0,
    listing: {
      state: 'FRESH',
      version: 'v',
      observedAt: new Date(0),
      reason: null,
      detail: null,
      consecutiveFailures: 0,
      nextAttemptAt: null,
    },
    sessions: [],
  };
}

const consent: Consent = { spend: async () => {}, giveBack: async () => {} };

/** Everybody has shown that they are there. */
export const satisfied: Reauthentication = {
  require: async () => consent,
  grant: async () => ({ grant: 'a-grant', expiresAt: new Date(0) }),
  withdraw: async () => {},
};

const nobodySigns = () => Promise.reject(new Error('nobody signs in here'));
export const noSigning: Signing = {
  signIn: nobodySigns,
  redeemLink: nobodySigns,
  end: nobodySigns,
  endAll: nobodySigns,
};

const nobodyChanges = () => Promise.reject(new Error('nothing changes accounts here'));
export const noChanges: AccountChanges = {
  createKey: nobodyChanges,
  revokeKey: nobodyChanges,
  addMember: nobodyChanges,
  changeMember: nobodyChanges,
  deleteMember: nobodyChanges,
};

export function actingContext(parts: {
  readonly audit: Audit;
  readonly fleet: Fleet;
  readonly viewer: Viewer;
  readonly members: readonly Member[];
  readonly reauthentication?: Reauthentication;
  readonly changed?: Bell;
  readonly userAgent?: string;
  readonly config?: Config;
  readonly draining?: AbortSignal;
}): Context {
  const { audit, fleet, members } = parts;
  return {
    viewer: parts.viewer,
    requestId: 'request-1',
    address: '192.0.2.7',
    userAgent: parts.userAgent ?? 'test\u001b[31m agent',
    fleet,
    audit,
    accounts: {
      members: () => members,
      member: (id) => members.find((each) => each.id === id),
      memberByLogin: (login) => members.find((each) => each.login === login),
      apiKeys: () => [],
      current: (asked) => asked,
      changed: parts.changed ?? new Bell(),
    },
    reauthentication: parts.reauthentication ?? satisfied,
    signing: noSigning,
    changes: noChanges,
    cookie: new RequestError('BAD_USER_INPUT', 'No cookies here.'),
    installation: { version: '0', startedAt: new Date(0), eventLoopDelayP99Ms: () => 0 },
    config: parts.config ?? readConfig({ HOME: '/nonexistent' }),
    ...(parts.draining && { draining: parts.draining }),
  };
}
