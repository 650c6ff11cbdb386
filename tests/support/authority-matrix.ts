import { encodeFeedCursor } from '../../src/audit/cursor.ts';
import type { AuditEvent } from '../../src/audit/record.ts';
import { type Scope, scopes } from '../../src/auth/viewer.ts';
import { type Member, type Role, roles } from '../../src/members/member.ts';
import { encodeId } from '../../src/resolvers/id.ts';
import type { PaneRef } from '../../src/tmux/model.ts';
import { type AccountsService, startAccountsServiceOn } from './accounts-service.ts';
import { ScriptedFleet } from './acting.ts';
import { entry } from './audit.ts';
import { listing, SyntheticFleet, server } from './synthetic-fleet.ts';
import { longTier } from './tier.ts';

/**
 * Who may do what: a member of each role and one more, each with a tmux server, a key and rows of the
 * record; and for each role a key with every scope alone, with all, and (long tier) with all but one.
 */
export interface Access {
  readonly role: Role;
  readonly scopes: ReadonlySet<Scope>;
  /** Whether it is about the caller, or about another member. */
  readonly own: boolean;
}
export type Rule = (access: Access) => boolean;

export const has =
  (scope: Scope): Rule =>
  (access) =>
    access.scopes.has(scope);
export const reads: Rule = ({ role, scopes: held, own }) =>
  held.has('READ') && (own || role !== 'DEVELOPER');
/** An ADMIN for everybody, others for themselves. */
export const administersOrOwn = (scope: Scope): Rule => {
  const holds = has(scope);
  return (access) => holds(access) && (access.own || access.role === 'ADMIN');
};
export const administers: Rule = ({ role, scopes: held }) => role === 'ADMIN' && held.has('ADMIN');

export interface Caller {
  readonly role: Role;
  readonly scopes: ReadonlySet<Scope>;
  readonly key: string;
  readonly member: Member;
}

export interface Matrix extends AsyncDisposable {
  readonly service: AccountsService<MatrixFleet>;
  readonly callers: readonly Caller[];
  /** An ADMIN with all scopes. */
  readonly everything: Caller;
  readonly other: Member;
  /** Of each member: its own row of the record, and the cursor before the first of all. */
  readonly rows: ReadonlyMap<string, AuditEvent>;
  readonly beforeRows: string;
  serverOf(member: Member): { readonly id: string; readonly generation: string };
  paneOf(member: Member): PaneRef;
}

/** Acts succeed at once; what was acted on is what was shown. */
export class MatrixFleet extends SyntheticFleet {
  readonly acts = new ScriptedFleet();
  override prepareRestartServer = this.acts.prepareRestartServer.bind(this.acts) as never;
  override prepareRestartPane = this.acts.prepareRestartPane.bind(this.acts) as never;
  override prepareRepairServer = this.acts.prepareRepairServer.bind(this.acts) as never;
  override prepareProvision = () => this.acts.prepareProvision();
}

const scopeSets: readonly (readonly Scope[])[] = [
  ...scopes.map((scope) => [scope]),
  scopes,
  ...(longTier ? scopes.map((left) => scopes.filter((scope) => scope !== left)) : []),
];

export async function openMatrix(
  environment: Readonly<Record<string, string>> = {},
): Promise<Matrix> {
  await using parts = new AsyncDisposableStack();
  const service = parts.use(
    await startAccountsServiceOn(new MatrixFleet(), 'embedded', environment),
  );
  const members = new Map<string, Member>();
  const keys: Caller[] = [];
  const rows = new Map<string, AuditEvent>();
  const numberOf = (member: Member) => [...members.keys()].indexOf(member.login) + 1;
  const screen = Buffer.from('screen');
  service.fleet.outputs.set(0, [
    {
      ...{ kind: 'snapshot', cursor: 'at-0', at: new Date(0), data: screen, screen },
      ...{ columns: 80, rows: 24, cursorColumn: 0, cursorRow: 0, alternateScreen: false },
      source: 'CONTROL_CLIENT',
    },
  ]);
  for (const login of ['other', ...roles.map((role) => role.toLowerCase())]) {
    const role = roles.find((each) => each.toLowerCase() === login) ?? 'DEVELOPER';
    const member = await service.add(login, role);
    members.set(login, member);
    service.fleet.set(listing(member.id, [server(member.id, numberOf(member))]));
    // One that nobody uses, so that it stays as it is.
    await service.key(member, { name: 'spare' });
    for (const set of login === 'other' ? [] : scopeSets) {
      const key = await service.key(member, { scopes: set });
      keys.push({ role, scopes: new Set(set), key, member });
    }
    rows.set(
      member.id,
      await service.audit.append(entry({ actorId: member.id, memberId: member.id })),
    );
  }
  const everything = keys.find(
    ({ role, scopes: held }) => role === 'ADMIN' && held.size === scopes.length,
  );
  const other = members.get('other');
  if (everything === undefined || other === undefined) throw new Error('nobody sees everything');
  const viewOf = (member: Member) => server(member.id, numberOf(member));
  const owned = parts.move();
  return {
    service,
    callers: keys,
    everything,
    other,
    rows,
    beforeRows: encodeFeedCursor(new Map()),
    serverOf(member) {
      const { ref, generation } = viewOf(member);
      return { id: encodeId({ type: 'TmuxServer', ref }), generation: generation ?? '' };
    },
    paneOf(member) {
      const { ref, generation } = viewOf(member);
      return { ...ref, generation: generation ?? '', pane: 0 };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Each caller, about itself and about the other member. */
export function* cells(
  matrix: Matrix,
): Iterable<{ caller: Caller; about: Member; access: Access }> {
  for (const caller of matrix.callers)
    for (const own of [true, false])
      yield {
        caller,
        about: own ? caller.member : matrix.other,
        access: { role: caller.role, scopes: caller.scopes, own },
      };
}

/** For a failure: who, with what, about whom. */
export const named = ({ role, scopes: held, own }: Access) =>
  `${role} with ${[...held].join('+')} about ${own ? 'itself' : 'another'}`;
