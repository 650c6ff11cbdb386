import { readdir, readFile, readlink } from 'node:fs/promises';
import { processesIn, type ServiceProcess } from './service-process.ts';

/**
 * What a service holds, by kind: processes that it started, socket files that it made, and its open
 * descriptors. A connection that its client keeps is the client's to close and is left out; one that
 * its client has left counts as `abandoned connection`.
 */
export type Held = Readonly<Record<string, number>>;

export async function heldBy(service: ServiceProcess, folder: string): Promise<Held> {
  const counts: Record<string, number> = {};
  const count = (kind: string) => {
    counts[kind] = (counts[kind] ?? 0) + 1;
  };
  for (const { name } of await processesIn(folder))
    if (name !== 'tmux: server') count(`process ${name}`);
  for (const each of await readdir(folder, { recursive: true, withFileTypes: true }))
    if (each.isSocket()) count('socket file');
  const connections = await tcpOf(service.pid);
  const port = Number(new URL(service.url).port);
  for (const name of await readdir(`/proc/${service.pid}/fd`)) {
    const target = await readlink(`/proc/${service.pid}/fd/${name}`).catch(() => undefined);
    if (target === undefined) continue;
    const kind = kindOf(target, connections, port);
    if (kind !== undefined) count(kind);
  }
  return counts;
}

/** The kinds of which there are more than before, and how many more. */
export function moreThan(before: Held, now: Held): Held {
  const more = Object.entries(now).map(([kind, count]) => [kind, count - (before[kind] ?? 0)]);
  return Object.fromEntries(more.filter(([, count]) => Number(count) > 0));
}

interface Connection {
  readonly localPort: number;
  readonly state: string;
}
const [established, listening] = ['01', '0A'];

function kindOf(
  target: string,
  connections: ReadonlyMap<string, Connection>,
  port: number,
): string | undefined {
  const inode = /^socket:\[(\d+)\]$/.exec(target)?.[1];
  if (inode === undefined) return target.startsWith('/') ? 'file' : target.replace(/:\[\d+\]$/, '');
  const connection = connections.get(inode);
  if (connection === undefined) return 'Unix socket';
  if (connection.state === listening) return 'listening socket';
  if (connection.state !== established) return 'abandoned connection';
  return connection.localPort === port ? undefined : 'database connection';
}

/** Of the network that this process sees: by inode. */
async function tcpOf(pid: number): Promise<ReadonlyMap<string, Connection>> {
  const texts = await Promise.all(
    ['tcp', 'tcp6'].map((name) => readFile(`/proc/${pid}/net/${name}`, 'utf8')),
  );
  return new Map(
    texts
      .flatMap((text) => text.trim().split('\n').slice(1))
      .map((line) => {
        const [, local = '', , state = '', , , , , , inode = ''] = line.trim().split(/\s+/);
        return [inode, { localPort: Number.parseInt(local.split(':')[1] ?? '', 16), state }];
      }),
  );
}
