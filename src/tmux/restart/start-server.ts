import { escapeText } from '../../escape.ts';
import type { NotRestored, RestartServerResult } from '../acts.ts';
import { OutcomeUnknownError } from '../errors.ts';
import { type HelperAnswer, HelperError } from '../member-helper.ts';
import type { InstalledTmux, MemberTmux } from '../member-tmux.ts';
import type { ServerRef, ServerView } from '../model.ts';
import type { Ended } from './end-server.ts';
import type { Restoration } from './restoration.ts';
import { stateOf, wasLookedAt } from './server-state.ts';
import { survivorsAmong } from './survivors.ts';

/**
 * The second half of a restart: the old server has ended, that is proven. What comes back says what
 * is there now, also where that is nothing: an act that ended a server and could not start one did
 * happen, and everything that was in it is named as not restored.
 * @throws OutcomeUnknownError when nobody can say whether one was started
 */
export async function startServer(
  tmux: MemberTmux,
  old: ServerView,
  installed: InstalledTmux,
  restoration: Restoration,
  ended: Ended,
): Promise<RestartServerResult> {
  const made = await startOn(tmux, old, installed, restoration, ended);
  const survivors = await survivorsAmong(tmux, restoration.processes);
  await tmux.refresh();
  const server = tmux.server(old.ref) ?? tmux.absentServer(old.ref);
  return {
    server,
    after: stateOf(server),
    survivors: survivors ?? [],
    notRestored:
      survivors === undefined
        ? [...made, { what: 'survivors', detail: 'nobody could look at what lives on' }]
        : made,
  };
}

/** Gives what was not restored. */
async function startOn(
  tmux: MemberTmux,
  old: ServerView,
  installed: InstalledTmux,
  restoration: Restoration,
  ended: Ended,
): Promise<readonly NotRestored[]> {
  const { ref } = old;
  if (ended === 'taken') {
    tmux.writeThrough(ref, { kind: 'touched' });
    return [{ what: 'everything', detail: 'another server was started on its path meanwhile' }];
  }
  tmux.writeThrough(ref, { kind: 'ended' });
  await sweep(tmux, ref);
  const { payload, subjects } = restoration.plan;
  const binary = Buffer.from(installed.binary, 'utf8').toString('hex');
  let answer: HelperAnswer;
  try {
    answer = await tmux.helper.start(
      `start socket=${ref.pathHex} tmux=${binary} bytes=${payload.length}`,
      payload,
    );
  } catch (error) {
    if (!(error instanceof HelperError)) throw error;
    return await afterDoubt(tmux, old, error);
  }
  const started = startedRow(answer);
  if (started === undefined) {
    // Whether there is one all the same is for the look that follows.
    tmux.writeThrough(ref, { kind: 'touched' });
    const { code, detail } = answer.failure ?? {
      code: 'EMALFORMED',
      detail: 'no new server named',
    };
    return [{ what: 'everything', detail: `starting failed (${code}: ${escapeText(detail)})` }];
  }
  tmux.writeThrough(ref, { kind: 'started', ...started });
  const troubles = answer.rows.flatMap(([kind, line, what, detail]) =>
    kind === 'trouble' ? [trouble(subjects[Number(line) - 1], what, detail)] : [],
  );
  return [...restoration.notRestored, ...restoration.plan.notRestored, ...troubles];
}

function startedRow({ rows }: HelperAnswer) {
  const [, pid, ticks, start, version] = rows.find(([kind]) => kind === 'started') ?? [];
  if (pid === undefined || ticks === undefined || start === undefined) return undefined;
  if (![pid, ticks, start].every((field) => /^\d{1,20}$/.test(field))) return undefined;
  return {
    pid: Number(pid),
    ticks,
    tmuxStartTime: Number(start),
    version: version ? version : null,
  };
}

function trouble(
  subject: string | undefined,
  what: string | undefined,
  detail: string | undefined,
): NotRestored {
  const said = escapeText(detail ?? '');
  return {
    what: escapeText(what || 'step').slice(0, 100),
    // Of the whole, before the first line of the plan, where there is no subject.
    detail: (subject === undefined ? said : `${subject}: ${said}`).slice(0, 500),
  };
}

/** The helper went silent: whether there is a server now is seen by looking, or not known. */
async function afterDoubt(
  tmux: MemberTmux,
  old: ServerView,
  cause: HelperError,
): Promise<readonly NotRestored[]> {
  tmux.writeThrough(old.ref, { kind: 'touched' });
  const since = tmux.clock.now();
  const listing = await tmux.refresh();
  const now = tmux.server(old.ref);
  if (!wasLookedAt(listing, since) || (now !== undefined && now.status === 'UNKNOWN')) {
    throw new OutcomeUnknownError(
      'The old server has ended; whether a new one was started, and what it holds, could not be seen. Look again.',
      { cause },
    );
  }
  return [{ what: 'what was not reported', detail: `the helper went silent (${cause.message})` }];
}

/** The file stays behind after every kind of end; a new server would take it over, but it may not come. */
async function sweep(tmux: MemberTmux, ref: ServerRef): Promise<void> {
  try {
    await tmux.helper.act(`sweep socket=${ref.pathHex}`);
  } catch (error) {
    if (!(error instanceof HelperError)) throw error;
  }
}
