/**
 * What a server holds, as far as it can be made again: the rows of the helper's `describe` (see
 * docs/helper-protocol.md) as values. Text stays hex, for it may hold any byte and goes back to
 * the helper in the plan of `start`; only what people are told is decoded.
 */

export interface DescribedOption {
  readonly name: string;
  readonly value: string;
  /** Empty when the option is no array. */
  readonly index: string;
}
export const optionScopes = ['server', 'global-session', 'global-window'] as const;
export type OptionScope = (typeof optionScopes)[number];

export interface DescribedVariable {
  readonly name: string;
  readonly value: string;
  /** tmux keeps it out of the environment of new panes. */
  readonly removed: boolean;
}
export interface DescribedPane {
  readonly pane: number;
  readonly index: number;
  readonly active: boolean;
  readonly title: string;
  readonly path: string;
  readonly columns: number;
  readonly rows: number;
  readonly pid: number | null;
  readonly dead: boolean;
  readonly options: readonly DescribedOption[];
}
export interface DescribedWindow {
  readonly window: number;
  readonly name: string;
  readonly automaticRename: boolean;
  readonly zoomed: boolean;
  readonly layout: string;
  readonly options: readonly DescribedOption[];
  /** In order of index. */
  readonly panes: readonly DescribedPane[];
}
/** A place in which a window stands. */
export interface DescribedLink {
  readonly window: number;
  readonly index: number;
  readonly active: boolean;
  readonly last: boolean;
}
export interface DescribedSession {
  readonly session: number;
  /** Empty when it shares its windows with no other session. */
  readonly group: string;
  readonly name: string;
  readonly path: string;
  readonly columns: number;
  readonly rows: number;
  readonly options: readonly DescribedOption[];
  readonly environment: readonly DescribedVariable[];
  /** In order of index. */
  readonly links: readonly DescribedLink[];
}
export interface DescribedProcess {
  readonly pane: number;
  readonly pid: number;
  /** Its start time; empty when not known. */
  readonly ticks: string;
  readonly command: string;
}
export interface ServerDescription {
  /** Null: not known, so it can't be restored. */
  readonly options: readonly (DescribedOption & { readonly scope: OptionScope })[] | null;
  readonly environment: readonly DescribedVariable[] | null;
  /** In order of id. */
  readonly sessions: readonly DescribedSession[];
  readonly windows: ReadonlyMap<number, DescribedWindow>;
  readonly processes: readonly DescribedProcess[];
}

/** The answer does not say what it should; nothing of it is used. */
export class DescriptionError extends Error {
  override readonly name = 'DescriptionError';
}

/** @throws DescriptionError */
export function readDescription(rows: readonly (readonly string[])[]): ServerDescription {
  const of = (kind: string, fields: number) =>
    rows.flatMap(([name, ...rest]) => {
      if (name !== kind) return [];
      if (rest.length < fields) throw new DescriptionError(`a ${kind} row is cut`);
      return [new Fields(kind, rest)];
    });
  const optionsOf = (kind: string, id: number) =>
    of(kind, 4)
      .filter((row) => row.number(0) === id)
      .map((row) => option(row, 1));
  const variablesOf = (session: number) =>
    of('session-environment', 4)
      .filter((row) => row.number(0) === session)
      .map((row) => variable(row, 1));

  const windowRows = of('layout-window', 9);
  const paneRows = of('layout-pane', 13);
  const sessions = of('layout-session', 7)
    .map((row) => {
      const session = row.number(0);
      const links = windowRows
        .filter((window) => window.number(0) === session)
        .map((window) => ({
          window: window.number(1),
          index: window.number(2),
          active: window.flag(3),
          last: window.flag(4),
        }))
        .sort((one, other) => one.index - other.index);
      return {
        session,
        group: row.hex(1),
        name: row.hex(2),
        path: row.hex(3),
        columns: row.number(4),
        rows: row.number(5),
        options: optionsOf('session-option', session),
        environment: variablesOf(session),
        links,
      };
    })
    .sort((one, other) => one.session - other.session);
  const windows = new Map<number, DescribedWindow>();
  for (const row of windowRows) {
    const window = row.number(1);
    if (windows.has(window)) continue;
    const panes = new Map<number, DescribedPane>();
    for (const pane of paneRows) {
      if (pane.number(1) !== window) continue;
      panes.set(pane.number(2), describedPane(pane, optionsOf('pane-option', pane.number(2))));
    }
    windows.set(window, {
      window,
      zoomed: row.flag(5),
      automaticRename: row.flag(6),
      layout: row.text(7),
      name: row.hex(8),
      options: optionsOf('window-option', window),
      panes: [...panes.values()].sort((one, other) => one.index - other.index),
    });
  }
  return {
    options: of('option', 4).map((row) => ({ scope: scope(row.text(0)), ...option(row, 1) })),
    environment: of('environment', 3).map((row) => variable(row, 0)),
    sessions,
    windows,
    processes: of('process', 4).map((row) => ({
      pane: row.number(0),
      pid: row.number(1),
      ticks: row.text(2),
      command: row.hex(3),
    })),
  };
}

/** Bytes of a hex field as text for people. */
export function decodeHex(hex: string): string {
  return Buffer.from(hex, 'hex').toString('utf8');
}

class Fields {
  readonly #kind: string;
  readonly #fields: readonly string[];

  constructor(kind: string, fields: readonly string[]) {
    this.#kind = kind;
    this.#fields = fields;
  }

  text(at: number): string {
    return this.#fields[at] ?? '';
  }

  number(at: number): number {
    if (!/^\d{1,10}$/.test(this.text(at))) throw this.#refused(at);
    return Number(this.text(at));
  }

  flag(at: number): boolean {
    if (!/^[01]?$/.test(this.text(at))) throw this.#refused(at);
    return this.text(at) === '1';
  }

  hex(at: number): string {
    if (!/^([0-9a-f]{2})*$/.test(this.text(at))) throw this.#refused(at);
    return this.text(at);
  }

  #refused(at: number): DescriptionError {
    return new DescriptionError(`field ${at + 1} of a ${this.#kind} row can't be read`);
  }
}

function option(row: Fields, at: number): DescribedOption {
  return { name: row.text(at), value: row.hex(at + 1), index: row.text(at + 2) };
}

function variable(row: Fields, at: number): DescribedVariable {
  return { name: row.hex(at), value: row.hex(at + 1), removed: row.flag(at + 2) };
}

function scope(text: string): OptionScope {
  const found = optionScopes.find((name) => name === text);
  if (found === undefined) throw new DescriptionError('an option of no known scope');
  return found;
}

function describedPane(row: Fields, options: readonly DescribedOption[]): DescribedPane {
  return {
    pane: row.number(2),
    index: row.number(3),
    active: row.flag(4),
    title: row.hex(5),
    path: row.hex(6),
    columns: row.number(9),
    rows: row.number(10),
    pid: row.text(11) === '' ? null : row.number(11),
    dead: row.flag(12),
    options,
  };
}
