import { Writable } from 'node:stream';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Outlet } from '../../src/server/outlet.ts';
import { TextFrames } from '../../src/server/text-frame.ts';

/** A connection that takes everything at once, or keeps it until it is told to. */
class Wire extends Writable {
  readonly taken: Uint8Array[] = [];
  takes = true;
  #held: (() => void)[] = [];

  override _write(bytes: Uint8Array, _: string, done: () => void): void {
    const take = () => {
      this.taken.push(Uint8Array.from(bytes));
      done();
    };
    if (this.takes) take();
    else this.#held.push(take);
  }

  takeAll(): void {
    for (this.takes = true; this.#held.length > 0; ) this.#held.shift()?.();
  }

  get bytes(): Buffer {
    return Buffer.concat(this.taken);
  }
}

/** The texts of unmasked frames, one after the other. */
function textsOf(bytes: Buffer): readonly string[] {
  const texts: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    expect(bytes[at]).toBe(0x81);
    const short = bytes[at + 1] ?? 0;
    const head = short < 126 ? 2 : short === 126 ? 4 : 10;
    const long = short === 126 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2));
    const length = short < 126 ? short : long;
    texts.push(bytes.toString('utf8', at + head, at + head + length));
    at += head + length;
  }
  return texts;
}

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
  const wire = new Wire();
  const pieces = [text.subarray(0, one), text.subarray(one, two), text.subarray(two)] as const;
  new TextFrames().send(new Outlet(wire), ...pieces);
  expect(wire.bytes.equals(Buffer.concat([Buffer.from(head), text]))).toBe(true);
});

it('each gets its own text, whoever takes it at once and who later', () => {
  const middles = [10, 300, 8_191, 8_192, 70_000].map((length) => Buffer.alloc(length, 'm'));
  const end = Buffer.from('}');
  const step = fc.record({
    who: fc.nat({ max: 3 }),
    what: fc.nat({ max: middles.length - 1 }),
    first: fc.constantFrom('goes on', 'stalls', 'takes all'),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const frames = new TextFrames();
      const begins = ['a:', 'b:', 'c:', 'longer:'].map((begin) => Buffer.from(begin));
      const wires = begins.map(() => new Wire({ highWaterMark: 1 << 20 }));
      const outlets = wires.map((wire) => new Outlet(wire));
      const sent = wires.map(() => [] as string[]);
      for (const { who, what, first } of steps) {
        const [wire, outlet, begin, middle] = [
          wires[who],
          outlets[who],
          begins[who],
          middles[what],
        ];
        if (!wire || !outlet || !begin || !middle) throw new Error('nobody');
        if (first === 'stalls') wire.takes = false;
        if (first === 'takes all') wire.takeAll();
        frames.send(outlet, begin, middle, end);
        sent[who]?.push(`${begin}${middle}${end}`);
      }
      for (const [who, wire] of wires.entries()) {
        wire.takeAll();
        expect(textsOf(wire.bytes)).toEqual(sent[who]);
      }
    }),
  );
});

it('what is large is not copied for each who is sent it, and what is small once for all who take it', () => {
  const pieces: Uint8Array[] = [];
  const outlet = {
    write: (...given: Uint8Array[]) => pieces.push(...given) > 0,
  } as object as Outlet;
  const frames = new TextFrames();
  const [large, small, end] = [Buffer.alloc(8_192), Buffer.alloc(8_191), Buffer.from('}')];
  for (const id of ['1', '2']) frames.send(outlet, Buffer.from(id), large, end);
  expect(pieces.filter((piece) => piece === large)).toHaveLength(2);
  pieces.length = 0;
  for (const id of ['1', '2']) frames.send(outlet, Buffer.from(id), small, end);
  expect(pieces[0]).toBe(pieces[1]);
});
