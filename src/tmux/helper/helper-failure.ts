import { escapeText } from '../../escape.ts';
import { HelperError } from '../member-helper.ts';
import type { Command, Exit } from './process.ts';

/** Why a helper that ended without an answer did so, as far as its exit and its words tell. */
export function helperFailure(command: Command, exit: Exit, stderr: string): HelperError {
  const bySudo = command.file === 'sudo';
  if (exit.startFailure === 'ENOENT') {
    return bySudo
      ? new HelperError('HELPER_FAILED', 'sudo is not installed. Install it, or use local mode')
      : new HelperError(
          'HELPER_MISSING',
          `${command.file} (or the perl that runs it) is not there. Install it, or set MUXWARDEN_HELPER`,
        );
  }
  if (exit.startFailure !== null) {
    return new HelperError(
      'HELPER_FAILED',
      `${command.file} can't be started (${exit.startFailure})`,
    );
  }
  const words = escapeText(stderr.trim()).slice(0, 300);
  if (bySudo && exit.code === 1) return sudoRefusal(words);
  const known = exit.code === null ? undefined : exitCodes[exit.code];
  const how = exit.signal === null ? `exit status ${exit.code}` : exit.signal;
  return new HelperError(
    'HELPER_FAILED',
    `the helper ended without an answer (${known ?? how})${words ? `: ${words}` : ''}`,
  );
}

const exitCodes: Readonly<Record<number, string>> = {
  10: 'it was asked what it does not know; is it of the same version as this service?',
  11: 'it refuses to run as root through sudo',
  12: 'it lost whoever started it',
};

function sudoRefusal(words: string): HelperError {
  const said = words ? `sudo says: ${words}` : 'sudo refused without a word';
  if (/command not found|No such file/.test(words)) {
    return new HelperError('HELPER_MISSING', `${said}. Install the helper`);
  }
  if (
    /password is required|terminal is required|not allowed|not in the sudoers|may not run/i.test(
      words,
    )
  ) {
    return new HelperError(
      'EACCES',
      `${said}. Is the user in the members' group, and the sudoers rule whole?`,
    );
  }
  return new HelperError('HELPER_FAILED', said);
}
