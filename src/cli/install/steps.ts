import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CommandError } from '../command.ts';
import { accountStep, groupStep } from './accounts.ts';
import { directoryStep, fileStep, lookAt, settingsStep, withoutStep } from './files.ts';
import { hooksStep } from './hook-folders.ts';
import {
  account,
  commandFile,
  helper,
  helperAct,
  hooksPath,
  hooksUnit,
  provision,
  provisionDropIn,
  provisionRules,
  provisionSettingsFile,
  provisionSudoersFile,
  restartPath,
  restartUnit,
  root,
  settingsFile,
  sudoersFile,
  unit,
  unitFile,
} from './places.ts';
import { rulesIn, sudoRules } from './privileges.ts';
import { ownRoot, programStep } from './program.ts';
import { stateStep } from './state-home.ts';
import { keyOf, type Made, type Step } from './step.ts';
import {
  command,
  hooksPathUnit,
  hooksServiceUnit,
  provisionCapabilities,
  provisionRulesText,
  provisionSettings,
  provisionSudoers,
  restartPathUnit,
  restartServiceUnit,
  service,
  settings,
  sudoers,
} from './texts.ts';
import { isThere, must, tool } from './tool.ts';

/** All that every installation is made of, in the order in which it is made. */
async function allSteps(): Promise<readonly Step[]> {
  const memberHelper = await readFile(join(ownRoot, 'libexec/muxwarden-member'));
  const executable = { content: memberHelper, mode: 0o755, ours: true } as const;
  return [
    directoryStep(root),
    groupStep,
    accountStep,
    directoryStep(dirname(helper)),
    fileStep({ what: 'helper', path: helper, ...executable }),
    fileStep({ what: 'helper', path: helperAct, ...executable }),
    directoryStep(dirname(settingsFile)),
    settingsStep('settings', settingsFile, settings),
    stateStep,
    hooksStep,
    sudoStep(sudoersFile, sudoers),
    await programStep(),
    unitStep(restartPath, restartPathUnit),
    unitStep(restartUnit, restartServiceUnit),
    unitStep(hooksPath, hooksPathUnit),
    unitStep(hooksUnit, hooksServiceUnit),
    unitStep(unit, service),
    fileStep({ what: 'command', path: commandFile, content: command, mode: 0o755 }),
  ];
}

/** The program for accounts: its rule comes when all that it allows is in place. */
async function provisioningSteps(): Promise<readonly Step[]> {
  const content = await readFile(join(ownRoot, 'libexec/muxwarden-provision'));
  const what = 'program for accounts';
  return [
    fileStep({ what, path: provision, content, mode: 0o755, ours: true }),
    settingsStep('its rules', provisionRules, provisionRulesText),
    directoryStep(dirname(unitFile(provisionDropIn))),
    unitStep(provisionDropIn, provisionCapabilities, unit),
    sudoStep(provisionSudoersFile, provisionSudoers),
    fileStep({
      ...{ what: 'setting for it', path: provisionSettingsFile, content: provisionSettings },
      mode: 0o644,
    }),
  ];
}

/** With it, or without what an earlier installation made of it: then the rule goes before all else. */
export async function stepsWith(
  provisioning: boolean,
  before: readonly Made[],
): Promise<readonly Step[]> {
  const optional = await provisioningSteps();
  if (provisioning) return [...(await allSteps()), ...optional];
  const gone = optional.filter(
    ({ made }) => 'sha256' in made && before.some((each) => keyOf(each) === keyOf(made)),
  );
  return [...gone.toReversed().map(withoutStep), ...(await allSteps())];
}

function sudoStep(path: string, content: string): Step {
  return fileStep({
    ...{ what: 'rule for sudo', path, content, mode: 0o440 },
    check: (beside) => must('visudo', '-c', '-f', beside),
    after: () => sudoReads(path, content),
  });
}

/** As sudo itself understands all of its rules. */
async function sudoReads(path: string, content: string): Promise<void> {
  if ((await lookAt(path)) === undefined) return;
  const read = await sudoRules(account);
  if (rulesIn(content, account).every((rule) => read.includes(rule))) return;
  throw new CommandError(
    `sudo does not read ${path}. /etc/sudoers needs the line: @includedir /etc/sudoers.d`,
  );
}

/** @param of the unit that it is a part of */
function unitStep(name: string, content: string, of = name): Step {
  return fileStep({
    ...{ what: 'unit', path: unitFile(name), content, mode: 0o644 },
    after: async () => {
      if (await isThere('systemd-analyze')) await verified(of);
      if (await systemdRuns()) await must('systemctl', 'daemon-reload');
    },
  });
}

/** What is wrong with other units is not ours to say. */
async function verified(name: string): Promise<void> {
  const path = unitFile(name);
  if ((await lookAt(path)) === undefined) return;
  const { exitCode, stderr } = await tool('systemd-analyze', 'verify', path);
  const faults = stderr.split('\n').filter((line) => line.includes(name));
  if (exitCode !== 0 && faults.length > 0)
    throw new CommandError(`systemd-analyze verify ${path}: ${faults.join(' ')}`);
}

export const systemdRuns = async () => (await lookAt('/run/systemd/system')) !== undefined;
