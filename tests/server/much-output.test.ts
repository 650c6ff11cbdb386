import { join } from 'node:path';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';
import { transports } from '../support/subscribed.ts';

const mib = 64;
const program = join(import.meta.dirname, '../support/much-output.ts');

describe.each(transports)('over %s', (transport) => {
  it('what was made of events that are over waits for no collection of the whole heap', async () => {
    const { stdout } = await execa(process.execPath, [
      ...['--max-semi-space-size=2', program],
      ...[transport, String(mib)],
    ]);
    const { read, most } = JSON.parse(stdout);
    expect(read).toBeGreaterThan(mib << 20);
    // Each of three copies of a piece piled up to 64 MiB, where old tables held them.
    expect(most / 1_048_576).toBeLessThan(32);
  });
});
