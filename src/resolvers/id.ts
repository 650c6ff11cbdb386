import type { PaneRef, ServerRef, SessionRef, WindowRef } from '../tmux/model.ts';

/**
 * Ids of the API: base64url of a type byte and the parts that find the thing again, opaque to
 * callers and the same for all of them. Each thing has exactly one id and each accepted id names
 * exactly one thing: what does not come out of `encodeId` byte for byte is refused.
 *
 *   member, key, audit event   type uuid(16)
 *   server                     type uuid(16) path [generation]
 *   session, pane              type uuid(16) path generation number
 *   window                     type uuid(16) path generation session window
 *   path                       length(varint) bytes
 *   generation                 boot id(16) pid(varint) ticks(varint)
 */
export type GlobalId =
  | { readonly type: 'Member'; readonly id: string }
  | { readonly type: 'ApiKey'; readonly id: string }
  | { readonly type: 'AuditEvent'; readonly id: string }
  | { readonly type: 'TmuxServer'; readonly ref: ServerRef }
  | { readonly type: 'TmuxSession'; readonly ref: SessionRef }
  | { readonly type: 'TmuxWindow'; readonly ref: WindowRef }
  | { readonly type: 'TmuxPane'; readonly ref: PaneRef };
export type GlobalIdType = GlobalId['type'];
export type IdOf<Type extends GlobalIdType> = Extract<GlobalId, { readonly type: Type }>;

const types: readonly GlobalIdType[] = [
  'Member',
  'ApiKey',
  'AuditEvent',
  'TmuxServer',
  'TmuxSession',
  'TmuxWindow',
  'TmuxPane',
];
const longest = 1_024;

export function encodeId(id: GlobalId): string {
  const bytes: number[] = [types.indexOf(id.type) + 1];
  switch (id.type) {
    case 'Member':
    case 'ApiKey':
    case 'AuditEvent':
      putUuid(bytes, id.id);
      break;
    case 'TmuxServer':
      putServer(bytes, id.ref);
      if (id.ref.generation !== undefined) putGeneration(bytes, id.ref.generation);
      break;
    case 'TmuxSession':
    case 'TmuxWindow':
    case 'TmuxPane':
      putServer(bytes, id.ref);
      putGeneration(bytes, id.ref.generation);
      if (id.type === 'TmuxPane') putNumber(bytes, id.ref.pane);
      else putNumber(bytes, id.ref.session);
      if (id.type === 'TmuxWindow') putNumber(bytes, id.ref.window);
  }
  return Buffer.from(bytes).toString('base64url');
}

/** The thing that an id names, or undefined for what no `encodeId` ever gave. */
export function decodeId(text: string): GlobalId | undefined {
  if (text.length > longest || !/^[A-Za-z0-9_-]+$/.test(text)) return undefined;
  const bytes = Buffer.from(text, 'base64url');
  if (bytes.toString('base64url') !== text) return undefined;
  const reader = new Reader(bytes);
  const id = read(reader);
  return reader.atEnd ? id : undefined;
}

function read(reader: Reader): GlobalId | undefined {
  const type = types[reader.byte() - 1];
  const uuid = reader.uuid();
  switch (type) {
    case undefined:
      return undefined;
    case 'Member':
    case 'ApiKey':
    case 'AuditEvent':
      return { type, id: uuid };
    case 'TmuxServer': {
      const server = { memberId: uuid, pathHex: reader.path() };
      if (reader.atEnd) return { type, ref: server };
      return { type, ref: { ...server, generation: reader.generation() } };
    }
    case 'TmuxSession':
    case 'TmuxWindow':
    case 'TmuxPane': {
      const life = { memberId: uuid, pathHex: reader.path(), generation: reader.generation() };
      const number = reader.number();
      if (type === 'TmuxPane') return { type, ref: { ...life, pane: number } };
      if (type === 'TmuxSession') return { type, ref: { ...life, session: number } };
      return { type, ref: { ...life, session: number, window: reader.number() } };
    }
  }
}

function putServer(bytes: number[], ref: { readonly memberId: string; readonly pathHex: string }) {
  putUuid(bytes, ref.memberId);
  if (!/^([0-9a-f]{2})+$/.test(ref.pathHex)) throw new RangeError('a path is hex');
  putNumber(bytes, ref.pathHex.length / 2);
  bytes.push(...Buffer.from(ref.pathHex, 'hex'));
}

function putGeneration(bytes: number[], generation: string) {
  const [bootId = '', pid = '', ticks = '', ...rest] = generation.split(':');
  if (rest.length > 0) throw new RangeError('a generation is bootId:pid:startTicks');
  putUuid(bytes, bootId);
  for (const number of [pid, ticks]) {
    if (!/^(0|[1-9]\d{0,15})$/.test(number)) throw new RangeError('a generation holds numbers');
    putNumber(bytes, Number(number));
  }
}

function putUuid(bytes: number[], uuid: string) {
  if (!/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(uuid))
    throw new RangeError('not a lower-case UUID');
  bytes.push(...Buffer.from(uuid.replaceAll('-', ''), 'hex'));
}

/** Seven bits a byte, lowest first; the top bit says that more follow. */
function putNumber(bytes: number[], number: number) {
  if (!Number.isSafeInteger(number) || number < 0) throw new RangeError('a whole number');
  let rest = number;
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  bytes.push(rest);
}

/** Reads what the writers above wrote; on anything else it is never at its end again. */
class Reader {
  readonly #bytes: Buffer;
  #at = 0;
  #failed = false;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get atEnd(): boolean {
    return !this.#failed && this.#at === this.#bytes.length;
  }

  byte(): number {
    const byte = this.#bytes[this.#at++];
    if (byte === undefined) this.#failed = true;
    return byte ?? 0;
  }

  number(): number {
    let number = 0;
    for (let scale = 1; scale <= 2 ** 49; scale *= 0x80) {
      const byte = this.byte();
      number += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        // A leading zero would be a second spelling of the same number.
        if ((byte === 0 && scale > 1) || !Number.isSafeInteger(number)) this.#failed = true;
        return number;
      }
    }
    this.#failed = true;
    return 0;
  }

  uuid(): string {
    const hex = this.#take(16);
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  }

  path(): string {
    const length = this.number();
    if (length === 0) this.#failed = true;
    return this.#take(length);
  }

  generation(): string {
    return `${this.uuid()}:${this.number()}:${this.number()}`;
  }

  #take(length: number): string {
    if (length > this.#bytes.length - this.#at) this.#failed = true;
    if (this.#failed) return '';
    this.#at += length;
    return this.#bytes.toString('hex', this.#at - length, this.#at);
  }
}
