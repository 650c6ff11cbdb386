import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';

/**
 * What a test needs of the machine. Used as `describe.skipIf(lacks('root', 'sudo'))`: what is missing
 * is named once for each file, the tests are reported as skipped, and in CI that fails the run.
 */
export function lacks(...needs: readonly string[]): boolean {
  const missing = needs.filter((need) =>
    need === 'root' ? process.getuid?.() !== 0 : !program(need),
  );
  if (missing.length > 0) console.warn(`not tested here, for want of: ${missing.join(', ')}`);
  return missing.length > 0;
}

function program(name: string): boolean {
  return `${process.env.PATH}:/usr/sbin:/sbin`.split(':').some((directory) => {
    try {
      accessSync(join(directory, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
