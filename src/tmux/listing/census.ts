import type { Reason, ServerStatus } from '../model.ts';
import type { MemberRow, ServerRow } from './rows.ts';

/**
 * What a server's state is, from the look at its socket and process (taken without asking tmux) and
 * from how the last attempt to ask it went. Every code of the helper is one line of the table.
 */
interface Meaning {
  readonly status: ServerStatus;
  readonly reason: Reason | null;
  /** Said where the helper gave no detail of its own. */
  readonly words: string;
  /**
   * Of an attempt to ask: `none` for one that was not made and costs nobody anything to repeat,
   * `failed` for one that is repeated with pauses.
   */
  readonly asked: 'answered' | 'failed' | 'none';
}

const meanings: Readonly<Record<string, Meaning>> = {
  OK: running(),
  SAME: running(),
  EDEAD: absent(),
  STOPPED: none('STOPPED', null, 'the process is stopped (SIGSTOP); SIGCONT lets it run'),
  TIMEOUT: failed('UNRESPONSIVE', 'TIMEOUT', 'no whole answer in time'),
  EBACKLOG: failed('UNRESPONSIVE', 'BACKLOG_FULL', 'its queue of connections is full'),
  ETOOBIG: failed('RUNNING', 'OUTPUT_TOO_LARGE', 'its listing is larger than what is read'),
  EMALFORMED: failed('RUNNING', 'MALFORMED_ANSWER', "its answer can't be read"),
  ECLIENT: failed('RUNNING', 'MALFORMED_ANSWER', 'its own client failed'),
  ESOCKTYPE: none('UNKNOWN', 'NOT_TMUX', 'not a socket'),
  EOWNER: none('UNKNOWN', 'FOREIGN_OWNER', "the socket is another user's"),
  EPEERUID: none('UNKNOWN', 'FOREIGN_OWNER', 'another user listens'),
  ENOTMUX: none('UNKNOWN', 'NOT_TMUX', 'who listens is not tmux'),
  EEXE: none(
    'UNKNOWN',
    'BINARY_UNREADABLE',
    "its binary can't be opened; install tmux with mode 0755",
  ),
  EACCES: none('UNKNOWN', 'EACCES', 'no right to look'),
  EDIR: none('UNKNOWN', 'UNSAFE_DIRECTORY', 'the directory is not safe'),
  ECONNECT: none('UNKNOWN', 'HELPER_FAILED', "its socket can't be connected to"),
  EPIDFD: none('UNKNOWN', 'HELPER_FAILED', "its process can't be held"),
  EGONE: none('UNKNOWN', 'HELPER_FAILED', 'it ended while it was looked at'),
  EPATHLONG: none('UNKNOWN', 'PATH_TOO_LONG', 'the socket path is over 107 bytes'),
  ELOST: none('RUNNING', 'SOCKET_LOST', 'the process lives, its socket file is gone'),
  ETAKEN: none('RUNNING', 'PATH_TAKEN', 'the process lives, another server has its path'),
};

function running(): Meaning {
  return { status: 'RUNNING', reason: null, words: '', asked: 'answered' };
}
function absent(): Meaning {
  return { status: 'ABSENT', reason: 'STALE_SOCKET', words: 'nobody listens', asked: 'answered' };
}
function none(status: ServerStatus, reason: Reason | null, words: string): Meaning {
  return { status, reason, words, asked: 'none' };
}
function failed(status: ServerStatus, reason: Reason, words: string): Meaning {
  return { status, reason, words, asked: 'failed' };
}

export interface Judgement {
  readonly status: ServerStatus;
  readonly reason: Reason | null;
  readonly detail: string | null;
}

/** What the code says of the attempt; undefined for `SKIPPED`: there was none. */
export function attemptOf(row: ServerRow): (Judgement & Pick<Meaning, 'asked'>) | undefined {
  if (row.code === 'SKIPPED') return undefined;
  const meaning = meanings[row.code] ?? unheardOf(row.code);
  if (row.code === 'OK' || row.code === 'SAME') return { ...meaning, detail: null };
  const detail = row.detail || meaning.words || null;
  if (row.code === 'EDEAD' && /No such file|does not exist/.test(row.detail)) {
    return { ...meaning, reason: null, detail };
  }
  if (row.code === 'ECLIENT' && mismatchWords.test(row.detail)) {
    return { ...meaning, reason: 'VERSION_MISMATCH', detail: mismatch(row) };
  }
  return { ...meaning, detail };
}

/**
 * The status now: the last attempt's, unless the process table says better. `failing` is the last
 * attempt that failed, when the server has not answered since.
 */
export function judge(
  row: ServerRow,
  last: Judgement | undefined,
  failing: boolean,
  cpuPercent: number | null,
): Judgement {
  const own = attemptOf(row) ??
    last ?? { status: 'UNKNOWN', reason: 'NOT_YET_ASKED', detail: null };
  if (isStopped(row) && own.status !== 'ABSENT') {
    return { status: 'STOPPED', reason: null, detail: meanings.STOPPED?.words ?? null };
  }
  // It was stopped, and runs again; nobody has asked it since.
  if (own.status === 'STOPPED' && row.code === 'SKIPPED') return { ...own, status: 'UNRESPONSIVE' };
  const exhausted =
    row.openFiles !== null && row.openFilesLimit !== null && row.openFiles >= row.openFilesLimit;
  const spinning =
    failing &&
    own.status === 'UNRESPONSIVE' &&
    cpuPercent !== null &&
    cpuPercent >= spinningPercent;
  const status = spinning ? 'SPINNING' : own.status;
  if (exhausted && (status === 'RUNNING' || status === 'SPINNING' || status === 'UNRESPONSIVE')) {
    return {
      status,
      reason: 'DESCRIPTORS_EXHAUSTED',
      detail: 'all of its open files are in use, so it accepts no client; raise its limit',
    };
  }
  return {
    status,
    reason: own.reason,
    detail: spinning ? 'uses a whole core and does not answer' : own.detail,
  };
}

export const spinningPercent = 90;
const sampleMs = 2_000;

export function isStopped(row: ServerRow): boolean {
  return row.processState === 'T' || row.processState === 't';
}

/** The use of one core by one process, between looks at least 2 s apart. */
export class CpuMeter {
  #base: { readonly life: string; readonly ticks: number; readonly at: number } | undefined;
  #percent: number | null = null;

  /** Takes the sample in; gives the figure of the last whole span, or null. */
  read(row: ServerRow, member: MemberRow): number | null {
    if (row.pid === null || row.ticks === null || row.cpuTicks === null) {
      this.#base = undefined;
      this.#percent = null;
      return null;
    }
    const now = { life: `${row.pid}:${row.ticks}`, ticks: row.cpuTicks, at: member.uptimeMs };
    if (this.#base?.life !== now.life || now.at < this.#base.at) {
      this.#base = now;
      this.#percent = null;
      return null;
    }
    const span = now.at - this.#base.at;
    if (span < sampleMs) return this.#percent;
    const seconds = (now.ticks - this.#base.ticks) / member.ticksPerSecond;
    this.#percent = Math.max(0, Math.round((seconds * 1_000_000) / span) / 10);
    this.#base = now;
    return this.#percent;
  }
}

const mismatchWords =
  /too (?:old|new) for client|protocol version|server exited unexpectedly|not a terminal|open terminal failed/;

function mismatch(row: ServerRow): string {
  return `the server runs ${row.version ?? 'an unknown version'}, and its client says: ${row.detail}`;
}

function unheardOf(code: string): Meaning {
  return failed('UNKNOWN', 'MALFORMED_ANSWER', `the helper says ${code}, which is not known here`);
}
