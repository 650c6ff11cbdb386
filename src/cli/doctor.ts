import { readConfig } from '../config.ts';
import { escapeText } from '../escape.ts';
import { type Command, exactly, readWords } from './command.ts';
import { accountChecks } from './doctor/accounts.ts';
import type { Check } from './doctor/check.ts';
import { installedChecks } from './doctor/installed.ts';
import { machineChecks } from './doctor/machine.ts';
import { reachChecks } from './doctor/reach.ts';
import { stateChecks } from './doctor/state.ts';

export const doctor: Command = {
  summary: 'check what the service needs',
  help: `muxwarden doctor [--json]

Looks at everything the service needs on this machine, with the settings of this environment, and
says for each whether it is right and what to do if not. Changes nothing. Exit status 1 when
something is not right. Run it as the user who runs the service.

  --json   one JSON object a line: name, ok, detail, remedy`,
  async run(words, io) {
    const { values, positionals } = readWords(words, { json: { type: 'boolean', default: false } });
    exactly(positionals);
    const config = readConfig(io.environment);
    let wrong = 0;
    for (const checks of [
      machineChecks,
      stateChecks,
      accountChecks,
      installedChecks,
      reachChecks,
    ]) {
      for await (const check of checks(config, io.environment)) {
        if (!check.ok) wrong += 1;
        io.out(values.json ? JSON.stringify(check) : line(check));
      }
    }
    if (!values.json) {
      io.note(
        wrong === 0
          ? 'All is well.'
          : `${wrong} ${wrong === 1 ? 'thing is' : 'things are'} not right.`,
      );
    }
    return wrong === 0 ? 0 : 1;
  },
};

function line({ name, ok, detail, remedy }: Check): string {
  const first = `${ok ? 'ok     ' : 'PROBLEM'}  ${name}: ${escapeText(detail)}`;
  return remedy === null ? first : `${first}\n         ${escapeText(remedy)}`;
}
