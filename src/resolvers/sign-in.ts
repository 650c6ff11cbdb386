import { randomUUID } from 'node:crypto';
import type { AuditEntry } from '../audit/record.ts';
import type { NewSession } from '../auth/sessions.ts';
import type { Viewer } from '../auth/viewer.ts';
import { type Caller, entryOf, messageOf, refused } from './act-record.ts';
import type { Context } from './context.ts';
import { encodeId } from './id.ts';
import { badInput } from './request-error.ts';
import { type Named, orUserError } from './user-error.ts';

/**
 * Signing in and out. One row each: a sign-in is on record before its cookie is given to anybody, a
 * miss before it is answered. A login that is no account's is on record as a keyed digest: what people
 * type into the wrong field are passwords.
 */
export const signInErrors = ['ReauthenticationRequiredError', 'AuditUnavailableError'] as const;
export type SignInError = Named<(typeof signInErrors)[number]>;

export interface SignInPayloadValue {
  readonly __typename: 'SignInPayload';
  readonly viewer: Viewer;
}

export function signIn(
  context: Context,
  { login, password }: { readonly login: string; readonly password: string },
): Promise<SignInPayloadValue | SignInError> {
  const { cookie } = context;
  if (cookie instanceof Error) throw cookie;
  if (login === '') throw badInput('input.login', 'is empty.');
  return orUserError(signInErrors, async () => {
    const before = context.viewer;
    const end = await context.signing.signIn(login, password, context.address);
    if (end.kind === 'REFUSED') {
      const { error, memberId, forTheRecord } = end;
      throw forTheRecord
        ? await refused(context, withoutActor(context, login, memberId), error)
        : error;
    }
    const { session, viewer } = end;
    await recordOrEnd(context, signedIn(context, viewer), session);
    // A sign-in where somebody was signed in: that session is not left behind.
    if (before.via !== 'API_KEY' && before.scopes.size > 0)
      await context.signing.end(before.credentialId);
    cookie.begin(session, viewer);
    return { __typename: 'SignInPayload', viewer };
  });
}

/** Undefined for a link that is used, expired or unknown. @throws AuditUnavailableError */
export async function signInByLink(
  parts: Pick<Context, 'audit' | 'signing'>,
  caller: Pick<Context, 'address' | 'userAgent'>,
  token: string,
): Promise<NewSession | undefined> {
  const session = await parts.signing.redeemLink(token, caller.address);
  if (session === undefined) return undefined;
  const entry = rowOf(
    { ...caller, requestId: randomUUID(), viewer: null },
    session.memberId,
    'By a sign-in link.',
  );
  await recordOrEnd(parts, { ...entry, outcome: 'SUCCEEDED', actorId: session.memberId }, session);
  return session;
}

/**
 * Ends every session of the caller's account. Whoever leaves is never held: that it can't be put on
 * record is an alarm. False for a key, which is revoked instead.
 */
export async function signOut(context: Context): Promise<boolean> {
  const { viewer, cookie, audit } = context;
  if (viewer.via === 'API_KEY') return false;
  await context.signing.endAll(viewer.member.id);
  if (!(cookie instanceof Error)) cookie.end();
  const { id, login } = viewer.member;
  const entry = entryOf(
    { ...context, viewer },
    { action: 'SIGN_OUT', target: { ...accountTarget(id), label: login, generation: null } },
    randomUUID(),
  );
  try {
    await audit.append({ ...entry, outcome: 'SUCCEEDED' });
  } catch (error) {
    audit.alarm(
      {
        code: 'AUDIT_SIGN_OUT_MISSING',
        message: `The sign-out of request ${context.requestId} is not on record: ${messageOf(error)}`,
        remedy: 'It was done. See why the audit log could not be written.',
      },
      'recorded',
    );
  }
  return true;
}

/** Nobody gets a session that is not on record. */
async function recordOrEnd(
  { audit, signing }: Pick<Context, 'audit' | 'signing'>,
  entry: AuditEntry,
  session: NewSession,
): Promise<void> {
  try {
    await audit.append(entry);
  } catch (error) {
    await signing.end(session.id);
    throw error;
  }
}

function rowOf(caller: Caller, memberId: string | null, message: string | null): AuditEntry {
  const target = memberId === null ? { memberId, id: null } : accountTarget(memberId);
  const entry = entryOf(
    caller,
    { action: 'SIGN_IN', target: { ...target, label: null, generation: null } },
    randomUUID(),
  );
  return { ...entry, message };
}

function signedIn(context: Context, viewer: Viewer): AuditEntry {
  const { address, userAgent, requestId } = context;
  const entry = rowOf({ address, userAgent, requestId, viewer: null }, viewer.member.id, null);
  const { id, login } = viewer.member;
  return { ...entry, outcome: 'SUCCEEDED', actorId: id, targetLabel: login };
}

/** Nobody is signed in yet, so nobody is the actor. */
function withoutActor(context: Context, login: string, memberId: string | undefined): AuditEntry {
  const { address, userAgent, requestId } = context;
  const caller = { address, userAgent, requestId, viewer: null };
  if (memberId !== undefined) return { ...rowOf(caller, memberId, null), targetLabel: login };
  return { ...rowOf(caller, null, null), facts: { loginDigest: context.audit.digest(login) } };
}

export function accountTarget(memberId: string) {
  return { memberId, id: encodeId({ type: 'Member', id: memberId }) };
}
