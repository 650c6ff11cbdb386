import { beforeEach, describe, expect, it } from 'vitest';
import { encodeId } from '../../src/resolvers/id.ts';
import { bootId, listing, pathHex, server, session } from '../support/synthetic-fleet.ts';
import { type Answer, type Service, startService } from '../support/synthetic-service.ts';

interface PanesPage {
  readonly panes: {
    readonly nodes: readonly { readonly id: string }[];
    readonly pageInfo: { hasNextPage: boolean; hasPreviousPage: boolean; endCursor: string };
  };
}
const fail = (): never => {
  throw new Error('no page');
};

let service: Service;
beforeEach(async () => {
  service = await startService();
  return async () => await service[Symbol.asyncDispose]();
});

/** ann (ADMIN) has two servers, ben (ANALYST) one that is not known, cat (DEVELOPER) none, dan no Linux user. */
function members() {
  const { accounts, fleet } = service;
  const ann = accounts.add('ann', 'ADMIN');
  const ben = accounts.add('ben', 'ANALYST');
  const cat = accounts.add('cat', 'DEVELOPER');
  const dan = accounts.add('dan', 'DEVELOPER', { osUser: null });
  fleet.set(listing(ann.id, [server(ann.id, 1), server(ann.id, 2, { sessions: null })]));
  fleet.set(
    listing(ben.id, null, { state: 'UNKNOWN', reason: 'EACCES', detail: 'not even its owner' }),
  );
  fleet.set(listing(cat.id, []));
  return { ann, ben, cat, dan };
}

describe('members', () => {
  it('keep their place whatever is known of them: unknown is null, none is []', async () => {
    members();
    const { data } = await service.query<Record<string, unknown>>(
      'ann',
      '{ members { nodes { login listing { state reason } tmuxServers { socketPath } } } }',
    );
    expect(data).toEqual({
      members: {
        nodes: [
          {
            login: 'ann',
            listing: { state: 'FRESH', reason: null },
            tmuxServers: [
              { socketPath: '/tmp/tmux-1001/default-1' },
              { socketPath: '/tmp/tmux-1002/default-2' },
            ],
          },
          { login: 'ben', listing: { state: 'UNKNOWN', reason: 'EACCES' }, tmuxServers: null },
          { login: 'cat', listing: { state: 'FRESH', reason: null }, tmuxServers: [] },
          { login: 'dan', listing: { state: 'FRESH', reason: null }, tmuxServers: [] },
        ],
      },
    });
  });

  it('are shown to an analyst, and to a developer its own alone', async () => {
    members();
    const logins = async (as: string, filter = '') => {
      const { data } = await service.query<{ members: { nodes: { login: string }[] } }>(
        as,
        `{ members${filter} { nodes { login } } }`,
      );
      return data?.members.nodes.map(({ login }) => login);
    };
    expect(await logins('ben')).toEqual(['ann', 'ben', 'cat', 'dan']);
    expect(await logins('cat')).toEqual(['cat']);
    expect(await logins('ann', '(filter: {listing: [UNKNOWN]})')).toEqual(['ben']);
    expect(await logins('ann', '(filter: {role: DEVELOPER, search: "A"})')).toEqual(['cat', 'dan']);
    expect((await service.query('cat', '{ member(login: "ann") { id } }')).data).toEqual({
      member: null,
    });
    expect((await service.query('cat', '{ member(login: "zoe") { id } }')).data).toEqual({
      member: null,
    });
  });

  it('are forbidden, not absent, to a key without READ', async () => {
    members();
    service.accounts.let('ann', { ...service.accounts.viewer('ann'), scopes: new Set(['STREAM']) });
    for (const query of [
      '{ members { nodes { id } } }',
      '{ panes { nodes { id } } }',
      '{ viewer { member { tmuxServers { id } } } }',
    ]) {
      const { errors } = await service.query('ann', query);
      expect(errors?.map(({ extensions }) => extensions.code)).toEqual(['FORBIDDEN']);
    }
    expect((await service.query('ann', '{ viewer { member { login } } }')).data).toEqual({
      viewer: { member: { login: 'ann' } },
    });
  });
});

describe('tmuxServers and panes', () => {
  it('say that they are not complete, and why', async () => {
    members();
    const { data } = await service.query<Record<string, unknown>>(
      'ann',
      `{ tmuxServers { complete unknownMembers { login } nodes { socketPath } }
         panes { complete unknownMembers { login } unknownServers { socketPath } nodes { tmuxId } }
         one: panes(filter: {command: "vim"}) { complete nodes { id } } }`,
    );
    expect(data).toEqual({
      tmuxServers: {
        complete: false,
        unknownMembers: [{ login: 'ben' }],
        nodes: [
          { socketPath: '/tmp/tmux-1001/default-1' },
          { socketPath: '/tmp/tmux-1002/default-2' },
        ],
      },
      panes: {
        complete: false,
        unknownMembers: [{ login: 'ben' }],
        unknownServers: [{ socketPath: '/tmp/tmux-1002/default-2' }],
        nodes: [{ tmuxId: '%0' }],
      },
      one: { complete: false, nodes: [] },
    });
    const { data: mine } = await service.query<{ panes: unknown }>(
      'cat',
      '{ panes { complete nodes { id } } }',
    );
    expect(mine?.panes).toEqual({ complete: true, nodes: [] });
  });

  it('list a window that is linked twice in both sessions, and its pane once', async () => {
    const ann = service.accounts.add('ann', 'ADMIN');
    const shared = session(0).windows[0];
    if (shared === undefined) throw new Error('no window');
    const sessions = [
      session(3, { windows: [{ ...shared, index: 5 }] }),
      session(4, { windows: [{ ...shared, index: 1 }] }),
    ];
    service.fleet.set(listing(ann.id, [server(ann.id, 1, { sessions })]));
    const { data } = await service.query<{
      panes: {
        nodes: {
          window: { index: number; id: string };
          windows: { id: string; session: { tmuxId: string } }[];
        }[];
      };
    }>('ann', '{ panes { nodes { window { id index } windows { id session { tmuxId } } } } }');
    const [pane, ...rest] = data?.panes.nodes ?? [];
    expect(rest).toEqual([]);
    expect(pane?.window.index).toBe(5);
    expect(pane?.windows.map((each) => each.session.tmuxId)).toEqual(['$3', '$4']);
    expect(pane?.windows[0]?.id).toBe(pane?.window.id);
    expect(pane?.windows[1]?.id).not.toBe(pane?.window.id);
    const { data: nodes } = await service.query<{ nodes: unknown }>(
      'ann',
      'query($ids: [ID!]!) { nodes(ids: $ids) { ... on TmuxWindow { index } } }',
      { ids: pane?.windows.map(({ id }) => id) },
    );
    expect(nodes?.nodes).toEqual([{ index: 5 }, { index: 1 }]);
  });

  it('page through everything once', async () => {
    const ann = service.accounts.add('ann', 'ADMIN');
    service.fleet.set(
      listing(
        ann.id,
        [1, 2, 3].map((each) =>
          server(ann.id, each, { sessions: [0, 1, 2, 3].map((at) => session(at)) }),
        ),
      ),
    );
    const seen: string[] = [];
    let after: string | null = null;
    do {
      const page: Answer<PanesPage> = await service.query(
        'ann',
        'query($after: String) { panes(first: 5, after: $after) { nodes { id } pageInfo { hasNextPage hasPreviousPage endCursor } } }',
        { after },
      );
      const { nodes, pageInfo } = page.data?.panes ?? fail();
      expect(pageInfo.hasPreviousPage).toBe(seen.length > 0);
      seen.push(...nodes.map(({ id }) => id));
      after = pageInfo.hasNextPage ? pageInfo.endCursor : null;
    } while (after !== null);
    expect(seen).toHaveLength(12);
    expect(new Set(seen).size).toBe(12);
  });
});

describe('node', () => {
  it('of a past generation, of another member, of garbage: null alone', async () => {
    const { ann, cat } = members();
    const life = { memberId: ann.id, pathHex: pathHex('/tmp/tmux-1001/default-1') };
    const now = encodeId({
      type: 'TmuxPane',
      ref: { ...life, generation: `${bootId}:4001:100001`, pane: 0 },
    });
    const past = encodeId({
      type: 'TmuxPane',
      ref: { ...life, generation: `${bootId}:3999:99999`, pane: 0 },
    });
    const absent = encodeId({
      type: 'TmuxPane',
      ref: { ...life, generation: `${bootId}:4001:100001`, pane: 9 },
    });
    const own = encodeId({ type: 'Member', id: cat.id });
    const ask = (as: string) =>
      service.query(as, 'query($ids: [ID!]!) { nodes(ids: $ids) { __typename id } }', {
        ids: [now, past, absent, own, '%0', 'garbage'],
      });
    expect(await ask('ann')).toEqual({
      data: {
        nodes: [
          { __typename: 'TmuxPane', id: now },
          null,
          null,
          { __typename: 'Member', id: own },
          null,
          null,
        ],
      },
    });
    expect(await ask('cat')).toEqual({
      data: { nodes: [null, null, null, { __typename: 'Member', id: own }, null, null] },
    });
  });

  it('of something unknown: null with LISTING_UNKNOWN, each entry for itself', async () => {
    const { ann, ben } = members();
    const generation = `${bootId}:4002:100002`;
    const unseen = encodeId({
      type: 'TmuxSession',
      ref: {
        memberId: ann.id,
        pathHex: pathHex('/tmp/tmux-1002/default-2'),
        generation,
        session: 0,
      },
    });
    const unlisted = encodeId({ type: 'TmuxServer', ref: { memberId: ben.id, pathHex: '2f78' } });
    const answer = await service.query('ann', 'query($ids: [ID!]!) { nodes(ids: $ids) { id } }', {
      ids: [unseen, unlisted, encodeId({ type: 'Member', id: ann.id })],
    });
    expect(answer.data).toMatchObject({ nodes: [null, null, {}] });
    expect(
      answer.errors?.map(({ path, extensions }) => [path?.[1], extensions.code]).sort(),
    ).toEqual([
      [0, 'LISTING_UNKNOWN'],
      [1, 'LISTING_UNKNOWN'],
    ]);
  });
});

describe('capture', () => {
  it('is null with FORBIDDEN for whoever may see the pane but not the screen', async () => {
    members();
    const query =
      '{ panes { nodes { tmuxId capture(lines: 3) { ... on PaneCapture { text data } } } } }';
    expect((await service.query('ann', query)).data).toMatchObject({
      panes: { nodes: [{ capture: { text: 'screen of %0 with 3 lines above\n' } }] },
    });
    const refused = await service.query('ben', query);
    expect(refused.data).toEqual({ panes: { nodes: [{ tmuxId: '%0', capture: null }] } });
    expect(refused.errors?.map(({ extensions }) => extensions.code)).toEqual(['FORBIDDEN']);
    const { errors } = await service.query('ann', query.replace('3', '10001'));
    expect(errors?.[0]?.message).toMatch(/`lines` is from 0 to 10000/);
  });
});

describe('installation and apiKeys', () => {
  it('are for an ADMIN, and for everybody their own', async () => {
    const { ann, cat } = members();
    const key = {
      publicId: 'x',
      name: 'k',
      scopes: [],
      memberIds: null,
      createdAt: new Date(0),
      expiresAt: null,
      lastUsedAt: null,
      endedAt: null,
      revokedAt: null,
    };
    service.accounts.keys = [
      { ...key, id: ann.id, memberId: ann.id },
      { ...key, id: cat.id, memberId: cat.id },
    ];
    const query = '{ installation { mode limits { name } } apiKeys { member { login } } }';
    const admin = await service.query<Record<string, unknown[]>>('ann', query);
    expect(admin.errors).toBeUndefined();
    expect(admin.data?.apiKeys).toHaveLength(2);
    const other = await service.query('cat', query);
    expect(other.data).toEqual({ installation: null, apiKeys: [{ member: { login: 'cat' } }] });
    expect(other.errors?.map(({ extensions }) => extensions.code)).toEqual(['FORBIDDEN']);
  });
});

describe('an answer that is kept', () => {
  const query = '{ members(first: 100) { nodes { login tmuxServers { cpuPercent } } } }';
  const text = async (as: string) => await (await service.post({ query }, { as })).text();

  it('is given again only while every value that it was made of is the same', async () => {
    const { ann, cat } = members();
    const first = await text('ann');
    expect(await text('ann')).toBe(first);
    service.fleet.set(listing(ann.id, [server(ann.id, 1, { cpuPercent: 42 })]));
    const second = await text('ann');
    expect(second).toContain('"cpuPercent":42');
    service.fleet.set(listing(cat.id, [server(cat.id, 3)]));
    expect(await text('ann')).not.toBe(second);
    service.accounts.add('eve', 'DEVELOPER');
    expect(await text('ann')).toContain('"eve"');
  });

  it('is never another viewer’s, and changes with the role', async () => {
    members();
    const all = await text('ann');
    const own = await text('cat');
    expect(own).not.toBe(all);
    expect(JSON.parse(own).data.members.nodes).toHaveLength(1);
    expect(await text('ann')).toBe(all);
    service.accounts.setRole('ann', 'DEVELOPER');
    expect(JSON.parse(await text('ann')).data.members.nodes).toHaveLength(1);
    service.accounts.let('cat', undefined);
    expect((await service.post({ query }, { as: 'cat' })).status).toBe(401);
  });

  it('changes with what a key may touch, also right after it was given again', async () => {
    const { ben } = members();
    const all = await text('ann');
    for (let times = 0; times < 5; times += 1) expect(await text('ann')).toBe(all);
    const key = service.accounts.viewer('ann');
    service.accounts.let('ann', { ...key, memberIds: new Set([ben.id]) });
    const narrow = JSON.parse(await text('ann')).data.members.nodes;
    expect(narrow.map(({ login }: { login: string }) => login)).toEqual(['ben']);
    service.accounts.let('ann', { ...key, scopes: new Set(['STREAM']) });
    expect(JSON.parse(await text('ann')).errors[0].extensions.code).toBe('FORBIDDEN');
    service.accounts.let('ann', key);
    expect(await text('ann')).toBe(all);
  });

  it('still asks behind the answer, as executing it would', async () => {
    members();
    await text('ann');
    await new Promise((resolve) => setTimeout(resolve, 150));
    const before = service.fleet.reads;
    const began = performance.now();
    await text('ann');
    expect(service.fleet.reads - before).toBe(4);
    // Within 100 ms of that, asking once more would ask for nothing else.
    await text('ann');
    if (performance.now() - began < 100) expect(service.fleet.reads - before).toBe(4);
  });
});
