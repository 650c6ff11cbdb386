import { sleep, systemClock } from '../concurrency/clock.ts';
import type { Log } from './database.ts';
import type { RunningCluster } from './embedded-postgres.ts';
import { isAlive } from './process-life.ts';

/** Starts our PostgreSQL again when it was killed, with back-off, until disposed; then shuts it down. */
export function supervise(cluster: RunningCluster, log?: Log): AsyncDisposable {
  const stop = new AbortController();
  const running = watch(cluster, stop.signal, log);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
      await cluster[Symbol.asyncDispose]();
    },
  };
}

async function watch(cluster: RunningCluster, signal: AbortSignal, log?: Log): Promise<void> {
  let pause = 500;
  while (!signal.aborted) {
    await sleep(pause, systemClock, signal).catch(() => undefined);
    if (signal.aborted) return;
    if (await isAlive(cluster.postmaster)) {
      pause = 500;
      continue;
    }
    log?.error({ pid: cluster.postmaster.pid }, 'the embedded PostgreSQL died; starting it again');
    try {
      await cluster.start();
      log?.info({ pid: cluster.postmaster.pid }, 'the embedded PostgreSQL runs again');
    } catch (error) {
      pause = Math.min(pause * 2, 30_000);
      log?.error({ err: error, retryInMs: pause }, 'the embedded PostgreSQL did not start again');
    }
  }
}
