import { GraphQLError, isEnumType } from 'graphql';
import { AuditUnreadableError } from '../audit/audit.ts';
import type { Logger } from '../log.ts';
import { RequestError, type RequestErrorCode } from '../resolvers/request-error.ts';
import { schema } from '../schema/index.ts';
import { ListingUnknownError } from '../tmux/errors.ts';

/**
 * The one mask for all transports. What a caller may read is a `RequestError`, or what GraphQL says
 * about the caller's own document; all else is one fixed sentence, and the log has the rest under
 * the request id.
 */
export interface MaskedResult {
  readonly errors?: readonly GraphQLError[] | undefined;
  readonly data?: unknown;
  readonly extensions?: unknown;
}

const statuses: Readonly<Record<RequestErrorCode, number>> = {
  UNAUTHENTICATED: 401,
  FORBIDDEN: 403,
  BAD_USER_INPUT: 400,
  RATE_LIMITED: 429,
  QUERY_TOO_COMPLEX: 400,
  LISTING_UNKNOWN: 200,
  INTERNAL_SERVER_ERROR: 500,
};

export function maskResult<Result extends MaskedResult>(
  result: Result,
  requestId: string,
  logger: Logger,
  transport: 'http' | 'stream',
): Result {
  if (result.errors === undefined || result.errors.length === 0) return result;
  const whole = transport === 'http' && !('data' in result);
  return {
    ...result,
    errors: result.errors.map((error) => maskError(error, requestId, logger, whole)),
  };
}

/** @param whole nothing but errors is answered over HTTP, so the status says so where it may */
export function maskError(
  error: unknown,
  requestId: string,
  logger: Logger,
  whole = false,
): GraphQLError {
  const { code, message } = said(error);
  const root = cause(error);
  // Whoever asked is gone, and nobody reads this: as many of these as there are impatient callers.
  if (isAbort(root)) logger.debug({ requestId }, 'broken off: the caller is gone');
  else if (code === 'INTERNAL_SERVER_ERROR') logger.error({ err: root, requestId }, message);
  const located = error instanceof GraphQLError ? error : undefined;
  // Yoga reads `http`, keeps it back, and ignores it for application/json where `spec` is set.
  const given = located?.extensions.http;
  const http = whole
    ? { http: given ?? { spec: code !== 'RATE_LIMITED', status: statuses[code] } }
    : {};
  return new GraphQLError(message, {
    ...(located?.nodes === undefined
      ? { source: located?.source, positions: located?.positions }
      : { nodes: located.nodes }),
    path: located?.path,
    extensions: { code, requestId, ...http },
  });
}

/** The answer to a request that never became an operation. */
export function refusalBody(code: RequestErrorCode, message: string, requestId: string): string {
  return JSON.stringify({ errors: [{ message, extensions: { code, requestId } }] });
}

function said(error: unknown): { readonly code: RequestErrorCode; readonly message: string } {
  const root = cause(error);
  if (root instanceof RequestError) return { code: root.code, message: root.message };
  if (root instanceof ListingUnknownError)
    return { code: 'LISTING_UNKNOWN', message: root.message };
  if (error instanceof GraphQLError && root instanceof GraphQLError && isAboutInput(error))
    return { code: 'BAD_USER_INPUT', message: withoutValues(error.message) };
  if (root instanceof AuditUnreadableError)
    return { code: 'INTERNAL_SERVER_ERROR', message: root.message };
  return {
    code: 'INTERNAL_SERVER_ERROR',
    message: 'Something went wrong here. The log has it under the request id.',
  };
}

function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}

function cause(error: unknown): unknown {
  let root = error;
  while (root instanceof GraphQLError) {
    const inner = root.originalError ?? root.cause;
    if (inner === undefined || inner === null) break;
    root = inner;
  }
  return root;
}

/** Parsing, validation and variables have no path; an argument in a field says that it is one. */
function isAboutInput(error: GraphQLError): boolean {
  return error.path === undefined || error.message.startsWith('Argument ');
}

/**
 * What GraphQL says about an input, without what was given: a password beside a mistyped name would
 * be in the answer, and from there in the logs of whoever asked. And without suggestions.
 */
function withoutValues(message: string): string {
  return message
    .replace(/ Did you mean .*\?$/s, '')
    .replace(/, did you mean .*\?$/s, '.')
    .replace(/, found: .*$/s, '.')
    .replace(/( cannot represent [^:]*): .*$/s, '$1.')
    .replace(/^.*( does not exist in "(\w+)" enum)\..*$/s, (_, said: string, name: string) => {
      const type = schema.getType(name);
      const values = isEnumType(type) ? type.getValues().map((value) => value.name) : [];
      return `The value${said}. It has ${values.join(', ')}.`;
    });
}
