import {
  emitCell,
  type LayoutCell,
  LayoutError,
  type LayoutPane,
  layoutChecksum,
  maximumBytes,
  panesOf,
} from './layout-cells.ts';

/** The two forms as trees; layout.ts holds their grammar and then checks the sizes. */

const maximumDepth = 200;

export interface Drawn {
  readonly root: LayoutCell;
  /** The very objects that stand in the tree. */
  readonly floating: readonly LayoutPane[];
}

export function readOldLayout(text: string): Drawn {
  if (text.length > maximumBytes) throw new LayoutError(`it is over ${maximumBytes} bytes`);
  const head = /^([0-9a-f]{4}),/.exec(text);
  if (head === null) throw new LayoutError('it does not begin with a checksum');
  const body = text.slice(5);
  if (layoutChecksum(body) !== head[1]) throw new LayoutError('its checksum is wrong');
  const reader = new Reader(body);
  const root = reader.cell(0);
  const named: LayoutPane[] = [];
  if (reader.take('<')) {
    do {
      const cell = reader.cell(0);
      if (cell.kind !== 'pane') throw new LayoutError('a container floats');
      named.push(cell);
    } while (reader.take(','));
    reader.expect('>');
  }
  reader.end();
  const standing = panesOf(root);
  return {
    root,
    floating: named.map((float) => {
      const found = standing.find((cell) => emitCell(cell) === emitCell(float));
      if (found === undefined) throw new LayoutError('a floating pane is not in the tree');
      return found;
    }),
  };
}

/** Recursive descent over the body; each step either moves on or throws. */
class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  cell(depth: number): LayoutCell {
    if (depth > maximumDepth) throw new LayoutError('it is nested too deep');
    const columns = this.#number();
    this.expect('x');
    const rows = this.#number();
    this.expect(',');
    const left = this.#number();
    this.expect(',');
    const box = { columns, rows, left, top: this.#number() };
    if (this.take('{')) return { ...box, kind: 'columns', children: this.#children('}', depth) };
    if (this.take('[')) return { ...box, kind: 'rows', children: this.#children(']', depth) };
    // A comma and digits are the pane's id, unless an x follows: then the next cell begins there.
    const id = /^,(\d{1,10})(?!\d|x)/.exec(this.#text.slice(this.#at, this.#at + 12));
    if (id === null) return { ...box, kind: 'pane', pane: null };
    this.#at += id[0].length;
    return { ...box, kind: 'pane', pane: plain(id[1] ?? '') };
  }

  #children(close: '}' | ']', depth: number): readonly LayoutCell[] {
    const children = [this.cell(depth + 1)];
    while (this.take(',')) children.push(this.cell(depth + 1));
    this.expect(close);
    return children;
  }

  take(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }

  expect(character: string): void {
    if (!this.take(character)) throw new LayoutError(`'${character}' is missing at ${this.#at}`);
  }

  end(): void {
    if (this.#at !== this.#text.length) throw new LayoutError(`text is left over at ${this.#at}`);
  }

  #number(): number {
    const digits = /^\d{1,5}(?!\d)/.exec(this.#text.slice(this.#at, this.#at + 6))?.[0];
    if (digits === undefined) throw new LayoutError(`a size is missing at ${this.#at}`);
    this.#at += digits.length;
    return plain(digits);
  }
}

/** As tmux writes numbers; another spelling of the same number was not written by it. */
function plain(digits: string): number {
  const value = Number(digits);
  if (String(value) !== digits) throw new LayoutError(`'${digits}' is no plain number`);
  return value;
}

export function readJsonLayout(text: string): Drawn {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new LayoutError('it is no JSON', { cause });
  }
  if (!isRecord(value) || value.V !== 2) throw new LayoutError('it is not of version 2');
  const floating: { readonly z: number; readonly pane: LayoutPane }[] = [];
  const read = (from: unknown, depth: number): LayoutCell => {
    if (depth > maximumDepth) throw new LayoutError('it is nested too deep');
    if (!isRecord(from)) throw new LayoutError('a cell is no object');
    const { t, w, h, x, y, c, z, I } = from;
    const box = { columns: whole(w), rows: whole(h), left: whole(x), top: whole(y) };
    if (t === 'h' || t === 'v') {
      if (!Array.isArray(c)) throw new LayoutError('a container has no children');
      const children = c.map((child: unknown) => read(child, depth + 1));
      return { ...box, kind: t === 'h' ? 'columns' : 'rows', children };
    }
    if (t !== 'p' || c !== undefined) throw new LayoutError('a cell is of no known type');
    const id = typeof I === 'string' ? /^%(\d{1,10})$/.exec(I)?.[1] : undefined;
    if (id === undefined) throw new LayoutError('a pane has no id');
    const pane: LayoutPane = { ...box, kind: 'pane', pane: plain(id) };
    if (z !== undefined) floating.push({ z: whole(z), pane });
    return pane;
  };
  const root = read(value.L, 0);
  floating.sort((one, other) => one.z - other.z);
  return { root, floating: floating.map(({ pane }) => pane) };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function whole(value: unknown): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) {
    throw new LayoutError('a size is no whole number');
  }
  return value;
}
