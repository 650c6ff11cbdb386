import { describe, expect, it } from 'vitest';
import { CopyRows } from '../../src/audit/copy-format.ts';

/** The room that all messages share. */
const room = 64 << 10;

describe('the data of a COPY', () => {
  it('is the same wherever its room ends', () => {
    const writes: readonly ((to: CopyRows) => void)[] = [
      (to) => to.row(29),
      (to) => to.null(),
      (to) => to.text('世界 🙂 a'),
      (to) => to.jsonb('{"a":"世"}'),
      (to) => to.int64(-(2 ** 40) - 1),
      (to) => to.uuid('0123abcd-4567-89ef-0123-456789abcdef'),
      (to) => to.hex('00ff10'),
    ];
    const write = (to: CopyRows) => {
      for (const each of writes) each(to);
      return to.bytes(true);
    };
    const short = write(new CopyRows());
    const told = short.subarray(5);
    for (let left = 0; left <= told.length + 50; left++) {
      const rows = new CopyRows();
      rows.hex('ab'.repeat(room - left - 9));
      const filled = write(rows);
      expect(filled.subarray(-told.length)).toEqual(told);
      expect(filled.length).toBe(room - left + told.length);
      // All but the letter and CopyDone.
      expect(filled.readInt32BE(1)).toBe(filled.length - 1 - 5);
    }
  });

  it('has a value as PostgreSQL sends it', () => {
    const rows = new CopyRows();
    rows.begin();
    rows.row(5);
    rows.null();
    rows.int64(-2);
    rows.uuid('0123abcd-4567-89ef-0123-456789abcdef');
    rows.text('é');
    rows.jsonb('{}');
    const expected = [
      ...['50 47 43 4f 50 59 0a ff 0d 0a 00', '00 00 00 00', '00 00 00 00'],
      ...['00 05', 'ff ff ff ff', '00 00 00 08 ff ff ff ff ff ff ff fe'],
      ...[
        '00 00 00 10 01 23 ab cd 45 67 89 ef 01 23 45 67 89 ab cd ef',
        '00 00 00 02 c3 a9',
        '00 00 00 03 01 7b 7d',
      ],
    ].join(' ');
    const bytes = rows.bytes(false);
    expect(bytes.subarray(5).toString('hex')).toBe(expected.replaceAll(' ', ''));
    expect(bytes.subarray(0, 1).toString()).toBe('d');
    expect(bytes.readInt32BE(1)).toBe(bytes.length - 1);
  });
});
