import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  compareKeys,
  decodeCursor,
  encodeCursor,
  type PageOrder,
  pageOf,
} from '../../src/resolvers/page.ts';
import { rounds } from '../support/tier.ts';

interface Row {
  readonly name: string;
  readonly number: number;
}
const order: PageOrder<Row> = {
  name: 'rows',
  shape: ['string', 'number'],
  key: ({ name, number }) => [name, number],
};
const rowsOf = fc
  .uniqueArray(fc.record({ name: fc.string({ maxLength: 3 }), number: fc.nat(5) }), {
    selector: ({ name, number }) => `${number} ${name}`,
  })
  .map((rows) => rows.sort((one, other) => compareKeys(order.key(one), order.key(other))));
const numRuns = rounds(500, 20_000);

describe(`pages (${numRuns} runs each)`, () => {
  it('give every row once, in order, whatever their size', () => {
    fc.assert(
      fc.property(rowsOf, fc.integer({ min: 1, max: 7 }), (rows, first) => {
        const seen: Row[] = [];
        let after: string | undefined;
        for (;;) {
          const key = after === undefined ? undefined : decodeCursor(after, order);
          const page = pageOf(rows, { first, after: key }, order);
          expect(page.edges.length).toBeLessThanOrEqual(first);
          expect(page.hasPreviousPage).toBe(seen.length > 0);
          seen.push(...page.edges.map(({ node }) => node));
          expect(page.hasNextPage).toBe(seen.length < rows.length);
          after = page.edges.at(-1)?.cursor;
          if (!page.hasNextPage) break;
        }
        expect(seen).toEqual(rows);
      }),
      { numRuns },
    );
  });

  it('hold their place when the row of the cursor is gone', () => {
    fc.assert(
      fc.property(rowsOf, fc.nat(), (rows, place) => {
        fc.pre(rows.length > 0);
        const gone = rows[place % rows.length];
        if (gone === undefined) return;
        const rest = rows.filter((row) => row !== gone);
        const page = pageOf(rest, { first: 100, after: order.key(gone) }, order);
        expect(page.edges.map(({ node }) => node)).toEqual(rows.slice(rows.indexOf(gone) + 1));
      }),
      { numRuns },
    );
  });

  it('read no more rows than they need', () => {
    let read = 0;
    const endless = function* (): Generator<Row> {
      for (;;) yield { name: '', number: read++ };
    };
    expect(pageOf(endless(), { first: 3, after: undefined }, order).hasNextPage).toBe(true);
    expect(read).toBe(4);
  });
});

describe('a cursor', () => {
  it('comes back as its key', () => {
    fc.assert(
      fc.property(fc.string(), fc.maxSafeInteger(), (name, number) => {
        fc.pre(!Object.is(number, -0) && name.isWellFormed());
        expect(decodeCursor(encodeCursor([name, number], 'rows'), order)).toEqual([name, number]);
      }),
      { numRuns },
    );
  });

  it('of another connection, of another shape, or of nobody is refused', () => {
    const bad = [
      encodeCursor(['a', 1], 'others'),
      encodeCursor(['a', 'b'], 'rows'),
      encodeCursor(['a'], 'rows'),
      encodeCursor(['a', 1.5], 'rows'),
      Buffer.from('["rows", "a", 1]').toString('base64url'),
      `${encodeCursor(['a', 1], 'rows')}=`,
      '',
      '!',
      'bnVsbA',
    ];
    for (const text of bad) expect(decodeCursor(text, order)).toBeUndefined();
    fc.assert(
      fc.property(fc.string(), (text) => {
        decodeCursor(text, order);
      }),
      { numRuns },
    );
  });
});
