import { beforeEach, describe, expect, it } from 'vitest';
import type { AuditVisibility } from '../../src/audit/audit.ts';
import { Feed, type FeedTable } from '../../src/audit/feed.ts';
import type { SealedRow } from '../../src/audit/row.ts';
import { Bell } from '../../src/concurrency/bell.ts';
import { entry } from '../support/audit.ts';
import { executions, type Subscribed, subscribeOver, transports } from '../support/subscribed.ts';
import { memberUuid, SyntheticFleet } from '../support/synthetic-fleet.ts';
import { type Service, startService } from '../support/synthetic-service.ts';
import { eventually } from '../support/tmux-server.ts';

/** A row of the audit log is executed once for all who may see it, and sent to nobody else. */

/** One chain in memory, which counts how often it is asked for rows. */
class Chain implements FeedTable {
  readonly rung = new Bell();
  asked = 0;
  readonly #rows: SealedRow[] = [];

  add(actorId: string | null, memberId: string | null): void {
    const sequence = this.#rows.length + 1;
    const row = { ...entry({ actorId, memberId }), id: memberUuid(sequence), sequence };
    this.#rows.push({ ...row, chain, at: new Date(0), hash: '0'.repeat(64) } as SealedRow);
    this.rung.ring();
  }

  heads = async () => new Map([[chain, this.#rows.length]]);

  async rows(
    { after, to }: { readonly after: number; readonly to: number },
    limit: number,
    visibleTo: AuditVisibility | null,
  ) {
    this.asked += 1;
    const seen = ({ actorId, memberId }: SealedRow) =>
      visibleTo === null ||
      (actorId !== null && actorId === visibleTo.actorId) ||
      (memberId !== null && visibleTo.memberIds.includes(memberId));
    return this.#rows.slice(after, to).filter(seen).slice(0, limit);
  }
}

const chain = memberUuid(9);
let rows: Chain;
let service: Service;
let ids: Readonly<Record<'ann' | 'bob' | 'ana' | 'dev', string>>;
beforeEach(async () => {
  rows = new Chain();
  const feed = new Feed(rows, rows.rung);
  const follow = feed.follow.bind(feed);
  service = await startService({}, new SyntheticFleet(), { follow });
  const add = (login: string, role: 'ADMIN' | 'ANALYST' | 'DEVELOPER') =>
    service.accounts.add(login, role).id;
  ids = {
    ...{ ann: add('ann', 'ADMIN'), bob: add('bob', 'ADMIN') },
    ...{ ana: add('ana', 'ANALYST'), dev: add('dev', 'DEVELOPER') },
  };
  return async () => {
    feed.stop();
    await service[Symbol.asyncDispose]();
  };
});

const added = (fields: string) => `subscription($after: String) {
  auditEventAdded(after: $after) { auditEvent { sequence ${fields} } } }`;
const after = 'Ag';

interface Added {
  readonly auditEventAdded?: { readonly auditEvent: { readonly sequence: number } };
}
const sequences = ({ got }: Subscribed) =>
  got.map(({ data }) => (data as Added | undefined)?.auditEventAdded?.auditEvent.sequence);
const untilAll = (all: readonly Subscribed[], last: number) =>
  eventually(() => all.every((each) => sequences(each).includes(last)), `row ${last} for all`);

describe.each(transports)('over %s', (transport) => {
  const follow = (as: string, fields = 'action message') =>
    subscribeOver(transport, service, as, added(fields), { after });

  it('is asked and executed once for all who may see the same, whoever they are', async () => {
    rows.add(ids.ann, ids.dev);
    const all = ['ann', 'bob', 'ann', 'bob', 'ann'].map((as) => follow(as));
    await untilAll(all, 1);
    const [executed, asked] = [await executions(service.url), rows.asked];
    rows.add(ids.ann, ids.dev);
    await untilAll(all, 2);
    expect(await executions(service.url)).toBe(executed + 1);
    expect(rows.asked).toBe(asked + 1);
    for (const each of all) expect(sequences(each)).toEqual([1, 2]);
    for (const { leave } of all) leave();
  });

  it('gives each row to those alone who may see it, also where others are sent the same rows', async () => {
    service.accounts.let('bob-narrow', {
      ...service.accounts.viewer('bob'),
      ...{ credentialId: 'narrow', memberIds: new Set([ids.ana]) },
    });
    const names = ['ann', 'bob', 'bob-narrow', 'ana', 'dev'] as const;
    const seen = names.map((as) => follow(as));
    rows.add(ids.ann, null);
    rows.add(ids.ana, ids.dev);
    rows.add(ids.bob, ids.ana);
    rows.add(ids.dev, ids.ann);
    rows.add(ids.ana, ids.ana);
    rows.add(ids.dev, ids.ana);
    const expected = [
      [1, 2, 3, 4, 5, 6],
      [1, 2, 3, 4, 5, 6],
      [3, 5, 6],
      [2, 3, 5, 6],
      [2, 4, 6],
    ];
    await untilAll(seen, 6);
    expect(seen.map(sequences)).toEqual(expected);
    for (const { leave } of seen) leave();
  });

  it("what hangs below a row is each one's own, and a role that ends in between ends what it showed", async () => {
    const [ann, ana, dev] = ['ann', 'ana', 'dev'].map((as) =>
      follow(as, 'member { login role listing { state } }'),
    );
    if (ann === undefined || ana === undefined || dev === undefined) throw new Error('nobody');
    rows.add(ids.dev, ids.ana);
    await untilAll([ann, ana, dev], 1);
    expect(JSON.stringify(ann.got)).toContain('"state"');
    // The target sees its own listing; the actor may know of the act, and not look into the target.
    expect(JSON.stringify(ana.got)).toContain('"state"');
    expect(JSON.stringify(dev.got)).not.toContain('"state"');
    service.accounts.setRole('bob', 'DEVELOPER');
    service.accounts.setRole('ann', 'DEVELOPER');
    rows.add(ids.bob, ids.bob);
    rows.add(ids.dev, ids.dev);
    await untilAll([dev], 3);
    expect(sequences(ann)).toEqual([1]);
    for (const { leave } of [ann, ana, dev]) leave();
  });
});
