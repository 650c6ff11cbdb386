import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { CommandError, type Io } from '../command.ts';
import { changeable } from './files.ts';
import { readManifest, withEntry, withoutEntry, writeManifest } from './manifest.ts';
import { hooksHome, root, settingsFile, sudoersFile, unit, unitFile } from './places.ts';
import { dropOldProgram } from './program.ts';
import { keyOf, type Made, type Step } from './step.ts';
import { stepsWith, systemdRuns } from './steps.ts';
import { isThere } from './tool.ts';

/**
 * Everything is looked at before anything is changed. A step that fails takes back what this run did,
 * so there is the old state or the new one.
 */

interface Planned {
  readonly step: Step;
  /** Null: as it should be. */
  readonly doing: string | null;
}

/** @throws CommandError: the machine is as it was */
export async function install(
  io: Io,
  { dryRun, provisioning }: { readonly dryRun: boolean; readonly provisioning: boolean },
): Promise<void> {
  await refuseUnfit();
  const before = await readManifest();
  const planned: Planned[] = [];
  for (const step of await stepsWith(provisioning, before)) {
    const own = before.find((made) => keyOf(made) === keyOf(step.made));
    planned.push({ step, doing: await step.look(own) });
  }
  if (dryRun) return say(io, planned);
  await carryOut(io, planned, before);
  await dropOldProgram();
  const changed = planned.filter(({ doing }) => doing !== null).length;
  io.out(
    changed === 0
      ? 'Nothing was changed: all of it is as it should be.'
      : `Installed. ${(await systemdRuns()) ? `Start it: systemctl enable --now ${unit}` : 'No systemd runs here: docs/deployment.md says how to start it without.'}`,
  );
  if (changed > 0)
    io.out('Then add members (muxwarden members add --help) and look: muxwarden doctor');
}

async function refuseUnfit(): Promise<void> {
  if (process.geteuid?.() !== 0)
    throw new CommandError('install-system is for root. Run it with sudo. Nothing was changed.');
  const needed = {
    sudo: 'sudo',
    visudo: 'sudo',
    useradd: 'passwd',
    groupadd: 'passwd',
    perl: 'perl',
  };
  for (const [file, packageName] of Object.entries(needed)) {
    if (!(await isThere(file)))
      throw new CommandError(
        `There is no ${file} here. Install it (Debian: apt-get install ${packageName}). Nothing was changed.`,
      );
  }
  for (const path of [root, sudoersFile, settingsFile, hooksHome, unitFile(unit)]) {
    const open = await changeable(dirname(path));
    if (open !== undefined)
      throw new CommandError(
        `Others than root can change ${open}, and so what is below. Close it: chown root:root ${open}; chmod go-w ${open}. Nothing was changed.`,
      );
  }
}

function say(io: Io, planned: readonly Planned[]): void {
  for (const { step, doing } of planned)
    io.out(doing === null ? `as it is     ${step.what}` : `would be ${doing}: ${step.what}`);
  io.out('Nothing was changed: this was a dry run.');
}

async function carryOut(
  io: Io,
  planned: readonly Planned[],
  before: readonly Made[],
): Promise<void> {
  let entries = before;
  const undo: { readonly what: string; readonly back: () => Promise<unknown> }[] = [];
  const note = async (made: Made, change = withEntry) => {
    const noted = change(entries, made);
    if (isDeepStrictEqual(noted, entries)) return;
    entries = noted;
    await writeManifest(entries);
  };
  for (const { step, doing } of planned) {
    const { what, made, takes } = step;
    const own = entries.some((each) => keyOf(each) === keyOf(made));
    try {
      if (doing === null) {
        if (own && made.kind !== 'settings') await note(made);
        io.out(`as it is  ${what}`);
        continue;
      }
      const isRoot = made.kind === 'directory' && made.path === root;
      if (doing === 'made' && !isRoot) await note(made);
      undo.push({ what, back: await step.apply() });
      if (doing === 'made' || own) await note(made, takes ? withoutEntry : withEntry);
      io.out(`${doing.padEnd(8)}  ${what}`);
    } catch (cause) {
      const failed = await takeBack(undo, before);
      const said = cause instanceof Error ? cause.message : String(cause);
      throw new CommandError(
        `${what}: ${said}${/[.!?]$/.test(said) ? '' : '.'} ${failed.length === 0 ? 'Everything is as it was before.' : `Could not be taken back: ${failed.join('; ')}.`}`,
        { cause },
      );
    }
  }
}

async function takeBack(
  undo: readonly { readonly what: string; readonly back: () => Promise<unknown> }[],
  before: readonly Made[],
): Promise<readonly string[]> {
  const failed: string[] = [];
  // The list is in the folder that was made first.
  const list = before.length === 0 ? [{ what: 'list', back: () => writeManifest(before) }] : [];
  const [first, ...rest] = undo;
  const order = [...rest.reverse(), ...list, ...(first ? [first] : [])];
  for (const { what, back } of order) {
    try {
      await back();
    } catch (cause) {
      failed.push(`${what} (${cause instanceof Error ? cause.message : cause})`);
    }
  }
  if (before.length > 0) await writeManifest(before);
  return failed;
}
