/** Of `tmux -V`, or of a binary run by another name: `tmux 3.5a`, `exe 3.3a`, `tmux next-3.6`. */
export function parseVersionLine(line: string): string | undefined {
  return /^\S+ ([\x21-\x7e]{1,32})$/.exec(line.trim())?.[1];
}

/**
 * Whether a server is older than what is installed; null where that can't be told. One that is
 * newer (the package was taken back) is not outdated.
 */
export function isOutdated(server: string | null, installed: string | null): boolean | null {
  if (server === null || installed === null) return null;
  if (server === installed) return false;
  const [one, other] = [numbers(server), numbers(installed)];
  if (one === undefined || other === undefined) return null;
  for (const [index, value] of one.entries()) {
    const difference = value - (other[index] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return null;
}

/** `3.5a` is after `3.5`, and `next-3.6` before `3.6`. */
function numbers(version: string): readonly number[] | undefined {
  const [, next, major, minor, letter] =
    /^(next-)?(\d{1,4})\.(\d{1,4})([a-z]?)(?:-rc\d*)?$/.exec(version) ?? [];
  if (major === undefined || minor === undefined) return undefined;
  const patch = letter ? letter.charCodeAt(0) - 96 : 0;
  return [Number(major), Number(minor), next === undefined ? patch : -1];
}

/** Whether that tmux is of at least this release; false for a version that can't be read. */
export function isAtLeast(version: string, major: number, minor: number): boolean {
  const parts = numbers(version);
  if (parts === undefined) return false;
  const [ownMajor = 0, ownMinor = 0] = parts;
  return ownMajor > major || (ownMajor === major && ownMinor >= minor);
}
