import { type BlockAnswer, closes, isNonceBlock, opens } from './control-block.ts';

/**
 * Commands whose answers hold text that others wrote are sent as one line
 * `c0 ; display-message -p nonce0 ; c1 ; display-message -p nonce1 …`, followed by a line
 * `display-message -p last`. Nobody can guess a nonce, so in the lines that came back the block of
 * `nonce0` is where it seems; and between two of them the **last** line that closes the command's
 * block is the real one, whatever the text before it pretends to be.
 *
 * An error drops the rest of the first line: then the answers end with it, before `last`.
 */
export interface Bracket {
  readonly nonces: readonly string[];
  readonly last: string;
}

export interface Resolved {
  /** As many as commands were run; only the last one can be an error. */
  readonly answers: readonly BlockAnswer[];
  /** Notifications that stood before the last answer's end, and behind it. */
  readonly before: readonly Buffer[];
  readonly after: readonly Buffer[];
}

/** `lines`: from the first `%begin` up to the block of `last`, without it. Undefined: not to be understood. */
export function resolveBracket(
  lines: readonly Buffer[],
  nonces: readonly string[],
): Resolved | undefined {
  const answers: BlockAnswer[] = [];
  const before: Buffer[] = [];
  let after: readonly Buffer[] = [];
  let start = 0;
  for (const nonce of nonces) {
    const at = findNonce(lines, nonce, start);
    const segment = lines.slice(start, at === undefined ? undefined : at - 1);
    const read = readAnswer(segment);
    if (read === undefined) return undefined;
    answers.push(read.answer);
    before.push(...after, ...read.before);
    after = read.after;
    if (at === undefined) return read.answer.ok ? undefined : { answers, before, after };
    start = at + 2;
  }
  return { answers, before, after: [...after, ...notifications(lines.slice(start))] };
}

function findNonce(lines: readonly Buffer[], nonce: string, from: number): number | undefined {
  for (let at = from + 1; at < lines.length; at++) if (isNonceBlock(lines, at, nonce)) return at;
  return undefined;
}

function readAnswer(lines: readonly Buffer[]) {
  const before: Buffer[] = [];
  let at = 0;
  for (; at < lines.length; at++) {
    const line = lines[at];
    if (line === undefined) break;
    const begin = opens(line.toString('latin1'));
    if (begin === undefined) before.push(line);
    else if (begin.ours) {
      const end = lines.findLastIndex((other, index) => index > at && closes(other, begin.guard));
      const last = lines[end];
      const closing = last && closes(last, begin.guard);
      if (last === undefined || closing === undefined) return undefined;
      const body = lines.slice(at + 1, end);
      if (closing.at > 0) body.push(last.subarray(0, closing.at));
      const answer: BlockAnswer = { ok: closing.ok, lines: body };
      return { answer, before, after: notifications(lines.slice(end + 1)) };
    } else at = skip(lines, at, begin.guard);
  }
  return undefined;
}

/** Lines that stand outside any block. */
function notifications(lines: readonly Buffer[]): readonly Buffer[] {
  const outside: Buffer[] = [];
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at];
    if (line === undefined) break;
    const begin = opens(line.toString('latin1'));
    if (begin === undefined) outside.push(line);
    else at = skip(lines, at, begin.guard);
  }
  return outside;
}

/** A block that a hook of the member's printed: the index of its end. */
function skip(lines: readonly Buffer[], at: number, guard: string): number {
  const end = lines.findIndex((line, index) => index > at && closes(line, guard)?.at === 0);
  return end < 0 ? lines.length : end;
}
