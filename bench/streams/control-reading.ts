import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { eventually, startTmux, type TmuxServer } from '../../tests/support/tmux-server.ts';
import { type Benchmark, type Figure, inTurns, median } from '../measure.ts';
import { temporaryFolder } from '../service.ts';
import { bothVersions } from './both-versions.ts';

const fileBytes = 32 << 20;
/** In no line of the file, no prompt and no control line: its arrival is the end. */
const last = '~';

/**
 * What tmux gives to one control connection: how fast our control client reads and decodes it beside a
 * reader in C that does the same, and what that costs beside a Node process that looks at nothing.
 */
export const controlReading: Benchmark = {
  name: 'control-reading',
  async run(rounds) {
    await using folder = await temporaryFolder();
    const file = join(folder.path, 'file');
    const line = `${'0123456789abcdefghijklmnopqrstuvwxyz '.repeat(2)}\\ \u001b[31mé\u001b[0m\n`;
    const lines = Math.floor(fileBytes / Buffer.byteLength(line));
    await writeFile(file, `${line.repeat(lines)}${last.repeat(3)}\n`);
    const decode = await compiled(folder.path);
    const reader = (how: string) => [
      process.execPath,
      join(import.meta.dirname, 'control-reader.ts'),
      how,
    ];
    return await bothVersions(async (version) => {
      const directory = join(folder.path, version);
      await mkdir(directory, { mode: 0o700 });
      await using tmux = await startTmux({ version, directory });
      const costs: Record<string, number[]> = { ours: [], c: [], dropped: [] };
      const side = (name: string, argv: readonly string[]) => async () => {
        const { bytes, ms, cpuMs } = await reads(tmux, file, argv);
        costs[name]?.push(cpuMs / (fileBytes / 1e6));
        if (name !== 'dropped' && bytes < fileBytes) throw new Error(`${name} got ${bytes} bytes`);
        return fileBytes / 1e3 / ms;
      };
      const sides: Record<string, () => Promise<number>> = {
        ours: side('ours', reader('decoded')),
        dropped: side('dropped', reader('dropped')),
      };
      if (decode !== undefined) sides.c = side('c', [decode]);
      const found = await inTurns(rounds, sides);
      return figures(found, costs);
    });
  },
};

type Sides = Readonly<Record<string, readonly number[]>>;

function figures(rates: Sides, costs: Sides): readonly Figure[] {
  const rate = (name: string) => median(rates[name] ?? []);
  const cost = (name: string) => median(costs[name] ?? []);
  const shown = (name: string) => `${rate(name).toFixed(1)} MB/s`;
  const decoded: Figure = {
    name: 'control client, bytes',
    ratio: rate('ours') / rate('c'),
    wanted: 0.95,
    detail: `${shown('ours')} read and decoded, in C ${shown('c')}, ${cost('c').toFixed(1)} ms of CPU a MB`,
  };
  return [
    ...(rates.c === undefined ? [] : [decoded]),
    {
      name: 'control client, CPU',
      ratio: cost('dropped') / cost('ours'),
      wanted: 1 / 1.5,
      detail: `${cost('ours').toFixed(1)} ms of CPU a MB, ${cost('dropped').toFixed(1)} ms where Node drops the bytes (${shown('dropped')})`,
    },
  ];
}

/** Prints the file in the pane, and gives what the reader says of it. */
async function reads(tmux: TmuxServer, file: string, argv: readonly string[]) {
  await eventually(async () => (await tmux.run('list-clients')) === '', 'nobody is attached');
  const control = [tmux.binary, '-u', '-S', tmux.socket, '-C', 'attach', '-t', 'main'];
  const [command = '', ...words] = [...argv, last, ...control, '-f', 'ignore-size'];
  const reader = execa(command, words, { env: { TERM: 'xterm-256color' }, stdin: 'ignore' });
  let said: { readonly bytes: number; readonly ms: number; readonly cpuMs: number } | undefined;
  for await (const line of reader) {
    if (line === 'ready') await tmux.run('send-keys', '-t', '%0', `clear; cat ${file}`, 'Enter');
    else said = JSON.parse(line);
  }
  await reader;
  if (said === undefined) throw new Error(`${command} said nothing`);
  return said;
}

/** Undefined where nothing compiles C. */
async function compiled(folder: string): Promise<string | undefined> {
  const program = join(folder, 'decode');
  const source = join(import.meta.dirname, 'decode.c');
  const made = await execa('cc', ['-O2', '-o', program, source], { reject: false });
  if (made.exitCode === 0) return program;
  console.log(
    `There is no C compiler (${made.shortMessage}): nothing to compare our decoding with.`,
  );
  return undefined;
}
