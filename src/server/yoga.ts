import type { ExecutionResult } from 'graphql';
import { createYoga, type Plugin, type YogaServerInstance } from 'graphql-yoga';
import { atOnce, over, type Prompt } from '../concurrency/prompt.ts';
import type { Logger } from '../log.ts';
import type { Context } from '../resolvers/context.ts';
import { schema } from '../schema/index.ts';
import { engine, type OperationContext } from './engine.ts';
import { type MaskedResult, maskResult } from './errors.ts';
import type { SharedResults } from './shared-results.ts';
import type { SubscriptionCount } from './subscription-count.ts';

/** What comes along with a request, and is filled in while it is answered. */
export interface ServerContext extends OperationContext {
  readonly operation: Context;
  /** Called when the answer holds errors: those name the request, so it is no other's answer. */
  readonly failed: () => void;
  /** Takes the results of a subscription over HTTP: they are not a part of the answer that Yoga makes. */
  readonly streamed: (results: Results) => void;
}

export type Results = Prompt<ExecutionResult>;

export type Yoga = YogaServerInstance<ServerContext, Record<string, never>>;

/**
 * Yoga with all of its defaults off that are unsafe here: it answers POST of JSON alone (the
 * listener in front of it refuses the rest), no CORS, no batches, no forms, no page of its own.
 */
export function graphqlYoga(
  maxTokens: number,
  subscriptions: SubscriptionCount,
  shared: SharedResults,
  logger: Logger,
): Yoga {
  return createYoga<ServerContext, Record<string, never>>({
    schema,
    graphqlEndpoint: '/graphql',
    landingPage: false,
    graphiql: false,
    cors: false,
    multipart: false,
    batching: false,
    maskedErrors: false,
    logging: {
      debug: () => undefined,
      info: (...about) => logger.debug({ about }, 'yoga'),
      warn: (...about) => logger.warn({ about }, 'yoga'),
      error: (...about) => logger.error({ about }, 'yoga'),
    },
    plugins: [ourEngine(maxTokens, subscriptions, shared), masking(logger)],
  });
}

function ourEngine(
  maxTokens: number,
  subscriptions: SubscriptionCount,
  shared: SharedResults,
): Plugin<ServerContext> {
  const { parse, validate, execute, subscribe } = engine(maxTokens, subscriptions, shared);
  return {
    onParse: ({ setParseFn }) => setParseFn(parse),
    onValidate: ({ setValidationFn }) => setValidationFn(validate),
    onExecute: ({ setExecuteFn }) => setExecuteFn(execute),
    onSubscribe: ({ setSubscribeFn }) => setSubscribeFn(subscribe),
  };
}

/** Masks whatever goes out over HTTP, single answers and streams. WebSocket has the same mask in its own place. */
function masking(logger: Logger): Plugin<ServerContext, ServerContext> {
  const maskFor = <Result extends MaskedResult>(
    { operation, failed }: ServerContext,
    transport: 'http' | 'stream',
    result: Result,
  ): Result => {
    const masked = maskResult(result, operation.requestId, logger, transport);
    if (masked !== result) failed();
    return masked;
  };
  return {
    onResultProcess({ result, setResult, serverContext }) {
      if (Array.isArray(result)) return;
      if (Symbol.asyncIterator in result) setResult(nothing());
      else setResult(maskFor(serverContext, 'http', result));
    },
    // Of what comes here Yoga makes iterators of its own, which have a promise for each event.
    onSubscribe: () => ({
      onSubscribeResult({ args: { contextValue }, result }) {
        if (Symbol.asyncIterator in result)
          contextValue.streamed(mapped(result, (each) => maskFor(contextValue, 'stream', each)));
      },
    }),
  };
}

async function* nothing(): AsyncGenerator<never> {}

function mapped<Result>(
  results: AsyncIterable<Result>,
  map: (result: Result) => Result,
): Prompt<Result> {
  const iterator = results[Symbol.asyncIterator]();
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    [atOnce]: over(
      () => iterator,
      () => true,
      map,
    ),
    async next() {
      const step = await iterator.next();
      return step.done === true
        ? { done: true, value: undefined }
        : { done: false, value: map(step.value) };
    },
    async return() {
      await iterator.return?.();
      return { done: true, value: undefined };
    },
  };
}
