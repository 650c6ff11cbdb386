import { randomUUIDv7 } from 'node:crypto';
import type { Audit } from '../audit/audit.ts';
import { openCommandAudit } from '../audit/command-audit.ts';
import type { AuditEntry } from '../audit/record.ts';
import { ownUser } from '../auth/bootstrap.ts';
import type { Config } from '../config.ts';
import type { Database } from '../database/database.ts';
import { escapeText } from '../escape.ts';
import { Members } from '../members/members.ts';
import type { Io } from './command.ts';
import { withDatabase } from './with-database.ts';

/** What a command changes, for the record: who runs it is for the kernel to say. */
export interface CommandAct {
  /** As it was typed, without its arguments: `members add`. */
  readonly command: string;
  readonly action: AuditEntry['action'];
  readonly memberId: string | null;
  /** As people call it. */
  readonly label: string;
  readonly facts?: AuditEntry['facts'];
}

/** Does something and has it on record: an intent before it, its outcome after it. */
export type OnRecord = <Result>(act: CommandAct, change: () => Promise<Result>) => Promise<Result>;

/**
 * The database for a command that changes something, and the chain of the commands to say so. The
 * actor is the member that stands for the Linux user, if there is one: nobody has shown a credential.
 * @throws AuditUnavailableError: nothing was done
 */
export function withRecord<Result>(
  config: Config,
  io: Io,
  work: (database: Database, onRecord: OnRecord) => Promise<Result>,
): Promise<Result> {
  return withDatabase(config, async (database) => {
    const say = (_about: unknown, said?: string) => {
      if (said !== undefined) io.note(said);
    };
    await using audit = await openCommandAudit(config.stateDir, database, {
      info: () => {},
      warn: say,
      error: say,
    });
    const osUser = ownUser();
    const all = await new Members(database).list();
    const actorId = all.find((member) => member.osUser === osUser)?.id ?? null;
    return await work(database, (act, change) => recorded(audit, act, { osUser, actorId }, change));
  });
}

async function recorded<Result>(
  audit: Audit,
  act: CommandAct,
  by: { readonly osUser: string; readonly actorId: string | null },
  change: () => Promise<Result>,
): Promise<Result> {
  const about = entryOf(act, by);
  const intent = await audit.intend({ ...about, phase: 'INTENT', outcome: null });
  const end = { ...about, intentId: intent.id };
  let result: Result;
  try {
    result = await change();
  } catch (error) {
    await audit.conclude({ ...end, ...refusalOf(error) }, null);
    throw error;
  }
  await audit.conclude({ ...end, outcome: 'SUCCEEDED' }, null);
  return result;
}

/** What was refused was not done; of everything else that is not known. */
function refusalOf(error: unknown): Pick<AuditEntry, 'outcome' | 'code' | 'message'> {
  const refusals = ['InvalidApiKeyError', 'InvalidMemberError', 'LastAdminError', 'CommandError'];
  const known = [...refusals, 'MemberExistsError', 'MemberNotFoundError'];
  if (error instanceof Error && known.includes(error.name))
    return { outcome: 'FAILED', code: null, message: error.message };
  return {
    outcome: 'UNKNOWN',
    code: 'EUNKNOWN',
    message: 'It was begun, and what came of it is not known.',
  };
}

function entryOf(
  { command, action, memberId, label, facts = null }: CommandAct,
  { osUser, actorId }: { readonly osUser: string; readonly actorId: string | null },
): AuditEntry {
  const operationId = randomUUIDv7();
  return {
    phase: 'OUTCOME',
    outcome: null,
    action,
    actorId,
    actorKeyId: null,
    actorAddress: null,
    actorAgent: `muxwarden ${command}, by ${escapeText(osUser)} (uid ${process.geteuid?.()})`,
    memberId,
    targetId: null,
    targetLabel: escapeText(label),
    code: null,
    statedReason: null,
    message: null,
    operationId,
    requestId: operationId,
    intentId: null,
    before: null,
    after: null,
    survivors: null,
    facts,
  };
}
