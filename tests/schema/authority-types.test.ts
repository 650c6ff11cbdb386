import {
  type GraphQLObjectType,
  type GraphQLOutputType,
  getNamedType,
  isAbstractType,
  isLeafType,
  isObjectType,
} from 'graphql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeId, encodeId, type GlobalIdType } from '../../src/resolvers/id.ts';
import { schema } from '../../src/schema/index.ts';
import {
  type Access,
  administers,
  administersOrOwn,
  cells,
  has,
  type Matrix,
  named,
  openMatrix,
  type Rule,
  reads,
} from '../support/authority-matrix.ts';

/**
 * Every field of every object type has a rule: role by scope by own or other. `carried`: whoever was
 * given the object sees the field; who is given it is the rule of what leads there, and is looked at
 * along every path of the schema.
 */
const carried: Rule = () => true;
const screens = administersOrOwn('STREAM');
const rows = administersOrOwn('READ');
const keys: Rule = (access) => has('READ')(access) && (access.own || administers(access));

const types: Readonly<
  Record<string, readonly [rule: Rule, fields: string, but?: Record<string, Rule>]>
> = {
  Member: [
    carried,
    'disabled id login osUser role',
    { listing: reads, tmuxServers: reads, workingAgents: reads },
  ],
  TmuxServer: [
    reads,
    'attachedClients binaryDeleted cpuPercent detail generation id idle installedVersion listing member openFiles openFilesLimit outdated pid reason sessions socketPath startedAt status version workingAgents',
  ],
  TmuxSession: [reads, 'attachedClients createdAt id name server tmuxId windows'],
  TmuxWindow: [reads, 'active id index layout name panes session tmuxId'],
  TmuxPane: [
    reads,
    'active agent columns currentCommand currentPath dead exitSignal exitStatus id inMode index pid rows server startCommand title tmuxId tty window windows',
    { capture: screens },
  ],
  ApiKey: [keys, 'createdAt expiresAt id lastUsedAt member memberIds name prefix revokedAt scopes'],
  AuditEvent: [
    rows,
    'action actor actorAddress actorAgent actorKeyId after at before chain code hash id intentId member message operationId outcome phase requestId sequence statedReason survivors targetId targetLabel',
  ],
  Viewer: [carried, 'expiresAt member memberIds role scopes via'],
  Installation: [
    administers,
    'eventLoopDelayP99Ms helperCalls installedTmuxVersion limits liveSockets mode orphanedSockets problems startedAt tmuxBinary version',
  ],
  Agent: [carried, 'evidence kind observedAt since state'],
  AuditEventAdded: [carried, 'auditEvent cursor'],
  AuditEventConnection: [carried, 'edges nodes pageInfo'],
  AuditEventEdge: [carried, 'cursor node'],
  AuditUnavailableError: [carried, 'code message'],
  CreateApiKeyPayload: [carried, 'apiKey key'],
  IdempotencyConflictError: [carried, 'code message'],
  Limit: [carried, 'name value'],
  Listing: [carried, 'consecutiveFailures detail nextAttemptAt observedAt reason state version'],
  ListingSnapshot: [carried, 'member'],
  ListingSynced: [carried, 'at'],
  ListingUnknownError: [carried, 'code message reason retryAt'],
  MemberConnection: [carried, 'edges nodes pageInfo'],
  MemberEdge: [carried, 'cursor node'],
  MemberPayload: [carried, 'auditEvent member'],
  MemberRemoved: [carried, 'memberId'],
  NotFoundError: [carried, 'code message'],
  NotRestored: [carried, 'detail what'],
  OperationInProgressError: [carried, 'code message operationId'],
  OutcomeUnknownError: [carried, 'auditEvent code message'],
  PageInfo: [carried, 'endCursor hasNextPage hasPreviousPage startCursor'],
  PaneCapture: [carried, 'columns cursorColumn cursorRow data observedAt rows text'],
  PaneChunk: [carried, 'at cursor data text'],
  PaneClosed: [carried, 'closeReason cursor exitSignal exitStatus'],
  PaneGap: [carried, 'cursor gapReason missedBytes'],
  PaneResized: [carried, 'columns cursor rows'],
  PaneScreen: [carried, 'alternateScreen at columns cursor cursorColumn cursorRow rows text'],
  PaneSnapshot: [
    carried,
    'alternateScreen at columns cursor cursorColumn cursorRow data rows source text',
  ],
  Problem: [carried, 'code member message remedy'],
  ProvisionMemberPayload: [carried, 'account auditEvent done ended member recorded removed'],
  RestartServicePayload: [carried, 'auditEvent recorded unit'],
  ReauthenticatePayload: [carried, 'expiresAt grant'],
  ReauthenticationRequiredError: [carried, 'attemptsLeft code message retryAt'],
  RepairTmuxServerPayload: [carried, 'auditEvent recorded tmuxServer'],
  RestartIdleResult: [
    carried,
    'auditEvent error evidence generation notRestored outcome recorded survivors tmuxServer wouldEnd',
  ],
  RestartIdleTmuxServersPayload: [carried, 'complete dryRun operationId results unknownMembers'],
  RestartPanePayload: [carried, 'auditEvent pane recorded survivors'],
  RestartTmuxServerPayload: [carried, 'auditEvent notRestored recorded survivors tmuxServer'],
  RevokeApiKeyPayload: [carried, 'apiKey'],
  SignInPayload: [carried, 'viewer'],
  StaleGenerationError: [carried, 'code currentGeneration expectedGeneration message'],
  Survivor: [carried, 'command pid'],
  TmuxPaneConnection: [carried, 'complete edges nodes pageInfo unknownMembers unknownServers'],
  TmuxPaneEdge: [carried, 'cursor node'],
  TmuxServerBusyError: [carried, 'code evidence message'],
  TmuxServerConnection: [carried, 'complete edges nodes pageInfo unknownMembers'],
  TmuxServerEdge: [carried, 'cursor node'],
  TmuxServerState: [carried, 'generation pid sessionCount status version'],
  TmuxServerStuckError: [carried, 'code message pid socketPath status'],
  UnsupportedError: [carried, 'code message tmuxVersion'],
  WorkingDirectoryMissingError: [carried, 'code message path'],
};
const operations = ['Query', 'Mutation', 'Subscription'];

const rulesOf = (type: string): Readonly<Record<string, Rule>> => {
  const [rule, fields, but] = types[type] ?? expect.fail(`no rule for ${type}`);
  return { ...Object.fromEntries(fields.split(' ').map((field) => [field, rule])), ...but };
};
const objectTypes = Object.values(schema.getTypeMap())
  .filter(isObjectType)
  .filter(({ name }) => !name.startsWith('__') && !operations.includes(name));

it('has a rule for every field of every object type', () => {
  const wanted = objectTypes.flatMap((type) =>
    Object.keys(type.getFields()).map((field) => `${type.name}.${field}`),
  );
  const given = Object.keys(types).flatMap((type) =>
    Object.keys(rulesOf(type)).map((field) => `${type}.${field}`),
  );
  expect(given.sort()).toEqual(wanted.sort());
  console.log(`${given.length} fields of ${objectTypes.length} types`);
});

let matrix: Matrix;
beforeAll(async () => {
  matrix = await openMatrix({
    MUXWARDEN_MAX_DEPTH: '100',
    MUXWARDEN_MAX_TOKENS: '100000',
    MUXWARDEN_MAX_ALIASES: '10000',
    MUXWARDEN_MAX_COMPLEXITY: '1000000',
    MUXWARDEN_MAX_BODY_BYTES: '4000000',
  });
});
afterAll(() => matrix?.[Symbol.asyncDispose]());

/** The id of a member's thing of that type. */
function idsOf(type: GlobalIdType, memberId: string): string {
  const member = matrix.service.accounts.members().find(({ id }) => id === memberId);
  if (member === undefined) return expect.fail();
  const { pane: _, ...life } = matrix.paneOf(member);
  const key = matrix.service.accounts
    .apiKeys()
    .find((each) => each.memberId === memberId && each.name === 'spare');
  const row = matrix.rows.get(memberId);
  const made = {
    Member: () => encodeId({ type: 'Member', id: memberId }),
    TmuxServer: () => matrix.serverOf(member).id,
    TmuxSession: () => encodeId({ type: 'TmuxSession', ref: { ...life, session: 0 } }),
    TmuxWindow: () => encodeId({ type: 'TmuxWindow', ref: { ...life, session: 0, window: 0 } }),
    TmuxPane: () => encodeId({ type: 'TmuxPane', ref: matrix.paneOf(member) }),
    ApiKey: () => encodeId({ type: 'ApiKey', id: key?.id ?? '' }),
    AuditEvent: () => encodeId({ type: 'AuditEvent', id: row?.id ?? '' }),
  };
  return made[type]();
}

/** Who gets the thing itself; a member by its id only with its listing. */
const givenBy = (type: GlobalIdType): Rule =>
  type === 'Member' ? reads : (types[type]?.[0] ?? expect.fail());
const nodeTypes: readonly GlobalIdType[] = [
  'Member',
  'TmuxServer',
  'TmuxSession',
  'TmuxWindow',
  'TmuxPane',
  'ApiKey',
  'AuditEvent',
];

const shallow = (type: string) =>
  Object.values((schema.getType(type) as GraphQLObjectType).getFields())
    .map(({ name, type: of }) => (isLeafType(getNamedType(of)) ? name : `${name} { __typename }`))
    .join(' ');

describe.each(nodeTypes)('%s', (type) => {
  it('shows each field to whom its rule says, and to nobody else', async () => {
    const query = `query($id: ID!) { node(id: $id) { ... on ${type} { ${shallow(type)} } } }`;
    const ask = async (key: string, id: string) =>
      (await matrix.service.post(query, { id }, { key })).data?.node as Record<
        string,
        unknown
      > | null;
    const whole = new Map<string, Record<string, unknown>>();
    for (const { caller, about, access } of cells(matrix)) {
      const id = idsOf(type, about.id);
      const all = whole.get(id) ?? (await ask(matrix.everything.key, id)) ?? expect.fail(type);
      whole.set(id, all);
      const seen = await ask(caller.key, id);
      for (const [field, rule] of Object.entries(rulesOf(type))) {
        const may = givenBy(type)(access) && rule(access);
        if (rule !== types[type]?.[0]) expect(all[field]).not.toBeNull();
        expect([named(access), field, seen?.[field] ?? null]).toEqual([
          named(access),
          field,
          may ? all[field] : null,
        ]);
      }
    }
  });
});

/** How each field of Query is asked about a member; null: it is about nobody. */
const roots: Readonly<Record<string, (memberId: string) => string>> = {
  node: (id) => `node(id: "${idsOf('TmuxPane', id)}")`,
  nodes: (id) => `nodes(ids: ${JSON.stringify(nodeTypes.map((type) => idsOf(type, id)))})`,
  viewer: () => 'viewer',
  members: () => 'members(first: 100)',
  member: (id) => `member(login: "${matrix.service.accounts.member(id)?.login}")`,
  tmuxServers: () => 'tmuxServers(first: 100)',
  panes: () => 'panes(first: 100)',
  auditEvents: () => 'auditEvents(first: 100)',
  apiKeys: () => 'apiKeys',
  installation: () => 'installation',
};

describe('every path of the schema', () => {
  const walked = new Set<string>();
  /** Everything below, until a type comes again on its way; then its id alone. */
  const below = (type: GraphQLOutputType, path: readonly string[]): string => {
    const of = getNamedType(type);
    if (isLeafType(of)) return '';
    const parts = isAbstractType(of) ? schema.getPossibleTypes(of) : isObjectType(of) ? [of] : [];
    const fields = (part: GraphQLObjectType) =>
      Object.values(part.getFields())
        .filter(({ name }) => !path.includes(part.name) || name === 'id')
        .map((field) => {
          walked.add(`${part.name}.${field.name}`);
          const name = field.name === 'id' ? 'id' : `${part.name}_${field.name}: ${field.name}`;
          return `${name} ${below(field.type, [...path, part.name])}`;
        });
    return `{ __typename ${parts.map((part) => `... on ${part.name} { ${fields(part).join(' ')} }`).join(' ')} }`;
  };

  it.each(Object.keys(schema.getQueryType()?.getFields() ?? {}))(
    'from %s leads to nothing that its reader may not see',
    async (name) => {
      const field = schema.getQueryType()?.getFields()[name] ?? expect.fail();
      const root = roots[name] ?? expect.fail(`say how ${name} is asked`);
      const selection = below(field.type, []);
      let seen = 0;
      for (const { caller, about, access } of cells(matrix)) {
        const query = `{ ${root(about.id)} ${selection} }`;
        // What two scopes together would open, each field's own test has tried.
        if (caller !== matrix.everything && caller.scopes.size > 1) continue;
        const { data, errors } = await matrix.service.post(query, {}, { key: caller.key });
        if (caller === matrix.everything) expect(errors).toBeUndefined();
        for (const { type, id } of idsIn(data)) {
          seen += 1;
          const of = decodeId(id) ?? expect.fail(id);
          const ownerId =
            'ref' in of
              ? of.ref.memberId
              : of.type === 'Member'
                ? of.id
                : of.type === 'ApiKey'
                  ? matrix.service.accounts.apiKeys().find((key) => key.id === of.id)?.memberId
                  : [...matrix.rows].find(([, row]) => row.id === of.id)?.[0];
          const own: Access = { ...access, own: ownerId === caller.member.id };
          // Who asks is told its own account, whatever the scopes.
          const itself = of.type === 'Member' && own.own;
          expect([named(own), type, itself || givenBy(of.type)(own)]).toEqual([
            named(own),
            type,
            true,
          ]);
        }
      }
      expect(seen > 0).toBe(name !== 'installation');
    },
  );

  it('was walked: every field of what Query leads to', () => {
    const reached = objectTypes.filter(({ name }) =>
      [...walked].some((each) => each.startsWith(`${name}.`)),
    );
    const wanted = reached.flatMap((type) =>
      Object.keys(type.getFields()).map((field) => `${type.name}.${field}`),
    );
    expect([...walked].sort()).toEqual(wanted.sort());
    for (const type of nodeTypes) expect(reached.map(({ name }) => name)).toContain(type);
  });
});

function* idsIn(value: unknown): Iterable<{ type: string; id: string }> {
  if (Array.isArray(value)) for (const each of value) yield* idsIn(each);
  else if (typeof value === 'object' && value !== null) {
    if ('id' in value && typeof value.id === 'string' && '__typename' in value)
      yield { type: String(value.__typename), id: value.id };
    for (const each of Object.values(value)) yield* idsIn(each);
  }
}
