import { type DestinationStream, pino } from 'pino';

/**
 * The log: JSON, one object a line, so that no byte of a member can make a line of its own. Secrets
 * are in no log: headers, tokens, passwords and what was typed are never given to it, and the usual
 * names of such fields are cut out here besides.
 */
export type Logger = pino.Logger;

const secret = [
  'authorization',
  'cookie',
  'password',
  'initialPassword',
  'token',
  'key',
  'secret',
  'grant',
  'query',
  'variables',
];

export function createLogger(
  options: { readonly level?: string; readonly destination?: DestinationStream } = {},
): Logger {
  return pino(
    {
      level: options.level ?? 'info',
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: {
        paths: secret.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]),
        censor: '[redacted]',
      },
    },
    options.destination ?? pino.destination({ dest: 2, sync: false }),
  );
}
