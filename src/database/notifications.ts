import { Socket } from 'node:net';
import { Client, type ClientConfig } from 'pg';
import { Bell } from '../concurrency/bell.ts';
import { type Clock, sleep, systemClock } from '../concurrency/clock.ts';
import type { Log, Notifications } from './database.ts';

/**
 * One connection that LISTENs on every channel somebody asked for. A connection can be cut without
 * a word, so it is probed: no answer within `probeMs` twice over means lost, and it is made again,
 * with back-off. After each LISTEN the bells ring, for what was missed meanwhile.
 */
export interface ListenerTimes {
  /** How often the connection is probed, and how long an answer may take. */
  readonly probeMs: number;
  readonly backOffMs: number;
  readonly backOffMaxMs: number;
}

const usualTimes: ListenerTimes = { probeMs: 5_000, backOffMs: 250, backOffMaxMs: 10_000 };

export class NotificationListener implements Notifications, AsyncDisposable {
  readonly #config: ClientConfig;
  readonly #log: Log | undefined;
  readonly #clock: Clock;
  readonly #times: ListenerTimes;
  readonly #bells = new Map<string, Bell>();
  readonly #stop = new AbortController();
  /** Something for the connection to look at: a new channel, a loss, the time to probe. */
  readonly #turn = new Bell();
  #running: Promise<void> | undefined;
  #connected = false;

  constructor(
    config: ClientConfig,
    log?: Log,
    clock: Clock = systemClock,
    times: ListenerTimes = usualTimes,
  ) {
    this.#config = config;
    this.#log = log;
    this.#clock = clock;
    this.#times = times;
  }

  get connected(): boolean {
    return this.#connected;
  }

  bell(channel: string): Bell {
    const known = this.#bells.get(channel);
    if (known !== undefined) return known;
    const bell = new Bell();
    this.#bells.set(channel, bell);
    this.#running ??= this.#run();
    this.#turn.ring();
    return bell;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    let pause = this.#times.backOffMs;
    while (!signal.aborted) {
      try {
        await this.#listen();
      } catch (error) {
        if (this.#connected) pause = this.#times.backOffMs;
        this.#log?.warn({ err: error, retryInMs: pause }, 'database notifications are interrupted');
      }
      this.#connected = false;
      if (signal.aborted) return;
      await sleep(pause, this.#clock, signal).catch(() => undefined);
      pause = Math.min(pause * 2, this.#times.backOffMaxMs);
    }
  }

  /** Returns when stopped, throws when the connection is lost. */
  async #listen(): Promise<void> {
    const { signal } = this.#stop;
    const { probeMs } = this.#times;
    // A socket of our own, for nothing in the client lets go of a peer that is silent.
    const socket = new Socket();
    const client = new Client({
      ...this.#config,
      stream: () => socket,
      connectionTimeoutMillis: probeMs,
      query_timeout: probeMs,
      keepAlive: true,
    });
    let lost: Error | undefined;
    client.on('error', (error) => {
      lost = error;
      this.#turn.ring();
    });
    client.on('notification', ({ channel }) => this.#bells.get(channel)?.ring());
    try {
      await client.connect();
      const listening = new Set<string>();
      for (;;) {
        const missing = [...this.#bells.keys()].filter((channel) => !listening.has(channel));
        for (const channel of missing) {
          await client.query(`listen ${client.escapeIdentifier(channel)}`);
          listening.add(channel);
        }
        this.#connected = true;
        for (const channel of missing) this.#bells.get(channel)?.ring();
        if (listening.size === this.#bells.size) await this.#untilTurn(probeMs);
        if (signal.aborted) return;
        if (lost !== undefined) throw lost;
        await client.query('select 1');
      }
    } finally {
      socket.destroy();
    }
  }

  async #untilTurn(ms: number): Promise<void> {
    const cancel = this.#clock.after(ms, () => this.#turn.ring());
    await this.#turn.wait(this.#stop.signal);
    cancel();
  }
}
