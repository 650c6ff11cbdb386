import { readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { CommandError } from '../command.ts';
import { accountStep, groupStep } from './accounts.ts';
import { directoryStep, fileStep, lookAt, settingsStep } from './files.ts';
import {
  account,
  commandFile,
  helper,
  helperAct,
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
import type { Step } from './step.ts';
import {
  command,
  restartPathUnit,
  restartServiceUnit,
  service,
  settings,
  sudoers,
} from './texts.ts';
import { isThere, must, tool } from './tool.ts';

/** All that an installation is made of, in the order in which it is made. */
export async function allSteps(): Promise<readonly Step[]> {
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
    fileStep({
      ...{ what: 'rule for sudo', path: sudoersFile, content: sudoers, mode: 0o440 },
      check: (beside) => must('visudo', '-c', '-f', beside),
      after: sudoReadsIt,
    }),
    await programStep(),
    unitStep(restartPath, restartPathUnit),
    unitStep(restartUnit, restartServiceUnit),
    unitStep(unit, service),
    fileStep({ what: 'command', path: commandFile, content: command, mode: 0o755 }),
  ];
}

/** As sudo itself understands all of its rules. */
async function sudoReadsIt(): Promise<void> {
  if ((await lookAt(sudoersFile)) === undefined) return;
  const read = await sudoRules(account);
  if (rulesIn(sudoers, account).every((rule) => read.includes(rule))) return;
  throw new CommandError(
    `sudo does not read ${sudoersFile}. /etc/sudoers needs the line: @includedir /etc/sudoers.d`,
  );
}

function unitStep(name: string, content: string): Step {
  return fileStep({
    ...{ what: 'unit', path: unitFile(name), content, mode: 0o644 },
    after: async () => {
      if (await isThere('systemd-analyze')) await verified(name);
      if (await systemdRuns()) await must('systemctl', 'daemon-reload');
    },
  });
}

/** What is wrong with other units is not ours to say. */
async function verified(name: string): Promise<void> {
  const path = unitFile(name);
  if ((await lookAt(path)) === undefined) return;
  const { exitCode, stderr } = await tool('systemd-analyze', 'verify', path);
  const faults = stderr.split('\n').filter((line) => line.includes(basename(path)));
  if (exitCode !== 0 && faults.length > 0)
    throw new CommandError(`systemd-analyze verify ${path}: ${faults.join(' ')}`);
}

export const systemdRuns = async () => (await lookAt('/run/systemd/system')) !== undefined;
