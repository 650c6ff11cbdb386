import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseLayout } from '../../../src/tmux/restart/layout.ts';
import { emitLayout, panesOf } from '../../../src/tmux/restart/layout-cells.ts';
import { emptyPlan, restorePlan } from '../../../src/tmux/restart/restore-plan.ts';
import {
  DescriptionError,
  readDescription,
  type ServerDescription,
} from '../../../src/tmux/restart/server-description.ts';
import { layoutJson, layouts } from '../../support/layouts.ts';
import { rounds } from '../../support/tier.ts';

const hex = (text: string) => Buffer.from(text, 'utf8').toString('hex');
const anyHex = fc.uint8Array({ maxLength: 12 }).map((bytes) => Buffer.from(bytes).toString('hex'));
const option = fc.record({
  name: fc.constantFrom('status', '@user', 'base-index', 'after-new-window', 'session-created'),
  value: anyHex,
  index: fc.constantFrom('', '0', '7'),
});
const variable = fc.record({ name: anyHex, value: anyHex, removed: fc.boolean() });

/** Servers with one to three sessions; a session may show windows of the ones before. */
const servers: fc.Arbitrary<ServerDescription> = fc
  .record({
    options: fc.array(
      fc.tuple(fc.constantFrom('server', 'global-session', 'global-window'), option),
      { maxLength: 6 },
    ),
    environment: fc.array(variable, { maxLength: 3 }),
    sessions: fc.array(
      fc.record({
        name: anyHex,
        path: anyHex,
        group: fc.constantFrom('', '', hex('group')),
        options: fc.array(option, { maxLength: 2 }),
        environment: fc.array(variable, { maxLength: 2 }),
        windows: fc.array(
          fc.record({
            layout: layouts(80, 24),
            json: fc.boolean(),
            name: anyHex,
            options: fc.array(option, { maxLength: 2 }),
            zoomed: fc.boolean(),
            title: anyHex,
            path: anyHex,
          }),
          { minLength: 1, maxLength: 3 },
        ),
        linked: fc.array(fc.nat({ max: 5 }), { maxLength: 2 }),
        active: fc.nat({ max: 4 }),
      }),
      { minLength: 1, maxLength: 3 },
    ),
  })
  .map((made) => {
    let nextWindow = 0;
    let nextPane = 0;
    const windows: ServerDescription['windows'] extends ReadonlyMap<infer K, infer V>
      ? Map<K, V>
      : never = new Map();
    const sessions = made.sessions.map((session, at) => {
      const numbers = [
        ...new Set(session.linked.filter((window) => window < nextWindow)),
        ...session.windows.map((window) => {
          const number = nextWindow++;
          const first = nextPane;
          const leaves = panesOf(window.layout);
          nextPane += leaves.length;
          const cell = shift(window.layout, first);
          windows.set(number, {
            window: number,
            name: window.name,
            automaticRename: window.zoomed,
            zoomed: window.zoomed,
            layout: window.json ? JSON.stringify({ V: 2, L: layoutJson(cell) }) : emitLayout(cell),
            options: window.options,
            panes: panesOf(cell).map((leaf, index) => ({
              pane: leaf.pane ?? 0,
              index,
              active: index === 0,
              title: window.title,
              path: window.path,
              columns: leaf.columns,
              rows: leaf.rows,
              pid: 1000 + (leaf.pane ?? 0),
              dead: false,
              options: [],
            })),
          });
          return number;
        }),
      ];
      return {
        session: at * 2,
        group: session.group,
        name: session.name,
        path: session.path,
        columns: 80,
        rows: 24,
        options: session.options,
        environment: session.environment,
        links: numbers.map((window, index) => ({
          window,
          index: index * 3,
          active: index === session.active % numbers.length,
          last: index === (session.active + 1) % numbers.length && numbers.length > 1,
        })),
      };
    });
    return {
      options: made.options.map(([scope, rest]) => ({ scope: scope as 'server', ...rest })),
      environment: made.environment,
      sessions,
      windows,
      processes: [],
    };
  });

function shift<T extends ReturnType<typeof parseLayout>['root']>(cell: T, by: number): T {
  return cell.kind === 'pane'
    ? { ...cell, pane: (cell.pane ?? 0) + by }
    : { ...cell, children: cell.children.map((child) => shift(child, by)) };
}

/** As the helper prints it. */
function rowsOf(server: ServerDescription): string[][] {
  const rows: (string | number)[][] = [];
  const flag = (value: boolean) => (value ? 1 : 0);
  for (const { scope, name, value, index } of server.options ?? []) {
    rows.push(['option', scope, name, value, index]);
  }
  for (const { name, value, removed } of server.environment ?? []) {
    rows.push(['environment', name, value, flag(removed)]);
  }
  for (const session of server.sessions) {
    const { session: id, group, name, path, columns, rows: height } = session;
    rows.push(['layout-session', id, group, name, path, columns, height, 0]);
    for (const one of session.options)
      rows.push(['session-option', id, one.name, one.value, one.index]);
    for (const one of session.environment) {
      rows.push(['session-environment', id, one.name, one.value, flag(one.removed)]);
    }
    for (const link of session.links) {
      const window = server.windows.get(link.window);
      if (window === undefined) continue;
      rows.push([
        'layout-window',
        id,
        link.window,
        link.index,
        flag(link.active),
        flag(link.last),
        flag(window.zoomed),
        flag(window.automaticRename),
        window.layout,
        window.name,
      ]);
      for (const pane of window.panes) {
        rows.push([
          'layout-pane',
          id,
          link.window,
          pane.pane,
          pane.index,
          flag(pane.active),
          pane.title,
          pane.path,
          0,
          0,
          pane.columns,
          pane.rows,
          pane.pid ?? '',
          flag(pane.dead),
        ]);
      }
    }
  }
  for (const { window, options } of server.windows.values()) {
    for (const one of options) rows.push(['window-option', window, one.name, one.value, one.index]);
  }
  return rows.map((row) => row.map(String));
}

const settings = { commands: new Map<number, string[]>(), fromVersion: '3.3a', toVersion: '3.8' };
const linesOf = (payload: Uint8Array) =>
  Buffer.from(payload)
    .toString('latin1')
    .split('\n')
    .slice(0, -1)
    .map((line) => line.split('\t'));

describe('the rows of a description', () => {
  it('are read into what they say', () => {
    fc.assert(
      fc.property(servers, (server) => {
        expect(readDescription(rowsOf(server))).toEqual(server);
      }),
      { numRuns: rounds(100, 3_000) },
    );
  });

  it('that are cut or odd are refused as a whole', () => {
    const damaged = servers.chain((server) => {
      const rows = rowsOf(server);
      return fc
        .tuple(fc.nat({ max: rows.length - 1 }), fc.nat({ max: 6 }), fc.constantFrom('cut', 'odd'))
        .map(([at, field, how]) => ({ rows, at, field, how }));
    });
    fc.assert(
      fc.property(damaged, ({ rows, at, field, how }) => {
        const row = rows[at] ?? [];
        const changed =
          how === 'cut'
            ? row.slice(0, 1)
            : row.map((text, index) => (index === field ? 'ödd' : text));
        const all = rows.map((one, index) => (index === at ? changed : one));
        let read: ServerDescription | undefined;
        try {
          read = readDescription(all);
        } catch (error) {
          expect(error).toBeInstanceOf(DescriptionError);
        }
        if (how === 'cut') expect(read).toBeUndefined();
      }),
      { numRuns: rounds(200, 5_000) },
    );
  });
});

describe('a restore plan', () => {
  it('makes each thing before it is used, each window once, and hooks last', () => {
    fc.assert(
      fc.property(servers, (server) => {
        const plan = restorePlan(server, settings);
        const lines = linesOf(plan.payload);
        expect(plan.subjects).toHaveLength(lines.length);
        const known = new Set<string>();
        const windows: string[] = [];
        let sessionsBegan = false;
        let hooks = false;
        for (const [kind = '', ...fields] of lines) {
          const needs: Record<string, number[]> = {
            'session-option': [0],
            'session-environment': [0],
            window: [0],
            pane: [0],
            layout: [0],
            'window-option': [0],
            'pane-option': [0],
            link: [0, 1],
            select: [0, 1],
            current: [0, 1],
            zoom: [0],
          };
          for (const at of needs[kind] ?? []) expect(known).toContain(fields[at]);
          if (kind === 'session') {
            sessionsBegan = true;
            known.add(fields[0] ?? '');
            if (fields[5]) expect(known).toContain(fields[5]);
          }
          if (kind === 'window' || kind === 'pane') known.add(fields[1] ?? '');
          if (kind === 'window') windows.push(fields[1] ?? '');
          const isHook = /^(after-new-window|session-created)$/.test(
            fields.join(' ').match(/\b(after-new-window|session-created)\b/)?.[0] ?? '',
          );
          if (kind.endsWith('option') && isHook) hooks = true;
          else expect(hooks && /^(session|window|pane|layout|link)$/.test(kind)).toBe(false);
          if (kind === 'option' && !isHook) expect(sessionsBegan).toBe(false);
          if (kind === 'environment') expect(sessionsBegan).toBe(false);
        }
        expect(new Set(windows).size).toBe(windows.length);
      }),
      { numRuns: rounds(150, 3_000) },
    );
  });

  it('hands over only layouts of the old form that passed the check, with every pane', () => {
    fc.assert(
      fc.property(servers, (server) => {
        const lines = linesOf(restorePlan(server, settings).payload);
        for (const [kind, window, layout = ''] of lines) {
          if (kind !== 'layout') continue;
          const panes = lines.filter(([one, of]) => one === 'pane' && of === window);
          expect(layout).toMatch(/^[0-9a-f]{4},\d/);
          expect(panesOf(parseLayout(layout).root)).toHaveLength(panes.length);
        }
      }),
      { numRuns: rounds(100, 2_000) },
    );
  });

  it('names what it can’t restore: a broken layout, a floating pane, what ran, what would end it', () => {
    const server = readDescription([
      ['option', 'server', 'exit-unattached', hex('on'), ''],
      ['option', 'global-session', 'status', hex('off'), ''],
      ['layout-session', '0', '', hex('main'), hex('/'), '100', '40', '0'],
      ['session-option', '0', 'destroy-unattached', hex('on'), ''],
      ['layout-window', '0', '0', '0', '1', '0', '0', '0', '0000,80x24,0,0{}', hex('w')],
      ['layout-pane', '0', '0', '0', '0', '1', hex('t'), hex('/'), '0', '0', '80', '24', '11', '0'],
      [
        'layout-window',
        '0',
        '1',
        '1',
        '0',
        '0',
        '0',
        '0',
        '13f1,100x40,0,0[100x40,0,0,1,50x10,4,2,2]<50x10,4,2,2>',
        hex('float'),
      ],
      [
        'layout-pane',
        '0',
        '1',
        '1',
        '0',
        '1',
        hex('t'),
        hex('/'),
        '0',
        '0',
        '100',
        '40',
        '12',
        '1',
      ],
      ['layout-pane', '0', '1', '2', '1', '0', hex('t'), hex('/'), '4', '2', '50', '10', '13', '0'],
      ['process', '0', '11', '500', hex('-bash')],
      ['process', '0', '21', '501', hex('vim \u001b[31mnotes')],
      ['process', '1', '12', '502', hex('/bin/sh -c true')],
    ]);
    const plan = restorePlan(server, settings);
    const lost = plan.notRestored.map(({ what, detail }) => `${what}: ${detail}`);
    expect(lost).toEqual([
      expect.stringMatching(/^option: exit-unattached: /),
      expect.stringMatching(/^option: session main: destroy-unattached: /),
      'layout: session main:0: its checksum is wrong',
      expect.stringMatching(/^layout: session main:1: its checksum is wrong/),
      expect.stringMatching(/^dead pane: session main:1.0/),
      'process: main:0.0: vim \\x1b[31mnotes',
      'process: main:1.0: /bin/sh -c true',
      expect.stringMatching(/^screen: .*3 panes/),
    ]);
    expect(linesOf(plan.payload).flat()).not.toContain('exit-unattached');
  });

  it('gives a command as its words, and one word to a shell that only runs it', () => {
    const server = readDescription([
      ['layout-session', '0', '', hex('main'), hex('/'), '80', '24', '0'],
      ['layout-window', '0', '0', '0', '1', '0', '0', '0', 'aa7d,100x40,0,0,0', hex('w')],
      ['layout-pane', '0', '0', '0', '0', '1', hex('t'), hex('/'), '0', '0', '80', '24', '11', '0'],
    ]);
    const commandOf = (command: string[]) => {
      const { payload } = restorePlan(server, { ...settings, commands: new Map([[0, command]]) });
      const field = linesOf(payload).find(([kind]) => kind === 'pane')?.[5] ?? '';
      return field.split(',').map((word) => Buffer.from(word, 'hex').toString());
    };
    expect(commandOf(['tail', '-f', "it's; #(x) $HOME", ''])).toEqual([
      'tail',
      '-f',
      "it's; #(x) $HOME",
      '',
    ]);
    expect(commandOf(['a;b $(c)'])).toEqual(['/bin/sh', '-c', 'exec "$0"', 'a;b $(c)']);
  });

  it('of nothing is one session', () => {
    expect(linesOf(emptyPlan().payload)).toEqual([['session', 's0', '', '', '80', '24', '']]);
  });
});
