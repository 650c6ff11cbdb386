import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * A folder for the front of a PATH, with a `curl` that refuses `secrets` (patterns of the shell) among its
 * arguments: everybody on the machine can read those.
 */
export async function watchedCurl(folder: string, ...secrets: readonly string[]): Promise<string> {
  const patterns = secrets.map((secret) => `*${secret}*`).join(' | ');
  await writeFile(
    join(folder, 'curl'),
    `#!/bin/sh
case "$*" in ${patterns}) echo "a secret is among the arguments of curl" >&2; exit 64 ;; esac
PATH=\${PATH#*:}
exec curl "$@"
`,
    { mode: 0o755 },
  );
  return `${folder}:${process.env.PATH}`;
}
