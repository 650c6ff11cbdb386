import { stat } from 'node:fs/promises';
import { userInfo } from 'node:os';
import type { Config } from '../../config.ts';
import { isSystemError } from '../../system-error.ts';
import { bad, type Check, good } from './check.ts';

/** Where the tmux servers of the user who runs this are looked for; a member's own in system mode. */
export async function* accountChecks(config: Config): AsyncIterable<Check> {
  const uid = process.geteuid?.() ?? 0;
  yield uid === 0
    ? bad(
        'user',
        'root: what the service may do, whoever breaks into it may do',
        'Run muxwarden as an ordinary user.',
      )
    : good('user', `id ${uid}`);
  if (config.mode === 'system') return;
  for (const pattern of config.socketDirs) yield await socketDirectory(pattern, uid);
}

async function socketDirectory(pattern: string, uid: number): Promise<Check> {
  const { username, homedir } = userInfo();
  const path = pattern
    .replaceAll('$UID', String(uid))
    .replaceAll('$USER', username)
    .replaceAll('$HOME', homedir);
  const name = `socket directory ${path}`;
  try {
    const found = await stat(path);
    if (!found.isDirectory()) {
      return bad(name, 'is no directory', 'Correct MUXWARDEN_SOCKET_DIRS.');
    }
    if (found.uid !== uid || (found.mode & 0o022) !== 0) {
      return bad(
        name,
        'others may write in it, so nothing in it is believed',
        `Give it to your user alone: chown, chmod 700 ${path}`,
      );
    }
    return good(name, 'is yours alone');
  } catch (cause) {
    return isSystemError(cause, 'ENOENT')
      ? good(name, 'not there yet; the first tmux makes it')
      : bad(
          name,
          `can not be looked at: ${cause instanceof Error ? cause.message : cause}`,
          'Correct MUXWARDEN_SOCKET_DIRS, or its mode.',
        );
  }
}
