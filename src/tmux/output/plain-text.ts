import type { SequenceState } from '../pane-events.ts';

/**
 * Text without control sequences, of bytes that were cut anywhere. An ESC begins a sequence wherever
 * it stands, also inside of another one, so where a piece begins is known from the last ESC before it.
 *
 * Left out are CSI, OSC, DCS, APC, PM, SOS, titles (`ESC k`), all shorter sequences, and control
 * characters other than tab, LF and CR.
 */
const [bel, can, sub, esc] = [0x07, 0x18, 0x1a, 0x1b];

/** In which state `data` leaves what began in `state`. */
export function stateAfter(data: Uint8Array, state: SequenceState): SequenceState {
  const last = data.lastIndexOf(esc);
  let now = last < 0 ? state : 'escape';
  for (let at = last + 1; at < data.length && now !== 'text'; at++) now = next(now, data[at] ?? 0);
  return now;
}

/** `text` without sequences, without the rest of the one that it begins in too. */
export function withoutSequences(text: string, state: SequenceState): string {
  let kept = '';
  let now = state;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (now !== 'text' || code === esc) {
      now = next(now, code);
      // No sequence but a string holds such a character: it was cut short.
      if (now !== 'text' || code < 0x80) continue;
    }
    if (isText(code)) kept += text[at];
  }
  return kept;
}

/** `byte`: also the code of a character, since those of 0x80 and above are all alike here. */
function next(state: SequenceState, byte: number): SequenceState {
  if (byte === esc) return 'escape';
  if (byte === can || byte === sub) return 'text';
  switch (state) {
    case 'string':
      return byte === bel ? 'text' : 'string';
    case 'escape':
      // CSI; then OSC, DCS, SOS, PM, APC and a title.
      if (byte === 0x5b) return 'parameters';
      if ([0x5d, 0x50, 0x58, 0x5e, 0x5f, 0x6b].includes(byte)) return 'string';
      return byte < 0x30 ? 'intermediate' : 'text';
    case 'intermediate':
      return byte < 0x30 ? 'intermediate' : 'text';
    case 'parameters':
      return byte >= 0x20 && byte < 0x40 ? 'parameters' : 'text';
    case 'text':
      return 'text';
  }
}

function isText(code: number): boolean {
  if (code === 0x09 || code === 0x0a || code === 0x0d) return true;
  return (code >= 0x20 && code < 0x7f) || code > 0x9f;
}
