/**
 * graphql-js ends each execution by an abort, whose error nobody sees, and to collect the frames of its stack
 * took a quarter of all that an event costs. So an error has the innermost frame alone, unless there is a
 * promise in between.
 */
export function withShortStacks<Result>(execute: () => Result): Result {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 1;
  try {
    return execute();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}
