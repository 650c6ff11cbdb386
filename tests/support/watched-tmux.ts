import { userInfo } from 'node:os';
import { setTimeout as wait } from 'node:timers/promises';
import type { Clock } from '../../src/concurrency/clock.ts';
import { readConfig } from '../../src/config.ts';
import { LocalFleet } from '../../src/tmux/local-fleet.ts';
import type { PaneRef } from '../../src/tmux/model.ts';
import { PaneOutputs, type PaneOutputsOptions } from '../../src/tmux/output/pane-output.ts';
import type { PaneOutputEvent } from '../../src/tmux/pane-events.ts';
import { eventually, type StartOptions, startTmux, type TmuxServer } from './tmux-server.ts';

/** A real tmux server, and a fleet in local mode that looks at it through the real helper. */
export interface WatchedTmux extends AsyncDisposable {
  readonly tmux: TmuxServer;
  readonly fleet: LocalFleet;
  readonly outputs: PaneOutputs;
  /** The pane that this tmux target means now. */
  pane(target?: string): Promise<PaneRef>;
  /** Everything that `output` gives, collected while it comes. */
  watch(pane: PaneRef, after?: string): Reading;
  /** Control clients that tmux itself knows of. */
  controlClients(): Promise<number>;
}

export interface WatchOptions extends StartOptions {
  readonly lingerMs?: number;
  readonly logBytes?: number;
  readonly mostLoad?: number;
  readonly clock?: Clock;
  /** How often the listing is looked at without a reason. */
  readonly listingIntervalMs?: number;
}

export async function watchTmux(options: WatchOptions = {}): Promise<WatchedTmux> {
  const tmux = await startTmux(options);
  let outputs: PaneOutputs | undefined;
  const fleet = new LocalFleet({
    config: readConfig({
      MUXWARDEN_SOCKET_DIRS: tmux.directory,
      MUXWARDEN_STATE_DIR: tmux.directory,
      MUXWARDEN_LINGER_MS: String(options.lingerMs ?? 300),
      MUXWARDEN_TMUX_BIN: tmux.binary,
      ...(options.listingIntervalMs === undefined
        ? {}
        : { MUXWARDEN_LISTING_INTERVAL_MS: String(options.listingIntervalMs) }),
      ...(options.logBytes === undefined
        ? {}
        : { MUXWARDEN_OUTPUT_LOG_BYTES: String(options.logBytes) }),
    }),
    ...(options.clock && { clock: options.clock }),
    streams: (member) => {
      const load: Partial<PaneOutputsOptions> =
        options.mostLoad === undefined ? {} : { mostLoad: options.mostLoad };
      outputs = new PaneOutputs({ tmux: member, ...load });
      return outputs;
    },
  });
  await fleet.prepare();
  fleet.setAccounts([{ memberId: 'm', osUser: userInfo().username }]);
  if (outputs === undefined) throw new Error('the fleet made no streams');
  const readings = new Set<Reading>();
  return {
    tmux,
    fleet,
    outputs,
    async pane(target = 'main:') {
      const id = await tmux.run('display-message', '-p', '-t', target, '#{pane_id}');
      return await eventually(async () => {
        const listing = await fleet.refresh('m');
        for (const server of listing?.servers ?? []) {
          const panes = server.sessions?.flatMap(({ windows }) => windows.flatMap((w) => w.panes));
          const found = panes?.find(({ pane }) => `%${pane}` === id);
          if (found === undefined || server.generation === null) continue;
          const { pathHex } = server.ref;
          return { memberId: 'm', pathHex, generation: server.generation, pane: found.pane };
        }
        return undefined;
      }, `pane ${target} in the listing`);
    },
    watch(pane, after) {
      const reading = new Reading((signal) => fleet.output(pane, after, signal));
      readings.add(reading);
      return reading;
    },
    async controlClients() {
      const list = await tmux.run('list-clients', '-F', '#{client_control_mode}').catch(() => '');
      return list.split('\n').filter((line) => line === '1').length;
    },
    async [Symbol.asyncDispose]() {
      for (const reading of readings) reading.stop();
      await fleet[Symbol.asyncDispose]();
      await tmux[Symbol.asyncDispose]();
    },
  };
}

type Kind = PaneOutputEvent['kind'];
type Of<K extends Kind> = Extract<PaneOutputEvent, { readonly kind: K }>;

/** A subscriber that reads all it gets. */
export class Reading {
  readonly events: PaneOutputEvent[] = [];
  /** Set when the stream ended by itself. */
  finished = false;
  error: unknown;
  readonly done: Promise<void>;
  readonly #abort = new AbortController();

  constructor(
    open: (signal: AbortSignal) => AsyncIterable<PaneOutputEvent>,
    each?: (event: PaneOutputEvent) => Promise<void> | void,
  ) {
    this.done = (async () => {
      try {
        for await (const event of open(this.#abort.signal)) {
          this.events.push(event);
          await each?.(event);
        }
        this.finished = true;
      } catch (error) {
        this.error = error;
      }
    })();
  }

  stop(): void {
    this.#abort.abort();
  }

  of<K extends Kind>(kind: K): readonly Of<K>[] {
    return this.events.filter((event): event is Of<K> => event.kind === kind);
  }

  get kinds(): readonly Kind[] {
    return this.events.map(({ kind }) => kind);
  }

  /** The bytes of all chunks. */
  get bytes(): Buffer {
    return Buffer.concat(this.of('chunk').map(({ data }) => data));
  }

  get last(): PaneOutputEvent | undefined {
    return this.events.at(-1);
  }

  async first<K extends Kind>(kind: K, ms?: number): Promise<Of<K>> {
    return await eventually(
      () => {
        if (this.error !== undefined) throw this.error;
        return this.of(kind)[0];
      },
      `an event ${kind}, not only ${this.kinds.join(' ') || 'nothing'}`,
      ms,
    );
  }

  /** Resolves once nothing came for a while. */
  async quiet(ms = 400): Promise<void> {
    for (let count = -1; count !== this.events.length; await wait(ms)) count = this.events.length;
  }
}
