import { GraphQLError } from 'graphql';
import { describe, expect, it } from 'vitest';
import { AuditUnreadableError } from '../../src/audit/audit.ts';
import { createLogger } from '../../src/log.ts';
import { maskError } from '../../src/server/errors.ts';

function masked(error: Error) {
  const lines: { level: number }[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  const logger = createLogger({ level: 'trace', destination });
  const located = new GraphQLError(error.message, { originalError: error, path: ['field'] });
  return { shown: maskError(located, 'request-1', logger), lines };
}

describe('an error that is masked', () => {
  it('is one sentence for the caller, and whole in the log', () => {
    const { shown, lines } = masked(new Error('the password is hunter2'));
    expect(shown.extensions.code).toBe('INTERNAL_SERVER_ERROR');
    expect(shown.message).not.toContain('hunter2');
    expect(lines).toMatchObject([{ level: 50, requestId: 'request-1' }]);
  });

  it('is no trouble of ours where the caller is gone: no stack, nothing above debug', () => {
    const abort = new AbortController();
    abort.abort();
    const { lines } = masked(abort.signal.reason);
    expect(lines).toMatchObject([{ level: 20, requestId: 'request-1' }]);
    expect(JSON.stringify(lines)).not.toContain('stack');
  });

  it('says that the record can’t be read, and keeps the reason in the log', () => {
    const { shown, lines } = masked(new AuditUnreadableError(new Error('connect ECONNREFUSED')));
    expect(shown.extensions.code).toBe('INTERNAL_SERVER_ERROR');
    expect(shown.message).toMatch(/^The audit log can't be read now: the database does not answer/);
    expect(shown.message).not.toContain('ECONNREFUSED');
    expect(lines).toHaveLength(1);
    expect(JSON.stringify(lines)).toContain('ECONNREFUSED');
  });
});
