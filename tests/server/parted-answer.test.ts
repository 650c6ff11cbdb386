import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { listing, server } from '../support/synthetic-fleet.ts';
import { type Service, startService } from '../support/synthetic-service.ts';
import { rounds } from '../support/tier.ts';

/** A page that is made again in parts says what executing it as a whole says, to the byte. */
const documents = [
  '{ members(first: 100) { nodes { id login listing { state version } tmuxServers { id cpuPercent sessions { name } } } pageInfo { hasNextPage endCursor } } }',
  'query($n: Int) { page: members(first: $n) { all: nodes { ...M login } pageInfo { hasPreviousPage } } } fragment M on Member { role t: tmuxServers { status member { login } } }',
  '{ members(filter: {listing: [UNKNOWN]}) { nodes { login listing { reason } } } }',
  '{ members { nodes { login ... on Node { id } } edges { cursor node { tmuxServers { pid } } } } }',
  '{ members { nodes { tmuxServers { sessions { windows { panes { capture { __typename } } } } } } } }',
  '{ members { nodes { login } nodes { role tmuxServers { id } } } viewer { role } }',
] as const;

const change = fc.oneof(
  fc.record({ kind: fc.constant('figures' as const), member: fc.nat(3), cpu: fc.nat(100) }),
  fc.record({ kind: fc.constant('unknown' as const), member: fc.nat(3) }),
  fc.record({ kind: fc.constant('role' as const), member: fc.nat(1) }),
  fc.record({ kind: fc.constant('join' as const) }),
  fc.record({ kind: fc.constant('nothing' as const) }),
);

async function withMembers(): Promise<Service> {
  const service = await startService();
  for (const login of ['ann', 'ben', 'cat', 'dan']) {
    const { id } = service.accounts.add(login, login === 'ann' ? 'ADMIN' : 'ANALYST');
    service.fleet.set(listing(id, [server(id, 1), server(id, 2)]));
  }
  return service;
}

const numRuns = rounds(15, 500);

describe('a page made again in parts', () => {
  it(`is the page as a whole, whatever changed in between (${numRuns} runs)`, async () => {
    let unique = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(change, { minLength: 1, maxLength: 6 }),
        fc.constantFrom('ann', 'ben'),
        async (changes, as) => {
          await using service = await withMembers();
          const text = async (query: string) =>
            await (await service.post({ query, variables: { n: 3 } }, { as })).text();
          for (const document of documents) await text(document);
          for (const [step, each] of changes.entries()) {
            const members = service.accounts.members();
            const { id, login } = members[
              ('member' in each ? each.member : 0) % members.length
            ] ?? {
              id: '',
              login: '',
            };
            if (each.kind === 'figures')
              service.fleet.set(
                listing(id, [server(id, 1, { cpuPercent: each.cpu })], { version: `v${step}` }),
              );
            if (each.kind === 'unknown')
              service.fleet.set(
                listing(id, null, { state: 'UNKNOWN', reason: 'TIMEOUT', version: `u${step}` }),
              );
            if (each.kind === 'role')
              service.accounts.setRole(login, step % 2 === 0 ? 'DEVELOPER' : 'ADMIN');
            if (each.kind === 'join') service.accounts.add(`new-${step}`, 'DEVELOPER');
            for (const document of documents) {
              unique += 1;
              const again = withoutRequestId(await text(document));
              // A document that nobody sent before is executed as a whole.
              expect(again).toBe(withoutRequestId(await text(`${document} # ${unique}`)));
            }
          }
        },
      ),
      { numRuns },
    );
  });

  it('reads each member once, and asks for nothing of those that did not change', async () => {
    await using service = await withMembers();
    const [document] = documents;
    const text = async () => await (await service.post({ query: document }, { as: 'ann' })).text();
    await text();
    const [first] = service.accounts.members();
    if (first === undefined) throw new Error('no members');
    for (let round = 0; round < 3; round++) {
      service.fleet.set(
        listing(first.id, [server(first.id, 1, { cpuPercent: round })], { version: `v${round}` }),
      );
      const before = service.fleet.reads;
      expect(await text()).toContain(`"version":"v${round}"`);
      expect(service.fleet.reads - before).toBe(4);
    }
  });
});

function withoutRequestId(text: string): string {
  return text.replace(/"requestId":"[^"]+"/g, '').replace(/"line":\d+|"column":\d+/g, '');
}
