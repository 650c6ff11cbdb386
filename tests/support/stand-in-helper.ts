import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A real process in the helper's place that misbehaves as the test says. */
export interface StandInHelper extends AsyncDisposable {
  readonly path: string;
  /** Pids of all that were started, in order. */
  started(): Promise<readonly number[]>;
}

/**
 * `script` is sh, run for each process; `$1` is the verb. It has `answer TEXT`, which reads a request
 * and gives a whole answer with that one row, and `request`, which only reads one.
 */
export async function standInHelper(script: string): Promise<StandInHelper> {
  const directory = await mkdtemp(join(tmpdir(), 'mw-'));
  const path = join(directory, 'helper');
  const log = join(directory, 'started');
  await writeFile(log, '');
  await writeFile(
    path,
    `#!/bin/sh
echo $$ >> '${log}'
request() { read -r sequence name rest; }
answer() {
  request || exit 0
  printf 'begin\\t%s\\t%s\\n%s\\nend\\t%s\\t1\\t%s\\n' "$sequence" "$name" "$1" "$sequence" $((\${#1} + 1))
}
${script}
`,
  );
  await chmod(path, 0o755);
  return {
    path,
    async started() {
      return (await readFile(log, 'utf8')).split('\n').filter(Boolean).map(Number);
    },
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
  };
}
