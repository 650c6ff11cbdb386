import { chmod, readdir, readFile, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hex } from '../../support/helper-client.ts';
import { lacks } from '../../support/needs.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { eventually } from '../../support/tmux-server.ts';
import { Member, type StartedServer } from './member.ts';

/** What runs in panes, as the helper tells it of real programs in real terminals. */
const names = ['claude', 'gemini-cli', 'aider', 'codex'].map(hex).join(',');

let member: Member;
beforeAll(async () => {
  member = await Member.any();
});
afterAll(() => member[Symbol.asyncDispose]());

type PaneRow = Readonly<Record<string, string>>;

async function panes(server: StartedServer): Promise<readonly PaneRow[]> {
  return (await member.snapshot(` agents=${names}`)).server(server.socket).of('pane');
}

/** Waits until a pane is so: what was typed or started takes its time. */
function pane(server: StartedServer, number: number, wanted: PaneRow): Promise<PaneRow> {
  let last: PaneRow | undefined;
  return eventually(
    async () => {
      last = (await panes(server)).find(({ id }) => id === String(number));
      const fits = Object.entries(wanted).every(([name, value]) => last?.[name] === value);
      return fits ? last : undefined;
    },
    `pane %${number} like ${JSON.stringify(wanted)}`,
  ).catch((error: unknown) => {
    throw new Error(`${error}; it was ${JSON.stringify(last)}`);
  });
}

/** A script of that name that waits. */
async function script(name: string, text: string): Promise<string> {
  const path = member.path(name);
  await writeFile(path, text);
  await chmod(path, 0o755);
  return path;
}

const atRest = { doing: 'shell', agent: '', lasting: '', job: '', report: '' };
const now = () => Math.floor(Date.now() / 1_000);

describe.each(presentClasses)('of a %s server', (version) => {
  it('a shell at its prompt, its jobs, and its programs are told apart', async () => {
    await using server = await member.server(version, `jobs-${version}`);
    await server.tmux('respawn-pane', '-k', '-t', '%0', 'exec bash --norc -i');
    await pane(server, 0, { ...atRest, command: 'bash' });

    await server.tmux('send-keys', '-t', '%0', 'sleep 1000', 'Enter');
    await pane(server, 0, { doing: 'program', command: 'sleep', job: '' });
    await server.tmux('send-keys', '-t', '%0', 'C-z');
    await pane(server, 0, { doing: 'shell', job: 'sleep' });
    await server.tmux('send-keys', '-t', '%0', 'kill %1', 'Enter');
    await pane(server, 0, atRest);

    await server.tmux('send-keys', '-t', '%0', 'sleep 1000 &', 'Enter');
    await pane(server, 0, { doing: 'shell', job: 'sleep' });
    await server.tmux('send-keys', '-t', '%0', 'tail -f /dev/null', 'Enter');
    await pane(server, 0, { doing: 'program', command: 'tail', job: 'sleep' });
    await server.tmux('send-keys', '-t', '%0', 'C-c');
    await server.tmux('send-keys', '-t', '%0', 'kill $!', 'Enter');
    await pane(server, 0, atRest);

    await server.tmux('send-keys', '-t', '%0', 'while :; do :; done', 'Enter');
    await pane(server, 0, { doing: 'shell', job: 'the shell itself' });
    await server.tmux('send-keys', '-t', '%0', 'C-c');
    await pane(server, 0, atRest);

    // Left by its parent, it is still of that terminal.
    await server.tmux('send-keys', '-t', '%0', '(sleep 1000 &)', 'Enter');
    await pane(server, 0, { doing: 'shell', job: 'sleep' });
  });

  it('what a pane reports comes as it is, cut and in one piece, and runs nothing', async () => {
    await using server = await member.server(version, `report-${version}`);
    const set = (value: string) =>
      server.tmux('set-option', '-p', '-t', '%0', '@agent_state', value);
    await set('working:1767225600');
    await pane(server, 0, { report: 'working:1767225600' });
    // Half a million characters do not fit into arguments.
    const text = `idle\\t1\\npane\\t9\\t9\\t9\\177#(touch ${member.path('hit')})#{pane_id}`;
    const command = `set -p -t %0 @agent_state "${text}${'é'.repeat(500_000)}"\n`;
    await server.tmux('source-file', await script('long.conf', command));
    const row = await pane(server, 0, { doing: 'shell' });
    expect(row.report).toMatch(/^idle1pane999#\(touch /);
    expect(row.report).toHaveLength(64);
    expect(row.report).toMatch(/é$/);
    expect(await panes(server)).toHaveLength(1);
    expect(await readdir(member.directory)).not.toContain('hit');
    await server.tmux('set-option', '-pu', '-t', '%0', '@agent_state');
    await pane(server, 0, { report: '' });
  });

  it('when something was written is told beside the rows, not in them', async () => {
    await using server = await member.server(version, `written-${version}`);
    const since = now();
    // The window would be renamed after each program in it, when tmux next comes round to it.
    await server.tmux('set-option', '-g', 'automatic-rename', 'off');
    await pane(server, 0, { ...atRest, command: 'sh' });
    const rows = async () => {
      const found = (await member.snapshot()).server(server.socket);
      return { written: found.last, all: found.rows };
    };
    const first = await eventually(async () => {
      const look = await rows();
      return Number(look.written.get('activity 0')) >= since - 2 ? look : undefined;
    }, 'the shell has written');
    await server.tmux('send-keys', '-t', '%0', 'sleep 1.1; echo', 'Enter');
    const later = await eventually(async () => {
      const { written, all } = await rows();
      const moved = Number(written.get('activity 0')) > Number(first.written.get('activity 0'));
      return moved && all.join('\n') === first.all.join('\n') ? written : undefined;
    }, 'it wrote again, and the rows are the same');
    expect(later.has('output 0')).toBe(version === '3.8');
  });
});

describe('an agent in the foreground', () => {
  const node = process.execPath;
  const wait = 'setTimeout(() => {}, 1e6)';

  it.each<[string, string, () => Promise<readonly string[]>]>([
    ['of its own name', 'codex', async () => ['exec bash -c', '"exec -a codex sleep 1000"']],
    [
      'as a script of a shell',
      'aider',
      async () => ['exec', await script('aider', '#!/bin/sh\nread x\n')],
    ],
    [
      'under node, by the name of its file',
      'claude',
      async () => ['exec', node, '--no-warnings', await script('claude.mjs', wait)],
    ],
    [
      'under node, by the name of its package',
      'gemini-cli',
      async () => {
        await member.folder('node_modules/@google/gemini-cli');
        return ['exec', node, await script('node_modules/@google/gemini-cli/index.js', wait)];
      },
    ],
    [
      'that gave itself a title',
      'claude',
      async () => ['exec', node, await script('x.mjs', `process.title = 'claude';${wait}`)],
    ],
    [
      'that a launcher started in its own group',
      'codex',
      async () => {
        await script('codex', '#!/bin/sh\nread x\n');
        return ['exec', await script('launch.sh', `#!/bin/sh\n${member.path('codex')}\ntrue\n`)];
      },
    ],
    [
      'that a shell started',
      'aider',
      async () => ['exec bash --norc -i', await script('aider', '#!/bin/sh\nread x\n')],
    ],
  ])('%s is seen', async (_, agent, command) => {
    await using server = await member.server('3.3a', `agent-${agent}`);
    const [start = '', ...words] = await command();
    await chmod(member.directory, 0o755);
    if (start.endsWith('-i')) {
      await server.tmux('respawn-pane', '-k', '-t', '%0', start);
      await server.tmux('send-keys', '-t', '%0', words.join(' '), 'Enter');
    } else await server.tmux('respawn-pane', '-k', '-t', '%0', [start, ...words].join(' '));
    await chmod(member.directory, 0o700);
    await pane(server, 0, { doing: 'program', agent, job: '' });
  });

  it.skipIf(lacks('python3'))('under python is seen, as a script and as a module', async () => {
    await using server = await member.server('3.3a', 'python');
    await member.folder('modules/aider');
    await script('modules/aider/__main__.py', 'import time; time.sleep(1000)\n');
    const path = await script('aider.py', 'import time; time.sleep(1000)\n');
    for (const words of [`-u ${path}`, '-W ignore -m aider']) {
      const command = `cd ${member.path('modules')} && exec python3 ${words}`;
      await server.tmux('respawn-pane', '-k', '-t', '%0', command);
      await pane(server, 0, { doing: 'program', agent: 'aider' });
    }
  });
});

describe('whoever disguises himself', () => {
  it.each([
    [
      'with control characters in its name',
      String.raw`exec perl -e '$0 = "claude\t\npane\t1\xff"; sleep 1000'`,
      '',
    ],
    ['without any name', `exec perl -e '$0 = ""; sleep 1000'`, ''],
    ['with 100,000 arguments', 'exec -a claude sleep 1000 $(yes 0 | head -100000)', 'claude'],
    [
      'with an argument of 100,000 bytes',
      `exec -a claude perl -e 'sleep 1000' $(printf %0100000d 0)`,
      'claude',
    ],
  ])('%s makes no row but his own', async (_, line, agent) => {
    await using server = await member.server('3.3a', 'disguise');
    const file = await script('disguise.sh', `#!/bin/bash\n${line}\n`);
    await server.tmux('respawn-pane', '-k', '-t', '%0', `exec ${file}`);
    const { pid } = await pane(server, 0, { doing: 'program' });
    await eventually(
      async () => !(await readFile(`/proc/${pid}/cmdline`, 'utf8')).includes('disguise'),
      'the disguise is on',
    );
    expect(await panes(server)).toHaveLength(1);
    await pane(server, 0, { doing: 'program', agent });
  });

  it('as a job has a clean name', async () => {
    await using server = await member.server('3.3a', 'odd-job');
    await server.tmux('respawn-pane', '-k', '-t', '%0', 'exec bash --norc -i');
    await pane(server, 0, { ...atRest, command: 'bash' });
    const words = `(exec -a $'x\\ty\\nz\\e[31m' sleep 1000) &`;
    await server.tmux('send-keys', '-t', '%0', words, 'Enter');
    await pane(server, 0, { doing: 'shell', job: 'x?y?z?[31m' });
  });

  it.skipIf(lacks('root'))(
    'as another user runs a program, and is a job like any other',
    async () => {
      await using server = await member.server('3.3a', 'su');
      await server.tmux('respawn-pane', '-k', '-t', '%0', 'exec su');
      await pane(server, 0, { doing: 'program', command: 'su' });
      await server.tmux('respawn-pane', '-k', '-t', '%0', 'exec bash --norc -i');
      await pane(server, 0, { ...atRest, command: 'bash' });
      await server.tmux('send-keys', '-t', '%0', 'su &', 'Enter');
      await pane(server, 0, { doing: 'shell', job: 'su' });
    },
  );

  it('is no shell at its prompt while a shell runs a script or a command', async () => {
    await using server = await member.server('3.3a', 'script');
    const file = await script('wait.sh', 'while read x; do :; done\n');
    for (const command of [`exec sh ${file}`, `exec bash -c 'while read x; do :; done'`]) {
      await server.tmux('respawn-pane', '-k', '-t', '%0', command);
      await pane(server, 0, { doing: 'program', job: '' });
    }
    await server.tmux('respawn-pane', '-k', '-t', '%0', 'exec bash --norc -o vi -i');
    await pane(server, 0, { ...atRest, command: 'bash' });
  });
});
