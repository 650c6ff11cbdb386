import type { Context } from './context.ts';

/** Why a stream has to end although its caller is still there. */
export type WatchEnd = 'withdrawn' | 'draining';

export interface AuthorityWatch extends Disposable {
  /** Aborted when the stream has to end, for whichever reason. */
  readonly signal: AbortSignal;
  /** The signal's, quicker to look at: that is done for each event. */
  readonly over: boolean;
  /** Undefined while it may go on, and when the caller left by itself. */
  readonly end: WatchEnd | undefined;
}

type Mutable<Target> = { -readonly [Name in keyof Target]: Target[Name] };

/**
 * Looks again at the authority of an open stream: whenever members or credentials change, and when
 * the credential runs out. No stream outlives what authorised it.
 *
 * @param allowed asked again each time; `context.viewer` is the present form of the viewer
 */
export function watchAuthority(
  context: Context,
  caller: AbortSignal,
  allowed: () => boolean = () => true,
): AuthorityWatch {
  const control = new AbortController();
  const state: Mutable<AuthorityWatch> = {
    signal: control.signal,
    over: false,
    end: undefined,
    [Symbol.dispose]() {
      cancelExpiry();
      caller.removeEventListener('abort', left);
      context.draining?.removeEventListener('abort', drain);
      finish();
    },
  };
  const finish = (why?: WatchEnd) => {
    if (state.over) return;
    state.over = true;
    state.end = why;
    control.abort();
  };
  const left = () => finish();
  const drain = () => finish('draining');
  caller.addEventListener('abort', left, { once: true });
  context.draining?.addEventListener('abort', drain, { once: true });
  if (caller.aborted) finish();
  if (context.draining?.aborted) finish('draining');
  const look = () => {
    if (!isAuthorised(context) || !allowed()) finish('withdrawn');
  };
  const cancelExpiry = atExpiry(context.viewer.expiresAt, look);
  const watch = async () => {
    while (!control.signal.aborted) {
      look();
      await context.accounts.changed.wait(control.signal);
    }
  };
  const watching = watch();
  // A failing look must end the stream, not go unheard.
  watching.catch(() => finish('withdrawn'));
  return state;
}

/** The credential still reaches anything at all. */
export function isAuthorised({ accounts, viewer }: Context): boolean {
  const present = accounts.current(viewer);
  if (present === undefined) return false;
  return present.expiresAt === null || present.expiresAt.getTime() > Date.now();
}

const longestTimer = 2 ** 31 - 1;

/** Calls `ring` at that moment, and once in 24 days before, since timers reach no further. */
export function atExpiry(expiresAt: Date | null, ring: () => void): () => void {
  if (expiresAt === null) return () => undefined;
  let timer: NodeJS.Timeout;
  const set = () => {
    const rest = expiresAt.getTime() - Date.now();
    timer = setTimeout(
      () => {
        ring();
        if (rest > longestTimer) set();
      },
      Math.min(Math.max(rest, 0) + 1, longestTimer),
    );
    timer.unref();
  };
  set();
  return () => clearTimeout(timer);
}
