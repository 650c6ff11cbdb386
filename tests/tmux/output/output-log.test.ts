import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeCursor, Epochs } from '../../../src/tmux/output/output-cursor.ts';
import { OutputLog } from '../../../src/tmux/output/output-log.ts';
import { rounds } from '../../support/tier.ts';

type Step =
  | { readonly kind: 'append'; readonly data: Uint8Array }
  | { readonly kind: 'break' }
  | { readonly kind: 'read'; readonly from: number; readonly length: number }
  | { readonly kind: 'remember' };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('append' as const),
      data: fc.uint8Array({ maxLength: 9_000 }),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'break' as const }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('read' as const),
      from: fc.double({ min: 0, max: 1, noNaN: true }),
      length: fc.nat(9_000),
    }),
  },
  { weight: 2, arbitrary: fc.constant({ kind: 'remember' as const }) },
);

test('a log is the tail of everything appended, and every cursor leads to its own byte or says why not', () => {
  const runs = rounds(300, 20_000);
  console.log(`output log: ${runs} random histories`);
  fc.assert(
    fc.property(
      fc.integer({ min: 4, max: 20_000 }),
      fc.array(step, { maxLength: 40 }),
      (limit, steps) => {
        const log = new OutputLog(limit, new Epochs());
        let all = Buffer.alloc(0);
        let epochStart = 0;
        let epoch = 0;
        const cursors: {
          readonly text: string;
          readonly offset: number;
          readonly epoch: number;
        }[] = [];
        for (const now of steps) {
          if (now.kind === 'append') {
            log.append(now.data);
            all = Buffer.concat([all, now.data]);
          } else if (now.kind === 'break') {
            log.break('OVERLOAD');
            epochStart = all.length;
            epoch += 1;
          } else if (now.kind === 'remember') {
            cursors.push({ text: log.cursor(all.length), offset: all.length, epoch });
          } else {
            const from = Math.floor(log.start + now.from * (log.end - log.start));
            const to = Math.min(log.end, from + now.length);
            expect(log.read(from, to).equals(all.subarray(from, to))).toBe(true);
          }
          const start = Math.max(epochStart, all.length - limit);
          expect(log.end).toBe(all.length);
          expect(log.start).toBe(start);
          expect(log.read(start, log.end).equals(all.subarray(start))).toBe(true);
          for (const cursor of cursors) {
            const decoded = decodeCursor(cursor.text);
            if (decoded === undefined) throw new Error('a cursor of ours does not decode');
            expect(log.locate(decoded)).toBe(
              cursor.epoch !== epoch
                ? epoch - cursor.epoch > 16
                  ? 'RECONNECTED'
                  : 'OVERLOAD'
                : cursor.offset < start
                  ? 'LOG_TRIMMED'
                  : cursor.offset,
            );
          }
        }
      },
    ),
    { numRuns: runs },
  );
});

test('the character cut at any offset is the carry of what follows, also at the oldest offset', () => {
  const bytes = Buffer.from('a漢🙂é字b'.repeat(50));
  const log = new OutputLog(64, new Epochs());
  for (const byte of bytes) log.append(Uint8Array.of(byte));
  for (let offset = log.start; offset <= log.end; offset++) {
    const carry = log.carryBefore(offset);
    const rest = Buffer.concat([carry, bytes.subarray(offset)]).toString('utf8');
    expect(bytes.toString('utf8').endsWith(rest)).toBe(true);
    expect(rest).not.toContain('\ufffd');
  }
});

test('a cursor of another run, another epoch, or nowhere is told apart', () => {
  const epochs = new Epochs();
  const log = new OutputLog(1_000, epochs);
  log.append(Buffer.from('hello'));
  const decoded = decodeCursor(log.cursor(5));
  expect(decoded).toEqual({ run: epochs.run, epoch: log.epoch, offset: 5 });
  if (decoded === undefined) return;
  expect(log.locate({ ...decoded, run: '000000000000' })).toBe('SERVICE_RESTARTED');
  expect(log.locate({ ...decoded, epoch: 77 })).toBe('RECONNECTED');
  expect(() => log.locate({ ...decoded, offset: 6 })).toThrow(RangeError);
  for (const text of [
    '',
    'x',
    `${log.cursor(5)}A`,
    log.cursor(5).slice(1),
    `${log.cursor(5).slice(0, 21)}/`,
    '='.repeat(22),
  ]) {
    expect(decodeCursor(text)).toBeUndefined();
  }
});

test('any text that is no cursor decodes to nothing, and what decodes is written the same way', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 30 }), (text) => {
      const decoded = decodeCursor(text);
      if (decoded === undefined) return;
      const epochs = new Epochs(decoded.run);
      expect(new OutputLog(10, epochs).cursor(decoded.offset, decoded.epoch)).toBe(text);
    }),
  );
});

test('a quiet log takes little memory', () => {
  const log = new OutputLog(1 << 20, new Epochs());
  const before = process.memoryUsage().arrayBuffers;
  log.append(Buffer.from('$ '));
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 * 1_024);
});
