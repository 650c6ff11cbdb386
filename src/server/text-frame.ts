const finalText = 0x81;
/** From here on a piece that many are sent is not copied for each of them. */
const large = 8_192;

/**
 * One unmasked WebSocket frame (RFC 6455) of text, whose UTF-8 is these three pieces: to be written one
 * after the other, and in one where they are small.
 */
export function textFrame(begin: Buffer, middle: Buffer, end: Buffer): readonly Buffer[] {
  const length = begin.length + middle.length + end.length;
  const isLarge = middle.length >= large;
  const headLength = length < 126 ? 2 : length < 65_536 ? 4 : 10;
  const frame = Buffer.allocUnsafe(headLength + (isLarge ? begin.length : length));
  frame[0] = finalText;
  if (headLength === 2) frame[1] = length;
  else if (headLength === 4) {
    frame[1] = 126;
    frame.writeUInt16BE(length, 2);
  } else {
    frame[1] = 127;
    frame.writeUInt32BE(0, 2);
    frame.writeUInt32BE(length, 6);
  }
  begin.copy(frame, headLength);
  if (isLarge) return [frame, middle, end];
  middle.copy(frame, headLength + begin.length);
  end.copy(frame, headLength + begin.length + middle.length);
  return [frame];
}
