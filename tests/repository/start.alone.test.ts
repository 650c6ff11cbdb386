import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { expect, it } from 'vitest';
import { processesWhere } from '../lab/processes.ts';
import { connect } from '../support/graphql-over-http.ts';
import { eventually, startTmux } from '../support/tmux-server.ts';
import { watchedCurl } from '../support/watched-curl.ts';

/** The README's first command, in this clone, where `npm ci` has been run. */
it('npm start ends with a service that shows a tmux session made by hand, and stops whole', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'mw-start-'));
  try {
    const stateDir = join(folder, 'state');
    const npm = execa('npm', ['start'], {
      cwd: join(import.meta.dirname, '../..'),
      env: { MUXWARDEN_STATE_DIR: stateDir, MUXWARDEN_PORT: '0', MUXWARDEN_SOCKET_DIRS: folder },
      stdin: 'ignore',
      all: true,
      reject: false,
      forceKillAfterDelay: 20_000,
    });
    let output = '';
    npm.all.on('data', (text) => {
      output += String(text);
    });
    const url = await eventually(
      () => /http:\/\/[\w.]+:\d+/.exec(output)?.[0],
      'it prints its address',
      50_000,
    );
    const [, printed = ''] = await eventually(
      () => /Try it:\n\n([\s\S]*?)\n\n/.exec(output) ?? undefined,
      'it prints a command',
    );
    const PATH = await watchedCurl(stateDir, 'mw_');
    const tried = await execa('sh', ['-c', printed], { env: { PATH } });
    expect(JSON.parse(tried.stdout)).toMatchObject({ data: { tmuxServers: { complete: true } } });
    const key = (await readFile(join(stateDir, 'admin.key'), 'utf8')).trim();
    const service = connect(url, key);
    const document = '{ tmuxServers { nodes { status sessions { name } } } }';
    const seen = async () => (await service.query(document)).data;
    expect(await seen()).toEqual({ tmuxServers: { nodes: [] } });
    {
      await using _ = await startTmux({ directory: folder, session: 'by-hand' });
      const made = performance.now();
      await eventually(
        async () => JSON.stringify(await seen()).includes('by-hand'),
        'the session is shown',
      );
      expect(performance.now() - made).toBeLessThan(6_000);
    }
    // To npm alone, as a service manager does: what it started must get it too.
    npm.kill('SIGTERM');
    expect((await npm).exitCode).toBe(0);
    expect(await processesWhere(({ command }) => command.includes(folder))).toEqual([]);
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}, 120_000);
