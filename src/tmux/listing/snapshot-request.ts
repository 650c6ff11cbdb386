/**
 * The request line of a snapshot. It has to fit into 4,096 bytes with its sequence number and LF, so
 * what does not fit is left out, from the end of each list: a socket of `skip` that is left out is
 * asked once too often, one of `extra` is looked for by its directory alone.
 */
export interface SnapshotRequest {
  /** Absolute, `$UID`, `$USER` and `$HOME` to be replaced by the helper. */
  readonly directories: readonly string[];
  /** Names of agents to look for in the foreground of panes. */
  readonly agents: readonly string[];
  /** Hex of the paths not to be asked. */
  readonly skip: readonly string[];
  /** Hex of the paths to look at although no directory may list them. */
  readonly extra: readonly string[];
  /** Hex of the look whose rows are held, so that only what differs need be told. */
  readonly held: string | null;
}

const lineBytes = 4_096 - 24;

export function snapshotRequest({
  directories,
  agents,
  skip,
  extra,
  held,
}: SnapshotRequest): string {
  let line = `snapshot dirs=${directories.map(hex).join(',')}`;
  if (held !== null) line += ` held=${held}`;
  line += words('agents', agents.map(hex), lineBytes - line.length);
  line += words('skip', skip, lineBytes - line.length);
  line += words('extra', extra, lineBytes - line.length);
  return line;
}

function hex(text: string): string {
  return Buffer.from(text).toString('hex');
}

function words(name: string, values: readonly string[], room: number): string {
  let word = '';
  for (const value of values) {
    const longer = word === '' ? ` ${name}=${value}` : `${word},${value}`;
    if (longer.length > room) break;
    word = longer;
  }
  return word;
}
