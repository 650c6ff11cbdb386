import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { genesis, parseChainKeys, readChainKeys, seal } from '../../src/audit/chain-key.ts';
import { parseJournalLine } from '../../src/audit/journal-line.ts';
import { claimOf, withClaim, withoutClaim } from '../../src/audit/kept-claim.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import { journalLine, storable } from '../../src/audit/row.ts';
import { journalRows } from '../../src/audit/sources.ts';
import { verify } from '../../src/audit/verify.ts';
import { systemClock } from '../../src/concurrency/clock.ts';
import { reconcile } from '../../src/resolvers/reconcile.ts';
import { ScriptedFleet } from '../support/acting.ts';
import { entry, intent, keptLog } from '../support/audit.ts';
import { databaseKinds, openTestDatabase } from '../support/postgres.ts';
import { rounds } from '../support/tier.ts';

const first = parseChainKeys(`k1 ${'ab'.repeat(32)}\n`);
const exchanged = parseChainKeys(`k1 ${'ab'.repeat(32)}\nk2 ${'cd'.repeat(32)}\n`);
const claimOn = (key: string, input = 'input') => ({
  actorId: randomUUID(),
  mutation: 'restartTmuxServer',
  key,
  inputHash: createHash('sha256').update(input).digest(),
});
const row = (made: ReturnType<typeof entry>) =>
  seal(first, {
    ...storable(made),
    chain: randomUUID(),
    sequence: 1,
    id: randomUUID(),
    at: new Date(),
    bootId: 'boot',
    monotonicMs: 1,
    keyId: 'k1',
    previous: genesis,
  });

describe('the claim in a row', () => {
  it('comes back from the journal line as it was, also after the key was exchanged', () => {
    const printable = fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 64 });
    fc.assert(
      fc.property(printable, (key) => {
        const claim = { ...claimOn(key), inputHash: randomBytes(32) };
        const line = journalLine(row(withClaim(intent(), claim, first)));
        expect(claimOf(parseJournalLine(line) ?? expect.fail(), exchanged)).toEqual(claim);
        expect(line).not.toContain(claim.inputHash.toString('hex'));
      }),
      { numRuns: rounds(100, 5_000) },
    );
  });

  it('is none in rows from before it was kept, in outcomes, and where its key is gone', () => {
    const kept = withClaim(intent(), claimOn('k'), first);
    expect(claimOf(row(intent({ facts: { pathHex: '2f' } })), first)).toBeUndefined();
    const outcome = entry({ facts: kept.facts, intentId: randomUUID() });
    expect(claimOf(row(outcome), first)).toBeUndefined();
    const other = parseChainKeys(`k3 ${'ab'.repeat(32)}\n`);
    expect(claimOf(row(kept), other)).toBeUndefined();
  });

  it('comes back from whichever row was the first of an operation on many', () => {
    const claim = claimOn('k');
    const skipped = withClaim(entry({ outcome: 'SKIPPED' }), claim, first);
    expect(claimOf(row(skipped), first)).toEqual(claim);
  });

  it('leaves the other facts alone, and is refused where it would not come back', () => {
    for (const facts of [null, { pathHex: '2f', force: true }])
      expect(withoutClaim(withClaim(intent({ facts }), claimOn('k'), first).facts)).toEqual(facts);
    for (const bad of ['', 'ü', 'a\nb', 'x'.repeat(65)])
      expect(() => withClaim(intent(), claimOn(bad), first)).toThrow(TypeError);
  });
});

describe.each(databaseKinds)('rows that only the journal has, on the %s database', (kind) => {
  it('bring their claims: held after UNKNOWN, however old they look, and free where nothing was done', async () => {
    await using test = await openTestDatabase(kind);
    const { stateDir } = test.config;
    const [open, ended, freed, old] = ['open', 'ended', 'freed', 'old'].map((key) => claimOn(key));
    if (!open || !ended || !freed || !old) return expect.fail();
    const day = 24 * 3_600_000;
    {
      const clock = { ...systemClock, now: () => Date.now() - day - 60_000 };
      await using audit = await openAudit(stateDir, test.database, keptLog(), { clock });
      await audit.intend(intent(), old);
    }
    {
      await using audit = await openAudit(stateDir, test.database, keptLog());
      const begun = await audit.intend(intent({ facts: { pathHex: '2f' } }), open);
      // Readers see the facts of the act alone.
      expect(begun.facts).toEqual({ pathHex: '2f' });
      const [found] = (await audit.page({ visibleTo: null, operationId: begun.operationId }, 1))
        .edges;
      expect(found?.event).toEqual(begun);
      const done = await audit.intend(intent(), ended);
      await audit.conclude(entry({ intentId: done.id, message: 'it went well' }), 'done');
      // Given up once, and repeated with the same key: the second one holds it.
      for (const outcome of ['FAILED', 'SUCCEEDED'] as const) {
        const { id } = await audit.intend(intent({ message: outcome }), freed);
        const code = outcome === 'FAILED' ? 'EAUDIT' : null;
        await audit.append(entry({ intentId: id, outcome, code, message: outcome }));
        if (code) await audit.answer(id, null);
      }
    }
    const journal = join(stateDir, 'audit/journal.jsonl');
    const lines = (await readFile(journal, 'utf8')).split('\n').length - 1;
    await test.tamper('delete from idempotency_keys');
    await test.tamper('delete from audit_events');

    await using audit = await openAudit(stateDir, test.database, keptLog());
    expect(await reconcile(audit, new ScriptedFleet())).toBe(2);
    const acts: string[] = [];
    const again = async (claim: typeof open) =>
      JSON.stringify(
        await audit.once(claim, async () => {
          acts.push(claim.key);
          return { answer: 'acted', outcome: undefined };
        }),
      );
    expect(await again(open)).toMatch(/EUNKNOWN/);
    expect(await again(ended)).toMatch(/EUNKNOWN.*it went well/);
    expect(await again(freed)).toMatch(/EUNKNOWN.*SUCCEEDED/);
    expect(await again(old)).toMatch(/EUNKNOWN/);
    expect(acts).toEqual([]);
    await expect(again({ ...open, inputHash: randomBytes(32) })).rejects.toThrow(/another input/);
    const { rows } = await test.database.pool.query('select count(*)::int as n from audit_events');
    expect(rows).toEqual([{ n: lines + 2 }]);
    expect((await verify(journalRows(journal), await readChainKeys(stateDir))).findings).toEqual(
      [],
    );
  });
});
