import { escapeText } from '../../escape.ts';
import { parseLayout } from './layout.ts';
import { emitLayout, type LayoutCell, LayoutError, panesOf } from './layout-cells.ts';
import type { PlanWriter } from './plan-writer.ts';
import { restoredName } from './restored-name.ts';
import { isHook, isKeptBack, shownOption, whyKeptBack } from './restored-option.ts';
import {
  type DescribedOption,
  type DescribedPane,
  type DescribedSession,
  type DescribedWindow,
  decodeHex,
  type ServerDescription,
} from './server-description.ts';

export interface RestoreSettings {
  /** What to run in a pane instead of a shell, by its number in the life that ends. */
  readonly commands: ReadonlyMap<number, readonly string[]>;
  readonly fromVersion: string;
  readonly toVersion: string;
}

/** Writes sessions, their windows and panes; a window that stands in several sessions is made once. */
export class SessionBuilder {
  readonly #writer: PlanWriter;
  readonly #description: ServerDescription;
  readonly #settings: RestoreSettings;
  readonly #made = new Set<number>();
  readonly #groups = new Map<string, DescribedSession>();
  readonly #last: (() => void)[] = [];

  constructor(writer: PlanWriter, description: ServerDescription, settings: RestoreSettings) {
    this.#writer = writer;
    this.#description = description;
    this.#settings = settings;
  }

  build(session: DescribedSession): void {
    const writer = this.#writer;
    const key = sessionKey(session);
    const name = this.#name(session.name, 'session');
    const subject = `session ${shown(session.name)}`;
    const leader = this.#leader(session);
    writer.line(
      subject,
      'session',
      key,
      name,
      session.path,
      session.columns,
      session.rows,
      leader === undefined ? '' : sessionKey(leader),
    );
    for (const { name: variable, value, removed } of session.environment) {
      writer.line(
        `${subject}: variable ${shown(variable)}`,
        'session-environment',
        key,
        variable,
        value,
        removed ? 1 : 0,
      );
    }
    this.#options(subject, 'session-option', key, session.options);
    if (leader === undefined) {
      if (session.group !== '') this.#groups.set(session.group, session);
      for (const { window, index } of session.links) {
        const described = this.#description.windows.get(window);
        if (described === undefined) continue;
        if (this.#made.has(window)) {
          writer.line(`${subject}:${index}`, 'link', key, `w${window}`, index);
        } else {
          this.#made.add(window);
          this.#window(key, index, `${subject}:${index}`, described);
        }
      }
    }
    const last = session.links.find((link) => link.last);
    const active = session.links.find((link) => link.active);
    for (const link of [last, active]) {
      if (link === undefined) continue;
      const fields = ['current', key, `w${link.window}`, link.index] as const;
      this.#last.push(() => writer.line(`${subject}: current window`, ...fields));
    }
  }

  /** The first session of its group; it brings the windows, all of which the others share. */
  #leader({ group, links }: DescribedSession): DescribedSession | undefined {
    const leader = group === '' ? undefined : this.#groups.get(group);
    return links.every(({ window }) => this.#made.has(window)) ? leader : undefined;
  }

  /** What needs every window to be there. */
  finish(): void {
    for (const write of this.#last) write();
  }

  #window(session: string, index: number, subject: string, window: DescribedWindow): void {
    const writer = this.#writer;
    const key = `w${window.window}`;
    const { cells, tiled } = this.#geometry(subject, window);
    writer.line(
      subject,
      'window',
      session,
      key,
      index,
      tiled[0]?.path ?? '',
      this.#name(window.name, 'window'),
      window.automaticRename ? 1 : 0,
    );
    this.#options(subject, 'window-option', key, window.options);
    for (const pane of tiled) this.#pane(key, `${subject}.${pane.index}`, pane);
    if (cells !== undefined) writer.line(`${subject}: layout`, 'layout', key, emitLayout(cells));
    const active = tiled.find((pane) => pane.active);
    if (active !== undefined) {
      writer.line(`${subject}: active pane`, 'select', key, `p${active.pane}`);
    }
    if (window.zoomed) {
      this.#last.push(() => writer.line(`${subject}: zoom`, 'zoom', key));
    }
  }

  #pane(window: string, subject: string, pane: DescribedPane): void {
    const command = this.#settings.commands.get(pane.pane);
    this.#writer.line(
      subject,
      'pane',
      window,
      `p${pane.pane}`,
      pane.path,
      pane.title,
      command === undefined ? '' : commandField(command),
    );
    this.#options(subject, 'pane-option', `p${pane.pane}`, pane.options);
    if (pane.dead) {
      this.#writer.lost('dead pane', `${subject}: its program had ended; a new one was started`);
    }
  }

  /** The cells that tmux is to draw, and the panes in the order in which it fills them. */
  #geometry(
    subject: string,
    window: DescribedWindow,
  ): { readonly cells: LayoutCell | undefined; readonly tiled: readonly DescribedPane[] } {
    try {
      const { root, floating } = parseLayout(window.layout);
      const order = panesOf(root).map(({ pane }) => window.panes.find((one) => one.pane === pane));
      const tiled = order.filter((pane) => pane !== undefined);
      for (const { pane } of floating) {
        this.#writer.lost(
          'floating pane',
          `${subject}: %${pane}; floating panes are not made again`,
        );
      }
      if (tiled.length === order.length && order.length + floating.length === window.panes.length) {
        return { cells: withoutIds(root), tiled };
      }
      this.#writer.lost('layout', `${subject}: it does not name the panes that are there`);
    } catch (error) {
      if (!(error instanceof LayoutError)) throw error;
      this.#writer.lost('layout', `${subject}: ${error.message}`);
    }
    return { cells: undefined, tiled: window.panes };
  }

  #options(
    subject: string,
    kind: 'session-option' | 'window-option' | 'pane-option',
    key: string,
    options: readonly DescribedOption[],
  ): void {
    for (const option of options) {
      // What a program said of itself ends with the program.
      if (kind === 'pane-option' && option.name === '@agent_state') continue;
      if (isKeptBack(option)) {
        this.#writer.lost('option', `${subject}: ${option.name}: ${whyKeptBack}`);
        continue;
      }
      const write = () =>
        this.#writer.line(
          `${subject}: option ${shownOption(option)}`,
          kind,
          key,
          option.name,
          option.value,
          option.index,
        );
      if (isHook(option.name)) this.#last.push(write);
      else write();
    }
  }

  #name(storedHex: string, kind: 'session' | 'window'): string {
    return restoredName(storedHex, kind, this.#settings.fromVersion, this.#settings.toVersion);
  }
}

/**
 * tmux runs several words as they are, but hands a single one to the shell: then a shell of ours
 * that does nothing but run it stands between.
 */
function commandField(command: readonly string[]): string {
  const words = command.length === 1 ? ['/bin/sh', '-c', 'exec "$0"', ...command] : command;
  return words.map((word) => Buffer.from(word, 'utf8').toString('hex')).join(',');
}

function withoutIds(cell: LayoutCell): LayoutCell {
  return cell.kind === 'pane'
    ? { ...cell, pane: null }
    : { ...cell, children: cell.children.map(withoutIds) };
}

function sessionKey({ session }: DescribedSession): string {
  return `s${session}`;
}

/** Bytes of a member as text for people. */
export function shown(hex: string): string {
  return escapeText(decodeHex(hex)).slice(0, 200);
}
