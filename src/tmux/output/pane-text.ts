/**
 * The text of bytes that were cut anywhere: a character split over two pieces belongs to the later
 * one. `carry` is the incomplete sequence (0 to 3 bytes) right before a piece; what a piece leaves
 * incomplete at its own end is the next one's carry. Joined, the texts are the text of all bytes.
 */

/** The text of `data` with its carry in front, without the incomplete sequence at its end. */
export function textOf(data: Uint8Array, carry: Uint8Array): string {
  const bytes =
    carry.length === 0
      ? Buffer.from(data.buffer, data.byteOffset, data.byteLength)
      : Buffer.concat([carry, data]);
  return bytes.toString('utf8', 0, bytes.length - incompleteTail(bytes).length);
}

/** The 0 to 3 bytes at the end of `bytes` that begin a UTF-8 sequence and could still become whole. */
export function incompleteTail(bytes: Uint8Array): Uint8Array {
  for (let back = 1; back <= 3 && back <= bytes.length; back++) {
    const lead = bytes[bytes.length - back] ?? 0;
    if (lead < 0x80) break;
    if (lead < 0xc0) continue;
    const tail = bytes.subarray(bytes.length - back);
    return couldBecomeWhole(tail) ? tail : bytes.subarray(bytes.length);
  }
  return bytes.subarray(bytes.length);
}

/** A lead byte and continuations, too few of them, that no decoder would refuse yet. */
function couldBecomeWhole(tail: Uint8Array): boolean {
  const lead = tail[0] ?? 0;
  const length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (tail.length >= length) return false;
  const second = tail[1];
  if (second === undefined) return true;
  const low = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
  const high = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
  return second >= low && second <= high;
}
