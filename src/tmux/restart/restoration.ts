import type { HeldSession, NotRestored, RestartServerRequest } from '../acts.ts';
import { NotFoundError, StaleGenerationError } from '../errors.ts';
import { HelperError, serverWords } from '../member-helper.ts';
import type { InstalledTmux, MemberTmux } from '../member-tmux.ts';
import type { Reason, ServerView } from '../model.ts';
import { heldSessions } from './held-sessions.ts';
import { listedDescription } from './listed-description.ts';
import type { RestorePlan } from './plan-writer.ts';
import { emptyPlan, restorePlan } from './restore-plan.ts';
import { DescriptionError, readDescription, type ServerDescription } from './server-description.ts';
import type { ProcessId } from './survivors.ts';

/** What a restart makes again, and what it already knows that it can't. */
export interface Restoration {
  readonly plan: RestorePlan;
  readonly notRestored: readonly NotRestored[];
  /** What lives in the panes now, to see later what of it lives on. */
  readonly processes: readonly ProcessId[];
  readonly holds: readonly HeldSession[] | null;
}

export type Described =
  | { readonly description: ServerDescription }
  | { readonly failure: string; readonly reason?: Reason | null };

const describeMs = 4_000;

/** Asks what the server holds. Never throws for a server that does not tell. */
export async function askDescription(tmux: MemberTmux, server: ServerView): Promise<Described> {
  if (server.tmuxStartTime === null) return { failure: 'it has never answered' };
  try {
    const answer = await tmux.helper.ask(`describe ${serverWords(tmux.target(server))}`, {
      deadlineMs: describeMs,
    });
    if (answer.failure !== null) {
      return { failure: `${answer.failure.code}: ${answer.failure.detail}` };
    }
    return { description: readDescription(answer.rows) };
  } catch (error) {
    if (error instanceof HelperError) return { failure: error.message, reason: error.reason };
    if (error instanceof DescriptionError) {
      return { failure: error.message, reason: 'MALFORMED_ANSWER' };
    }
    throw error;
  }
}

/**
 * From what was read, or from the last listing where nothing could be. `described` is undefined when
 * nothing is to be restored.
 */
export function restorationOf(
  server: ServerView,
  described: Described | undefined,
  request: RestartServerRequest,
  installed: InstalledTmux,
): Restoration {
  const commands = new Map(
    request.restoreCommands.map(({ pane, command }) => [pane.pane, command] as const),
  );
  const notRestored: NotRestored[] = [];
  if ((server.attachedClients ?? 0) > 0) {
    notRestored.push({ what: 'clients', detail: `${server.attachedClients} attached` });
  }
  const description = described === undefined ? undefined : descriptionOf(server, described);
  if (described !== undefined && 'failure' in described) {
    const { observedAt } = server.listing;
    const from =
      description === undefined || observedAt === null
        ? 'nothing was known of it'
        : `restored from the listing of ${observedAt.toISOString()}`;
    notRestored.push({
      what: description === undefined ? 'everything' : 'changes since the last listing',
      detail: `it could not be asked what it holds (${described.failure}); ${from}`,
    });
  }
  const panes = new Set(
    [...(description?.windows.values() ?? [])].flatMap(({ panes }) =>
      panes.map(({ pane }) => pane),
    ),
  );
  for (const pane of commands.keys()) {
    if (!panes.has(pane)) notRestored.push({ what: 'command', detail: `%${pane} is not restored` });
  }
  const processes = description?.processes.filter(({ ticks }) => ticks !== '') ?? [];
  const holds = heldSessions(server, description);
  if (description === undefined) return { plan: emptyPlan(), notRestored, processes, holds };
  const plan = restorePlan(description, {
    commands,
    fromVersion: server.version ?? installed.version,
    toVersion: installed.version,
  });
  return { plan, notRestored, processes, holds };
}

/**
 * @throws NotFoundError, StaleGenerationError, RangeError for a command that can't be meant for this
 * server
 */
export function checkCommands(server: ServerView, request: RestartServerRequest): void {
  const known = server.sessions?.flatMap(({ windows }) => windows).flatMap(({ panes }) => panes);
  for (const { pane, command } of request.restoreCommands) {
    if (pane.memberId !== server.ref.memberId || pane.pathHex !== server.ref.pathHex) {
      throw new NotFoundError('A pane of restoreCommands');
    }
    if (pane.generation !== request.expectedGeneration) {
      throw new StaleGenerationError(pane.generation, server.generation);
    }
    if (known !== undefined && !known.some((one) => one.pane === pane.pane)) {
      throw new NotFoundError('A pane of restoreCommands');
    }
    if (command.length === 0 || command[0] === '') {
      throw new RangeError('A command of restoreCommands names no program.');
    }
    if (command.some((word) => word.includes('\0'))) {
      throw new RangeError('A command of restoreCommands holds a NUL byte.');
    }
  }
}

function descriptionOf(server: ServerView, described: Described): ServerDescription | undefined {
  return 'description' in described ? described.description : listedDescription(server);
}
