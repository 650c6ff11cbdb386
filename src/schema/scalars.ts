import { GraphQLError } from 'graphql';
import { builder } from './builder.ts';

const rfc3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$/;
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

builder.scalarType('DateTime', {
  description:
    'A moment as RFC 3339 writes it, in UTC with milliseconds: `2026-11-29T08:15:30.250Z`. As input any offset is fine.',
  serialize: (value) => value.toISOString(),
  parseValue(value) {
    const moment = typeof value === 'string' && rfc3339.test(value) ? new Date(value) : undefined;
    if (moment === undefined || Number.isNaN(moment.getTime()))
      throw new GraphQLError('A DateTime is a moment like 2026-11-29T08:15:30Z.');
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
