import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rowsOfChain } from '../../src/audit/audit-table.ts';
import { genesis, parseChainKeys, seal } from '../../src/audit/chain-key.ts';
import { findClaim } from '../../src/audit/idempotency-table.ts';
import { JournalStoppedError } from '../../src/audit/journal.ts';
import type { Unsaved } from '../../src/audit/note.ts';
import type { AuditEntry } from '../../src/audit/record.ts';
import { type SealedRow, storable } from '../../src/audit/row.ts';
import { copyRows } from '../../src/audit/row-copy.ts';
import { TableWriter } from '../../src/audit/table-writer.ts';
import { entry, intent } from '../support/audit.ts';
import { openTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { rounds } from '../support/tier.ts';
import { eventually } from '../support/tmux-server.ts';

const keys = parseChainKeys(`k1 ${'ab'.repeat(32)}\n`);

/** A chain's rows, one after the other. */
function numbering(chain: string) {
  let last = { sequence: 0, hash: genesis };
  return (made: AuditEntry): SealedRow => {
    const row = seal(keys, {
      ...storable(made),
      chain,
      sequence: last.sequence + 1,
      id: randomUUID(),
      at: new Date(1_800_000_000_000),
      bootId: 'boot',
      monotonicMs: 1,
      keyId: 'k1',
      previous: last.hash,
    });
    last = row;
    return row;
  };
}

describe('the writer of the table', () => {
  let test: TestDatabase;
  let writer: TableWriter;
  let stored: () => Promise<readonly SealedRow[]>;
  let next: (made: AuditEntry) => SealedRow;
  beforeAll(async () => {
    test = await openTestDatabase('embedded');
    const chain = randomUUID();
    next = numbering(chain);
    stored = () => rowsOfChain(test.database.drizzle, { chain, after: 0 }, 1_000);
    writer = new TableWriter(test.database, chain, 1_800);
    await writer.takeChain();
  });
  afterAll(async () => {
    await writer[Symbol.asyncDispose]();
    await test[Symbol.asyncDispose]();
  });

  const claimed = (): Unsaved => ({
    entry: intent(),
    row: next(intent()),
    claim: { actorId: randomUUID(), mutation: 'm', key: 'k', inputHash: Buffer.from('h') },
  });
  const plain = (): Unsaved => ({ entry: entry(), row: next(entry()) });
  const claims = async () =>
    (await test.database.pool.query('select 1 from idempotency_keys')).rows.length;
  /** Of the session that holds the chain: that PostgreSQL has all of the group, and waits for us. */
  const isAtItsEnd = async () => {
    const { rows } = await test.database.pool.query(
      `select 1 from pg_locks held join pg_locks written using (pid) join pg_stat_activity using (pid)
       where held.locktype = 'advisory' and wait_event = 'ClientRead'
         and written.mode = 'RowExclusiveLock' and written.relation = 'audit_events'::regclass`,
    );
    return rows.length === 1;
  };

  it.each([
    ['rows', plain],
    ['an intent that takes a key', claimed],
  ])(
    'shows nothing of %s before the journal has the lines, and all of it then',
    async (_, make) => {
      const before = [await stored(), await claims()] as const;
      const group = [plain(), make(), plain()];
      const { promise: onDisk, resolve } = Promise.withResolvers<void>();
      const storing = writer.store(group, onDisk);
      await eventually(isAtItsEnd, 'all is there but its end');
      expect([await stored(), await claims()]).toEqual(before);
      resolve();
      expect(await storing).toEqual(new Map());
      expect(await stored()).toEqual([...before[0], ...group.map(({ row }) => row)]);
      expect(await claims()).toBe(before[1] + (make === claimed ? 1 : 0));
    },
  );

  it.each([
    ['rows', plain],
    ['an intent that takes a key', claimed],
  ])('adds nothing of %s where the journal could not be written, and goes on', async (_, make) => {
    const before = [await stored(), await claims()] as const;
    const lost = make();
    const { promise: onDisk, reject } = Promise.withResolvers<void>();
    const storing = writer.store([lost], onDisk);
    await eventually(isAtItsEnd, 'all is there but its end');
    reject(new JournalStoppedError('it could not be written'));
    await expect(storing).rejects.toThrow(JournalStoppedError);
    // The same session again, or another one once PostgreSQL has seen that the first has ended.
    await eventually(
      () =>
        writer.store([]).then(
          () => true,
          () => false,
        ),
      'the chain is ours again',
    );
    expect([await stored(), await claims()]).toEqual(before);
    await writer.store([lost]);
    expect(await stored()).toEqual([...before[0], lost.row]);
  });

  it('takes, answers and frees the keys of a group in the order of its rows', async () => {
    const rival = ({ claim }: Unsaved): Unsaved => ({ ...claimed(), claim });
    const end = ({ row }: Unsaved, answer: Unsaved['answer']): Unsaved => {
      return { entry: entry(), row: next(entry({ intentId: row.id })), answer };
    };
    const held = async ({ claim }: Unsaved) => {
      const found = claim && (await findClaim(test.database.drizzle, claim));
      return found && [found.intentId, found.answer];
    };
    const earlier = claimed();
    await writer.store([earlier]);
    const first = claimed();
    const late = rival(first);
    const answered = end(first, { a: [1, null] });
    const freed = end(earlier, null);
    const after = rival(earlier);
    const again = end(first, 'not the first answer');
    const ended = end(after, 'done');
    const group = [first, late, answered, freed, after, again, ended];
    expect(await writer.store(group)).toEqual(new Map([[late.row.id, first.row.operationId]]));
    expect(await held(first)).toEqual([first.row.id, { a: [1, null] }]);
    expect(await held(earlier)).toEqual([after.row.id, 'done']);
  });

  it.each([
    ['the only one', 0, 1],
    ['the last of two', 1, 2],
    ['the first of eight', 0, 8],
    ['the last of eight', 7, 8],
  ])(
    'adds nothing of a group whose row can not be sealed (%s), and goes on',
    async (_, at, size) => {
      const before = await stored();
      const unsealed: Unsaved = {
        entry: entry(),
        get row(): SealedRow {
          throw new Error('it can not be sealed');
        },
      };
      const group = Array.from({ length: size }, (_, index) => (index === at ? unsealed : plain()));
      await expect(writer.store(group)).rejects.toThrow('it can not be sealed');
      const first = plain();
      const again = () => writer.store([first]).catch(() => undefined);
      expect(await eventually(again, 'the chain is ours again')).toEqual(new Map());
      expect(await stored()).toEqual([...before, first.row]);
    },
  );

  it('stores the same rows once, also by a new connection, and goes on', async () => {
    const before = await stored();
    const group = [plain(), plain(), plain()];
    await writer.store(group.slice(0, 2));
    await test.database.pool.query(
      "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'",
    );
    const again = () => writer.store(group).catch(() => undefined);
    expect(await eventually(again, 'it is connected again')).toEqual(new Map());
    const next = [plain()];
    await writer.store(next);
    const added = [...group, ...next].map(({ row }) => row);
    expect(await stored()).toEqual([...before, ...added]);
  });

  it('takes numbers and moments to their ends', async () => {
    const client = await test.database.connect();
    const chain = randomUUID();
    const group = [
      { monotonicMs: Number.MAX_SAFE_INTEGER, at: new Date('9999-12-31T23:59:59.999Z') },
      { monotonicMs: -1, at: new Date(-1) },
      { monotonicMs: 2 ** 32, at: new Date('1999-12-31T23:59:59.999Z') },
      { monotonicMs: 2 ** 31, at: new Date('2000-01-01T00:00:00.000Z') },
    ].map((values, index) => {
      const row: SealedRow = { ...next(entry()), ...values, chain, sequence: 2 ** 40 + index };
      return { row };
    });
    try {
      expect(await copyRows(client, group, Promise.resolve())).toBe(true);
      const stored = await rowsOfChain(test.database.drizzle, { chain, after: 0 }, 10);
      expect(stored).toEqual(group.map(({ row }) => row));
    } finally {
      await client.end();
    }
  });

  it('gives back each text as it was, whatever COPY makes of it elsewhere', async () => {
    const client = await test.database.connect();
    const chain = randomUUID();
    let sequence = 0;
    const text = fc.string({
      unit: fc.oneof(
        fc.constantFrom(
          '\\',
          '\t',
          '\n',
          '\r',
          '\b',
          '\v',
          'N',
          'x',
          '.',
          '"',
          "'",
          ',',
          '{',
          '世',
          '🙂',
        ),
        fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }).filter((one) => one !== '\0'),
      ),
      maxLength: 12,
    });
    try {
      await fc.assert(
        fc.asyncProperty(text, text, text, async (message, version, fact) => {
          const row: SealedRow = {
            ...next(entry({ facts: { fact: 'x' } })),
            chain,
            sequence: ++sequence,
            id: randomUUID(),
            message,
            requestId: message,
            before: { generation: fact, pid: 1, version, status: 'RUNNING', sessionCount: null },
            survivors: [{ pid: 1, command: fact }],
          };
          expect(await copyRows(client, [{ row }], Promise.resolve())).toBe(true);
          const range = { chain, after: sequence - 1 };
          expect(await rowsOfChain(test.database.drizzle, range, 1)).toEqual([row]);
        }),
        { numRuns: rounds(50, 5_000) },
      );
    } finally {
      await client.end();
    }
  });
});
