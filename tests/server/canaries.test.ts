import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { expect, it } from 'vitest';
import { run } from '../../src/cli/run.ts';
import { lacks } from '../support/needs.ts';
import { scratchDirectory } from '../support/scratch.ts';
import { eventually, startTmux } from '../support/tmux-server.ts';

/**
 * Secrets that went through a running service are in nothing that it leaves or says: its log, the
 * database with its write-ahead log, the journal, the metrics, and whatever it answered to a mistake.
 */
const root = join(import.meta.dirname, '../..');

it.skipIf(lacks('tmux'))(
  'keeps no secret that went through it',
  async () => {
    await using scratch = await scratchDirectory();
    const stateDir = join(scratch.path, 'state');
    const sockets = join(scratch.path, 's');
    await mkdir(sockets, { mode: 0o700 });
    const env = {
      PATH: process.env.PATH ?? '',
      HOME: scratch.path,
      MUXWARDEN_STATE_DIR: stateDir,
      MUXWARDEN_PORT: '0',
      MUXWARDEN_SOCKET_DIRS: sockets,
    };
    const cli = async (words: readonly string[], secret = '') => {
      const out: string[] = [];
      const io = {
        environment: env,
        out: (text: string) => out.push(text),
        note: () => undefined,
        readSecret: async () => secret,
      };
      expect(await run(words, io)).toBe(0);
      return out.join('\n');
    };
    const running = execa(process.execPath, [join(root, 'bin/muxwarden.js'), 'serve'], {
      ...{ env, extendEnv: false, stdin: 'ignore', reject: false, all: true },
      forceKillAfterDelay: 15_000,
    });
    let log = '';
    running.all?.on('data', (piece: Buffer) => {
      log += piece.toString();
    });
    const url = await eventually(() => /http:\/\/[\w.]+:\d+/.exec(log)?.[0], 'its address', 50_000);

    const passwords = { right: 'canary-password-right', wrong: 'canary-password-wrong' };
    const { login } = JSON.parse(await cli(['members', 'list', '--json'])) as { login: string };
    await cli(['members', 'passwd', login], passwords.right);
    const key = await cli(['keys', 'create', 'k', '--scopes', 'read,stream']);
    const link = await cli(['login']);
    const token = link.split('#')[1] ?? expect.fail(link);
    const signedIn = await fetch(`${url}/sign-in`, {
      method: 'POST',
      redirect: 'manual',
      headers: { origin: url },
      body: new URLSearchParams({ token }),
    });
    const cookie = /muxwarden=([^;]+)/.exec(signedIn.headers.get('set-cookie') ?? '')?.[1];
    expect(cookie).toBeTruthy();

    const said: string[] = [];
    const post = async (headers: Record<string, string>, body: unknown) => {
      const response = await fetch(`${url}/graphql`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      });
      return await response.text();
    };
    const session = { cookie: `muxwarden=${cookie}`, origin: url, 'x-muxwarden-csrf': '1' };
    const bearer = { authorization: `Bearer ${key}` };
    await using _tmux = await startTmux({
      directory: sockets,
      command: ['echo canary-on-the-screen; exec cat'],
    });
    const find =
      '{ tmuxServers { nodes { id generation sessions { windows { panes { id capture { ... on PaneCapture { text } } } } } } } }';
    const found = await eventually(async () => {
      const answer = await post(bearer, { query: find });
      return answer.includes('canary-on-the-screen') ? JSON.parse(answer) : undefined;
    }, 'the screen');
    const [server] = found.data.tmuxServers.nodes;
    const pane = server.sessions[0].windows[0].panes[0].id;

    const restart = async (change: object, idempotencyKey: string) =>
      await post(session, {
        query:
          'mutation($input: RestartTmuxServerInput!) { restartTmuxServer(input: $input) { __typename ... on UserError { code message } } }',
        variables: {
          input: {
            ...{ tmuxServerId: server.id, expectedGeneration: server.generation, idempotencyKey },
            restoreCommands: [{ paneId: pane, command: ['sh', '-c', ': canary-typed; exec cat'] }],
            ...change,
          },
        },
      });
    said.push(await restart({ password: passwords.wrong }, 'one'));
    said.push(await restart({ password: { is: passwords.right } }, 'two'));
    said.push(await restart({ pasword: passwords.right }, 'three'));
    said.push(await restart({ password: passwords.right, grant: 'canary-grant' }, 'four'));
    said.push(
      await post({ authorization: 'Bearer mw_canary-key' }, { query: '{ viewer { role } }' }),
    );
    said.push(
      await post(
        { ...session, cookie: 'muxwarden=canary-cookie' },
        { query: '{ viewer { role } }' },
      ),
    );
    said.push(await post(bearer, `{"query": "{ viewer { role } ", "canary": "canary-body`));
    const done = await restart({ password: passwords.right }, 'five');
    expect(done).toContain('RestartTmuxServerPayload');
    said.push(done, await (await fetch(`${url}/metrics`)).text());
    const form = (body: string) =>
      fetch(`${url}/sign-in`, {
        method: 'POST',
        headers: { origin: url },
        body: new URLSearchParams({ token: body }),
      });
    said.push(await (await form('canary-token')).text(), await (await form(token)).text());

    // While PostgreSQL has not been stopped its write-ahead log is as it was written.
    const leaked = async () => {
      const secrets = [
        key,
        key.slice('mw_0123456789abcdef_'.length),
        token,
        cookie ?? '',
        'canary',
      ];
      const places: string[] = [];
      const look = (where: string, text: Buffer | string) => {
        for (const secret of secrets) if (text.includes(secret)) places.push(`${where}: ${secret}`);
      };
      look('log', log);
      for (const [index, answer] of said.entries()) look(`answer ${index}`, answer);
      let files = 0;
      for (const entry of await readdir(stateDir, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile()) continue;
        const path = join(entry.parentPath, entry.name);
        files++;
        look(path.slice(stateDir.length), await readFile(path).catch(() => ''));
      }
      return { places, files };
    };
    const before = await leaked();
    running.kill('SIGTERM');
    await running;
    const after = await leaked();
    expect([...before.places, ...after.places]).toEqual([]);
    // What must be there was looked at as well.
    expect(before.files).toBeGreaterThan(500);
    const journal = await readFile(join(stateDir, 'audit/journal.jsonl'), 'utf8');
    expect(journal).toMatch(/"EREAUTH"/);
    expect(journal).toMatch(/"SUCCEEDED"/);
    expect(log).toContain('"level"');
  },
  180_000,
);
