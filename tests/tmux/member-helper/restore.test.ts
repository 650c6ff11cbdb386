import { copyFile, readdir, readFile, readlink, writeFile } from 'node:fs/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { emitLayout, layoutChecksum, panesOf } from '../../../src/tmux/restart/layout-cells.ts';
import { readOldLayout } from '../../../src/tmux/restart/layout-text.ts';
import { restorePlan } from '../../../src/tmux/restart/restore-plan.ts';
import { readDescription } from '../../../src/tmux/restart/server-description.ts';
import {
  type Answer,
  askOnce,
  hex,
  rowsOf,
  runHelper,
  unhex,
} from '../../support/helper-client.ts';
import { layouts } from '../../support/layouts.ts';
import { lacks } from '../../support/needs.ts';
import { rounds } from '../../support/tier.ts';
import {
  eventually,
  presentVersions,
  tmuxBinary,
  type Version,
} from '../../support/tmux-server.ts';
import { Member, type StartedServer } from './member.ts';

/** Up to three edits of a text: where, how many bytes go, and what comes instead. */
const damage = fc.array(
  fc.tuple(
    fc.nat({ max: 999 }),
    fc.nat({ max: 3 }),
    fc.constantFrom(...'0123456789x,{}[]', '', '{}', '[]', ',,', '99999'),
  ),
  { maxLength: 3 },
);

describe('describe and start', () => {
  let member: Member;
  beforeAll(async () => {
    member = await Member.any();
  });
  afterAll(() => member[Symbol.asyncDispose]());

  /** Everything that a restart has to bring back, with hostile text wherever text can be. */
  async function furnish({ tmux }: StartedServer): Promise<void> {
    const odd = (await member.folder(`d #(touch hit)#[b] é\n z;`)).toString();
    const last = (text: string) => text.replace(/;$/, '\\;');
    await tmux('rename-session', '-t', '$0', last('é世🙂 | ##(touch hit);'));
    await tmux('rename-window', '-t', '@0', 'w ##{pid} "q" \\b');
    await tmux('split-window', '-h', '-t', '%0', '-c', '/usr', 'exec sh');
    await tmux('split-window', '-v', '-t', '%1', 'exec sh');
    await tmux('send-keys', '-t', '%2', '-l', `cd ${member.directory}/d*`);
    await tmux('send-keys', '-t', '%2', 'Enter');
    await tmux('resize-pane', '-t', '%0', '-x', '20');
    await tmux('select-pane', '-t', '%0', '-T', 'title é ##(touch hit)');
    await tmux('select-pane', '-t', '%0');
    await tmux('new-session', '-d', '-s', 'second', '-x', '120', '-y', '50', '-c', '/', 'exec sh');
    await tmux('new-window', '-d', '-t', '$1:7', 'exec sh');
    await tmux('link-window', '-d', '-s', '@0', '-t', '$1:9');
    await tmux('new-window', '-d', '-t', '$1:8', 'exec sh');
    await tmux('split-window', '-d', '-t', '@3', 'exec sh');
    await tmux('resize-pane', '-Z', '-t', '@3');
    await tmux('select-window', '-t', '$1:7');
    await tmux('new-session', '-d', '-s', 'third', '-t', '$1');
    await tmux('select-window', '-t', '$2:8');
    await tmux('new-session', '-d', '-s', 'plain', 'exec sh');
    await tmux('set-option', '-g', 'status-left', '#(touch hit) "q" $HOME \\n é ~');
    await tmux('set-option', '-g', '@free', last('a\nb\tc\\d;'));
    await tmux('set-option', '-gw', 'mode-keys', 'vi');
    await tmux('set-option', '-t', '$1', 'status', 'off');
    await tmux('set-option', '-w', '-t', '@2', 'synchronize-panes', 'on');
    await tmux('set-option', '-p', '-t', '%1', '@pane', '#{pid}');
    await tmux('set-hook', '-g', 'after-select-pane', 'display-message "a\\\\b"');
    await tmux('set-environment', '-g', 'SSH_AUTH_SOCK', '/tmp/ssh/agent.1');
    await tmux('set-environment', '-g', 'ODD', 'a\nb"q$x\\y`z');
    await tmux('set-environment', '-gr', 'GONE');
    await tmux('set-environment', '-t', '$1', 'OWN', last('b;'));
    // What would end the new server, or bend what makes it, while it is made.
    await tmux('set-option', '-gw', 'window-size', 'manual');
    await tmux('set-hook', '-g', 'after-new-window', 'kill-server');
    await tmux('set-hook', '-t', '$1', 'session-window-changed', 'kill-server');
    await tmux('set-option', '-s', 'command-alias[7]', 'new-session=kill-server');
    await eventually(async () => {
      const pid = await tmux('display-message', '-p', '-t', '%2', '#{pane_pid}');
      return (await readlink(`/proc/${pid}/cwd`)) === odd;
    }, 'the program went into the odd directory');
  }

  async function describeIt(words: string): Promise<Answer> {
    const answer = await askOnce('serve', `describe ${words}`, member.runner);
    expect(answer.failure).toBeUndefined();
    return answer;
  }

  /** The description once each forked process has become its pane's shell: the same twice, and named. */
  async function settled(words: string): Promise<Answer> {
    let last = '';
    return eventually(
      async () => {
        const answer = await describeIt(words);
        const text = kept(answer).join('\n');
        const same = text === last && !text.includes(`\t${hex('tmux')}`);
        last = text;
        if (!same) await new Promise((resolve) => setTimeout(resolve, 600));
        return same ? answer : undefined;
      },
      'the server is described twice alike',
      60_000,
    );
  }

  async function restart(server: StartedServer, described: Answer, to: Version) {
    const plan = restorePlan(readDescription(described.rows), {
      commands: new Map(),
      fromVersion: server.version,
      toVersion: to,
    });
    await askOnce('act', `kill-server ${server.words}`, member.runner);
    const socket = hex(server.socket);
    await askOnce(
      'act',
      `await pid=${server.pid} ticks=${server.ticks} socket=${socket} ms=10000`,
      member.runner,
    );
    const binary = hex(tmuxBinary(to) ?? '');
    const answer = await askOnce(
      'start',
      `start socket=${socket} tmux=${binary} bytes=${plan.payload.length}`,
      member.runner,
      plan.payload,
    );
    const [[pid = '', ticks = '', start = '', version] = []] = rowsOf(answer, 'started');
    await member.note(Number(pid));
    expect(version).toBe(to);
    return {
      answer,
      pid: Number(pid),
      words: `socket=${socket} pid=${pid} ticks=${ticks} start=${start}`,
    };
  }

  /** Comparable over lives and versions: no pids, and of a layout what the panes' rows say. */
  function kept(answer: Answer): readonly string[] {
    return answer.rows
      .filter(([kind]) => kind !== 'process')
      .map((row) => {
        const fields = [...row];
        if (row[0] === 'layout-window') fields.splice(8, 1);
        if (row[0] === 'layout-pane') fields.splice(12, 1);
        return fields
          .map((field) => (/^(?:[0-9a-f]{2}){3,}$/.test(field) ? unhex(field).toString() : field))
          .join('\t');
      })
      .sort();
  }

  it('describe no other life than the one that is named', async () => {
    await using server = await member.server('3.3a', 'described');
    await describeIt(server.words);
    const other = server.words.replace(`start=${server.start}`, `start=${server.start - 1}`);
    const { rows, failure } = await askOnce('serve', `describe ${other}`, member.runner);
    expect([rows, failure?.[0]]).toEqual([[], 'EMALFORMED']);
  });

  it.each(presentVersions)(
    'bring back everything of a %s server',
    async (version) => {
      await using server = await member.server(version);
      await furnish(server);
      const before = await settled(server.words);
      const { answer, pid, words } = await restart(server, before, version);
      expect(rowsOf(answer, 'trouble')).toEqual([]);
      expect(kept(await settled(words))).toEqual(kept(before));
      expect(kept(before).filter((row) => row.startsWith('layout-pane'))).toHaveLength(18);
      expect(kept(before).join('\n')).toContain('environment\tSSH_AUTH_SOCK\t/tmp/ssh/agent.1\t0');
      expect((await readdir(member.directory)).includes('hit')).toBe(false);

      const [status, limits, environment] = await Promise.all(
        ['status', 'limits', 'environ'].map((name) => readFile(`/proc/${pid}/${name}`, 'utf8')),
      );
      expect(status).toMatch(/^Umask:\t0022$/m);
      expect(limits).toMatch(/^Max cpu time +unlimited/m);
      expect(environment).not.toMatch(/TMUX|SUDO|MUXWARDEN/);
      expect(environment).toContain(`HOME=${member.runner.home}\0`);
      // A session of its own, and its descriptors are its own, too.
      expect((await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]?.split(' ')[3]).toBe(
        String(pid),
      );
      for (const name of await readdir(`/proc/${pid}/fd`)) {
        expect(await readlink(`/proc/${pid}/fd/${name}`)).not.toMatch(/^\/(?!dev\/)/);
      }
    },
    180_000,
  );

  it.each([
    ['3.1c', '3.8'],
    ['3.8', '3.3a'],
  ] as const)(
    'bring a %s server back as %s',
    async (from, to) => {
      await using server = await member.server(from, `from-${from}`);
      await furnish(server);
      const before = await settled(server.words);
      const { answer, words } = await restart(server, before, to);
      expect(rowsOf(answer, 'trouble')).toEqual([]);
      const places = (of: Answer) =>
        rowsOf(of, 'layout-pane').map((row) => [...row.slice(0, 11), row[12]].join('\t'));
      expect(places(await settled(words))).toEqual(places(before));
    },
    180_000,
  );

  it.skipIf(lacks('root'))(
    'undo what the configuration sets and the old server did not have',
    async () => {
      await using server = await member.server('3.3a', 'configured');
      await server.tmux('set-option', '-g', '@mine', 'yes');
      const before = await describeIt(server.words);
      await writeFile(
        `${member.runner.home}/.tmux.conf`,
        'set -g status off\nset -g @theirs 1\nbind X kill-pane\n',
      );
      const { answer, words } = await restart(server, before, '3.3a');
      await writeFile(`${member.runner.home}/.tmux.conf`, '');
      expect(rowsOf(answer, 'trouble')).toEqual([]);
      expect(kept(await describeIt(words))).toEqual(kept(before));
      expect(await server.tmux('list-keys')).toMatch(/prefix +X +kill-pane/);
    },
    120_000,
  );

  it('bring back sessions without the options with which there would be none', async () => {
    await using server = await member.server('3.3a', 'no-shell');
    await server.tmux('set-option', '-g', 'default-command', 'exit 3');
    await server.tmux('set-option', '-w', '-t', '@0', 'synchronize-panes', 'on');
    const { answer, words } = await restart(server, await describeIt(server.words), '3.3a');
    const why = 'left out, for otherwise: the new server ended again';
    expect(rowsOf(answer, 'trouble')).toEqual([
      ['0', 'configuration', why],
      ['0', 'options', why],
    ]);
    const now = await describeIt(words);
    expect(rowsOf(now, 'layout-session')).toHaveLength(1);
    expect(rowsOf(now, 'window-option')).toEqual([]);
  }, 120_000);

  it.each<[string, string[]]>([
    ['of all of them, which are left out', []],
    ['of one of two sessions, which is named', ['other']],
  ])('bear commands that end at once: %s', async (_, others) => {
    const socket = member.path(`ends-${others.length}`);
    const session = (name: string, command: string) => [
      ['session', name, hex(name), '', 80, 24, ''],
      ['window', name, `w${name}`, 0, '', hex(name), 0],
      ['pane', `w${name}`, `p${name}`, '', '', command],
    ];
    const ends = [hex('/bin/sh'), hex('-c'), hex('exit 0')].join(',');
    const plan = [...others.flatMap((name) => session(name, '')), ...session('ended', ends)];
    const payload = Buffer.from(plan.map((line) => `${line.join('\t')}\n`).join(''));
    const request = `start socket=${hex(socket)} tmux=${hex(tmuxBinary('3.3a') ?? '')} bytes=${payload.length}`;
    const answer = await askOnce('start', request, member.runner, payload);
    await member.note(Number(rowsOf(answer, 'started')[0]?.[0]));
    const [row] = (await member.snapshot()).servers.filter(({ path }) => path === socket);
    expect(row?.of('session').map(({ name }) => name)).toEqual([others[0] ?? 'ended']);
    const troubles = rowsOf(answer, 'trouble').map(([line, what]) => [line, what]);
    if (others.length > 0) expect(troubles).toContainEqual(['6', 'pane']);
    else expect(troubles).toEqual(['configuration', 'commands'].map((what) => ['0', what]));
  });

  it('name each step that did not work, and do the others', async () => {
    const socket = member.path('steps');
    const plan = [
      ['option', 'global-session', 'no-such-option', '61', ''],
      ['option', 'server', 'exit-unattached', hex('on'), ''],
      ['session', 's', hex('good'), hex('/no such directory'), 80, 24, ''],
      ['window', 's', 'w', 3, '', hex('one'), 0],
      ['pane', 'w', 'p', hex('/usr'), hex('t'), ''],
      ['layout', 'w', 'b25f,80x24,0,0{40x24,0,0,0,39x24,41,0,1}'],
      ['layout', 'w', 'ffff,80x24,0,0,0'],
      ['pane', 'nowhere', 'q', '', '', ''],
      ['session', 't', hex('good'), '', 80, 24, ''],
      ['window', 't', 'v', 0, '', hex('two'), 0],
      ['pane', 'v', 'r', '', '', [hex('/bin/sleep'), hex('1000')].join(',')],
    ];
    const payload = Buffer.from(plan.map((line) => `${line.join('\t')}\n`).join(''));
    const request = `start socket=${hex(socket)} tmux=${hex(tmuxBinary('3.3a') ?? '')} bytes=${payload.length}`;
    const answer = await askOnce('start', request, member.runner, payload);
    const [[pid] = []] = rowsOf(answer, 'started');
    await member.note(Number(pid));
    expect(
      rowsOf(answer, 'trouble')
        .map(([line, what]) => [Number(line), what])
        .sort((a, b) => Number(a[0]) - Number(b[0])),
    ).toEqual([
      [1, 'option no-such-option'],
      [2, 'option exit-unattached'],
      [3, 'directory'],
      [6, 'layout'],
      [7, 'layout'],
      [8, 'pane'],
      [9, 'session name'],
    ]);
    const [row] = (await member.snapshot()).servers.filter(({ path }) => path === socket);
    expect(
      row
        ?.of('window')
        .map(({ index, name }) => [index, name])
        .sort(),
    ).toEqual([
      ['0', 'two'],
      ['3', 'one'],
    ]);
    expect(
      row
        ?.of('pane')
        .map(({ command, path }) => [command, unhex(path).toString()])
        .sort(),
    ).toEqual([
      ['sh', '/usr'],
      ['sleep', member.runner.home],
    ]);
    const busy = await askOnce('start', request, member.runner, payload);
    expect(busy.failure?.[0]).toBe('EBUSY');
  }, 120_000);

  it.each(presentVersions)(
    'hand no layout to tmux %s that could end it, whatever is under a right checksum',
    async (version) => {
      const four = layouts(80, 24).filter((cell) => panesOf(cell).length === 4);
      const bodies = fc.sample(
        four.chain((cell) => fc.tuple(fc.constant(emitLayout(cell).slice(5)), damage)),
        rounds(60, 500),
      );
      const texts = [
        '80x24,0,0{}',
        '80x24,0,0{80x24,0,0,0',
        '80x24,0,0{40x24,0,0,0,39x24,41,0,1}}',
        '80x24,0,0[]{}',
        ...bodies.map(([body, edits]) =>
          edits.reduce((now, [at, drop, put]) => {
            const place = at % (now.length + 1);
            return now.slice(0, place) + put + now.slice(place + drop);
          }, body),
        ),
      ].filter((body) => /^[0-9a-fx,{}[\]]+$/.test(body));
      const socket = member.path(`layouts-${version}`);
      const plan = [
        ['session', 's', hex('good'), '', 80, 24, ''],
        ['window', 's', 'w', 0, '', hex('one'), 0],
        ...['p', 'q', 'r', 't'].map((pane) => ['pane', 'w', pane, '', '', hex('/bin/cat')]),
        ...texts.map((body) => ['layout', 'w', `${layoutChecksum(body)},${body}`]),
      ];
      const payload = Buffer.from(plan.map((line) => `${line.join('\t')}\n`).join(''));
      const answer = await askOnce(
        'start',
        `start socket=${hex(socket)} tmux=${hex(tmuxBinary(version) ?? '')} bytes=${payload.length}`,
        member.runner,
        payload,
      );
      // It lives: it is the one that was started, in the first try.
      const [[pid] = []] = rowsOf(answer, 'started');
      await member.note(Number(pid));
      const troubles = rowsOf(answer, 'trouble');
      expect(new Set(troubles.map(([, what]) => what))).toEqual(new Set(['layout']));
      const refused = new Set(troubles.map(([line]) => Number(line)));
      const took = texts.filter((_, at) => !refused.has(plan.length - texts.length + at + 1));
      console.log(`tmux ${version}: ${texts.length} layouts, ${took.length} of them taken`);
      expect(took.length).toBeGreaterThan(0);
      for (const body of took) {
        expect(body).toMatch(/^\d+x\d+,\d+,\d+[{[]/);
        expect(panesOf(readOldLayout(`${layoutChecksum(body)},${body}`).root)).toHaveLength(4);
      }
    },
    180_000,
  );

  it('refuse a malformed plan before anything is begun, and what is no tmux', async () => {
    const socket = member.path('never');
    const start = (plan: string, tmux = tmuxBinary('3.3a') ?? '', bytes = plan.length) =>
      runHelper(
        ['start'],
        `1 start socket=${hex(socket)} tmux=${hex(tmux)} bytes=${bytes}\n${plan}`,
        member.runner,
      );
    for (const plan of [
      'run-shell\ttouch hit\n',
      'session\ts\tzz\t\t80\t24\t\n',
      'session\ts;kill-server\t\t\t80\t24\t\n',
      'option\tserver\t-g\t61\t\n',
      'layout\tw\t#(touch hit)\n',
      'session\ts\t\t\t80\t24\t',
    ]) {
      expect([plan, (await start(plan)).code]).toEqual([plan, 10]);
    }
    expect((await start('x\n', undefined, 1_048_577)).code).toBe(10);
    expect((await start('', undefined, 5)).code).toBe(10);
    await copyFile('/bin/true', member.path('no-tmux'));
    expect((await start('', member.path('no-tmux'))).stdout).toContain('\nfail\tENOTMUX\t');
    expect((await start('', member.path('absent'))).stdout).toContain('\nfail\tEEXE\t');
    expect(
      (await readdir(member.directory)).filter((name) => /^(never.*|hit)$/.test(name)),
    ).toEqual([]);
  });
});
