import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { layoutPresets, parseLayout } from '../../../src/tmux/restart/layout.ts';
import {
  emitLayout,
  type LayoutCell,
  LayoutError,
  layoutChecksum,
  panesOf,
} from '../../../src/tmux/restart/layout-cells.ts';
import { layoutJson, layouts } from '../../support/layouts.ts';
import { rounds } from '../../support/tier.ts';
import {
  presentVersions,
  startTicks,
  startTmux,
  type TmuxServer,
} from '../../support/tmux-server.ts';

/** What must hold for text that is given to tmux, written down a second time. */
function expectSound(cell: LayoutCell): void {
  expect(cell.columns).toBeGreaterThan(0);
  expect(cell.rows).toBeGreaterThan(0);
  if (cell.kind === 'pane') return;
  expect(cell.children.length).toBeGreaterThan(1);
  const along = cell.kind === 'columns' ? 'columns' : 'rows';
  const beside = cell.kind === 'columns' ? 'rows' : 'columns';
  const total = cell.children.reduce((sum, child) => sum + child[along] + 1, -1);
  expect(total).toBe(cell[along]);
  for (const child of cell.children) {
    expect(child[beside]).toBe(cell[beside]);
    expectSound(child);
  }
}

const withChecksum = (body: string) => `${layoutChecksum(body)},${body}`;
const damaged = (text: string) =>
  fc
    .array(
      fc.tuple(
        fc.nat({ max: text.length }),
        fc.nat({ max: 3 }),
        fc.constantFrom(...'0123456789x,{}[]<>', '', '00', '{}', '[]', ',,', '99999'),
      ),
      { minLength: 1, maxLength: 3 },
    )
    .map((edits) =>
      edits.reduce((now, [at, drop, put]) => now.slice(0, at) + put + now.slice(at + drop), text),
    );

describe('layout text', () => {
  it('is read and written without a change', () => {
    fc.assert(
      fc.property(layouts(), (cell) => {
        const text = emitLayout(cell);
        const read = parseLayout(text);
        expect(read).toEqual({ root: cell, floating: [] });
        expect(emitLayout(read.root)).toBe(text);
      }),
      { numRuns: rounds(300, 5_000) },
    );
  });

  it('of 3.8 is read into the same layout as the old form', () => {
    fc.assert(
      fc.property(layouts(), (cell) => {
        expect(parseLayout(JSON.stringify({ V: 2, L: layoutJson(cell) })).root).toEqual(cell);
      }),
      { numRuns: rounds(200, 5_000) },
    );
  });

  it('with one byte changed is refused by its checksum', () => {
    const changed = layouts().chain((cell) => {
      const text = emitLayout(cell);
      return fc.tuple(
        fc.constant(text),
        fc.nat({ max: text.length - 1 }),
        fc.constantFrom(...'0123456789abcdefx,{}[]<> '),
      );
    });
    fc.assert(
      fc.property(changed, ([text, at, put]) => {
        fc.pre(text[at] !== put);
        expect(() => parseLayout(text.slice(0, at) + put + text.slice(at + 1))).toThrow(
          LayoutError,
        );
      }),
      { numRuns: rounds(500, 20_000) },
    );
  });

  it('with damage under a right checksum is refused, or is a sound layout', () => {
    const changed = layouts(80, 24).chain((cell) => damaged(emitLayout(cell).slice(5)));
    fc.assert(
      fc.property(changed, (body) => {
        const text = withChecksum(body);
        let read: LayoutCell;
        try {
          read = parseLayout(text).root;
        } catch (error) {
          expect(error).toBeInstanceOf(LayoutError);
          return;
        }
        expectSound(read);
        expect(parseLayout(emitLayout(read)).root).toEqual(read);
      }),
      { numRuns: rounds(500, 50_000) },
    );
  });

  it.each([
    '',
    'garbage',
    '-o',
    '--',
    'tiled',
    '{}',
    '{"V":1,"L":{"t":"p","w":80,"h":24,"x":0,"y":0,"I":"%0"}}',
    '{"V":2,"L":{"t":"h","w":80,"h":24,"x":0,"y":0,"c":[]}}',
    '{"V":2,"L":{"t":"p","w":80.5,"h":24,"x":0,"y":0,"I":"%0"}}',
    '{"V":2,"L":{"t":"p","w":80,"h":24,"x":0,"y":0,"z":0,"I":"%0"}}',
    `{"V":2,"L":${'{"t":"h","w":80,"h":24,"x":0,"y":0,"c":['.repeat(500)}${']}'.repeat(500)}}`,
    withChecksum('80x24,0,0{}'),
    withChecksum('80x24,0,0{80x24,0,0,0}'),
    withChecksum('80x24,0,0{40x24,0,0,0,39x24,41,0,1'),
    withChecksum('80x24,0,0{40x24,0,0,0,39x24,41,0,1}}'),
    withChecksum('80x24,0,0{40x24,0,0,0,39x24,41,0,0}'),
    withChecksum('80x24,0,0{40x24,0,0,0,38x24,41,0,1}'),
    withChecksum('80x24,0,0{40x24,0,0,0,39x23,41,0,1}'),
    withChecksum('80x24,0,0{40x24,0,0,0,39x24,40,0,1}'),
    withChecksum('80x24,0,0[80x12,0,0,0,80x12,0,13,1]'),
    withChecksum('0x24,0,0,0'),
    withChecksum('10001x24,0,0,0'),
    withChecksum('080x24,0,0,0'),
    withChecksum('80x24,1,0,0'),
    withChecksum('80x24,0,0,0<80x24,0,0,0>'),
    withChecksum('80x24,0,0,0<50x10,4,2,1>'),
    withChecksum('9'.repeat(8_200)),
    withChecksum(`80x24,0,0${'{80x24,0,0'.repeat(700)}${'}'.repeat(700)}`),
  ])('%# %.40s is refused', (text) => {
    expect(() => parseLayout(text)).toThrow(LayoutError);
  });

  it('tells floating panes from the tiled ones, topmost first', () => {
    // As 3.7c and 3.8 wrote them.
    const read = parseLayout(
      '1cd7,100x40,0,0{50x40,0,0,0,49x40,51,0[49x20,51,0,1,49x19,51,21,2],50x10,4,2,3,50x10,8,4,4}<50x10,8,4,4,50x10,4,2,3>',
    );
    expect(panesOf(read.root).map(({ pane }) => pane)).toEqual([0, 1, 2]);
    expect(read.floating.map(({ pane }) => pane)).toEqual([4, 3]);
    const alone = parseLayout(
      '{"V":2,"L":{"t":"v","w":100,"h":40,"x":0,"y":0,"c":[{"t":"p","w":100,"h":40,"x":0,"y":0,"l":0,"i":0,"I":"%0"},{"t":"p","w":50,"h":10,"x":4,"y":2,"a":true,"i":1,"z":0,"I":"%1"}]}}',
    );
    expect(emitLayout(alone.root)).toBe(withChecksum('100x40,0,0,0'));
    expect(alone.floating.map(({ pane }) => pane)).toEqual([1]);
  });

  it('names the presets of each version only', () => {
    expect(layoutPresets('3.3a')).not.toContain('main-vertical-mirrored');
    expect(layoutPresets('3.1c')).not.toContain('main-horizontal-mirrored');
    expect(layoutPresets('3.5a')).toContain('main-vertical-mirrored');
    expect(layoutPresets('3.8')).toContain('main-vertical-mirrored');
    expect(layoutPresets('4.0')).toContain('main-vertical-mirrored');
  });
});

describe.each(presentVersions)('tmux %s', (version) => {
  let server: TmuxServer;
  let ticks: string | undefined;
  beforeAll(async () => {
    server = await startTmux({ version, columns: 120, rows: 50, command: ['cat'] });
    ticks = await startTicks(await server.pid());
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const panes = async () =>
    (
      await server.run(
        'list-panes',
        '-t',
        'main:',
        '-F',
        '#{pane_width}x#{pane_height},#{pane_left},#{pane_top}',
      )
    ).split('\n');

  it('takes every layout that passed, to the cell, and lives', async () => {
    await server.run('split-window', '-h', '-t', 'main:', 'cat');
    await server.run('split-window', '-v', '-t', 'main:', 'cat');
    await server.run('split-window', '-v', '-t', 'main:', 'cat');
    const four = layouts(120, 50).filter((cell) => panesOf(cell).length === 4);
    await fc.assert(
      fc.asyncProperty(four, async (cell) => {
        await server.run('select-layout', '-t', 'main:', emitLayout(cell));
        const expected = panesOf(cell).map(
          (pane) => `${pane.columns}x${pane.rows},${pane.left},${pane.top}`,
        );
        expect(await panes()).toEqual(expected);
        const told = await server.run('list-windows', '-t', 'main:', '-F', '#{window_layout}');
        const boxes = panesOf(parseLayout(told).root).map(
          (pane) => `${pane.columns}x${pane.rows},${pane.left},${pane.top}`,
        );
        expect(boxes).toEqual(expected);
      }),
      { numRuns: rounds(10, 200) },
    );
    expect(await startTicks(await server.pid())).toBe(ticks);
  });

  it('lives through damaged layouts with a right checksum that passed', async () => {
    const changed = layouts(80, 24)
      .filter((cell) => panesOf(cell).length > 1)
      .chain((cell) => damaged(emitLayout(cell).slice(5)))
      .map((body) => {
        try {
          return emitLayout(parseLayout(withChecksum(body)).root);
        } catch {
          return undefined;
        }
      })
      .filter((text) => text !== undefined);
    await fc.assert(
      fc.asyncProperty(changed, async (text) => {
        // Too few or too many panes for it is an error of tmux; a lost server is ours.
        await server.run('select-layout', '-t', 'main:', text).catch(() => undefined);
        expect(await startTicks(await server.pid())).toBe(ticks);
      }),
      { numRuns: rounds(10, 300) },
    );
  });
});
