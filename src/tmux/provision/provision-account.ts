import type { Clock } from '../../concurrency/clock.ts';
import { KeyedMutex } from '../../concurrency/keyed-mutex.ts';
import { escapeText } from '../../escape.ts';
import type {
  PreparedProvision,
  ProvisionAction,
  ProvisionRequest,
  ProvisionResult,
  Survivor,
} from '../acts.ts';
import { OperationInProgressError, OutcomeUnknownError, UnsupportedError } from '../errors.ts';
import { askOnce } from '../helper/one-shot.ts';
import type { Processes } from '../helper/process.ts';
import { provisionReach } from '../helper/reach.ts';
import { type HelperAnswer, HelperError } from '../member-helper.ts';

/**
 * Members' Linux accounts, made and removed by `muxwarden-provision`: a program of root's that keeps
 * its own rules and takes a login and nothing else from us. It says what the account is called, what
 * it did and what it found; an act on an account that it did not make, or that has privileges by now,
 * is its refusal. Whatever is cut off is gone on with by asking again.
 */
const verbs = {
  CREATE: 'create',
  SUSPEND: 'suspend',
  RESUME: 'resume',
  DELETE: 'delete',
} as const satisfies Record<ProvisionAction, string>;

const lookMs = 10_000;
/** The program ends itself after 280 s: a home may take long to be emptied. */
const actMs = 290_000;

export interface ProvisionerOptions {
  /** Empty: not installed, so there is no provisioning. */
  readonly program: string;
  readonly mode: 'local' | 'system';
  readonly processes: Processes;
  readonly clock: Clock;
}

export class Provisioner {
  readonly #options: ProvisionerOptions;
  readonly #locks = new KeyedMutex();
  readonly #running = new Map<string, string>();

  constructor(options: ProvisionerOptions) {
    this.#options = options;
  }

  /** @throws UnsupportedError, OperationInProgressError: nothing was done */
  async prepare({
    login,
    osUser,
    action,
    operationId,
  }: ProvisionRequest): Promise<PreparedProvision> {
    const { program, mode } = this.#options;
    if (mode === 'local' || program === '')
      throw new UnsupportedError(
        'Accounts are not made here: it takes system mode and MUXWARDEN_PROVISION, which is off unless root installed it.',
      );
    const held = this.#locks.tryAcquire(login);
    if (held === undefined) throw new OperationInProgressError(this.#running.get(login) ?? '');
    this.#running.set(login, operationId);
    try {
      const { account } = read(await this.#look(login));
      if (osUser !== null && osUser !== account)
        throw new UnsupportedError(
          `The member's Linux user is ${osUser}, which was not made here: its account would be ${account}.`,
        );
      return {
        account,
        run: async () => read(await this.#act(login, action)),
        [Symbol.dispose]: () => {
          this.#running.delete(login);
          held[Symbol.dispose]();
        },
      };
    } catch (error) {
      this.#running.delete(login);
      held[Symbol.dispose]();
      throw error;
    }
  }

  /** A look changes nothing, so whatever goes wrong is a refusal. */
  async #look(login: string): Promise<HelperAnswer> {
    try {
      return await this.#ask('look', login, lookMs);
    } catch (error) {
      if (!(error instanceof HelperError)) throw error;
      throw new UnsupportedError(`Accounts can't be made here now: ${error.message}.`);
    }
  }

  async #act(login: string, action: ProvisionAction): Promise<HelperAnswer> {
    try {
      return await this.#ask(verbs[action], login, actMs);
    } catch (error) {
      if (!(error instanceof HelperError)) throw error;
      throw new OutcomeUnknownError(
        `It was begun, and what came of it is not known (${error.message}). The same action with another key goes on from there.`,
        { cause: error },
      );
    }
  }

  #ask(verb: string, login: string, deadlineMs: number): Promise<HelperAnswer> {
    const { processes, program, clock } = this.#options;
    const line = `1 ${verb} login=${Buffer.from(login).toString('hex')}\n`;
    const command = provisionReach(program, verb);
    return askOnce(processes, command, { line, payload: undefined, clock, deadlineMs });
  }
}

/** @throws UnsupportedError for what the program refused or could not finish */
function read({ rows, failure }: HelperAnswer): ProvisionResult {
  if (failure !== null) throw new UnsupportedError(`${escapeText(failure.detail)}.`);
  const account = rows.find(([kind]) => kind === 'account')?.[1];
  if (account === undefined)
    throw new OutcomeUnknownError('The program that makes accounts did not name the account.');
  const texts = (kind: string) =>
    rows.flatMap(([of, text = '']) => (of === kind ? [escapeText(text)] : []));
  return { account, done: texts('did'), removed: texts('removed'), ended: rows.flatMap(ended) };
}

function ended([kind, pid, command = '']: readonly string[]): readonly Survivor[] {
  if (kind !== 'ended') return [];
  return [{ pid: Number(pid), command: escapeText(Buffer.from(command, 'hex').toString('utf8')) }];
}
