import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { directory, hex, snapshotRows } from '../../support/scripted-helper.ts';
import { type ScriptedListing, scriptedListing } from '../../support/scripted-listing.ts';

// What one look tells is taken in server by server; the event loop is not held meanwhile.

const servers = Array.from({ length: 10 }, (_, at) => ({
  path: `${directory}/s${at}`,
  pid: 4_000 + at,
}));
const states = ({ listing }: ScriptedListing) =>
  (listing.peek().servers ?? []).map(({ status }) => status);
const all = (status: string) => servers.map(() => status);

/** A look whose answer is there, while each glance at the clock takes so long as a turn may. */
function slowLook(): { readonly world: ScriptedListing; readonly read: Promise<unknown> } {
  const world = scriptedListing();
  const still = world.clock.monotonic.bind(world.clock);
  let glances = 0;
  world.clock.monotonic = () => {
    glances += 1;
    return still() + glances;
  };
  const read = world.listing.read();
  world.helper.answer(snapshotRows({ servers, look: 'aa' }));
  return { world, read };
}

describe('a look that takes long to be taken in', () => {
  it('lets others have their turn after each server, and is shown as a whole', async () => {
    const { world, read } = slowLook();
    using _ = world;
    let turns = 0;
    let over = false;
    void read.then(() => {
      over = true;
    });
    while (!over) {
      expect(states(world)).toEqual([]);
      await turn();
      turns += 1;
    }
    expect(turns).toBeGreaterThan(servers.length);
    expect(states(world)).toEqual(all('RUNNING'));
  });

  it('tells nothing of a server on which we acted in between', async () => {
    const { world, read } = slowLook();
    using _ = world;
    await turn();
    await turn();
    for (const { path } of [servers[0], servers.at(-1)].filter((each) => each !== undefined)) {
      world.listing.writeThrough({ memberId: 'alice', pathHex: hex(path) }, { kind: 'ended' });
    }
    await read;
    expect(states(world)).toEqual(['ABSENT', ...all('RUNNING').slice(2), 'ABSENT']);
    expect(world.helper.requests.at(-1)).not.toMatch(/ held=/);
  });

  it('is given up when the listing is closed', async () => {
    const { world } = slowLook();
    await turn();
    world.listing[Symbol.dispose]();
    for (let turns = 0; turns < 20; turns += 1) await turn();
    expect(world.listing.peek().servers).toBeNull();
    expect(world.rings).toEqual([]);
  });
});
