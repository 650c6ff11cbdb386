import { connect, createServer, type Server, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Bell } from '../../src/concurrency/bell.ts';
import { systemClock } from '../../src/concurrency/clock.ts';
import { NotificationListener } from '../../src/database/notifications.ts';
import { databaseKinds, openTestDatabase, startPostgresServer } from '../support/postgres.ts';
import { eventually } from '../support/tmux-server.ts';

/** Counts rings of a bell. */
function counted(bell: Bell): { rings: number } {
  const count = { rings: 0 };
  const again = async (): Promise<void> => {
    await bell.wait();
    count.rings += 1;
    return again();
  };
  void again();
  return count;
}

describe.each(databaseKinds)('notifications (%s)', (kind) => {
  it('ring the bell of their channel alone, also after the connection was ended', async () => {
    await using test = await openTestDatabase(kind, { migrate: false });
    const { notifications, pool } = test.database;
    const one = counted(notifications.bell('one'));
    const other = counted(notifications.bell('Other "channel"'));
    await eventually(() => one.rings === 1 && other.rings === 1, 'both listen');
    await pool.query(`notify one`);
    await eventually(() => one.rings === 2, 'the bell of `one`');
    expect(other.rings).toBe(1);
    await pool.query(`notify "Other ""channel"""`);
    await eventually(() => other.rings === 2, 'the bell of the other');
    await pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where pid <> pg_backend_pid() and usename = current_user and query ilike 'listen%'`,
    );
    await eventually(() => one.rings === 3 && other.rings === 3, 'both ring for what was missed');
    await pool.query(`notify one`);
    await eventually(() => one.rings === 4, 'the bell rings again');
    expect(notifications.connected).toBe(true);
  });
});

it('find a connection that was cut without a word, and ring for what was missed', async () => {
  await using server = await startPostgresServer();
  const url = new URL(await server.createDatabase());
  await using proxy = await silentProxy(server.port);
  const through = new URL(url);
  through.port = String(proxy.port);
  await using listener = new NotificationListener(
    { connectionString: through.href },
    undefined,
    systemClock,
    { probeMs: 300, backOffMs: 50, backOffMaxMs: 200 },
  );
  const count = counted(listener.bell('news'));
  await eventually(() => count.rings === 1, 'it listens');
  proxy.fallSilent();
  await server.query('select 1');
  await eventually(() => !listener.connected, 'the loss is found', 10_000);
  proxy.speak();
  await eventually(() => count.rings >= 2 && listener.connected, 'it listens again', 10_000);
});

/** Passes bytes on until told to drop them, with every connection left open. */
async function silentProxy(
  to: number,
): Promise<AsyncDisposable & { port: number; fallSilent(): void; speak(): void }> {
  let silent = false;
  const sockets = new Set<Socket>();
  const server: Server = createServer((near) => {
    const far = connect(to, '127.0.0.1');
    for (const [from, into] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      // What was silenced once stays silent: its packets are lost.
      let lost = false;
      from.on('data', (bytes) => {
        lost ||= silent;
        if (!lost) into.write(bytes);
      });
      from.on('error', () => undefined);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    port: address.port,
    fallSilent: () => {
      silent = true;
    },
    speak: () => {
      silent = false;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
