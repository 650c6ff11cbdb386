import { z } from 'zod';
import { mayChangeMembers } from '../auth/authority.ts';
import { escapeText } from '../escape.ts';
import { type Member, roles } from '../members/member.ts';
import { MemberExistsError, MemberNotFoundError } from '../members/members.ts';
import { LastAdminError } from '../members/members-lock.ts';
import type { ProvisionAction, ProvisionResult, Survivor } from '../tmux/acts.ts';
import { NotFoundError, UnsupportedError } from '../tmux/errors.ts';
import type { Prepared, Report } from './act-record.ts';
import { type AuditEventNode, auditEventNode } from './audit-event.ts';
import type { Context } from './context.ts';
import { encodeId } from './id.ts';
import { type MemberNode, memberNode } from './nodes.ts';
import { recorded } from './recorded.ts';
import { badInput } from './request-error.ts';
import type { Named } from './user-error.ts';

/**
 * A member's account on the machine, together with what the member may do here. What is done twice is
 * done once, and what was cut off half way is gone on with: by the same action, with another key.
 */
export interface ProvisionMember {
  readonly idempotencyKey: string;
  readonly memberId: string;
  readonly action: ProvisionAction;
  readonly reason: string | null;
  readonly password: string | null | undefined;
  readonly grant: string | null | undefined;
}

export const provisionErrors = [
  'ReauthenticationRequiredError',
  'AuditUnavailableError',
  'IdempotencyConflictError',
  'NotFoundError',
  'OperationInProgressError',
  'UnsupportedError',
  'OutcomeUnknownError',
] as const;

export interface ProvisionMemberPayloadValue {
  readonly __typename: 'ProvisionMemberPayload';
  readonly member: MemberNode;
  readonly account: string;
  readonly done: readonly string[];
  readonly removed: readonly string[];
  readonly ended: readonly Survivor[];
  readonly auditEvent: AuditEventNode | null;
}

export async function provisionMember(
  context: Context,
  { memberId, action, idempotencyKey, reason, password, grant }: ProvisionMember,
): Promise<ProvisionMemberPayloadValue | Named<(typeof provisionErrors)[number]>> {
  const { viewer, address, reauthentication, accounts, fleet } = context;
  const id = encodeId({ type: 'Member', id: memberId });
  const end = await recorded(context, {
    errors: provisionErrors,
    mutation: 'provisionMember',
    action: 'PROVISION_MEMBER',
    what: 'making and removing accounts',
    idempotencyKey,
    reason,
    target: { memberId, id, label: accounts.member(memberId)?.login ?? null, generation: null },
    input: { memberId, action, reason },
    facts: { provision: action },
    allowed: mayChangeMembers,
    looksItself: true,
    check() {
      if (memberId === viewer.member.id && (action === 'SUSPEND' || action === 'DELETE'))
        throw badInput('input.memberId', 'would lock yourself out. Another ADMIN has to do that.');
    },
    reauthenticate: () =>
      reauthentication.require(viewer, { password, grant }, address, {
        ...{ action: 'PROVISION_MEMBER', targets: [], memberId, provision: action },
      }),
    async prepare(operationId): Promise<Prepared<Provisioned>> {
      const member = accounts.member(memberId);
      if (member === undefined) throw new NotFoundError('The member');
      const { login, osUser } = member;
      const prepared = await fleet.prepareProvision({ login, osUser, action, operationId });
      return {
        before: null,
        targetLabel: `${login}: ${prepared.account}`,
        run: () => bothSides(context, member, action, prepared),
        [Symbol.dispose]: () => prepared[Symbol.dispose](),
      };
    },
    report,
  });
  if (end.kind === 'refused') return end.error;
  const { member, ...provisioned } = stored.parse(end.answer);
  return {
    __typename: 'ProvisionMemberPayload',
    member: memberNode(accounts.member(memberId) ?? member),
    ...provisioned,
    auditEvent: end.auditEvent && auditEventNode(end.auditEvent),
  };
}

interface Provisioned extends ProvisionResult {
  readonly member: Member;
}

/** Entry is taken before the account is, and given after it; the member has what there is of an account. */
async function bothSides(
  context: Context,
  member: Member,
  action: ProvisionAction,
  { account, run }: { readonly account: string; readonly run: () => Promise<ProvisionResult> },
): Promise<Provisioned> {
  const change = (what: Parameters<typeof context.changes.changeMember>[1]) =>
    context.changes.changeMember(member.id, what).catch(refuse);
  if (action === 'SUSPEND') {
    const suspended = await change({ disabled: true });
    return { ...(await run()), member: suspended };
  }
  const result = await run();
  if (action === 'CREATE') return { ...result, member: await change({ osUser: account }) };
  if (action === 'RESUME') return { ...result, member: await change({ disabled: false }) };
  return { ...result, member: await change({ osUser: null }) };
}

function refuse(error: unknown): never {
  if (error instanceof LastAdminError || error instanceof MemberExistsError)
    throw new UnsupportedError(error.message);
  throw error instanceof MemberNotFoundError ? new NotFoundError('The member') : error;
}

function report({ member, ...result }: Provisioned): Report {
  const { done, removed, ended } = result;
  const said = [
    ...done,
    ...ended.map(({ pid, command }) => `ended ${pid} (${command})`),
    ...removed.map((what) => `removed ${what}`),
  ];
  return {
    outcome: 'SUCCEEDED',
    message: said.length === 0 ? null : escapeText(said.join('; ').slice(0, 1_000)),
    after: null,
    survivors: null,
    answer: {
      account: result.account,
      done: [...done],
      removed: [...removed],
      ended: ended.map((each) => ({ ...each })),
      member: { ...member, createdAt: member.createdAt.toISOString() },
    },
  };
}

const stored = z.object({
  account: z.string(),
  done: z.array(z.string()),
  removed: z.array(z.string()),
  ended: z.array(z.object({ pid: z.number(), command: z.string() })),
  member: z.object({
    id: z.string(),
    login: z.string(),
    role: z.enum(roles),
    osUser: z.string().nullable(),
    disabled: z.boolean(),
    createdAt: z.iso.datetime().transform((text) => new Date(text)),
  }),
});
