import { expect, it } from 'vitest';
import { textFrame } from '../../src/server/text-frame.ts';

// RFC 6455, 5.2: FIN and opcode 1, no mask; the length in 7, 7 + 16 or 7 + 64 bits.
it.each([
  [0, [0x81, 0]],
  [125, [0x81, 125]],
  [126, [0x81, 126, 0, 126]],
  [65_535, [0x81, 126, 0xff, 0xff]],
  [65_536, [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]],
])('a text of %d bytes is one frame', (length, head) => {
  const text = Buffer.alloc(length, 'é{"x":1}');
  const [one, two] = [Math.floor(length / 3), Math.floor(length / 2)];
  const frame = textFrame(text.subarray(0, one), text.subarray(one, two), text.subarray(two));
  expect(Buffer.concat(frame).equals(Buffer.concat([Buffer.from(head), text]))).toBe(true);
});

it('what is large is not copied for each who is sent it', () => {
  const [begin, large, end] = [Buffer.from('{"id":1,'), Buffer.alloc(8_192, 'x'), Buffer.from('}')];
  const [, middle] = textFrame(begin, large, end);
  expect(middle).toBe(large);
  expect(textFrame(begin, large.subarray(1), end)).toHaveLength(1);
});
