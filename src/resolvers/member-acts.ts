import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Json } from '../audit/audit.ts';
import { mayChangeMembers } from '../auth/authority.ts';
import { hashPassword, PasswordsBusyError } from '../auth/passwords.ts';
import { checkedLogin, checkedOsUser, InvalidMemberError } from '../members/login.ts';
import { type Member, roles } from '../members/member.ts';
import {
  type MemberChange,
  MemberExistsError,
  MemberNotFoundError,
  type NewMember,
} from '../members/members.ts';
import { LastAdminError } from '../members/members-lock.ts';
import { NotFoundError } from '../tmux/errors.ts';
import type { Prepared, Report } from './act-record.ts';
import { type AuditEventNode, auditEventNode } from './audit-event.ts';
import type { Context } from './context.ts';
import { encodeId } from './id.ts';
import { type MemberNode, memberNode } from './nodes.ts';
import { type Act, recorded } from './recorded.ts';
import { badInput, RequestError } from './request-error.ts';
import type { Named } from './user-error.ts';

/**
 * Members, changed by an ADMIN who has shown to be there. Nobody can take away the last enabled
 * ADMIN, nor lock itself out: an ADMIN's own role, entry and existence are another's to change.
 */
interface MemberAct {
  readonly idempotencyKey: string;
  readonly password: string | null | undefined;
  readonly grant: string | null | undefined;
}
export interface CreateMember extends MemberAct, Omit<NewMember, 'passwordHash'> {
  readonly initialPassword: string | null;
}
export interface UpdateMember extends MemberAct {
  readonly memberId: string;
  readonly change: MemberChange;
}
export interface DeleteMember extends MemberAct {
  readonly memberId: string;
  readonly reason: string | null;
}

export const memberErrors = [
  'ReauthenticationRequiredError',
  'AuditUnavailableError',
  'IdempotencyConflictError',
  'NotFoundError',
  'OperationInProgressError',
  'OutcomeUnknownError',
] as const;
export type MemberActError = Named<(typeof memberErrors)[number]>;

export interface MemberPayloadValue {
  readonly __typename: 'MemberPayload';
  readonly member: MemberNode;
  readonly auditEvent: AuditEventNode | null;
}
type Ended = Promise<MemberPayloadValue | MemberActError>;

export function createMember(context: Context, input: CreateMember): Ended {
  const { login, role, osUser, initialPassword } = input;
  const id = randomUUID();
  return act(context, input, {
    mutation: 'createMember',
    action: 'CREATE_MEMBER',
    what: 'adding members',
    memberId: null,
    label: null,
    // The password itself, or a plain hash of it, would be there to be guessed.
    input: {
      ...{ login, role, osUser },
      initialPassword: initialPassword === null ? null : context.audit.digest(initialPassword),
    },
    facts: { login, role, osUser, hasPassword: initialPassword !== null },
    check() {
      named(() => checkedLogin(login));
      if (osUser !== null) named(() => checkedOsUser(osUser));
    },
    async prepare() {
      if (context.accounts.memberByLogin(login) !== undefined)
        throw badInput('input.login', `can't be: ${new MemberExistsError('login', login).message}`);
      const passwordHash = initialPassword === null ? null : await hashed(initialPassword);
      return {
        targetLabel: login,
        made: { memberId: id, id: encodeId({ type: 'Member', id }) },
        run: () => context.changes.addMember({ login, role, osUser, passwordHash }, id),
      };
    },
  });
}

export function updateMember(
  context: Context,
  { memberId, change, ...input }: UpdateMember,
): Ended {
  const { role, disabled, osUser } = change;
  const given = Object.fromEntries(
    Object.entries({ role, disabled, osUser }).filter(([, value]) => value !== undefined),
  ) as Record<string, string | boolean | null>;
  return act(context, input, {
    mutation: 'updateMember',
    action: 'UPDATE_MEMBER',
    what: 'changing members',
    memberId,
    label: context.accounts.member(memberId)?.login ?? null,
    input: { memberId, ...given },
    facts: given,
    check() {
      if (Object.keys(given).length === 0)
        throw badInput('input', 'changes nothing: give `role`, `disabled` or `osUser`.');
      if (typeof osUser === 'string') named(() => checkedOsUser(osUser));
      if (memberId !== context.viewer.member.id) return;
      if (role !== undefined && role !== 'ADMIN') throw ownAccount('input.role');
      if (disabled === true) throw ownAccount('input.disabled');
    },
    prepare: async () => ({
      targetLabel: existing(context, memberId).login,
      run: () => context.changes.changeMember(memberId, change),
    }),
  });
}

export function deleteMember(context: Context, { memberId, ...input }: DeleteMember): Ended {
  return act(context, input, {
    mutation: 'deleteMember',
    action: 'DELETE_MEMBER',
    what: 'deleting members',
    memberId,
    label: context.accounts.member(memberId)?.login ?? null,
    reason: input.reason,
    input: { memberId, reason: input.reason },
    facts: null,
    check() {
      if (memberId === context.viewer.member.id) throw ownAccount('input.memberId');
    },
    prepare: async () => ({
      targetLabel: existing(context, memberId).login,
      run: () => context.changes.deleteMember(memberId),
    }),
  });
}

interface Change {
  readonly mutation: string;
  readonly action: 'CREATE_MEMBER' | 'UPDATE_MEMBER' | 'DELETE_MEMBER';
  readonly what: string;
  /** Null: the member is only to be. */
  readonly memberId: string | null;
  readonly label: string | null;
  readonly reason?: string | null;
  readonly input: Json;
  readonly facts: Act<unknown, never>['facts'];
  readonly check: () => void;
  readonly prepare: () => Promise<Omit<Prepared<Member>, 'before' | typeof Symbol.dispose>>;
}

async function act(
  context: Context,
  { idempotencyKey, password, grant }: MemberAct,
  { memberId, label, reason = null, prepare, ...change }: Change,
): Ended {
  const { viewer, address, reauthentication } = context;
  const id = memberId === null ? null : encodeId({ type: 'Member', id: memberId });
  const end = await recorded(context, {
    ...change,
    errors: memberErrors,
    idempotencyKey,
    reason,
    target: { memberId, id, label, generation: null },
    allowed: mayChangeMembers,
    looksItself: true,
    reauthenticate: () =>
      reauthentication.require(viewer, { password, grant }, address, {
        ...{ action: change.action, targets: [], memberId },
      }),
    async prepare(): Promise<Prepared<Member | Refusal>> {
      const prepared = await prepare();
      return {
        ...prepared,
        before: null,
        run: () => prepared.run().catch(refusalOf),
        [Symbol.dispose]() {},
      };
    },
    report,
  });
  if (end.kind === 'refused') return end.error;
  const answer = stored.parse(end.answer);
  if ('refused' in answer) throw badInput(answer.refused.argument, answer.refused.problem);
  const { member } = answer;
  return {
    __typename: 'MemberPayload',
    member: memberNode(context.accounts.member(member.id) ?? member),
    auditEvent: end.auditEvent && auditEventNode(end.auditEvent),
  };
}

/** What the database refuses was not done, and is told as it is. */
interface Refusal {
  readonly argument: string;
  readonly problem: string;
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof MemberExistsError || error instanceof InvalidMemberError)
    return { argument: `input.${error.field}`, problem: `can't be: ${error.message}` };
  if (error instanceof LastAdminError)
    return { argument: 'input.memberId', problem: `can't be changed so: ${error.message}` };
  throw error instanceof MemberNotFoundError ? new NotFoundError('The member') : error;
}

function report(result: Member | Refusal): Report {
  const seen = { after: null, survivors: null };
  if ('problem' in result)
    return {
      ...seen,
      outcome: 'FAILED',
      message: result.problem,
      answer: { refused: { ...result } },
    };
  const { createdAt, ...member } = result;
  return {
    ...seen,
    outcome: 'SUCCEEDED',
    message: null,
    answer: { member: { ...member, createdAt: createdAt.toISOString() } },
  };
}

const stored = z.union([
  z.object({ refused: z.object({ argument: z.string(), problem: z.string() }) }),
  z.object({
    member: z.object({
      id: z.string(),
      login: z.string(),
      role: z.enum(roles),
      osUser: z.string().nullable(),
      disabled: z.boolean(),
      createdAt: z.iso.datetime().transform((text) => new Date(text)),
    }),
  }),
]);

/** @throws RequestError (BAD_USER_INPUT) for a name that can't be one */
function named(check: () => string): void {
  try {
    check();
  } catch (error) {
    if (!(error instanceof InvalidMemberError)) throw error;
    throw badInput(`input.${error.field}`, `can't be used. ${error.message}`);
  }
}

async function hashed(password: string): Promise<string> {
  try {
    return await hashPassword(password);
  } catch (error) {
    if (error instanceof InvalidMemberError)
      throw badInput('input.initialPassword', `can't be used. ${error.message}`);
    if (error instanceof PasswordsBusyError) throw new RequestError('RATE_LIMITED', error.message);
    throw error;
  }
}

/** @throws NotFoundError */
function existing({ accounts }: Context, memberId: string): Member {
  const member = accounts.member(memberId);
  if (member === undefined) throw new NotFoundError('The member');
  return member;
}

function ownAccount(argument: string): RequestError {
  return badInput(
    argument,
    'would lock yourself out. Another ADMIN has to do that, or `muxwarden members` on the machine.',
  );
}
