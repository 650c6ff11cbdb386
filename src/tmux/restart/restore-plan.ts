import { PlanWriter, type RestorePlan } from './plan-writer.ts';
import { isHook, isKeptBack, shownOption, whyKeptBack } from './restored-option.ts';
import { decodeHex, type ServerDescription } from './server-description.ts';
import { type RestoreSettings, SessionBuilder, shown } from './session-plan.ts';

/**
 * From what a server held to the plan by which the helper makes it again (`start` in
 * docs/helper-protocol.md).
 *
 * Order matters. Options and the global environment come before the first session, since they
 * decide indexes, sizes and what a shell is born with; hooks come last, so that making the windows
 * does not run the member's own commands; a session's environment comes before its windows. What
 * can't be restored by a plan is said at once; what tmux then refuses comes back as `trouble` with
 * a line number, of which `subjects` knows the meaning.
 */
export function restorePlan(
  description: ServerDescription,
  settings: RestoreSettings,
): RestorePlan {
  const writer = new PlanWriter();
  if (description.options !== null) writer.line('the configuration', 'clean', 1);
  writeOptions(writer, description, false);
  for (const { name, value, removed } of description.environment ?? []) {
    writer.line(`variable ${shown(name)}`, 'environment', name, value, removed ? 1 : 0);
  }
  const builder = new SessionBuilder(writer, description, settings);
  for (const session of description.sessions) builder.build(session);
  if (description.sessions.length === 0) writeFirstSession(writer);
  builder.finish();
  writeOptions(writer, description, true);
  notePrograms(writer, description, settings);
  return writer.plan();
}

/** The plan of a server that begins anew. */
export function emptyPlan(): RestorePlan {
  const writer = new PlanWriter();
  writeFirstSession(writer);
  return writer.plan();
}

/** tmux ends when it has no session. */
function writeFirstSession(writer: PlanWriter): void {
  writer.line('a first session', 'session', 's0', '', '', 80, 24, '');
}

function writeOptions(writer: PlanWriter, description: ServerDescription, hooks: boolean): void {
  for (const option of description.options ?? []) {
    if (isHook(option.name) !== hooks) continue;
    if (isKeptBack(option)) writer.lost('option', `${option.name}: ${whyKeptBack}`);
    else {
      const { scope, name, value, index } = option;
      writer.line(`${scope} option ${shownOption(option)}`, 'option', scope, name, value, index);
    }
  }
  if (description.options === null && !hooks) {
    writer.lost('options', 'they could not be read; the new server has its own');
    writer.lost('environment', 'it could not be read; the new server has that of a login');
  }
}

/** Programs, text and clients end with every tmux server; people are told which. */
function notePrograms(
  writer: PlanWriter,
  description: ServerDescription,
  { commands }: RestoreSettings,
): void {
  for (const { pane, command } of description.processes) {
    if (commands.has(pane) || isShell(decodeHex(command))) continue;
    writer.lost('process', `${placeOf(description, pane)}: ${shown(command)}`);
  }
  const panes = [...description.windows.values()].flatMap((window) => window.panes).length;
  writer.lost(
    'screen',
    `text and scrollback of ${panes === 1 ? '1 pane' : `${panes} panes`}, paste buffers, and key bindings made by hand`,
  );
}

/** Where a pane stood, as `main:0.1`: its id means another pane from now on. */
function placeOf({ sessions, windows }: ServerDescription, pane: number): string {
  for (const { name, links } of sessions) {
    for (const link of links) {
      const found = windows.get(link.window)?.panes.find((one) => one.pane === pane);
      if (found !== undefined) return `${shown(name)}:${link.index}.${found.index}`;
    }
  }
  return 'a pane';
}

function isShell(command: string): boolean {
  const [program = '', ...rest] = command.split(/[\s\0]+/).filter(Boolean);
  return (
    /^-?(?:.*\/)?(?:sh|ash|bash|dash|fish|ksh|mksh|csh|tcsh|zsh)$/.test(program) &&
    rest.every((word) => /^-[il]*$|^--login$/.test(word))
  );
}
