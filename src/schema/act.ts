import type { InputFieldBuilder, ObjectFieldBuilder } from '@pothos/core';
import type { AuditEventNode } from '../resolvers/audit-event.ts';
import type { ServerAct } from '../resolvers/server-act.ts';
import { AuditEvent } from './audit.ts';
import type { builder } from './builder.ts';
import { idArgument } from './global-ids.ts';

/** What the inputs and payloads of all acts share. */

type Types = typeof builder.$inferSchemaTypes;

export const keyDescription =
  '1 to 64 printable ASCII characters that you choose, one for each act; kept 24 h with the intent, for you and this mutation alone.';
export const reasonDescription = 'Why, for the audit log: 500 characters at most.';

/** How one key stands for one act, for the description of an input. */
export const repeatDescription =
  'The same idempotencyKey and input (password left out) gives the first answer again, also while it is still running and after UNKNOWN; with another input EIDEMPOTENCY. A refusal before the intent is not stored.';

/** The input of an act on a whole server. */
export function serverActFields(t: InputFieldBuilder<Types, 'InputObject'>) {
  return {
    tmuxServerId: t.id({ required: true, description: 'Which tmux server.' }),
    expectedGeneration: t.string({
      required: true,
      description:
        'The `generation` that you saw. If the server is in another life by now, nothing happens (ESTALE).',
    }),
    idempotencyKey: t.string({ required: true, description: keyDescription }),
    reason: t.string({ description: reasonDescription }),
    password: t.string({
      description: "The caller's own password, unless a grant or a key with RESTART stands for it.",
    }),
    grant: t.string({
      description:
        'What `reauthenticate` gave for this act on exactly this server in this life, instead of the password. Used up by the intent, not by a refusal before it.',
    }),
  };
}

/** What an answer says of its record. */
export function recordFields(
  t: ObjectFieldBuilder<Types, { readonly auditEvent: AuditEventNode | null }>,
) {
  return {
    auditEvent: t.expose('auditEvent', {
      type: AuditEvent,
      nullable: true,
      description: 'The outcome on record; null when `recorded` is false.',
    }),
    recorded: t.boolean({
      description: 'False: it was done, but its outcome could not be written (yet).',
      resolve: ({ auditEvent }) => auditEvent !== null,
    }),
  };
}

interface ServerActInput {
  readonly tmuxServerId: string | number;
  readonly expectedGeneration: string;
  readonly idempotencyKey: string;
  readonly reason?: string | null | undefined;
  readonly password?: string | null | undefined;
  readonly grant?: string | null | undefined;
}

/** @throws RequestError (BAD_USER_INPUT) */
export function serverActArgument(input: ServerActInput): ServerAct {
  const { tmuxServerId, expectedGeneration, idempotencyKey, reason, password, grant } = input;
  return {
    server: idArgument('TmuxServer', 'input.tmuxServerId', `${tmuxServerId}`).ref,
    expectedGeneration,
    idempotencyKey,
    reason,
    password,
    grant,
  };
}
