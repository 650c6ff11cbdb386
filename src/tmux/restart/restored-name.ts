import { isAtLeast } from '../tmux-version.ts';

/**
 * A stored name as the text that makes tmux store it again.
 *
 * tmux keeps names encoded: a backslash doubled, a dollar before a letter, `_` or `{` as `\$` and,
 * before 3.6, control characters and broken UTF-8 as `\n` or `\377`; giving it the stored form would
 * encode it twice. Only session names of 3.1 and earlier are raw. What the new version would refuse (from 3.6 control characters and broken
 * UTF-8, before 3.2 also `.` and `:` in session names) is spelt out or becomes `_`, so that a
 * session is never lost for its name.
 */
export function restoredName(
  storedHex: string,
  kind: 'session' | 'window',
  from: string,
  to: string,
): string {
  const stored = Buffer.from(storedHex, 'hex');
  const raw = kind === 'session' && !isAtLeast(from, 3, 2);
  let bytes = raw ? stored : decoded(stored);
  if (isAtLeast(to, 3, 6)) bytes = spelled(bytes);
  if (kind === 'session' && !isAtLeast(to, 3, 2)) {
    bytes = Buffer.from(
      bytes.toString('latin1').replace(/[.:\u0000-\u001f\u007f]/g, '_'),
      'latin1',
    );
  }
  return bytes.toString('hex');
}

const letters: Readonly<Record<string, number>> = {
  a: 7,
  b: 8,
  t: 9,
  n: 10,
  v: 11,
  f: 12,
  r: 13,
  '\\': 92,
  $: 36,
};

function decoded(stored: Buffer): Buffer {
  const text = stored
    .toString('latin1')
    .replace(/\\([abtnvfr\\$]|[0-3][0-7]{2})/g, (_, code: string) =>
      String.fromCharCode(letters[code] ?? Number.parseInt(code, 8)),
    );
  return Buffer.from(text, 'latin1');
}

/** Control characters and broken UTF-8 as visible text. */
function spelled(bytes: Buffer): Buffer {
  const text = bytes
    .toString('utf8')
    .replace(/[\u0000-\u001f\u007f\u0080-\u009f\ufffd]/g, (character) => {
      const code = character.charCodeAt(0);
      const letter = Object.entries(letters).find(([, value]) => value === code)?.[0];
      if (code === 0xfffd) return '?';
      return letter === undefined ? `\\${code.toString(8).padStart(3, '0')}` : `\\${letter}`;
    });
  return Buffer.from(text, 'utf8');
}
