import { constants } from 'node:os';
import { announce } from './announcement.ts';
import { openAudit } from './audit/open-audit.ts';
import { type AccountStore, openAccounts } from './auth/account-store.ts';
import { openAuthentication } from './auth/authentication.ts';
import { type Bootstrapped, bootstrap } from './auth/bootstrap.ts';
import { type Sessions, signInUrl } from './auth/sessions.ts';
import { systemClock } from './concurrency/clock.ts';
import type { Config } from './config.ts';
import { migrate } from './database/migrate.ts';
import { openDatabase } from './database/open.ts';
import { openStateDirectory } from './database/state-directory.ts';
import { watchEventLoop } from './event-loop.ts';
import { createLogger } from './log.ts';
import { ownVersion } from './own-version.ts';
import { whyNotReady } from './resolvers/readiness.ts';
import { answerRestored, reconcile } from './resolvers/reconcile.ts';
import { problemsOf } from './resolvers/service.ts';
import { startServer } from './server/server.ts';
import { writeServiceRecord } from './server/service-record.ts';
import { LocalFleet } from './tmux/local-fleet.ts';
import { PaneOutputs } from './tmux/output/pane-output.ts';

/**
 * The service, put together: state directory -> database -> accounts -> fleet -> audit -> server.
 * What was opened last is closed first, so nothing is missing below what still runs.
 */

/** How long a stop waits for acts and streams. A restart of a server is bounded by 20 s, then looked at. */
const drainMs = 10_000;

/** Runs until SIGTERM or SIGINT. @throws what keeps it from starting, as a sentence that says what to do */
export async function serve(config: Config): Promise<void> {
  const startedAt = new Date();
  const logger = createLogger();
  const stopped = stopSignal();
  process.on('unhandledRejection', (err) =>
    logger.error({ err }, 'a promise was rejected unheard'),
  );

  await using parts = new AsyncDisposableStack();
  const eventLoop = parts.use(watchEventLoop());
  const stateDirectory = parts.use(await openStateDirectory(config));
  const database = parts.use(await openDatabase(config, { stateDirectory, log: logger }));
  await migrate(database);
  const first = await bootstrap(database, config);
  const accounts = parts.use(await openAccounts(database, systemClock, { log: logger }));
  const authentication = openAuthentication(database, accounts, config, systemClock, logger);
  const fleet = parts.use(await openFleet(config, accounts, parts));
  const audit = parts.use(await openAudit(config.stateDir, database, logger));
  const closed = await reconcile(audit, fleet);
  if (closed > 0) logger.warn({ closed }, 'closed acts that an earlier run left open, as UNKNOWN');
  const running = new AbortController();
  parts.defer(() => running.abort());
  void answerRestored(audit, logger, running.signal);

  const server = await startServer({
    config,
    accounts,
    fleet,
    audit,
    reauthentication: authentication.reauthentication,
    signing: authentication.signing,
    changes: authentication.changes,
    installation: {
      version: await ownVersion(),
      startedAt,
      eventLoopDelayP99Ms: () => eventLoop.p99(),
    },
    authenticator: authentication,
    readiness: () => whyNotReady(database, audit),
    logger,
  });
  parts.defer(() => server.stop(drainMs));
  parts.use(await writeServiceRecord(config.stateDir, server.url, server.port));
  process.stdout.write(
    announce({
      url: server.url,
      adminKeyFile: first.adminKeyFile,
      signInLink: await signInLink(server.url, first, authentication.sessions),
      problems: problemsOf({ fleet, audit }),
    }),
  );
  logger.info({ url: server.url, signal: await stopped }, 'stopping');
}

async function openFleet(
  config: Config,
  accounts: AccountStore,
  parts: AsyncDisposableStack,
): Promise<LocalFleet> {
  const fleet = new LocalFleet({
    config,
    hooks: true,
    streams: (tmux) => new PaneOutputs({ tmux }),
  });
  await fleet.prepare();
  const following = new AbortController();
  parts.defer(() => following.abort());
  void followAccounts(fleet, accounts, following.signal);
  return fleet;
}

async function followAccounts(
  fleet: LocalFleet,
  accounts: AccountStore,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    fleet.setAccounts(accounts.members().map(({ id, osUser }) => ({ memberId: id, osUser })));
    await accounts.changed.wait(signal);
  }
}

/** For people at a terminal only: a log would keep it. */
async function signInLink(
  url: string,
  { member, adminKeyFile }: Bootstrapped,
  sessions: Sessions,
): Promise<string | null> {
  if (!process.stdout.isTTY || adminKeyFile === null) return null;
  const { token } = await sessions.createLink(member.id);
  return signInUrl(url, token);
}

/** Whoever asks again after this has lost patience; before, one signal came by two ways. */
const sameSignalMs = 2_000;

/**
 * Heard from the beginning, so that a signal during the start is not lost; a later one ends at once.
 * The listener stays: a library that cleans up behind child processes kills a process that has none.
 */
function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let askedAt: number | undefined;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        const now = systemClock.monotonic();
        askedAt ??= now;
        if (now - askedAt > sameSignalMs) process.exit(128 + constants.signals[signal]);
        resolve(signal);
      });
    }
  });
}
