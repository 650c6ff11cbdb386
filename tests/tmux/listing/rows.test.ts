import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AnswerBytes } from '../../../src/tmux/helper/answer.ts';
import { Lines } from '../../../src/tmux/helper/lines.ts';
import { parseSnapshot } from '../../../src/tmux/listing/rows.ts';
import { parseSessionRows } from '../../../src/tmux/listing/session-rows.ts';
import { HelperError } from '../../../src/tmux/member-helper.ts';
import { snapshotRows } from '../../support/scripted-helper.ts';
import { rounds } from '../../support/tier.ts';

/** What the helper can print in a free-text field: anything without control characters. */
const freeText = fc
  .string({ unit: 'grapheme', maxLength: 30 })
  .map((text) => text.replace(/[\u0000-\u001f\u007f]/g, '?'));

const none = new Map<string, string>();
const parse = (text: string) => parseSnapshot(Lines.of(Buffer.from(text)));

function framed(rows: string, sequence = 1): Buffer {
  const body = Buffer.from(rows);
  const count = rows.split('\n').length - 1;
  return Buffer.from(
    `begin\t${sequence}\tsnapshot\n${rows}end\t${sequence}\t${count}\t${body.length}\n`,
  );
}

describe('the bytes of an answer', () => {
  it('are whole exactly at their end, wherever they were cut', () => {
    fc.assert(
      fc.property(fc.array(freeText), fc.array(fc.nat(2_000)), (texts, cuts) => {
        const rows = texts.map((text) => `pane\t${text}\n`).join('');
        const bytes = framed(rows);
        const at = [
          0,
          ...cuts.map((cut) => cut % bytes.length).sort((a, b) => a - b),
          bytes.length,
        ];
        const answer = new AnswerBytes(1, 'snapshot');
        for (const [index, start] of at.slice(0, -1).entries()) {
          const end = at[index + 1] ?? bytes.length;
          const isWhole = answer.push(bytes.subarray(start, end));
          // Only a last line that looks like an end may be taken for one early; none is in free text.
          if (isWhole) expect(end).toBe(bytes.length);
          if (index === at.length - 2) expect(isWhole).toBe(true);
        }
        const { rows: read, lines } = answer.answer();
        expect(lines.toString()).toBe(rows);
        expect(read).toEqual(texts.map((each) => ['pane', each]));
      }),
      { numRuns: rounds(200, 10_000) },
    );
  });

  it('that lost any part are not believed', () => {
    const bytes = framed(snapshotRows());
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 40 }), (start, length) => {
        const cut = Buffer.concat([bytes.subarray(0, start), bytes.subarray(start + length)]);
        const answer = new AnswerBytes(1, 'snapshot');
        let whole = false;
        try {
          whole = answer.push(cut);
          if (whole) answer.answer();
        } catch (error) {
          expect(error).toBeInstanceOf(HelperError);
          whole = false;
        }
        expect(whole).toBe(false);
      }),
      { numRuns: rounds(200, 10_000) },
    );
  });
});

describe('a snapshot', () => {
  it('gives every name and title back as it was, in its own column', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(freeText, freeText), { maxLength: 8 }), (names) => {
        const text = snapshotRows({
          servers: [
            { sessions: names.map(([name]) => name), titles: names.map(([, title]) => title) },
          ],
        });
        const snapshot = parse(text);
        const parsed = parseSessionRows(
          `${snapshot.servers[0]?.rows ?? ''}`,
          snapshot.columns,
          none,
        );
        expect(parsed.dropped).toBe(0);
        expect(parsed.sessions.map(({ name }) => name)).toEqual(names.map(([name]) => name));
        expect(parsed.sessions.map(({ windows }) => windows[0]?.panes[0]?.title)).toEqual(
          names.map(([, title]) => title),
        );
      }),
      { numRuns: rounds(200, 10_000) },
    );
  });

  it('drops and counts what does not fit, and never glues rows together', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'binary', maxLength: 60 }), { maxLength: 8 }),
        (noise) => {
          const lines = noise
            .map((text) => text.replaceAll('\n', '?'))
            .filter((text) => text !== '');
          const clean = parse(snapshotRows());
          const rows = `${clean.servers[0]?.rows}${lines.map((line) => `pane\t${line}\n`).join('')}`;
          const parsed = parseSessionRows(rows, clean.columns, none);
          expect(parsed.sessions.map(({ name }) => name)).toEqual(['main']);
          expect(parsed.dropped).toBe(lines.length);
        },
      ),
      { numRuns: rounds(200, 10_000) },
    );
  });

  it('without its member row, or with a server row that can’t be read, is no snapshot', () => {
    expect(() => parse('')).toThrow(HelperError);
    expect(() => parse(`${snapshotRows()}server\tnot hex\tOK\n`)).toThrow(HelperError);
  });

  it('shows a window that is linked twice into a session once, at its lowest index', () => {
    const { columns } = parse(snapshotRows());
    const rows = [
      'identity\t1\t2',
      'session\t0\t1\t0\tmain',
      'window\t0\t3\t5\t0\tlayout\tname',
      'window\t0\t3\t2\t1\tlayout\tname',
      'pane\t0\t3\t7\t0\t1\t1\t\tKILL\t\t0\t80\t24\t\tsh\t\t\t2f746d70ff\t\t\t\t\t',
      'pane\t0\t3\t7\t0\t1\t1\t\tKILL\t\t0\t80\t24\t\tsh\t\t\t2f746d70ff\t\t\t\t\t',
    ];
    const { sessions, dropped } = parseSessionRows(
      rows.map((row) => `${row}\n`).join(''),
      columns,
      none,
    );
    expect(dropped).toBe(0);
    expect(sessions[0]?.windows).toMatchObject([{ window: 3, index: 2, active: true }]);
    expect(sessions[0]?.windows[0]?.panes).toMatchObject([
      {
        pane: 7,
        dead: true,
        exitStatus: null,
        exitSignal: 9,
        currentPath: '/tmp\ufffd',
        pid: null,
      },
    ]);
  });
});
