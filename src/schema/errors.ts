import type {
  AuditUnavailableValue,
  IdempotencyConflictValue,
  ListingUnknownValue,
  NotFoundValue,
  OperationInProgressValue,
  OutcomeUnknownValue,
  ReauthenticationRequiredValue,
  StaleGenerationValue,
  TmuxServerBusyValue,
  TmuxServerStuckValue,
  UnsupportedValue,
  UserErrorValue,
  WorkingDirectoryMissingValue,
} from '../resolvers/user-error.ts';
import { builder } from './builder.ts';
import { Reason, TmuxServerStatus } from './enums.ts';

/** Errors that are data. Their values (resolvers/user-error.ts) carry `__typename`. */

export const ErrorCode = builder.enumType('ErrorCode', {
  description: 'What went wrong, for programs.',
  values: {
    ESTALE: { description: 'The id belongs to an earlier life of the tmux server.' },
    ETMUXSTUCK: { description: 'The tmux server neither ended nor can be asked to.' },
    ENOCWD: { description: "The working directory is gone or can't be entered." },
    EAUDIT: { description: 'The record could not be written, so nothing was done.' },
    EBUSY: { description: 'The tmux server is in use, or not proved to be idle.' },
    EINPROGRESS: { description: 'Another operation on it is under way.' },
    EREAUTH: { description: "The caller's password is needed again, or was wrong." },
    ELISTING: { description: "The listing is not known, so it can't be acted on." },
    EIDEMPOTENCY: { description: 'The idempotency key was used with another input.' },
    ENOTFOUND: { description: 'It does not exist, or is not yours.' },
    EUNSUPPORTED: { description: "This tmux or this machine can't do it." },
    EUNKNOWN: { description: 'Sent but not confirmed: it may still happen.' },
  } as const,
});

export const UserError = builder.interfaceRef<UserErrorValue>('UserError').implement({
  description: 'An error that the caller can act on. It is data: it never appears in `errors`.',
  fields: (t) => ({
    code: t.expose('code', { type: ErrorCode, description: 'What went wrong, for programs.' }),
    message: t.exposeString('message', {
      description: 'What went wrong and what to do about it, for people.',
    }),
  }),
});

export const StaleGenerationError = builder
  .objectRef<StaleGenerationValue>('StaleGenerationError')
  .implement({
    description:
      'The id belongs to an earlier life of the tmux server. Nothing was read or touched.',
    interfaces: [UserError],
    fields: (t) => ({
      expectedGeneration: t.exposeString('expectedGeneration', {
        description: 'The generation that was asked for.',
      }),
      currentGeneration: t.exposeString('currentGeneration', {
        nullable: true,
        description: 'The present generation; null when no server runs there, or it is not known.',
      }),
    }),
  });

export const TmuxServerStuckError = builder
  .objectRef<TmuxServerStuckValue>('TmuxServerStuckError')
  .implement({
    description: 'The tmux server neither ended nor can be asked to. The pid is for root.',
    interfaces: [UserError],
    fields: (t) => ({
      pid: t.exposeInt('pid', { description: 'Process id of the tmux server.' }),
      status: t.expose('status', {
        type: TmuxServerStatus,
        description: 'What the server was doing when it was last looked at.',
      }),
      socketPath: t.exposeString('socketPath', { description: 'Path of its socket.' }),
    }),
  });

export const TmuxServerBusyError = builder
  .objectRef<TmuxServerBusyValue>('TmuxServerBusyError')
  .implement({
    description:
      'It was to be done only if the tmux server is idle, and that is not proved. Nothing was sent.',
    interfaces: [UserError],
    fields: (t) => ({
      evidence: t.exposeStringList('evidence', {
        description:
          'Sentences that say what is in the way, or what is not known; the first few. They hold names of the member.',
      }),
    }),
  });

export const OperationInProgressError = builder
  .objectRef<OperationInProgressValue>('OperationInProgressError')
  .implement({
    description: 'Another restart or repair of this tmux server is under way.',
    interfaces: [UserError],
    fields: (t) => ({
      operationId: t.exposeID('operationId', {
        description: 'The operation that is under way, as the audit log names it.',
      }),
    }),
  });

export const ReauthenticationRequiredError = builder
  .objectRef<ReauthenticationRequiredValue>('ReauthenticationRequiredError')
  .implement({
    description: "The act needs its caller's own password again, and did not get it.",
    interfaces: [UserError],
    fields: (t) => ({
      attemptsLeft: t.exposeInt('attemptsLeft', {
        nullable: true,
        description: 'Tries that are left; null where no password was tried.',
      }),
      retryAt: t.expose('retryAt', {
        type: 'DateTime',
        nullable: true,
        description: 'When the next try is possible; null: now.',
      }),
    }),
  });

export const AuditUnavailableError = builder
  .objectRef<AuditUnavailableValue>('AuditUnavailableError')
  .implement({
    description: 'The record could not be written in time, so nothing was done.',
    interfaces: [UserError],
  });

export const ListingUnknownError = builder
  .objectRef<ListingUnknownValue>('ListingUnknownError')
  .implement({
    description: 'We could not ask the tmux server, so we do not say and do not act.',
    interfaces: [UserError],
    fields: (t) => ({
      reason: t.expose('reason', {
        type: Reason,
        nullable: true,
        description: 'Why it is not known.',
      }),
      retryAt: t.expose('retryAt', {
        type: 'DateTime',
        nullable: true,
        description: 'When it will be asked again by itself; null: when somebody asks.',
      }),
    }),
  });

export const IdempotencyConflictError = builder
  .objectRef<IdempotencyConflictValue>('IdempotencyConflictError')
  .implement({
    description: 'The same idempotency key came before, with another input. Nothing was done.',
    interfaces: [UserError],
  });

export const NotFoundError = builder.objectRef<NotFoundValue>('NotFoundError').implement({
  description: 'It does not exist, or is not yours: one answer for both.',
  interfaces: [UserError],
});

export const WorkingDirectoryMissingError = builder
  .objectRef<WorkingDirectoryMissingValue>('WorkingDirectoryMissingError')
  .implement({
    description: "The directory that the pane would start in is gone or can't be entered.",
    interfaces: [UserError],
    fields: (t) => ({
      path: t.exposeString('path', { description: 'The directory.' }),
    }),
  });

export const UnsupportedError = builder.objectRef<UnsupportedValue>('UnsupportedError').implement({
  description: "This tmux or this machine can't do it. Nothing was sent.",
  interfaces: [UserError],
  fields: (t) => ({
    tmuxVersion: t.exposeString('tmuxVersion', {
      nullable: true,
      description: "The tmux version that can't do it, where it is about a version.",
    }),
  }),
});

/** Its `auditEvent` is added beside the audit types. */
export const OutcomeUnknownError = builder
  .objectRef<OutcomeUnknownValue>('OutcomeUnknownError')
  .implement({
    description: 'Sent but not confirmed: it may still happen. It is never repeated by us.',
    interfaces: [UserError],
  });

const types = {
  StaleGenerationError,
  TmuxServerStuckError,
  TmuxServerBusyError,
  OperationInProgressError,
  ReauthenticationRequiredError,
  AuditUnavailableError,
  ListingUnknownError,
  IdempotencyConflictError,
  NotFoundError,
  WorkingDirectoryMissingError,
  UnsupportedError,
  OutcomeUnknownError,
} satisfies Record<UserErrorValue['__typename'], unknown>;

/** The types of these errors, for the union of a result. */
export function errorTypes<Name extends UserErrorValue['__typename']>(names: readonly Name[]) {
  return names.map((name) => types[name]);
}
