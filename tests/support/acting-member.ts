import { join } from 'node:path';
import { systemClock } from '../../src/concurrency/clock.ts';
import { type Config, readConfig } from '../../src/config.ts';
import type { RestartServerRequest } from '../../src/tmux/acts.ts';
import { TmuxAdapter } from '../../src/tmux/adapter.ts';
import { ProcessHelper } from '../../src/tmux/helper/helper.ts';
import { Processes } from '../../src/tmux/helper/process.ts';
import { directReach } from '../../src/tmux/helper/reach.ts';
import { Edition } from '../../src/tmux/listing/edition.ts';
import type { PaneStreams } from '../../src/tmux/member-tmux.ts';
import type { PaneRef, ServerView } from '../../src/tmux/model.ts';
import { tmuxBinary, type Version } from './tmux-server.ts';

/** One member's adapter over the real helper, looking into one directory. */
export interface ActingMember extends AsyncDisposable {
  readonly tmux: TmuxAdapter;
  /** Looks now. */
  server(socket: string): Promise<ServerView>;
}

export interface ActingOptions {
  readonly directory: string;
  /** What a restart starts; undefined: there is no tmux on the machine. */
  readonly installed: { readonly binary: string; readonly version: string } | undefined;
  readonly helper?: string;
  readonly environment?: Readonly<Record<string, string>>;
}

export const helperPath = join(import.meta.dirname, '../../libexec/muxwarden-member');

export function installedVersion(version: Version) {
  return { binary: tmuxBinary(version) ?? version, version };
}

export function actingMember({
  directory,
  installed,
  helper = helperPath,
  environment = {},
}: ActingOptions): ActingMember {
  const config: Config = readConfig({
    HOME: '/root',
    MUXWARDEN_SOCKET_DIRS: directory,
    ...environment,
  });
  const processes = new Processes(config.processLimit);
  const tmux = new TmuxAdapter(
    'alice',
    new ProcessHelper({
      reach: directReach(helper),
      processes,
      clock: systemClock,
      idleMs: config.helperIdleMs,
    }),
    {
      config,
      clock: systemClock,
      start: 'test',
      installedTmux: () => installed,
      edition: new Edition(),
      changed: () => {},
      streams: () => nobodyWatches,
    },
  );
  return {
    tmux,
    async server(socket) {
      const listing = await tmux.refresh();
      const found = tmux.server({ memberId: 'alice', pathHex: hex(socket) });
      if (found === undefined) throw new Error(`not listed: ${JSON.stringify(listing.status)}`);
      return found;
    },
    [Symbol.asyncDispose]: () => tmux[Symbol.asyncDispose](),
  };
}

const nobodyWatches: PaneStreams = {
  async *screens() {},
  async *output() {},
  capture: () => Promise.reject(new Error('nothing is captured in these tests')),
  ownClientPids: () => new Set(),
  [Symbol.asyncDispose]: () => Promise.resolve(),
};

export function restartRequest(
  server: ServerView,
  more: Partial<RestartServerRequest> = {},
): RestartServerRequest {
  return {
    server: server.ref,
    expectedGeneration: server.generation ?? '',
    onlyIfIdle: false,
    continueStopped: false,
    force: false,
    restore: 'LAYOUT',
    restoreCommands: [],
    operationId: 'operation',
    ...more,
  };
}

export function paneRef(server: ServerView, pane = 0): PaneRef {
  return {
    memberId: server.ref.memberId,
    pathHex: server.ref.pathHex,
    generation: server.generation ?? '',
    pane,
  };
}

function hex(text: string): string {
  return Buffer.from(text, 'utf8').toString('hex');
}
