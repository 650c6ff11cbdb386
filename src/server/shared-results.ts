import {
  type ExecutionResult,
  executeSubscriptionEvent,
  type ValidatedSubscriptionArgs,
} from 'graphql';
import { atOnce, isPrompt, type Offer, type Prompt } from '../concurrency/prompt.ts';
import { MadeOf } from '../made-of.ts';
import type { Context } from '../resolvers/context.ts';
import { keyOf } from './asked-key.ts';
import { audienceOf, type Sight, watched } from './audience.ts';
import { withShortStacks } from './short-stacks.ts';

/**
 * One execution of an event for all subscribers to whom it looks the same.
 *
 * Each subscriber has a source of its own: where it stands, how fast it reads, and what it may see is
 * looked at there. Sources hand out the same object to all who are at the same place, and by that
 * object, by what was asked and by whose the result is (audience.ts), results are found again. So one
 * who is slow leaves the others without anybody noticing, and one who catches up has joined them.
 *
 * A result that holds errors is nobody else's, for they name the request.
 */
export class SharedResults {
  readonly #asked = new Map<string, Asked>();
  #executions = 0;

  /** How often an event was executed. */
  get executions(): number {
    return this.#executions;
  }

  /** How many different things are subscribed to. */
  get size(): number {
    return this.#asked.size;
  }

  /** The results of the events of a source, as prompt as that is. `ended` is called when they end, are left, or the caller is gone. */
  of(
    sources: AsyncIterable<unknown>,
    validated: ValidatedSubscriptionArgs,
    context: Context,
    ended: () => void,
  ): AsyncGenerator<ExecutionResult, void, void> & Prompt<ExecutionResult> {
    const key = keyOf(validated);
    const asked = this.#asked.get(key) ?? { subscribers: 0, results: new MadeOf() };
    this.#asked.set(key, asked);
    asked.subscribers += 1;
    let left = false;
    const leave = () => {
      context.signal?.removeEventListener('abort', leave);
      if (!left && --asked.subscribers === 0) this.#asked.delete(key);
      left = true;
      ended();
    };
    context.signal?.addEventListener('abort', leave, { once: true });
    if (context.signal?.aborted) leave();
    const events = sources[Symbol.asyncIterator]();
    const source = isPrompt(events) ? events[atOnce] : undefined;
    const over = { done: true, value: undefined } as const;
    /** Of an event that was taken, and takes time. */
    let late: Promise<ExecutionResult> | undefined;
    const resultOf = (event: unknown) =>
      find(asked, event, context) ?? this.#make(asked, event, validated, context);
    const keepForNext = (result: Promise<ExecutionResult>) => {
      late = result;
      // It is told to `next`, which may never come.
      result.catch(() => undefined);
    };
    const offered = (ring: () => void, offer: Offer<ExecutionResult>) => (event: unknown) => {
      if (left || late !== undefined) return false;
      let result: ExecutionResult | Promise<ExecutionResult>;
      try {
        result = resultOf(event);
      } catch {
        // It is for `take`, which finds the same, to tell.
        return false;
      }
      if (!(result instanceof Promise)) return offer(result);
      keepForNext(result);
      ring();
      return true;
    };
    return {
      [Symbol.asyncIterator]() {
        return this;
      },
      [atOnce]: {
        take() {
          if (left || late !== undefined) return undefined;
          try {
            const event = source?.take();
            if (event === undefined) return undefined;
            const result = resultOf(event);
            if (!(result instanceof Promise)) return result;
            keepForNext(result);
            return undefined;
          } catch (error) {
            leave();
            throw error;
          }
        },
        wait: (ring, offer) =>
          !left && late === undefined && source?.wait(ring, offer && offered(ring, offer)) === true,
      },
      async next() {
        try {
          if (late !== undefined) {
            const result = late;
            late = undefined;
            return { done: false, value: await result };
          }
          const step = await events.next();
          if (step.done !== true) return { done: false, value: await resultOf(step.value) };
        } catch (error) {
          leave();
          throw error;
        }
        leave();
        return over;
      },
      async return() {
        try {
          await events.return?.();
        } finally {
          leave();
        }
        return over;
      },
      async throw(error) {
        await this.return();
        throw error;
      },
      async [Symbol.asyncDispose]() {
        await this.return();
      },
    };
  }

  /** Whoever asks alike while it is being made waits, and takes it where it turns out to be theirs too. */
  #make(
    asked: Asked,
    event: unknown,
    validated: ValidatedSubscriptionArgs,
    context: Context,
  ): ExecutionResult | Promise<ExecutionResult> {
    const made = resultsOf(asked, event);
    const execute = () => this.#execute(made, event, validated, context);
    if (made === undefined || made.underWay.size === 0) return execute();
    const underWay = made.underWay.get(audienceOf(context.viewer, 'alike'));
    if (underWay === undefined) return execute();
    return underWay.then(() => find(asked, event, context) ?? execute());
  }

  #execute(
    made: Made | undefined,
    event: unknown,
    validated: ValidatedSubscriptionArgs,
    context: Context,
  ): ExecutionResult | Promise<ExecutionResult> {
    const { context: contextValue, sight } = watched(context);
    this.#executions += 1;
    const executing = withShortStacks(() =>
      executeSubscriptionEvent({ ...validated, rootValue: event, contextValue }),
    );
    if (!(executing instanceof Promise)) return keep(made, executing, sight(), context);
    // A failure is told to who executes; who waits for it executes itself.
    const settled = executing.then(
      () => undefined,
      () => undefined,
    );
    const alike = audienceOf(context.viewer, 'alike');
    made?.underWay.set(alike, settled);
    return executing
      .then((result) => keep(made, result, sight(), context))
      .finally(() => {
        if (made?.underWay.get(alike) === settled) made.underWay.delete(alike);
      });
  }
}

/** One thing that is subscribed to, by however many. */
interface Asked {
  subscribers: number;
  readonly results: MadeOf<object, Made>;
}

/** What was made of one event. */
interface Made {
  anyone: Kept | undefined;
  readonly byAudience: Map<string, Kept>;
  /** By who is alike: the executions that are not finished. */
  readonly underWay: Map<string, Promise<void>>;
}

interface Kept {
  readonly result: ExecutionResult;
  /** Monotonic; undefined: it holds as long as the event. */
  readonly madeAt: number | undefined;
}

/** For so long what was known is known: nobody could tell the difference. */
const youngMs = 100;

function resultsOf(asked: Asked, event: unknown): Made | undefined {
  if (typeof event !== 'object' || event === null) return undefined;
  let made = asked.results.get(event);
  if (made === undefined) {
    made = { anyone: undefined, byAudience: new Map(), underWay: new Map() };
    asked.results.set(event, made);
  }
  return made;
}

function find(asked: Asked, event: unknown, context: Context): ExecutionResult | undefined {
  if (typeof event !== 'object' || event === null) return undefined;
  const made = asked.results.get(event);
  if (made === undefined) return undefined;
  if (isYoung(made.anyone)) return made.anyone.result;
  if (made.byAudience.size === 0) return undefined;
  for (const reach of ['alike', 'own'] as const) {
    const kept = made.byAudience.get(audienceOf(context.viewer, reach));
    if (isYoung(kept)) return kept.result;
  }
  return undefined;
}

function isYoung(kept: Kept | undefined): kept is Kept {
  if (kept === undefined) return false;
  return kept.madeAt === undefined || performance.now() - kept.madeAt <= youngMs;
}

function keep(
  made: Made | undefined,
  result: ExecutionResult,
  { reach, ages }: Sight,
  context: Context,
): ExecutionResult {
  if (made === undefined || result.errors !== undefined) return result;
  const kept = { result, madeAt: ages ? performance.now() : undefined };
  if (reach === 'anyone') made.anyone = kept;
  else made.byAudience.set(audienceOf(context.viewer, reach), kept);
  return result;
}
