import { readFile } from 'node:fs/promises';
import { changeable, lookAt } from '../install/files.ts';
import { bad, type Check, good, looked } from './check.ts';

export const again = 'muxwarden install-system';

/** Of root's, with this mode and content, where nobody else can put another. */
export function plainFile(
  kind: string,
  path: string,
  mode: number,
  content?: string,
  by = again,
): Promise<Check> {
  const name = `${kind} ${path}`;
  return looked(name, path, () => fileCheck({ name, kind, path, mode, content, by }));
}

interface Wanted {
  readonly name: string;
  readonly kind: string;
  readonly path: string;
  readonly mode: number;
  readonly content: string | undefined;
  readonly by: string;
}

async function fileCheck({ name, kind, path, mode, content, by }: Wanted): Promise<Check> {
  const found = await lookAt(path);
  if (found === undefined) return bad(name, 'is not there', `Make it, as root: ${by}`);
  if (!found.isFile()) return bad(name, 'is no plain file', `Move it away, then, as root: ${by}`);
  const open = await changeable(path);
  if (open !== undefined)
    return bad(
      name,
      `${open} can be changed by others than root`,
      `As root: chown root:root ${open}; chmod go-w ${open}`,
    );
  const wanted = mode.toString(8).padStart(4, '0');
  const bits = (found.mode & 0o7777).toString(8).padStart(4, '0');
  if (bits !== wanted)
    return bad(name, `has mode ${bits}, not ${wanted}`, `As root: chmod ${wanted} ${path}`);
  if (content !== undefined && (await readFile(path, 'utf8')) !== content)
    return bad(
      name,
      'is not the one of this version',
      `As root: ${by}. If that says it was changed since, move it away first${kind === 'unit' ? '; what is to differ goes into a drop-in (systemctl edit)' : ''}.`,
    );
  return good(
    name,
    `${content === undefined ? '' : 'is that of this version, '}root's, mode ${bits}`,
  );
}
