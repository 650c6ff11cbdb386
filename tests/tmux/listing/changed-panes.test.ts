import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { settle } from '../../support/fake-clock.ts';
import { snapshotRows } from '../../support/scripted-helper.ts';
import { scriptedListing } from '../../support/scripted-listing.ts';
import { rounds } from '../../support/tier.ts';

const sessions = ['one', 'two', 'three', 'four'];
const rows = (titles: readonly string[]) => snapshotRows({ servers: [{ sessions, titles }] });

describe('rows that differ from those of the look before', () => {
  it('are read as if there had been none before, whatever differs', async () => {
    const edit = fc.record({
      kind: fc.constantFrom('field', 'field', 'double', 'drop', 'swap'),
      line: fc.nat(11),
      field: fc.nat(20),
      text: fc.constantFrom('', '0', '1', '7', 'word', 'b25d,80x24,0,0,0'),
    });
    const title = fc.string({ maxLength: 5 }).map((text) => text.replace(/[\u0000-\u001f]/g, '?'));
    const look = fc.tuple(fc.array(title, { maxLength: 4 }), fc.array(edit, { maxLength: 2 }));
    await fc.assert(
      fc.asyncProperty(fc.array(look, { minLength: 2, maxLength: 4 }), async (looks) => {
        const texts = looks.map(([titles, edits]) => edits.reduce(edited, rows(titles)));
        expect(await shownAfter(texts)).toEqual(await shownAfter(texts.slice(-1)));
      }),
      { numRuns: rounds(150, 5_000) },
    );
  });

  it('in one title leave every other session the very same object', async () => {
    using world = scriptedListing();
    world.helper.always = () => rows(['a', 'b', 'c', 'd']);
    await world.listing.read();
    const before = world.listing.peek().servers?.[0]?.sessions;
    world.helper.always = () => rows(['a', 'b', 'C', 'd']);
    await world.listing.refresh();
    const after = world.listing.peek().servers?.[0]?.sessions;
    expect(after?.[2]?.windows[0]?.panes[0]?.title).toBe('C');
    for (const at of [0, 1, 3]) expect(after?.[at]).toBe(before?.[at]);
    expect(after?.[2]).not.toBe(before?.[2]);
  });
});

interface Edit {
  readonly kind: string;
  readonly line: number;
  readonly field: number;
  readonly text: string;
}

/** Of the rows after `identity`: a session, a window and a pane for each of the four. */
function edited(text: string, { kind, line, field, text: to }: Edit): string {
  const lines = text.split('\n');
  const at = lines.findIndex((each) => each.startsWith('identity')) + 1 + line;
  const row = (lines[at] ?? '').split('\t');
  if (kind === 'drop') lines.splice(at, 1);
  if (kind === 'double') lines.splice(at, 0, lines[at] ?? '');
  if (kind === 'swap') lines.splice(at, 2, lines[at + 1] ?? '', lines[at] ?? '');
  if (kind === 'field' && row.length > 1) {
    row[1 + (field % (row.length - 1))] = to;
    lines[at] = row.join('\t');
  }
  return lines.join('\n');
}

async function shownAfter(texts: readonly string[]) {
  using world = scriptedListing();
  for (const text of texts) {
    world.helper.always = () => text;
    await world.listing.refresh();
    await settle();
  }
  const server = world.listing.peek().servers?.[0];
  const { reason, detail } = server?.listing ?? {};
  return { reason, detail, sessions: server?.sessions };
}
