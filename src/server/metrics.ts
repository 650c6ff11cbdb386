import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Context } from '../resolvers/context.ts';
import { problemsOf } from '../resolvers/service.ts';

/** Figures for Prometheus. Labels are routes and status codes: never a name of anybody. */
export interface Metrics {
  readonly contentType: string;
  text(): Promise<string>;
  answered(route: string, status: number): void;
}

export function metrics(
  parts: Pick<Context, 'fleet' | 'audit'>,
  open: { subscriptions(): number; sockets(): number; executions(): number },
): Metrics {
  const { fleet } = parts;
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry, prefix: 'muxwarden_' });
  // Counted here: a counter with labels hashes them each time.
  const answers = new Map<string, Map<number, number>>();
  new Counter({
    name: 'muxwarden_http_requests_total',
    help: 'HTTP requests answered, streams among them, whoever ended them.',
    labelNames: ['route', 'status'],
    registers,
    collect() {
      this.reset();
      for (const [route, statuses] of answers)
        for (const [status, count] of statuses) this.inc({ route, status }, count);
    },
  });
  const gauge = (name: string, help: string, value: () => number) =>
    new Gauge({
      name: `muxwarden_${name}`,
      help,
      registers,
      collect() {
        this.set(value());
      },
    });
  gauge('subscriptions', 'Subscriptions open.', open.subscriptions);
  gauge(
    'subscription_executions',
    'Events of subscriptions that were executed, each once for all to whom it looks the same.',
    open.executions,
  );
  gauge('websockets', 'WebSockets open.', open.sockets);
  gauge(
    'live_sockets',
    'tmux sockets that a server listens on.',
    () => fleet.figures().liveSockets,
  );
  gauge(
    'orphaned_sockets',
    'tmux sockets that nobody listens on.',
    () => fleet.figures().orphanedSockets,
  );
  gauge('helper_calls', 'Helper processes started.', () => fleet.figures().helperCalls);
  gauge('problems', 'Problems of the installation.', () => problemsOf(parts).length);
  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    answered(route, status) {
      let statuses = answers.get(route);
      if (statuses === undefined) {
        statuses = new Map();
        answers.set(route, statuses);
      }
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    },
  };
}
