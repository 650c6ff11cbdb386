import type { PagePosition } from './audit-table.ts';
import type { SealedRow } from './row.ts';

/**
 * Cursors, opaque to callers. What does not come out of the encoder byte for byte is refused.
 *
 *   page   1 milliseconds(6) chain(16) sequence(varint): the row that a page ended with
 *   feed   2 (chain(16) sequence(varint))*, by chain: the last number seen of every chain
 *
 * A chain that a feed cursor does not name began after it was given, so all its rows are new.
 */

/** Chains that a feed cursor holds: about 27 KiB of text. */
export const mostChains = 1_000;

export function encodePageCursor(row: Pick<SealedRow, 'at' | 'chain' | 'sequence'>): string {
  const time = Buffer.alloc(7);
  time[0] = 1;
  time.writeUIntBE(row.at.getTime(), 1, 6);
  return Buffer.concat([time, chainBytes(row.chain), numberBytes(row.sequence)]).toString(
    'base64url',
  );
}

/** @throws RangeError */
export function decodePageCursor(text: string): PagePosition {
  const bytes = bytesOf(text, 1);
  if (bytes.length < 24) throw malformed();
  const at = new Date(bytes.readUIntBE(1, 6));
  const chain = chainAt(bytes, 7);
  const position = { at, chain, sequence: numberAt(bytes, 23).value };
  if (Number.isNaN(at.getTime()) || encodePageCursor(position) !== text) throw malformed();
  return position;
}

export type FeedPosition = ReadonlyMap<string, number>;

export function encodeFeedCursor(position: FeedPosition): string {
  if (position.size > mostChains)
    throw new RangeError(`The audit log has more than ${mostChains} chains.`);
  const chains = [...position].sort(([a], [b]) => (a < b ? -1 : 1));
  const parts = chains.flatMap(([chain, sequence]) => [chainBytes(chain), numberBytes(sequence)]);
  return Buffer.concat([Buffer.from([2]), ...parts]).toString('base64url');
}

/** @throws RangeError */
export function decodeFeedCursor(text: string): FeedPosition {
  const bytes = bytesOf(text, 2);
  const position = new Map<string, number>();
  for (let offset = 1; offset < bytes.length; ) {
    if (position.size === mostChains) throw malformed();
    const chain = chainAt(bytes, offset);
    const { value, end } = numberAt(bytes, offset + 16);
    position.set(chain, value);
    offset = end;
  }
  if (encodeFeedCursor(position) !== text) throw malformed();
  return position;
}

const malformed = () => new RangeError('is no cursor that this field gave.');

function bytesOf(text: string, kind: number): Buffer {
  if (text.length > 40_000 || !/^[A-Za-z0-9_-]+$/.test(text)) throw malformed();
  const bytes = Buffer.from(text, 'base64url');
  if (bytes[0] !== kind) throw malformed();
  return bytes;
}

const chainBytes = (chain: string) => Buffer.from(chain.replaceAll('-', ''), 'hex');

function chainAt(bytes: Buffer, offset: number): string {
  if (offset + 16 > bytes.length) throw malformed();
  return bytes
    .toString('hex', offset, offset + 16)
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** Seven bits a byte, lowest first; the top bit says that more follow. */
function numberBytes(number: number): Buffer {
  const bytes: number[] = [];
  let rest = number;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return Buffer.from([...bytes, rest]);
}

function numberAt(bytes: Buffer, offset: number): { readonly value: number; readonly end: number } {
  let value = 0;
  for (let index = offset, scale = 1; index < bytes.length && index < offset + 8; index++) {
    const byte = bytes[index] ?? 0;
    value += (byte & 0x7f) * scale;
    scale *= 0x80;
    if (byte < 0x80) {
      if (!Number.isSafeInteger(value)) break;
      return { value, end: index + 1 };
    }
  }
  throw malformed();
}
