import { randomBytes } from 'node:crypto';

/** Sixteen random bytes as hex: a line that nobody else can write. */
export class Nonce {
  readonly hex: string;

  constructor(bytes: Uint8Array = randomBytes(16)) {
    this.hex = Buffer.from(bytes).toString('hex');
  }
}

/**
 * A command for a control connection, which has no quoting that could be trusted: a newline or `;`
 * would begin another command, an empty line would detach. So a line is made of text that stands in
 * our source, whole numbers and nonces, and of nothing else.
 */
export class ControlLine {
  readonly text: string;

  constructor(strings: readonly string[], values: readonly (number | Nonce)[]) {
    let text = strings[0] ?? '';
    for (const [index, value] of values.entries()) {
      if (typeof value === 'number' && !(Number.isSafeInteger(value) && value >= 0)) {
        throw new RangeError('A control line takes whole numbers only.');
      }
      text += typeof value === 'number' ? String(value) : value.hex;
      text += strings[index + 1] ?? '';
    }
    if (text.trim() === '' || /[^ -~]/.test(text)) {
      throw new RangeError('A control line is one line of printable ASCII.');
    }
    this.text = text;
  }
}

/** controlLine`capture-pane -p -t %${pane}` */
export function controlLine(
  strings: TemplateStringsArray,
  ...values: readonly (number | Nonce)[]
): ControlLine {
  return new ControlLine(strings, values);
}

/** Prints the nonce and nothing else. */
export function printNonce(nonce: Nonce): ControlLine {
  return controlLine`display-message -p ${nonce}`;
}
