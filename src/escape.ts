/**
 * Text of members and clients made safe for one line of a terminal, a log or an error message:
 * C0 and C1 controls, DEL, line separators, bidirectional controls, lone surrogates and the byte
 * order mark are shown as escapes, and so is the backslash, so that what is shown can't be mistaken
 * for what was escaped. Everything else, in any script, stays as it is.
 */
const unsafe =
  /[\u0000-\u001f\u007f-\u009f\\\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

const named: Readonly<Record<string, string>> = {
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\\': '\\\\',
};

export function escapeText(text: string): string {
  return text.replace(unsafe, (character) => {
    const code = character.charCodeAt(0);
    return (
      named[character] ??
      (code < 0x100
        ? `\\x${code.toString(16).padStart(2, '0')}`
        : `\\u${code.toString(16).padStart(4, '0')}`)
    );
  });
}
