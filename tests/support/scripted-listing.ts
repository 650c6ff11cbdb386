import { readConfig } from '../../src/config.ts';
import { Edition } from '../../src/tmux/listing/edition.ts';
import { Listing } from '../../src/tmux/listing/listing.ts';
import { FakeClock, settle } from './fake-clock.ts';
import {
  directory,
  ScriptedHelper,
  type ScriptedSnapshot,
  snapshotRows,
} from './scripted-helper.ts';

export interface ScriptedListing extends Disposable {
  readonly clock: FakeClock;
  readonly helper: ScriptedHelper;
  readonly listing: Listing;
  /** Monotonic times at which followers were woken. */
  readonly rings: readonly number[];
  readonly ownClientPids: Set<number>;
  /** As of a fleet that has this listing alone. */
  edition(): number;
  /** Answers the request that waits, and lets what follows from it happen. */
  answer(snapshot?: ScriptedSnapshot): Promise<void>;
}

/** A listing over a scripted helper and a clock that the test moves. */
export function scriptedListing(
  environment: Readonly<Record<string, string>> = {},
  start = 'start',
): ScriptedListing {
  const clock = new FakeClock();
  const helper = new ScriptedHelper();
  const rings: number[] = [];
  const ownClientPids = new Set<number>();
  const config = readConfig({
    HOME: '/nowhere',
    MUXWARDEN_SOCKET_DIRS: directory,
    ...environment,
  });
  const edition = new Edition();
  const listing = new Listing({
    memberId: 'alice',
    helper,
    clock,
    config,
    start,
    installedVersion: () => '3.5a',
    ownClientPids: () => ownClientPids,
    edition,
    changed: () => rings.push(clock.monotonic()),
  });
  return {
    clock,
    helper,
    listing,
    rings,
    ownClientPids,
    edition: () =>
      edition.at(clock.monotonic(), () => {
        listing.peek();
        listing.tellEdition();
      }),
    async answer(snapshot = {}) {
      helper.answer(snapshotRows(snapshot));
      await settle();
    },
    [Symbol.dispose]: () => listing[Symbol.dispose](),
  };
}
