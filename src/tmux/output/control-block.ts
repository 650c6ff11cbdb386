/** What a command answered: its body, without line ends. Not `ok` is `%error`. */
export interface BlockAnswer {
  readonly ok: boolean;
  readonly lines: readonly Buffer[];
}

/** `%begin T N F` as its guard `T N F`; flags 0 mean that no command of ours caused the block. */
export function opens(
  line: string,
): { readonly guard: string; readonly ours: boolean } | undefined {
  const begin = /^%begin (\d{1,20} \d{1,10} (\d{1,10}))$/.exec(line);
  return begin?.[1] === undefined ? undefined : { guard: begin[1], ours: begin[2] !== '0' };
}

/**
 * Where in `line` the closing of the block with this guard stands; undefined when it does not close
 * it. Some versions print the guard right behind a last line without a line end (tmux#2215).
 */
export function closes(
  line: Buffer,
  guard: string,
): { readonly at: number; readonly ok: boolean } | undefined {
  if (line.at(-1) !== guard.charCodeAt(guard.length - 1)) return undefined;
  for (const [word, ok] of closings) {
    const at = line.length - word.length - guard.length;
    if (at >= 0 && line.toString('latin1', at) === word + guard) return { at, ok };
  }
  return undefined;
}

const closings = [
  ['%end ', true],
  ['%error ', false],
] as const;

/** True when `lines[at]` is all that a closed block of ours holds, and is `nonce`. */
export function isNonceBlock(lines: readonly Buffer[], at: number, nonce: string): boolean {
  const line = lines[at];
  if (line?.length !== nonce.length || line.toString('latin1') !== nonce) return false;
  const begin = opens(lines[at - 1]?.toString('latin1') ?? '');
  return begin?.ours === true && lines[at + 1]?.toString('latin1') === `%end ${begin.guard}`;
}
