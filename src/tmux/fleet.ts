import type {
  PreparedAct,
  PreparedProvision,
  ProvisionRequest,
  RepairServerRequest,
  RepairServerResult,
  RestartPaneRequest,
  RestartPaneResult,
  RestartServerRequest,
  RestartServerResult,
  ServerState,
  Survivor,
} from './acts.ts';
import type {
  Account,
  Generation,
  ListingChange,
  MemberListing,
  PaneRef,
  ServerRef,
} from './model.ts';
import type { PaneCapture, PaneOutputEvent, PaneScreenEvent } from './pane-events.ts';

export interface Problem {
  readonly code: string;
  readonly message: string;
  readonly remedy: string;
  readonly memberId: string | null;
}

export interface FleetFigures {
  readonly installedTmuxVersion: string | null;
  readonly tmuxBinary: string | null;
  /** Helper processes started since our start. */
  readonly helperCalls: number;
  readonly liveSockets: number;
  readonly orphanedSockets: number;
}

/**
 * Every member's tmux. Reads come from memory; nothing here makes a caller wait for a member but
 * `read` of a cold listing (2 s at most), `refresh`, `capture` and the acts.
 */
export interface Fleet extends AsyncDisposable {
  /** Whose tmux to look at, from now on. */
  setAccounts(accounts: readonly Account[]): void;
  /** What is known now; asks nobody. Undefined for a member that the fleet does not know. */
  peek(memberId: string): MemberListing | undefined;
  /** Another number whenever `peek` may give another listing, of anybody, than before; asks nobody. */
  edition(): number;
  /** What is known, asking behind the answer when it is old; waits (2 s at most) only when cold. */
  read(memberId: string): Promise<MemberListing | undefined>;
  /** Asks now, past any back-off, and answers within its bound of 3 s. */
  refresh(memberId: string): Promise<MemberListing | undefined>;
  /**
   * The state of each member, then `synced`, then changes; the latest value for a slow reader.
   * `memberIds` is looked at again whenever members come or go. Keeps the listings warm.
   */
  follow(memberIds: () => readonly string[], signal: AbortSignal): AsyncIterable<ListingChange>;
  /** @throws NotFoundError, or on the first step that, StaleGenerationError, ListingUnknownError, RangeError on a bad `after`. */
  output(
    pane: PaneRef,
    after: string | undefined,
    signal: AbortSignal,
  ): AsyncIterable<PaneOutputEvent>;
  /** The screen whenever it changed, `everyMs` apart at least. @throws as `output` */
  screens(pane: PaneRef, everyMs: number, signal: AbortSignal): AsyncIterable<PaneScreenEvent>;
  /** `lines` of history above the visible screen. @throws as `output` */
  capture(pane: PaneRef, lines: number, signal?: AbortSignal): Promise<PaneCapture>;
  /**
   * @throws OperationInProgressError at once while another restart or repair of that server runs;
   * StaleGenerationError, NotFoundError, ListingUnknownError, TmuxServerStuckError, TmuxServerBusyError,
   * UnsupportedError.
   */
  prepareRestartServer(request: RestartServerRequest): Promise<PreparedAct<RestartServerResult>>;
  /** Waits for the server's lock. @throws as above, and WorkingDirectoryMissingError */
  prepareRestartPane(request: RestartPaneRequest): Promise<PreparedAct<RestartPaneResult>>;
  /**
   * What lives in the panes of a server and would end with it. Asks.
   * @throws StaleGenerationError, ListingUnknownError, NotFoundError
   */
  wouldEnd(server: ServerRef, expected: Generation): Promise<readonly Survivor[]>;
  /**
   * Lasts until the repair is seen, or 10 s.
   * @throws as `prepareRestartServer`; UnsupportedError also where there is nothing to repair
   */
  prepareRepairServer(request: RepairServerRequest): Promise<PreparedAct<RepairServerResult>>;
  /**
   * A Linux account for a member, made, suspended, given back or removed on this machine.
   * @throws OperationInProgressError, UnsupportedError
   */
  prepareProvision(request: ProvisionRequest): Promise<PreparedProvision>;
  /** Where a server is now, looked at for the reconciliation at start. Asks. */
  look(server: ServerRef): Promise<ServerState>;
  problems(): readonly Problem[];
  figures(): FleetFigures;
}
