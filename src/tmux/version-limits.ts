import { isAtLeast } from './tmux-version.ts';

type Release = readonly [major: number, minor: number];
interface Limit {
  readonly from: Release;
  readonly before: Release;
  readonly what: string;
}

/** Word for word in docs/tmux-versions.md, which says what happens instead. */
const limits: readonly Limit[] = [
  {
    from: [0, 0],
    before: [3, 2],
    what: 'output that a watcher does not take in time is kept in the memory of the tmux server',
  },
  {
    from: [0, 0],
    before: [3, 2],
    what: 'a pane that was killed is not told from one whose program ended',
  },
  {
    from: [0, 0],
    before: [3, 3],
    what: 'a pane whose program has ended is not restarted',
  },
  {
    from: [3, 2],
    before: [3, 5],
    what: 'a snapshot lacks the background of cells that were cleared and never written',
  },
  {
    from: [0, 0],
    before: [3, 6],
    what: 'a server without free descriptors takes a whole core',
  },
];

/** What a tmux of that version can't do for us, in words for people; none for one that can't be read. */
export function versionLimits(version: string): readonly string[] {
  return limits
    .filter(({ from, before }) => isAtLeast(version, ...from) && !isAtLeast(version, ...before))
    .map(({ what }) => what);
}
