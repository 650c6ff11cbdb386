import { z } from 'zod';
import type { Json } from '../audit/audit.ts';
import type {
  NotRestored,
  RestartServerRequest,
  RestartServerResult,
  ServerState,
  Survivor,
} from '../tmux/acts.ts';
import type { PaneRef } from '../tmux/model.ts';
import type { Report } from './act-record.ts';
import { type AuditEventNode, auditEventNode } from './audit-event.ts';
import type { Context } from './context.ts';
import type { ServerNode } from './nodes.ts';
import { recorded } from './recorded.ts';
import { badInput } from './request-error.ts';
import { onServer, type ServerAct, type ServerActError, serverErrors } from './server-act.ts';
import { serverNow } from './server-now.ts';
import type { Named } from './user-error.ts';

export interface RestartTmuxServer extends ServerAct {
  readonly onlyIfIdle: boolean;
  readonly continueStopped: boolean;
  readonly force: boolean;
  readonly restore: RestartServerRequest['restore'];
  readonly restoreCommands: readonly {
    readonly pane: PaneRef;
    readonly command: readonly string[];
  }[];
}

export interface RestartTmuxServerPayloadValue {
  readonly __typename: 'RestartTmuxServerPayload';
  readonly server: ServerNode;
  readonly auditEvent: AuditEventNode | null;
  readonly survivors: readonly Survivor[];
  readonly notRestored: readonly NotRestored[];
}

/** The errors of the result's union. */
export const restartServerErrors = [...serverErrors, 'TmuxServerBusyError'] as const;
export type RestartTmuxServerError = ServerActError | Named<'TmuxServerBusyError'>;

/** What is kept of a restart for its key. */
export const restartAnswer = z.object({
  survivors: z.array(z.object({ pid: z.int(), command: z.string() })),
  notRestored: z.array(z.object({ what: z.string(), detail: z.string() })),
});

const mostCommands = 500;

/** Ends a tmux server and starts it again with the installed tmux. */
export async function restartTmuxServer(
  context: Context,
  input: RestartTmuxServer,
): Promise<RestartTmuxServerPayloadValue | RestartTmuxServerError> {
  const { server, expectedGeneration, restoreCommands } = input;
  const { onlyIfIdle, continueStopped, force, restore } = input;
  const options = { onlyIfIdle, continueStopped, force, restore };
  const commands = restoreCommands.map(({ pane, command }) => ({ pane: pane.pane, command }));
  const act = onServer(context, input, 'RESTART_TMUX_SERVER', options);
  const end = await recorded(context, {
    ...act,
    errors: restartServerErrors,
    mutation: 'restartTmuxServer',
    what: 'restarting this tmux server',
    input: { act: act.input, commands },
    facts: {
      ...act.facts,
      restoreCommands: commands.length,
      ...(commands.length === 0 ? {} : digestOf(context, commands)),
    },
    check: () => {
      act.check();
      checkCommands(input);
    },
    prepare: (operationId) =>
      context.fleet.prepareRestartServer({
        ...{ server, expectedGeneration, ...options, restoreCommands, operationId },
      }),
    report: restartReport,
  });
  if (end.kind === 'refused') return end.error;
  return {
    __typename: 'RestartTmuxServerPayload',
    server: await serverNow(context, server),
    auditEvent: end.auditEvent && auditEventNode(end.auditEvent),
    ...restartAnswer.parse(end.answer),
  };
}

export function restartReport({ after, survivors, notRestored }: RestartServerResult): Report {
  return {
    ...outcomeOf(after, notRestored),
    after,
    survivors,
    answer: answerOf(survivors, notRestored),
  };
}

/** The old server has ended, that is seen; what stands in its place decides. */
function outcomeOf(
  after: ServerState,
  notRestored: readonly NotRestored[],
): Pick<Report, 'outcome' | 'message'> {
  const lost = notRestored.find(({ what }) => what === 'everything');
  if (lost !== undefined || after.status === 'ABSENT')
    return {
      outcome: 'FAILED',
      message: `The server ended, but it was not started again${lost ? `: ${lost.detail}` : ''}.`,
    };
  if (after.generation === null)
    return {
      outcome: 'UNKNOWN',
      message: 'The server ended; what is there now could not be seen.',
    };
  return { outcome: 'SUCCEEDED', message: null };
}

function answerOf(survivors: readonly Survivor[], notRestored: readonly NotRestored[]): Json {
  return {
    survivors: survivors.map(({ pid, command }) => ({ pid, command })),
    notRestored: notRestored.map(({ what, detail }) => ({ what, detail })),
  };
}

/** Command lines may hold secrets: the record has their length and a keyed digest. */
function digestOf(context: Context, commands: Json) {
  const text = JSON.stringify(commands);
  return {
    restoreCommandsLength: Buffer.byteLength(text),
    restoreCommandsDigest: context.audit.digest(text),
  };
}

function checkCommands({
  server,
  expectedGeneration,
  restore,
  restoreCommands,
}: RestartTmuxServer): void {
  if (restoreCommands.length === 0) return;
  if (restore !== 'LAYOUT')
    throw badInput('input.restoreCommands', 'needs `restore: LAYOUT`, or no pane is restored.');
  if (restoreCommands.length > mostCommands)
    throw badInput('input.restoreCommands', `holds ${mostCommands} commands at most.`);
  const seen = new Set<number>();
  for (const [index, { pane, command }] of restoreCommands.entries()) {
    const argument = `input.restoreCommands[${index}]`;
    if (
      pane.memberId !== server.memberId ||
      pane.pathHex !== server.pathHex ||
      pane.generation !== expectedGeneration
    )
      throw badInput(`${argument}.paneId`, 'is not a pane of this server in this generation.');
    if (seen.has(pane.pane)) throw badInput(`${argument}.paneId`, 'was given a command before.');
    seen.add(pane.pane);
    if (command.length === 0 || command[0] === '')
      throw badInput(`${argument}.command`, 'needs a program and its arguments.');
    if (command.some((word) => /\0/.test(word) || !word.isWellFormed()))
      throw badInput(`${argument}.command`, 'holds a character that no command line can have.');
  }
}
