import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Member } from '../../src/members/member.ts';
import { encodeId } from '../../src/resolvers/id.ts';
import type { LocalFleet } from '../../src/tmux/local-fleet.ts';
import {
  type AccountsService,
  cookieOf,
  startAccountsService,
} from '../support/accounts-service.ts';
import { cuttingProxy } from '../support/cutting-proxy.ts';
import { type LocalFleetFixture, localFleet } from '../support/local-fleet.ts';
import { lacks } from '../support/needs.ts';
import { paneIdOf } from '../support/pane-clients.ts';
import { bootId, listing, memberUuid, pathHex, server } from '../support/synthetic-fleet.ts';
import { type Service, startServiceOn } from '../support/synthetic-service.ts';
import type { TmuxServer } from '../support/tmux-server.ts';
import { eventually } from '../support/tmux-server.ts';
import { watchedCurl } from '../support/watched-curl.ts';

/** The examples of docs/, run word for word against a service with real tmux. */
const root = join(import.meta.dirname, '../..');

async function examples(page: string, language: 'sh' | 'js'): Promise<readonly string[]> {
  const text = await readFile(join(root, 'docs', page), 'utf8');
  const blocks = text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm);
  return [...blocks].flatMap(([, of, block = '']) => (of === language ? [block] : []));
}

describe.skipIf(lacks('tmux', 'curl', 'bash'))('the examples', () => {
  let local: LocalFleetFixture;
  let service: Service<LocalFleet>;
  let tmux: TmuxServer;
  let environment: Record<string, string>;
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mw-docs-'));
    local = await localFleet({ memberIds: [memberUuid(1)] });
    tmux = await local.tmux({ command: ['echo on the screen; exec cat'] });
    service = await startServiceOn(local.fleet);
    service.accounts.add('ann', 'ADMIN');
    const pane = await eventually(async () => {
      const { data } = await service.query<{
        panes: { nodes: { id: string; capture: { text: string } }[] };
      }>('ann', '{ panes { nodes { id capture { ... on PaneCapture { text } } } } }');
      const [node] = data?.panes.nodes ?? [];
      return node?.capture.text.includes('on the screen') ? node.id : undefined;
    }, 'the pane to show its text');
    environment = {
      PATH: await watchedCurl(folder, 'mw_'),
      MUXWARDEN_URL: service.url,
      MUXWARDEN_KEY: 'mw_ann',
      MUXWARDEN_PANE: pane,
    };
  });
  afterAll(async () => {
    await service?.[Symbol.asyncDispose]();
    await local?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  const shell = (example: string) => ['bash', '-c', `set -e\n${example}`];
  // Modules are looked for from here.
  const script = (example: string) => [process.execPath, '--input-type=module', '--eval', example];
  const start = ([program = '', ...words]: readonly string[], over: object = {}) =>
    execa(program, words, {
      cwd: root,
      extendEnv: false,
      env: { ...environment, ...over },
      reject: false,
      timeout: 30_000,
    });

  it('of queries answer with data, the whole of it', async () => {
    const [overview = '', vim = ''] = await examples('api.md', 'sh');
    const { data, errors } = JSON.parse((await start(shell(overview))).stdout);
    expect(errors).toBeUndefined();
    expect(data).toMatchObject({
      viewer: { role: 'ADMIN' },
      tmuxServers: {
        complete: true,
        nodes: [{ member: { login: 'ann' }, socketPath: tmux.socket, status: 'RUNNING' }],
      },
    });
    const page = JSON.parse((await start(shell(vim))).stdout);
    expect(page).toEqual({
      data: {
        panes: { complete: true, nodes: [], pageInfo: { hasNextPage: false, endCursor: null } },
      },
    });
  });

  it('of a script that reads every screen prints them', async () => {
    const [reader = ''] = await examples('api.md', 'js');
    const { stdout, stderr } = await start(script(reader));
    expect(stderr).toBe('');
    expect(stdout).toMatch(/^%0 on the screen\n/);
  });

  it('of listings over server-sent events begin with each member and a sync', async () => {
    const [follow = ''] = await examples('subscriptions.md', 'sh');
    const running = start(shell(`${follow.trimEnd()} --max-time 3 || true`));
    const { stdout } = await running;
    const events = [...stdout.matchAll(/^data: (\{.*\})$/gm)].map(
      ([, event = '']) => JSON.parse(event).data.listingChanged,
    );
    expect(events[0]).toMatchObject({
      __typename: 'ListingSnapshot',
      member: { login: 'ann', tmuxServers: [{ sessions: [{ name: 'main' }] }] },
    });
    expect(events[1]).toEqual({ __typename: 'ListingSynced' });
  });

  describe('of streams', () => {
    let directory: string;
    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'mw-'));
      await symlink(join(root, 'node_modules'), join(directory, 'node_modules'));
      for (const example of await examples('subscriptions.md', 'js')) {
        const [, name = ''] = /^\/\/ ([\w-]+\.mjs)\n/.exec(example) ?? [];
        await writeFile(join(directory, name), example);
      }
      // As `npm init` makes it.
      await writeFile(join(directory, 'package.json'), '{ "type": "commonjs" }');
    });
    afterAll(async () => await rm(directory, { recursive: true, force: true }));

    /** A pane that prints `bytes` once it is told to; what the terminal answers to some of them is read by nobody. */
    async function printer(bytes: Uint8Array) {
      const file = join(directory, 'bytes');
      await writeFile(file, bytes);
      const command = `stty raw -echo; printf 'before\\r\\n'; head -c 1 >/dev/null; perl -e '
        $| = 1; open F, "<", "${file}";
        while (sysread F, $piece, 1 + int rand 4096) {
          syswrite STDOUT, $piece; select undef, undef, undef, 0.01 * rand;
        }'; printf '\\r\\nbehind'; exec sleep 1000`;
      const tmuxId = await tmux.run('new-window', '-dPF', '#{pane_id}', '-t', 'main:', command);
      await local.refresh();
      return { tmuxId, id: await paneIdOf(service.query, tmuxId) };
    }
    const cutting = (most: number) => {
      return cuttingProxy(service.url, (cuts) =>
        cuts < most ? 500 + Math.floor(60_000 * Math.random()) : undefined,
      );
    };

    it.each(['pane-events.mjs', 'pane-events-sse.mjs'])(
      'by %s print every byte over lost connections, until the pane is closed',
      async (source) => {
        // A first byte that continues a character would ask for a second screen.
        const bytes = Buffer.concat([Buffer.from('-'), randomBytes(300_000)]);
        const { tmuxId, id } = await printer(bytes);
        await using proxy = await cutting(5);
        const file = join(directory, `with-${source}`);
        const print = await readFile(join(directory, 'print.mjs'), 'utf8');
        await writeFile(file, print.replace('./pane-events.mjs', `./${source}`));
        const over = { MUXWARDEN_URL: proxy.url, MUXWARDEN_PANE: id };
        const running = start([process.execPath, file], over);
        const seen: Buffer[] = [];
        const all = () => Buffer.concat(seen);
        running.stdout?.on('data', (piece: Buffer) => seen.push(piece));
        await eventually(() => all().includes('before'), 'the screen');
        await tmux.run('send-keys', '-t', tmuxId, 'x');
        await eventually(() => all().subarray(-6).toString() === 'behind', 'the end', 30_000);
        await tmux.run('kill-pane', '-t', tmuxId);
        const { exitCode, stderr } = await running;
        expect(stderr).toContain("__typename: 'PaneClosed'");
        expect(stderr).not.toContain('PaneGap');
        expect(exitCode).toBe(0);
        const printed = all().subarray(-8 - bytes.length, -8);
        expect(createHash('sha256').update(printed).digest('hex')).toBe(
          createHash('sha256').update(bytes).digest('hex'),
        );
        expect(proxy.cuts).toBe(5);
      },
    );

    it('in xterm.js show what tmux shows, over lost connections and resizing', async () => {
      const lines = Array.from({ length: 4_000 }, (_, n) => `${n} \x1b[3${n % 8}mé世🙂\x1b[m\r\n`);
      const { tmuxId, id } = await printer(Buffer.from(lines.join('')));
      await using proxy = await cutting(1);
      const show = join(directory, 'show.mjs');
      await writeFile(
        show,
        `import headless from '@xterm/headless';
        import { showPane } from './terminal.mjs';
        const { MUXWARDEN_URL, MUXWARDEN_PANE, MUXWARDEN_KEY } = process.env;
        const terminal = new headless.Terminal({ scrollback: 0, allowProposedApi: true });
        const say = () => {
          const rows = Array.from({ length: terminal.rows }, (_, row) =>
            terminal.buffer.active.getLine(row).translateToString(true));
          console.log(JSON.stringify({ columns: terminal.cols, rows }));
        };
        const timer = setInterval(say, 100);
        const last = await showPane(terminal, MUXWARDEN_URL, MUXWARDEN_PANE, MUXWARDEN_KEY);
        clearInterval(timer);
        console.log(last.__typename);`,
      );
      const running = start([process.execPath, show], {
        MUXWARDEN_URL: proxy.url,
        MUXWARDEN_PANE: id,
      });
      let seen = '';
      running.stdout?.on('data', (piece: Buffer) => {
        seen += piece.toString();
      });
      await eventually(() => seen.includes('"before"'), 'the first screen');
      await tmux.run('send-keys', '-t', tmuxId, 'x');
      const screen = () => tmux.run('capture-pane', '-p', '-t', tmuxId);
      await eventually(async () => (await screen()).endsWith('behind'), 'the end', 30_000);
      await tmux.run('resize-window', '-t', tmuxId, '-x', '60', '-y', '12');
      const rows = (await screen()).split('\n');
      await eventually(
        () => seen.split('\n').includes(JSON.stringify({ columns: 60, rows })),
        'the screen of tmux',
      );
      expect(proxy.cuts).toBe(1);
      await tmux.run('kill-pane', '-t', tmuxId);
      const { stdout, stderr } = await running;
      expect(stderr).toBe('');
      expect(stdout.split('\n').at(-1)).toBe('PaneClosed');
    });
  });
});

describe.skipIf(lacks('curl', 'bash'))('the examples about accounts', () => {
  let service: AccountsService;
  let environment: Record<string, string>;
  let folder: string;
  let ann: Member;
  const password = 'canary-correct-horse';
  beforeAll(async () => {
    service = await startAccountsService();
    ann = await service.add('ann', 'ADMIN', password);
    folder = await mkdtemp(join(tmpdir(), 'mw-docs-'));
    environment = {
      PATH: await watchedCurl(folder, 'mw_', 'initialPassword'),
      MUXWARDEN_URL: service.url,
      MUXWARDEN_KEY: await service.key(ann),
      MUXWARDEN_LOGIN: 'ann',
      MUXWARDEN_PASSWORD: password,
    };
  });
  afterAll(async () => {
    await service?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  const run = (program: string, words: readonly string[]) =>
    execa(program, words, {
      ...{ cwd: folder, extendEnv: false, env: environment, reject: false, timeout: 30_000 },
      stdin: 'ignore',
    });

  it('add a member and a key by curl, and take both away again', async () => {
    const [example = ''] = await examples('api-keys.md', 'sh');
    const { stdout, stderr } = await run('bash', ['-c', `set -e\n${example}`]);
    expect(stderr).toBe('');
    expect(await readdir(folder)).toEqual(['curl']);
    const answers = stdout.split(/(?<=\})\s*(?=\{"data")/).map((text) => JSON.parse(text));
    expect(answers).toMatchObject([
      { data: { createMember: { member: { login: 'dana', role: 'DEVELOPER' } } } },
      {
        data: {
          createApiKey: {
            key: expect.stringMatching(/^mw_/),
            apiKey: { scopes: ['READ', 'ACT'], expiresAt: '2099-01-01T00:00:00.000Z' },
          },
        },
      },
      { data: { apiKeys: expect.arrayContaining([expect.objectContaining({ name: 'nightly' })]) } },
      { data: { revokeApiKey: { apiKey: { revokedAt: expect.any(String) } } } },
      { data: { updateMember: { member: { role: 'ANALYST' } } } },
      {
        data: { deleteMember: { member: { login: 'dana' }, auditEvent: { outcome: 'SUCCEEDED' } } },
      },
    ]);
  });

  it('stream by server-sent events in a browser that is signed in', async () => {
    const [, sse = ''] = await examples('subscriptions.md', 'js');
    const signedIn = await service.post(
      'mutation($input: SignInInput!) { signIn(input: $input) { __typename } }',
      { input: { login: 'ann', password } },
      { headers: { origin: service.url, 'x-muxwarden-csrf': '1' } },
    );
    const cookie = cookieOf(signedIn);
    service.fleet.set(listing(ann.id, [server(ann.id, 1)]));
    const path = pathHex('/tmp/tmux-1001/default-1');
    const gone = { memberId: ann.id, pathHex: path, generation: `${bootId}:7:7`, pane: 0 };
    const pane = encodeId({ type: 'TmuxPane', ref: gone });
    // What a browser adds by itself.
    const page = `const { fetch: plain } = globalThis;
      globalThis.fetch = (url, { headers, ...more }) => plain(url, { ...more, headers:
        { ...headers, origin: ${JSON.stringify(service.url)}, cookie: ${JSON.stringify(cookie)} } });
      for await (const { code } of paneEvents(${JSON.stringify(service.url)}, ${JSON.stringify(pane)})) console.log(code);`;
    const { stdout, stderr } = await run(process.execPath, [
      ...['--input-type=module', '--eval', `${sse}\n${page}`],
    ]);
    expect(stderr).toBe('');
    expect(stdout).toBe('ESTALE');
  });

  it('sign in, get a grant, make and revoke a key and sign out by a script', async () => {
    const [example = ''] = await examples('api-keys.md', 'js');
    const { stdout, stderr } = await run(process.execPath, [
      ...['--input-type=module', '--eval', example],
    ]);
    expect(stderr).toBe('');
    expect(stdout).toBe('signed in: ann, ADMIN\nmade: true\nsigned out: true');
  });
});
