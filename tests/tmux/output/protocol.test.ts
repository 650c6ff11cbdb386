import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Bracket } from '../../../src/tmux/output/bracket.ts';
import type { BlockAnswer } from '../../../src/tmux/output/control-block.ts';
import { ControlParser, ControlProtocolError } from '../../../src/tmux/output/protocol.ts';
import { rounds } from '../../support/tier.ts';

type Seen =
  | { readonly kind: 'output'; readonly pane: number; readonly data: string }
  | { readonly kind: 'notification'; readonly name: string; readonly rest: string }
  | { readonly kind: 'answers'; readonly answers: readonly { ok: boolean; lines: string[] }[] };

interface Message {
  readonly bytes: Buffer;
  readonly seen: readonly Seen[];
  /** What our command queue says when a block of ours opens. */
  readonly opens?: Bracket | 'plain';
}

function read(chunks: readonly Buffer[], queue: readonly (Bracket | 'plain')[] = []): Seen[] {
  const seen: Seen[] = [];
  const expected = [...queue];
  const answers = (list: readonly BlockAnswer[]) =>
    seen.push({
      kind: 'answers',
      answers: list.map(({ ok, lines }) => ({
        ok,
        lines: lines.map((line) => line.toString('latin1')),
      })),
    });
  const parser = new ControlParser({
    output(pane, data) {
      const last = seen.at(-1);
      const hex = Buffer.from(data).toString('hex');
      // How many pieces the bytes of one pane came in says nothing.
      if (last?.kind === 'output' && last.pane === pane)
        seen[seen.length - 1] = { ...last, data: last.data + hex };
      else seen.push({ kind: 'output', pane, data: hex });
    },
    notification: (name, rest) => void seen.push({ kind: 'notification', name, rest }),
    opened() {
      const next = expected.shift();
      return next === 'plain' ? undefined : next;
    },
    block: (answer) => void answers([answer]),
    bracket: (list) => void answers(list),
  });
  for (const chunk of chunks) parser.push(Buffer.from(chunk));
  return seen;
}

function lines(...list: readonly (string | Buffer)[]): Buffer {
  return Buffer.concat(list.flatMap((line) => [Buffer.from(line), Buffer.from('\n')]));
}

/** As tmux's control.c does it. */
function escapeOutput(data: Uint8Array): Buffer {
  return Buffer.concat(
    [...data].map((byte) =>
      byte < 0x20 || byte === 0x5c
        ? Buffer.from(`\\${byte.toString(8).padStart(3, '0')}`)
        : Buffer.of(byte),
    ),
  );
}

const number = fc.integer({ min: 0, max: 99_999 });
const data = fc.uint8Array({ minLength: 1, maxLength: 60 });
const free = fc
  .string({ unit: 'binary-ascii', maxLength: 20 })
  .map((text) => text.replace(/[\n%]/g, ''));

/** What a screen may say to end its own capture early, or to invent events. */
const hostileLine = (guard: string) =>
  fc.oneof(
    fc.constantFrom(
      `%end ${guard}`,
      `%error ${guard}`,
      `x%end ${guard}`,
      '%output %1 forged',
      '%exit',
      '%sessions-changed',
      '%begin 1 2 1',
      '%end 1 2 1',
      `%begin ${guard}`,
      '%pause %0',
      '',
      '%0',
      'a'.repeat(32),
    ),
    fc
      .uint8Array({ maxLength: 30 })
      .map((bytes) => Buffer.from(bytes.filter((byte) => byte !== 10)).toString('latin1')),
  );

const outputMessage = fc.record({ pane: number, data, extended: fc.boolean() }).map(
  ({ pane, data, extended }): Message => ({
    bytes: lines(
      Buffer.concat([
        Buffer.from(extended ? `%extended-output %${pane} 12 : ` : `%output %${pane} `),
        escapeOutput(data),
      ]),
    ),
    seen: [{ kind: 'output', pane, data: Buffer.from(data).toString('hex') }],
  }),
);
const notificationMessage = fc
  .record({
    name: fc.constantFrom('sessions-changed', 'layout-change', 'exit', 'window-renamed'),
    rest: free,
  })
  .map(
    ({ name, rest }): Message => ({
      bytes: lines(Buffer.from(`%${name} ${rest}`, 'utf8')),
      seen: [{ kind: 'notification', name, rest }],
    }),
  );
const foreignBlock = fc.record({ number, body: fc.array(free, { maxLength: 3 }) }).map(
  ({ number, body }): Message => ({
    bytes: lines(`%begin 170000 ${number} 0`, ...body, `%end 170000 ${number} 0`),
    seen: [],
  }),
);
const plainBlock = fc
  .record({
    number,
    ok: fc.boolean(),
    body: fc.array(free, { maxLength: 4 }),
    inside: fc.boolean(),
  })
  .map(
    ({ number, ok, body, inside }): Message => ({
      bytes: lines(
        `%begin 170000 ${number} 1`,
        ...body,
        ...(inside ? ['%sessions-changed', '%12'] : []),
        `${ok ? '%end' : '%error'} 170000 ${number} 1`,
      ),
      seen: [
        ...(inside ? [{ kind: 'notification' as const, name: 'sessions-changed', rest: '' }] : []),
        { kind: 'answers', answers: [{ ok, lines: [...body, ...(inside ? ['%12'] : [])] }] },
      ],
      opens: 'plain',
    }),
  );
const nonce = fc
  .uint8Array({ minLength: 16, maxLength: 16 })
  .map((bytes) => Buffer.from(bytes).toString('hex'));
const bracketMessage = fc
  .record({
    number,
    commands: fc.array(
      fc.record({
        nonce,
        hook: fc.boolean(),
        late: fc.boolean(),
        body: fc.array(hostileLine('170000 5 1'), { maxLength: 8 }),
      }),
      { minLength: 1, maxLength: 3 },
    ),
    last: nonce,
    fails: fc.boolean(),
  })
  .filter(
    ({ commands, last }) =>
      new Set([...commands.map((command) => command.nonce), last]).size === commands.length + 1,
  )
  .map(({ number, commands, last, fails }): Message => {
    const late: Seen[] = [];
    const bytes = commands.flatMap((command, index) => {
      const failed = fails && index === commands.length - 1;
      const body = command.body.map((line) => Buffer.from(line, 'latin1'));
      // The guard of every command is the one that the hostile lines guess right.
      const block = ['%begin 170000 5 1', ...body, `${failed ? '%error' : '%end'} 170000 5 1`];
      const after = command.late && index === commands.length - 1 ? ['%output %3 late'] : [];
      if (after.length > 0)
        late.push({ kind: 'output', pane: 3, data: Buffer.from('late').toString('hex') });
      const hook =
        command.hook && index > 0
          ? ['%begin 170000 9 0', '%output %9 hook', '%end 170000 9 0']
          : [];
      if (failed) return [...hook, ...block, ...after];
      return [
        ...hook,
        ...block,
        ...after,
        `%begin 170000 ${number} 1`,
        command.nonce,
        `%end 170000 ${number} 1`,
      ];
    });
    return {
      bytes: lines(...bytes, '%begin 170001 1 1', last, '%end 170001 1 1'),
      seen: [
        {
          kind: 'answers',
          answers: commands.map((command, index) => ({
            ok: !(fails && index === commands.length - 1),
            lines: command.body,
          })),
        },
        ...late,
      ],
      opens: { nonces: commands.map((command) => command.nonce), last },
    };
  });

const message = fc.oneof(
  outputMessage,
  notificationMessage,
  foreignBlock,
  plainBlock,
  bracketMessage,
);

function joined(seen: readonly Seen[]): Seen[] {
  const merged: Seen[] = [];
  for (const event of seen) {
    const last = merged.at(-1);
    if (event.kind === 'output' && last?.kind === 'output' && last.pane === event.pane) {
      merged[merged.length - 1] = { ...last, data: last.data + event.data };
    } else merged.push(event);
  }
  return merged;
}

test('any stream of messages, cut anywhere, gives the same events', () => {
  const runs = rounds(1_500, 100_000);
  console.log(`control protocol: ${runs} streams`);
  fc.assert(
    fc.property(
      fc.array(message, { maxLength: 12 }),
      fc.array(fc.nat(), { maxLength: 12 }),
      (messages, cuts) => {
        const whole = Buffer.concat(messages.map(({ bytes }) => bytes));
        const at = [
          0,
          ...cuts.map((cut) => cut % (whole.length + 1)).sort((a, b) => a - b),
          whole.length,
        ];
        const chunks = at.slice(0, -1).map((start, index) => whole.subarray(start, at[index + 1]));
        const queue = messages.flatMap(({ opens }) => (opens === undefined ? [] : [opens]));
        const expected = joined(messages.flatMap(({ seen }) => seen));
        expect(read(chunks, queue)).toEqual(expected);
      },
    ),
    { numRuns: runs },
  );
});

test('one byte at a time gives the same events', () => {
  fc.assert(
    fc.property(fc.array(message, { maxLength: 6 }), (messages) => {
      const whole = Buffer.concat(messages.map(({ bytes }) => bytes));
      const queue = messages.flatMap(({ opens }) => (opens === undefined ? [] : [opens]));
      expect(
        read(
          [...whole].map((byte) => Buffer.of(byte)),
          queue,
        ),
      ).toEqual(read([whole], queue));
    }),
    { numRuns: rounds(150, 5_000) },
  );
});

test('any bytes at all are read without any error but the one for an answer without an end', () => {
  const runs = rounds(2_000, 200_000);
  const word = fc.constantFrom(
    '%begin 1 2 1\n',
    '%end 1 2 1\n',
    '%begin 1 2 0\n',
    '%output %',
    '\\',
    '\\08',
    ' : ',
    '\n',
    '%',
    `${'a'.repeat(32)}\n`,
  );
  const bytes = fc.array(
    fc.oneof(
      word.map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 6 }).map((data) => Buffer.from(data)),
    ),
    { maxLength: 40 },
  );
  fc.assert(
    fc.property(bytes, (parts) => {
      try {
        read(parts, [{ nonces: ['b'.repeat(32)], last: 'a'.repeat(32) }, 'plain']);
      } catch (error) {
        if (!(error instanceof ControlProtocolError)) throw error;
      }
    }),
    { numRuns: runs },
  );
});

test('a body whose last line has no line end is closed by its own guard, and no later answer is shifted', () => {
  const bytes = lines(
    '%begin 1700000001 42 1',
    '$ 0.2s%end 1700000001 42 1',
    '%begin 1700000001 43 1',
    'second',
    '%end 1700000001 43 1',
  );
  expect(read([bytes], ['plain', 'plain'])).toEqual([
    { kind: 'answers', answers: [{ ok: true, lines: ['$ 0.2s'] }] },
    { kind: 'answers', answers: [{ ok: true, lines: ['second'] }] },
  ]);
});

test('a notification between the lines of a body is handled once and the other lines stay data', () => {
  const bytes = lines('%begin 1 7 1', '%0', '%sessions-changed', '%12', '%end 1 7 1');
  expect(read([bytes], ['plain'])).toEqual([
    { kind: 'notification', name: 'sessions-changed', rest: '' },
    { kind: 'answers', answers: [{ ok: true, lines: ['%0', '%12'] }] },
  ]);
});

test('octal escapes are undone to the byte', () => {
  const seen = read([lines('%output %0 one\\015\\012c\\134d')]);
  expect(seen).toEqual([
    { kind: 'output', pane: 0, data: Buffer.from('one\r\nc\\d').toString('hex') },
  ]);
});

test('a line that never ends is refused before it fills the memory', () => {
  const chunks = Array.from({ length: 40 }, () => Buffer.alloc(65_536, 'x'));
  expect(() => read(chunks)).toThrow(ControlProtocolError);
});

test('an answer that never ends is refused before it fills the memory', () => {
  const chunks = Array.from({ length: 600 }, () => Buffer.from(`${'x'.repeat(32_767)}\n`));
  const bracket = { nonces: ['a'.repeat(32)], last: 'b'.repeat(32) };
  expect(() => read([lines('%begin 1 1 1'), ...chunks], [bracket])).toThrow(ControlProtocolError);
  expect(() => read([lines('%begin 1 1 1'), ...chunks], ['plain'])).toThrow(ControlProtocolError);
});
