import { createYoga, type Plugin, type YogaServerInstance } from 'graphql-yoga';
import type { Logger } from '../log.ts';
import type { Context } from '../resolvers/context.ts';
import { schema } from '../schema/index.ts';
import { engine, type OperationContext } from './engine.ts';
import { type MaskedResult, maskResult } from './errors.ts';
import type { SubscriptionCount } from './subscription-count.ts';

/** What comes along with a request, and is filled in while it is answered. */
export interface ServerContext extends OperationContext {
  readonly operation: Context;
  /** Called when the answer holds errors: those name the request, so it is no other's answer. */
  readonly failed: () => void;
}

export type Yoga = YogaServerInstance<ServerContext, Record<string, never>>;

/**
 * Yoga with all of its defaults off that are unsafe here: it answers POST of JSON alone (the
 * listener in front of it refuses the rest), no CORS, no batches, no forms, no page of its own.
 */
export function graphqlYoga(
  maxTokens: number,
  subscriptions: SubscriptionCount,
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
    plugins: [ourEngine(maxTokens, subscriptions), masking(logger)],
  });
}

function ourEngine(maxTokens: number, subscriptions: SubscriptionCount): Plugin<ServerContext> {
  const { parse, validate, execute, subscribe } = engine(maxTokens, subscriptions);
  return {
    onParse: ({ setParseFn }) => setParseFn(parse),
    onValidate: ({ setValidationFn }) => setValidationFn(validate),
    onExecute: ({ setExecuteFn }) => setExecuteFn(execute),
    onSubscribe: ({ setSubscribeFn }) => setSubscribeFn(subscribe),
  };
}

/** Masks whatever goes out over HTTP, single answers and streams. WebSocket has the same mask in its own place. */
function masking(logger: Logger): Plugin<object, ServerContext> {
  return {
    onResultProcess({ result, setResult, serverContext }) {
      if (Array.isArray(result)) return;
      const { operation, failed } = serverContext;
      const mask = <Result extends MaskedResult>(each: Result): Result => {
        const masked = maskResult(each, operation.requestId, logger, 'http');
        if (masked !== each) failed();
        return masked;
      };
      setResult(Symbol.asyncIterator in result ? masked(result, mask) : mask(result));
    },
  };
}

function masked<Result>(
  results: AsyncIterable<Result>,
  mask: (result: Result) => Result,
): AsyncIterableIterator<Result> {
  const iterator = results[Symbol.asyncIterator]();
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    async next() {
      const step = await iterator.next();
      return step.done === true ? step : { done: false, value: mask(step.value) };
    },
    async return() {
      await iterator.return?.();
      return { done: true, value: undefined };
    },
  };
}
