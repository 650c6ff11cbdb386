import { maySeeListing, maySeePaneContent } from '../auth/authority.ts';
import { atOnce, over, type Prompt } from '../concurrency/prompt.ts';
import { MadeOf } from '../made-of.ts';
import { ListingUnknownError, NotFoundError } from '../tmux/errors.ts';
import type { PaneRef } from '../tmux/model.ts';
import type { PaneCloseReason, PaneOutputEvent, PaneScreenEvent } from '../tmux/pane-events.ts';
import { type AuthorityWatch, watchAuthority } from './authority-watch.ts';
import type { Context } from './context.ts';
import { badInput, credentialEnded, forbidden } from './request-error.ts';
import { type Failure, stream } from './stream.ts';
import { type UserErrorValue, userErrorOf } from './user-error.ts';

type Of<Kind> = Extract<PaneOutputEvent, { readonly kind: Kind }>;
export type PaneSnapshotValue = Of<'snapshot'> & { readonly __typename: 'PaneSnapshot' };
export type PaneChunkValue = Of<'chunk'> & { readonly __typename: 'PaneChunk' };
export type PaneResizedValue = Of<'resized'> & { readonly __typename: 'PaneResized' };
export type PaneGapValue = Of<'gap'> & { readonly __typename: 'PaneGap' };
export type PaneClosedValue = Of<'closed'> & { readonly __typename: 'PaneClosed' };
export type PaneScreenValue = Extract<PaneScreenEvent, { readonly kind: 'screen' }> & {
  readonly __typename: 'PaneScreen';
};
export type PaneScreenEventValue = PaneScreenValue | PaneClosedValue | PaneOutputRefusal;
export type PaneOutputRefusal = Extract<
  UserErrorValue,
  { readonly __typename: 'StaleGenerationError' | 'NotFoundError' | 'ListingUnknownError' }
>;
export type PaneOutputValue =
  | PaneSnapshotValue
  | PaneChunkValue
  | PaneResizedValue
  | PaneGapValue
  | PaneClosedValue
  | PaneOutputRefusal;

/**
 * The bytes of a pane. A refusal (stale, not found, unknown) is the first and only event;
 * `PaneClosed` is the last one.
 * @throws RequestError (FORBIDDEN) for a pane that the viewer may see but not look into
 */
export function paneOutput(
  context: Context,
  pane: PaneRef,
  after: string | null,
): AsyncIterableIterator<PaneOutputValue | Failure> {
  mustSeeScreen(context, pane);
  const open = (signal: AbortSignal) => context.fleet.output(pane, after ?? undefined, signal);
  return stream((signal) => events(context, pane, after, open, named, signal), context.signal);
}

/** The fastest that screens are sent, and the slowest, as their number in a second. */
export const [mostScreens, leastScreens] = [10, 0.1];

/**
 * The screen of a pane whenever it changed, at most so often. Refusals and ends are as of `paneOutput`.
 * @throws RequestError (FORBIDDEN, BAD_USER_INPUT)
 */
export function paneScreen(
  context: Context,
  pane: PaneRef,
  maxPerSecond: number,
): AsyncIterableIterator<PaneScreenEventValue | Failure> {
  mustSeeScreen(context, pane);
  if (!(maxPerSecond >= leastScreens && maxPerSecond <= mostScreens))
    throw badInput('maxPerSecond', `is from ${leastScreens} to ${mostScreens}.`);
  const everyMs = Math.round(1_000 / maxPerSecond);
  const open = (signal: AbortSignal) => context.fleet.screens(pane, everyMs, signal);
  return stream((signal) => events(context, pane, null, open, namedScreen, signal), context.signal);
}

/** Who may not even see the pane gets the answer for one that is not there. */
function mustSeeScreen({ viewer }: Context, { memberId }: PaneRef): void {
  if (!maySeePaneContent(viewer, memberId) && maySeeListing(viewer, memberId))
    throw forbidden('seeing this screen');
}

/** Ends with what may be seen of it; while that lasts, an event that is there is given at once. */
function events<Event extends PaneOutputEvent | PaneScreenEvent, Value>(
  context: Context,
  pane: PaneRef,
  after: string | null,
  open: (signal: AbortSignal) => AsyncIterable<Event>,
  name: (event: Event) => Value,
  caller: AbortSignal,
): Prompt<Value | PaneClosedValue | PaneOutputRefusal> {
  const state: Reading<Event> = { source: undefined, watch: undefined, cursor: after };
  return Object.assign(read(context, pane, open, name, caller, state), {
    [atOnce]: over(
      () => state.source,
      () => state.watch?.over === false,
      name,
      ({ cursor }) => {
        state.cursor = cursor;
      },
    ),
  });
}

interface Reading<Event> {
  source: AsyncIterator<Event, unknown> | undefined;
  watch: AuthorityWatch | undefined;
  /** Of the last event. */
  cursor: string | null;
}

async function* read<Event extends PaneOutputEvent | PaneScreenEvent, Value>(
  context: Context,
  pane: PaneRef,
  open: (signal: AbortSignal) => AsyncIterable<Event>,
  name: (event: Event) => Value,
  caller: AbortSignal,
  state: Reading<Event>,
): AsyncGenerator<Value | PaneClosedValue | PaneOutputRefusal> {
  const allowed = () => maySeePaneContent(context.viewer, pane.memberId);
  if (!allowed() || context.accounts.member(pane.memberId) === undefined) {
    yield* refusal(new NotFoundError('The pane'));
    return;
  }
  using watch = watchAuthority(context, caller, allowed);
  let begun = false;
  try {
    const source = open(watch.signal)[Symbol.asyncIterator]();
    state.watch = watch;
    state.source = source;
    for await (const event of { [Symbol.asyncIterator]: () => source }) {
      if (watch.over) break;
      begun = true;
      state.cursor = event.cursor;
      yield name(event);
      if (event.kind === 'closed') return;
    }
  } catch (error) {
    if (!watch.over) {
      if (begun) throw error;
      if (error instanceof RangeError)
        throw badInput(
          'after',
          'is not a cursor of this pane. Take it from an event of `paneOutput`.',
        );
      yield* refusal(error);
      return;
    }
  }
  if (watch.end === undefined) return;
  if (state.cursor === null) {
    // Nothing was sent, so there is no place that a PaneClosed could name.
    if (watch.end === 'withdrawn') throw credentialEnded();
    yield* refusal(new ListingUnknownError(null, null, 'the service is stopping'));
    return;
  }
  yield closed(
    state.cursor,
    watch.end === 'draining' ? 'SERVICE_DRAINING' : 'PERMISSION_WITHDRAWN',
  );
}

function* refusal(error: unknown): Generator<PaneOutputRefusal> {
  const said = userErrorOf(error);
  switch (said?.__typename) {
    case 'StaleGenerationError':
    case 'NotFoundError':
    case 'ListingUnknownError':
      yield said;
      return;
    default:
      throw error;
  }
}

const namedEvents = new MadeOf<PaneOutputEvent, PaneOutputValue>();

/** The same object for the same event, so that it is executed once for all who get it. */
function named(event: PaneOutputEvent): PaneOutputValue {
  let value = namedEvents.get(event);
  if (value === undefined) {
    value = withName(event);
    namedEvents.set(event, value);
  }
  return value;
}

function withName(event: PaneOutputEvent): PaneOutputValue {
  switch (event.kind) {
    case 'snapshot':
      return { ...event, __typename: 'PaneSnapshot' };
    case 'chunk':
      return { ...event, __typename: 'PaneChunk' };
    case 'resized':
      return { ...event, __typename: 'PaneResized' };
    case 'gap':
      return { ...event, __typename: 'PaneGap' };
    case 'closed':
      return { ...event, __typename: 'PaneClosed' };
  }
}

const namedScreens = new MadeOf<PaneScreenEvent, PaneScreenEventValue>();

function namedScreen(event: PaneScreenEvent): PaneScreenEventValue {
  let value = namedScreens.get(event);
  if (value === undefined) {
    value =
      event.kind === 'screen'
        ? { ...event, __typename: 'PaneScreen' }
        : { ...event, __typename: 'PaneClosed' };
    namedScreens.set(event, value);
  }
  return value;
}

function closed(cursor: string, reason: PaneCloseReason): PaneClosedValue {
  const nothing = { exitStatus: null, exitSignal: null };
  return { kind: 'closed', __typename: 'PaneClosed', cursor, reason, ...nothing };
}
