import { createHmac } from 'node:crypto';

/**
 * A second verifier of journals and exports, written from docs/audit.md and from nothing of ours: it
 * works on the bytes, by regular expressions. Gives the first bad row and why, or undefined.
 */
export function firstBadRow(
  file: Buffer,
  keyFile: string,
  chain: string,
  heads: { sequence: number; hash: string }[] = [],
): string | undefined {
  const keys = new Map(keyFile.split('\n').map((line) => line.split(' ') as [string, string]));
  const mac = (id: string, text: string) =>
    createHmac('sha256', Buffer.from(keys.get(id) ?? '', 'hex'))
      .update(text, 'latin1')
      .digest('hex');
  const lines = file.toString('latin1').split('\n');
  const tail = lines.pop();
  const hashes = ['0'.repeat(64)];
  for (const line of lines) {
    const end = hashes.length - 1;
    const head =
      /^(\{"chain":"(.{36})","sequence":(\d+),"hash":"(\w+)","at":"[^"]+","keyId":"(\w+)"),"mac":"(\w+)"\}$/.exec(
        line,
      );
    if (head) {
      const [, body, , sequence, hash = '', id = '', seal] = head;
      if (mac(id, `${body}}`) !== seal) return 'head';
      heads.push({ sequence: Number(sequence), hash });
      continue;
    }
    const row =
      /^(\{"chain":"(.{36})","sequence":([1-9]\d*),.*,"keyId":"(\w+)","previous":"([0-9a-f]{64})"),"hash":"([0-9a-f]{64})"\}$/.exec(
        line,
      );
    if (!row) return `${end + 1} unreadable`;
    const [, body, name, number, id = '', previous, hash = ''] = row;
    const sequence = Number(number);
    if (name !== chain) return `${sequence} of another chain`;
    if (!keys.has(id)) return `${sequence} by another key`;
    if (mac(id, `${body}}`) !== hash) return `${sequence} changed`;
    if (sequence <= end) return `${sequence} again`;
    if (sequence > end + 1) return `${sequence} after a gap`;
    if (previous !== hashes[end]) return `${sequence} behind another`;
    hashes.push(hash);
  }
  if (tail) return `${hashes.length} torn`;
  const wrong = heads.find(({ sequence, hash }) => hashes[sequence] !== hash);
  return (
    wrong &&
    (wrong.sequence < hashes.length ? `${wrong.sequence} replaced` : `${hashes.length} cut`)
  );
}
