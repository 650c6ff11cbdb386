import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline/promises';
import { type ChainKeys, parseChainKeys } from '../audit/chain-key.ts';
import { openCommandAudit } from '../audit/command-audit.ts';
import { type ChainHead, loggedHead } from '../audit/head.ts';
import {
  type ChainFiles,
  chainFiles,
  inspect,
  inspectFile,
  otherChains,
  type Place,
  writeExport,
} from '../audit/inspection.ts';
import type { Finding } from '../audit/verify.ts';
import { ownUser } from '../auth/bootstrap.ts';
import { type Config, readConfig } from '../config.ts';
import type { Database } from '../database/database.ts';
import { Members } from '../members/members.ts';
import { exportEntry } from './audit-export-entry.ts';
import { type Command, CommandError, exactly, group, type Io, readWords } from './command.ts';
import { withDatabase, withUnmigrated } from './with-database.ts';

const verify: Command = {
  summary: 'check that nobody changed the record',
  help: `muxwarden audit verify [FILE] [--journal] [--heads FILE]... [--keys FILE]... [--json]

Checks every row of the audit log: sealed by our key, numbered without a gap, each naming the one
before it, and as long as every head that was noted. It needs no running service, and disturbs none.

Without FILE: the journal and the table of this state directory, and both beside each other. With
FILE: an export, also on another machine.

  --journal      the journal alone, without the database
  --heads FILE   heads that were noted elsewhere: the log of the service, or a copy of head.json
  --keys FILE    an audit.key; default: those of the state directory
  --json         one JSON object a line for each place

Exit status 0: all is as it was written. 1: it is not, or could not be looked at; the first bad row
is named, and why.`,
  async run(words, io) {
    const { values, positionals } = readWords(words, {
      journal: { type: 'boolean', default: false },
      heads: { type: 'string', multiple: true, default: [] },
      keys: { type: 'string', multiple: true, default: [] },
      json: { type: 'boolean', default: false },
    });
    const [path] = positionals.length === 0 ? [undefined] : exactly(positionals, 'FILE');
    const config = readConfig(io.environment);
    const heads = (await Promise.all(values.heads.map(headsIn))).flat();
    const tell = values.json ? tellAsJson(io) : tellAsText(io);
    if (path !== undefined) {
      const keys = await keysOf(values.keys, config.stateDir);
      const found = await inspectFile(path, keys, heads).catch((cause: unknown) => {
        throw unreadable(path, cause);
      });
      return tell(path, { ...found, place: 'file' }) ? 0 : 1;
    }
    const chains = await chainFiles(config.stateDir);
    const look = async (database: Database | undefined) => {
      let whole = true;
      for (const files of chains)
        for (const place of await inspect(files, database?.drizzle, heads))
          whole = tell(nameOf(files), place) && whole;
      if (database !== undefined) whole = (await tellOthers(io, config, database, chains)) && whole;
      return whole;
    };
    const whole = values.journal
      ? await look(undefined)
      : await withUnmigrated(config, (database) => look(database));
    return whole ? 0 : 1;
  },
};

const exportRows: Command = {
  summary: 'write the record as JSON Lines',
  help: `muxwarden audit export [--table]

Writes every row of this state directory's audit log, one JSON object a line, with the heads of its
chains: \`muxwarden audit verify FILE\` checks it, also elsewhere. That you did so is on record first.

  --table   the rows of the table; default: those of the journal, byte for byte

Exit status 1 when something in it is not as it was written; it is written all the same.`,
  async run(words, io) {
    const { values, positionals } = readWords(words, {
      table: { type: 'boolean', default: false },
    });
    exactly(positionals);
    const config = readConfig(io.environment);
    // Refuses a state directory where nothing has run, before one is made.
    await chainFiles(config.stateDir);
    return await withDatabase(config, async (database) => {
      await record(config, database, io, values.table ? 'table' : 'journal');
      let whole = true;
      for (const files of await chainFiles(config.stateDir)) {
        const queries = values.table ? database.drizzle : undefined;
        const found = await writeExport(files, queries, (line) => io.out(line));
        const place = values.table ? 'table' : 'journal';
        whole = tellAsText({ ...io, out: io.note })(nameOf(files), { ...found, place }) && whole;
      }
      return whole ? 0 : 1;
    });
  },
};

/** No record, no export. @throws AuditUnavailableError */
async function record(
  config: Config,
  database: Database,
  io: Io,
  source: 'journal' | 'table',
): Promise<void> {
  const say = (_about: unknown, said?: string) => {
    if (said !== undefined) io.note(said);
  };
  const quiet = () => {};
  await using audit = await openCommandAudit(config.stateDir, database, {
    info: quiet,
    warn: say,
    error: say,
  });
  const osUser = ownUser();
  const actor = (await new Members(database).list()).find((member) => member.osUser === osUser);
  await audit.append(exportEntry({ osUser, actorId: actor?.id ?? null, source }));
}

export const audit = group('audit', 'The record of what was done: checked, and written out.', {
  verify,
  export: exportRows,
});

const nameOf = ({ chain, writer }: ChainFiles) =>
  `${chain}${writer === 'commands' ? ' (commands)' : ''}`;

type Told = Omit<Place, 'place'> & { readonly place: Place['place'] | 'file' };

function tellAsText(io: Io) {
  return (name: string, { place, rows, findings, unlisted = 0 }: Told): boolean => {
    const [first] = findings;
    if (first === undefined) {
      const what = place === 'journal and table' ? 'are alike' : `${counted(rows)}, whole`;
      io.out(`ok       ${name}, ${place}: ${what}`);
      return true;
    }
    io.out(`PROBLEM  ${name}, ${place}: ${counted(rows)}; first bad row: ${said(first)}`);
    for (const finding of findings.slice(1, 20)) io.out(`         ${said(finding)}`);
    const rest = Math.max(0, findings.length - 20) + unlisted;
    if (rest > 0) io.out(`         and ${rest} more`);
    return false;
  };
}

function tellAsJson(io: Io) {
  return (name: string, { place, ...found }: Told): boolean => {
    const ok = found.findings.length === 0;
    io.out(JSON.stringify({ chain: name, place, ok, ...found }));
    return ok;
  };
}

const counted = (rows: number) => `${rows} ${rows === 1 ? 'row' : 'rows'}`;
const said = ({ kind, sequence, detail }: Finding) =>
  `${sequence === null ? 'not a row' : sequence}, ${kind}: ${detail}`;

/** In a PostgreSQL of our own nobody else writes; in another one, other instances do. */
async function tellOthers(
  io: Io,
  { databaseUrl }: Config,
  database: Database,
  own: readonly ChainFiles[],
): Promise<boolean> {
  const others = await otherChains(database.drizzle, own);
  for (const [chain, last] of others) {
    const what = `${chain}, table: up to row ${last}, not checked, for its key is not here`;
    if (databaseUrl === undefined) io.out(`PROBLEM  ${what}: no service of ours wrote it`);
    else io.note(`Note: ${what}. Check it with the state directory of the service that wrote it.`);
  }
  return databaseUrl !== undefined || others.size === 0;
}

async function keysOf(paths: readonly string[], stateDir: string): Promise<ChainKeys> {
  const all =
    paths.length === 0
      ? (await chainFiles(stateDir)).map(({ keys }) => keys)
      : await Promise.all(
          paths.map(async (path) => {
            const text = await readFile(path, 'utf8').catch((cause: unknown) => {
              throw unreadable(path, cause);
            });
            return parseChainKeys(text, path);
          }),
        );
  return {
    current: all[0]?.current ?? '',
    mac: (keyId, text) => all.map((keys) => keys.mac(keyId, text)).find((mac) => mac !== undefined),
  };
}

async function headsIn(path: string): Promise<readonly ChainHead[]> {
  const heads: ChainHead[] = [];
  try {
    for await (const line of createInterface({ input: createReadStream(path) })) {
      const head = loggedHead(line);
      if (head !== undefined) heads.push(head);
    }
  } catch (cause) {
    throw unreadable(path, cause);
  }
  if (heads.length === 0)
    throw new CommandError(`There is no 'audit head' in ${path}. Give the log of the service.`);
  return heads;
}

function unreadable(path: string, cause: unknown): Error {
  if (cause instanceof Error && 'code' in cause)
    return new CommandError(`${path} can't be read: ${cause.message}.`, { cause });
  return cause instanceof Error ? cause : new Error(String(cause));
}
