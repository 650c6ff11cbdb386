/**
 * The database can't be used. The message is a sentence that says what to do and never holds a
 * password; `logLines` are the server's own last words, where we run it ourselves.
 */
export class DatabaseUnavailableError extends Error {
  override readonly name = 'DatabaseUnavailableError';
  readonly logLines: readonly string[];
  constructor(message: string, logLines: readonly string[] = [], cause?: unknown) {
    super(message, { cause });
    this.logLines = logLines;
  }
}
