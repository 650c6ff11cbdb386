import {
  appendFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { genesis, parseChainKeys, readChainKeys, seal } from '../../src/audit/chain-key.ts';
import { Journal, JournalStoppedError, NoSpaceError } from '../../src/audit/journal.ts';
import { parseJournalLine } from '../../src/audit/journal-line.ts';
import { type ChainRow, canonicalText, journalLine, storable } from '../../src/audit/row.ts';
import { journalRows } from '../../src/audit/sources.ts';
import { verify } from '../../src/audit/verify.ts';
import { StateDirectoryError } from '../../src/database/state-directory.ts';
import { entry } from '../support/audit.ts';
import { lacks } from '../support/needs.ts';
import { mountSmallDisk } from '../support/small-disk.ts';
import { rounds } from '../support/tier.ts';

const keys = parseChainKeys(`k1 ${'ab'.repeat(32)}\n`);
async function append(journal: Journal, lines: readonly string[]) {
  const write = await journal.prepare(() => lines);
  await write();
}
const small = { reserveBytes: 4096, minimumFreeBytes: 0 };

function rows(count: number, change: Partial<ChainRow> = {}) {
  const made = [];
  let previous = genesis;
  for (let sequence = 1; sequence <= count; sequence++) {
    const row = seal(keys, {
      ...storable(entry({ message: `row ${sequence}` })),
      chain: '0f0e0d0c-0b0a-4908-8706-050403020100',
      sequence,
      id: `00000000-0000-4000-8000-${String(sequence).padStart(12, '0')}`,
      at: new Date(1_800_000_000_000 + sequence),
      bootId: 'boot',
      monotonicMs: sequence,
      keyId: 'k1',
      previous,
      ...change,
    });
    previous = row.hash;
    made.push(row);
  }
  return made;
}

describe('the journal', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'mw-journal-'));
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));
  const path = () => join(directory, 'audit/journal.jsonl');

  it('gives back the tail of what was appended, also over many blocks', async () => {
    const all = rows(500);
    await using journal = await Journal.open(directory, small);
    await append(journal, all.slice(0, 300).map(journalLine));
    await append(journal, all.slice(300).map(journalLine));
    expect(await journal.tail(({ sequence }) => sequence <= 3)).toEqual(all.slice(3));
    expect(await journal.tail(() => false)).toEqual(all);
    expect(await journal.tail(() => true)).toEqual([]);
  });

  it.each([
    ['a directory', (path: string) => mkdir(path)],
    ['a link', (path: string) => symlink('/dev/null', path)],
    ['a pipe', async (path: string) => void (await execa('mkfifo', [path]))],
  ])('says what to do where %s stands in its place', async (_, put) => {
    await mkdir(join(directory, 'audit'));
    await put(path());
    await expect(Journal.open(directory)).rejects.toThrow(
      /^The audit journal .*journal\.jsonl can't be opened: .*Move aside/,
    );
  });

  it('says what to do where a file stands in the place of its directory', async () => {
    await writeFile(join(directory, 'audit'), '');
    await expect(Journal.open(directory)).rejects.toThrow(StateDirectoryError);
  });

  it('keeps a reserve, and is for its owner alone', async () => {
    await using _journal = await Journal.open(directory, small);
    expect((await stat(join(directory, 'audit/reserve'))).size).toBe(4096);
    expect((await stat(path())).mode & 0o777).toBe(0o600);
    expect((await stat(join(directory, 'audit'))).mode & 0o777).toBe(0o700);
  });

  it('takes a torn last line off at the next start, wherever it was cut, and keeps it aside', async () => {
    const all = rows(3);
    const text = all.map((row) => `${journalLine(row)}\n`).join('');
    const last = `${journalLine(all[2] ?? expect.fail())}\n`;
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: last.length - 1 }), async (kept) => {
        await rm(join(directory, 'audit'), { recursive: true, force: true });
        {
          await using _made = await Journal.open(directory, small);
        }
        await writeFile(path(), text.slice(0, text.length - last.length + kept));
        const { findings } = await verify(journalRows(path()), keys);
        expect(findings.map(({ kind }) => kind)).toEqual(['TORN']);
        await using journal = await Journal.open(directory, small);
        expect(journal.findings).toHaveLength(1);
        expect(await journal.tail(() => false)).toEqual(all.slice(0, 2));
        const aside = (await readdir(join(directory, 'audit'))).find((name) => /^torn-/.test(name));
        expect(await readFile(join(directory, 'audit', aside ?? ''), 'utf8')).toBe(
          last.slice(0, kept),
        );
        await append(journal, [journalLine(all[2] ?? expect.fail())]);
        expect((await verify(journalRows(path()), keys)).findings).toEqual([]);
      }),
      { numRuns: rounds(15, 200) },
    );
  });

  it.each([
    ['cut', () => truncate(path(), 10)],
    ['written by somebody else', () => appendFile(path(), 'x\n')],
    [
      'exchanged',
      async () => {
        await rename(path(), `${path()}.old`);
        await writeFile(path(), await readFile(`${path()}.old`));
      },
    ],
    ['removed', () => rm(path())],
  ])('stops for good when the file was %s', async (_, tamper) => {
    await using journal = await Journal.open(directory, small);
    const all = rows(3);
    await append(journal, [journalLine(all[0] ?? expect.fail())]);
    await tamper();
    await expect(append(journal, [journalLine(all[1] ?? expect.fail())])).rejects.toThrow(
      JournalStoppedError,
    );
    await expect(append(journal, [journalLine(all[1] ?? expect.fail())])).rejects.toThrow(
      JournalStoppedError,
    );
    expect(journal.stopped?.message).toMatch(/started again/);
  });

  it.skipIf(lacks('root', 'mount'))(
    'refuses before it writes while the disk is full, and goes on by itself',
    async () => {
      await using disk = await mountSmallDisk(2_048);
      await using journal = await Journal.open(disk.path, { reserveBytes: 65_536 });
      const all = rows(2);
      await append(journal, [journalLine(all[0] ?? expect.fail())]);
      await disk.fill(100 << 10);
      await expect(append(journal, [journalLine(all[1] ?? expect.fail())])).rejects.toThrow(
        NoSpaceError,
      );
      expect(journal.stopped).toBeUndefined();
      await disk.free();
      await append(journal, [journalLine(all[1] ?? expect.fail())]);
      const read = await verify(journalRows(journal.path), keys);
      expect(read).toEqual({ rows: 2, findings: [] });
    },
  );

  it.skipIf(lacks('root', 'mount'))(
    'stops after a write that came back short, says so on the full disk, and starts again',
    async () => {
      await using disk = await mountSmallDisk(1_024);
      const all = rows(40);
      // Space that was there when it was looked at, and is not any more.
      const unchecked = { reserveBytes: 65_536, minimumFreeBytes: -(1 << 30) };
      {
        await using journal = await Journal.open(disk.path, unchecked);
        await append(journal, [journalLine(all[0] ?? expect.fail())]);
        await disk.fill(0);
        await expect(append(journal, all.slice(1).map(journalLine))).rejects.toThrow(
          JournalStoppedError,
        );
        await disk.free();
        await expect(append(journal, [journalLine(all[1] ?? expect.fail())])).rejects.toThrow(
          JournalStoppedError,
        );
        expect(await readFile(join(disk.path, 'audit/stopped.json'), 'utf8')).toMatch(/why/);
      }
      await using journal = await Journal.open(disk.path, unchecked);
      expect(journal.findings.join('\n')).toMatch(/had stopped acting/);
      const whole = await journal.tail(() => false);
      expect(whole.length).toBeGreaterThan(0);
      expect(whole).toEqual(all.slice(0, whole.length));
      await append(journal, all.slice(whole.length).map(journalLine));
      expect(await verify(journalRows(journal.path), keys)).toEqual({ rows: 40, findings: [] });
    },
  );
});

describe('a row', () => {
  const text = fc.string({ unit: 'binary', maxLength: 700 });
  const state = fc.record({
    generation: fc.option(text),
    pid: fc.option(fc.maxSafeInteger()),
    version: fc.option(text),
    status: text,
    sessionCount: fc.option(fc.nat()),
  });
  const anything = fc.record({
    actorAgent: fc.option(text),
    targetLabel: fc.option(text),
    statedReason: fc.option(text),
    message: fc.option(text),
    requestId: text,
    before: fc.option(state),
    after: fc.option(state),
    survivors: fc.option(fc.array(fc.record({ pid: fc.nat(), command: text }), { maxLength: 5 })),
    facts: fc.option(
      fc.dictionary(
        fc.stringMatching(/^[A-Za-z]{1,10}$/).filter((name) => name !== '__proto__'),
        fc.oneof(text, fc.maxSafeInteger(), fc.boolean(), fc.constant(null)),
        { maxKeys: 6 },
      ),
    ),
  });

  it('comes back from its journal line as it was, whatever it was made of, on one line', () => {
    fc.assert(
      fc.property(anything, (change) => {
        const [row] = rows(1, storable(entry(change)));
        const line = journalLine(row ?? expect.fail());
        expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202e]/);
        expect(line.isWellFormed()).toBe(true);
        expect(parseJournalLine(line)).toEqual(row);
        expect(canonicalText(parseJournalLine(line) ?? expect.fail())).toBe(
          canonicalText(row ?? expect.fail()),
        );
        expect(Buffer.byteLength(line)).toBeLessThan(64 << 10);
      }),
      { numRuns: rounds(300, 20_000) },
    );
  });
});

describe('the key file', () => {
  it('is refused when others can read it, when it is empty, and when it is no key', async () => {
    await using parts = new AsyncDisposableStack();
    const directory = await mkdtemp(join(tmpdir(), 'mw-key-'));
    parts.defer(() => rm(directory, { recursive: true, force: true }));
    const path = join(directory, 'audit.key');
    const first = await readChainKeys(directory);
    expect((await readChainKeys(directory)).current).toBe(first.current);
    await writeFile(path, await readFile(path), { mode: 0o600 });
    for (const bad of ['', 'k1 abc\n', `k1 ${'ab'.repeat(32)}\nk1 ${'cd'.repeat(32)}\n`]) {
      await writeFile(path, bad);
      await expect(readChainKeys(directory)).rejects.toThrow(/backup/);
    }
    await rm(path);
    await writeFile(path, `k1 ${'ab'.repeat(32)}\n`, { mode: 0o644 });
    await expect(readChainKeys(directory)).rejects.toThrow(/chmod 600/);
  });

  it('seals with its last key and still verifies what an earlier one sealed', async () => {
    const both = parseChainKeys(`k1 ${'ab'.repeat(32)}\nk2 ${'cd'.repeat(32)}\n`);
    expect(both.current).toBe('k2');
    const [row, next] = rows(2);
    const later = seal(both, { ...(next ?? expect.fail()), keyId: 'k2' });
    async function* source() {
      yield row ?? expect.fail();
      yield later;
    }
    expect((await verify(source(), both)).findings).toEqual([]);
    expect((await verify(source(), keys)).findings.map(({ kind }) => kind)).toEqual([
      'UNKNOWN_KEY',
    ]);
  });
});
