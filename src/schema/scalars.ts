import { GraphQLError } from 'graphql';
import { builder } from './builder.ts';

const rfc3339 =
  /^(\d{4}-\d\d-\d\d)[T ]((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d))$/;
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

builder.scalarType('DateTime', {
  description:
    'A moment as RFC 3339 writes it, in UTC with milliseconds: `2026-11-29T08:15:30.250Z`. As input any offset is fine.',
  serialize: (value) => value.toISOString(),
  parseValue(value) {
    const moment = typeof value === 'string' ? momentOf(value) : undefined;
    if (moment === undefined)
      throw new GraphQLError(
        `${said(value)} is no DateTime. It is a moment like 2026-11-29T08:15:30Z, in the years 0001 to 9999.`,
      );
    return moment;
  },
});

builder.scalarType('Bytes', {
  description: 'Bytes, exactly, as base64 with padding (RFC 4648 section 4).',
  serialize: (value) =>
    Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64'),
  parseValue(value) {
    if (typeof value !== 'string' || !base64.test(value))
      throw new GraphQLError('Bytes are base64 with padding.');
    return Buffer.from(value, 'base64');
  },
});

builder.scalarType('ByteCount', {
  description: 'A number of bytes: a whole JSON number from 0 to 2^53-1.',
  serialize: (value) => value,
  parseValue(value) {
    if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0)
      throw new GraphQLError('A ByteCount is a whole number from 0 to 2^53-1.');
    return value;
  },
});

/** Strict where Date is not: it would take 30 February for 2 March, and 24:00 for the day after. */
function momentOf(text: string): Date | undefined {
  const [, date, time] = rfc3339.exec(text.toUpperCase()) ?? [];
  if (date === undefined || time === undefined) return undefined;
  const day = new Date(`${date}T00:00:00Z`);
  if (Number.isNaN(day.getTime()) || day.toISOString().slice(0, 10) !== date) return undefined;
  const moment = new Date(`${date}T${time}`);
  // In UTC, for that is how it is stored: PostgreSQL knows no year 0.
  const year = moment.getUTCFullYear();
  return year >= 1 && year <= 9999 ? moment : undefined;
}

function said(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
