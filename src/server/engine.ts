import {
  createSourceEventStream,
  type DocumentNode,
  type ExecutionArgs,
  type ExecutionResult,
  execute as executeOperation,
  GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  parse as parseDocument,
  type Source,
  type ValidationRule,
  validate as validateDocument,
  validateSubscriptionArgs,
} from 'graphql';
import type { Context } from '../resolvers/context.ts';
import { RequestError } from '../resolvers/request-error.ts';
import { overLimit } from './limits.ts';
import type { SharedResults } from './shared-results.ts';
import type { SubscriptionCount } from './subscription-count.ts';

/** What a transport hands to the engine as context: the resolvers' context, made when it is needed. */
export interface OperationContext {
  readonly operation: Context;
}

/**
 * How a document is read, checked and run, whichever transport brought it: with the token limit,
 * without suggestions, and with the limits of limits.ts before any field runs.
 */
export function engine(maxTokens: number, subscriptions: SubscriptionCount, shared: SharedResults) {
  return {
    parse(source: string | Source): DocumentNode {
      try {
        return parseDocument(source, { maxTokens });
      } catch (error) {
        if (!(error instanceof GraphQLError) || !/ more than \d+ tokens/.test(error.message))
          throw error;
        const most = `The document has more than ${maxTokens} tokens, which is the most.`;
        throw asGraphQLError(new RequestError('QUERY_TOO_COMPLEX', most));
      }
    },

    validate: (schema: GraphQLSchema, document: DocumentNode, rules?: readonly ValidationRule[]) =>
      validateDocument(schema, document, rules, { hideSuggestions: true }).map((error) =>
        error.message === 'Validation aborted.' ? tooRepetitive : error,
      ),

    execute(args: ExecutionArgs): ExecutionResult | Promise<ExecutionResult> {
      return refused(args) ?? executeOperation(executionArgs(args));
    },

    async subscribe(
      args: ExecutionArgs,
    ): Promise<ExecutionResult | AsyncGenerator<ExecutionResult, void, void>> {
      const refusal = refused(args);
      if (refusal !== undefined) return refusal;
      const context = operationOf(args.contextValue);
      let close: () => void;
      try {
        close = subscriptions.open(context.viewer.member.id);
      } catch (error) {
        return { errors: [asGraphQLError(error)] };
      }
      try {
        const validated = validateSubscriptionArgs(executionArgs(args));
        if (!('schema' in validated)) {
          close();
          return { errors: validated };
        }
        const source = await createSourceEventStream(validated);
        if (Symbol.asyncIterator in source) return shared.of(source, validated, context, close);
        close();
        return source;
      } catch (error) {
        close();
        throw error;
      }
    },
  };
}

function refused(args: ExecutionArgs): ExecutionResult | undefined {
  const { schema, document, operationName, variableValues } = args;
  const operation = getOperationAST(document, operationName);
  if (operation === undefined || operation === null) {
    const message =
      operationName == null
        ? 'The document holds several operations. Say which one by `operationName`.'
        : 'The document has no operation of that name.';
    return { errors: [new GraphQLError(message)] };
  }
  const { config } = operationOf(args.contextValue);
  const refusal = overLimit(config, schema, document, operation, variableValues ?? {});
  return refusal === undefined ? undefined : { errors: [asGraphQLError(refusal)] };
}

function executionArgs(args: ExecutionArgs): ExecutionArgs {
  const { schema, document, operationName, variableValues } = args;
  const contextValue = operationOf(args.contextValue);
  return { schema, document, operationName, variableValues, contextValue, hideSuggestions: true };
}

/** The resolvers' context in what a transport handed over. */
export function operationOf(contextValue: unknown): Context {
  if (!isOperationContext(contextValue)) throw new Error('an operation without its context');
  return contextValue.operation;
}

function isOperationContext(value: unknown): value is OperationContext {
  return typeof value === 'object' && value !== null && 'operation' in value;
}

/** GraphQL compares fields of one name in pairs, and stops where that would take too long. */
const tooRepetitive = asGraphQLError(
  new RequestError('QUERY_TOO_COMPLEX', 'The document repeats fields too often to be checked.'),
);

function asGraphQLError(error: unknown): GraphQLError {
  const cause = error instanceof Error ? error : new Error(String(error));
  return new GraphQLError(cause.message, { originalError: cause });
}
