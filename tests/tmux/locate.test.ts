import { describe, expect, it } from 'vitest';
import { ListingUnknownError, NotFoundError, StaleGenerationError } from '../../src/tmux/errors.ts';
import { formatGeneration, parseGeneration } from '../../src/tmux/generation.ts';
import { locatePane } from '../../src/tmux/locate.ts';
import type { MemberListing, PaneRef } from '../../src/tmux/model.ts';
import {
  bootId,
  directory,
  hex,
  type ScriptedSnapshot,
  snapshotRows,
} from '../support/scripted-helper.ts';
import { scriptedListing } from '../support/scripted-listing.ts';

const generation = formatGeneration({ bootId, pid: 4242, ticks: '777' });
const ref: PaneRef = {
  memberId: 'alice',
  pathHex: hex(`${directory}/default`),
  generation,
  pane: 0,
};
const first = { servers: [{}] };

async function listed(...snapshots: readonly ScriptedSnapshot[]): Promise<MemberListing> {
  using world = scriptedListing();
  for (const snapshot of snapshots) {
    world.helper.always = () => snapshotRows(snapshot);
    await world.listing.refresh();
  }
  return world.listing.peek();
}

describe('a pane', () => {
  it('of the present generation is found with its server, and how to name it', async () => {
    expect(locatePane(await listed(first), ref)).toMatchObject({
      generation,
      target: { pathHex: ref.pathHex, pid: 4242, ticks: '777', tmuxStartTime: 1_767_225_600 },
      session: { name: 'main' },
      pane: { pane: 0 },
      sessions: [0],
    });
  });

  it('that the server does not list is not there', async () => {
    const listing = await listed(first);
    expect(() => locatePane(listing, { ...ref, pane: 9 })).toThrow(NotFoundError);
  });

  it('is unknown, not absent, while rows were left out', async () => {
    const listing = await listed({ servers: [{ extraRows: ['pane\tbroken'] }] });
    expect(() => locatePane(listing, { ...ref, pane: 9 })).toThrow(ListingUnknownError);
    expect(locatePane(listing, ref).pane.pane).toBe(0);
  });

  it('of another generation is refused with both, also where the server does not answer', async () => {
    for (const code of ['OK', 'TIMEOUT', 'STOPPED', 'ETOOBIG']) {
      const listing = await listed(first, { servers: [{ pid: 999, ticks: '888', code }] });
      let error: unknown;
      try {
        locatePane(listing, ref);
      } catch (thrown) {
        error = thrown;
      }
      expect(error).toBeInstanceOf(StaleGenerationError);
      expect(error).toMatchObject({ expected: generation, current: `${bootId}:999:888` });
    }
  });

  it('of a server that ended, or whose socket is gone, is of an earlier generation', async () => {
    for (const servers of [[{ code: 'EDEAD' }], []]) {
      const listing = await listed(first, { servers });
      expect(() => locatePane(listing, ref)).toThrow(StaleGenerationError);
    }
  });

  it('of a member that can’t be looked at is unknown', async () => {
    const closed = { servers: [], directory: { code: 'EACCES', detail: 'denied' } };
    const listing = await listed(closed);
    expect(() => locatePane(listing, ref)).toThrow(ListingUnknownError);
  });

  it('that was known before its directory closed is found as long as its rows are', async () => {
    const closed = { servers: [], directory: { code: 'EACCES', detail: 'denied' } };
    expect(locatePane(await listed(first, closed), ref).pane.pane).toBe(0);
  });

  it('of a server that lost its path is found by its generation', async () => {
    const taken = { servers: [{ pid: 999, ticks: '888' }, { code: 'ETAKEN' }] };
    const listing = await listed(first, taken);
    expect(locatePane(listing, ref).server.reason).toBe('PATH_TAKEN');
    expect(() => locatePane(listing, { ...ref, generation: `${bootId}:1:1` })).toThrow(
      StaleGenerationError,
    );
  });
});

describe('a generation', () => {
  it('is read back as it was written, and nothing else is one', () => {
    expect(parseGeneration(generation)).toEqual({ bootId, pid: 4242, ticks: '777' });
    for (const text of [
      '',
      'a:b:c',
      `${bootId}:0:1`,
      `${bootId}:1`,
      `${generation}:`,
      ` ${generation}`,
    ]) {
      expect(parseGeneration(text)).toBeUndefined();
    }
  });
});
