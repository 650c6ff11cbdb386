/**
 * Where a service is killed within the restart of a tmux server, in the order in which it comes by,
 * and what must be found then: which server is there, what the next start puts on record, and what a
 * call with the same key is told.
 */
export interface CrashPoint {
  readonly name: string;
  readonly server: 'old' | 'none' | 'new';
  /** The outcome on record after the next start; null: no intent either. */
  readonly outcome: 'UNKNOWN' | 'SUCCEEDED' | null;
  /** Null: nothing was begun, so the same call would act. */
  readonly repeated: 'OutcomeUnknownError' | 'RestartTmuxServerPayload' | null;
}

const unknown = { outcome: 'UNKNOWN', repeated: 'OutcomeUnknownError' } as const;
const repeated = 'RestartTmuxServerPayload';

export const crashPoints = [
  { name: 'before the intent is written', server: 'old', outcome: null, repeated: null },
  { name: 'the intent is in the journal', server: 'old', ...unknown },
  { name: 'the intent is in the table', server: 'old', ...unknown },
  { name: 'the helper that ends it has started', server: 'old', ...unknown },
  { name: 'it was told to end', server: 'none', ...unknown },
  { name: 'it was seen to have ended', server: 'none', ...unknown },
  { name: 'the new server is there', server: 'new', ...unknown },
  { name: 'its sessions are being restored', server: 'new', ...unknown },
  { name: 'it is restored, and the outcome not written', server: 'new', ...unknown },
  {
    name: 'the outcome is in the journal',
    server: 'new',
    outcome: 'SUCCEEDED',
    repeated: 'OutcomeUnknownError',
  },
  { name: 'the outcome is in the table', server: 'new', outcome: 'SUCCEEDED', repeated },
  // The one that its caller sees go by: whoever asked kills it then.
  { name: 'it is answered', server: 'new', outcome: 'SUCCEEDED', repeated },
] as const satisfies readonly CrashPoint[];

export type CrashPointName = (typeof crashPoints)[number]['name'];
