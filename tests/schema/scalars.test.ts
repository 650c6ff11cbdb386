import { GraphQLError, isScalarType } from 'graphql';
import { describe, expect, it } from 'vitest';
import { schema } from '../../src/schema/index.ts';

const moment = (value: unknown): unknown => {
  const type = schema.getType('DateTime');
  if (!isScalarType(type)) throw new Error('no DateTime');
  return type.parseValue(value);
};

describe('a DateTime', () => {
  it.each([
    ['2026-11-29T08:15:30Z', '2026-11-29T08:15:30.000Z'],
    ['2026-11-29t08:15:30.250z', '2026-11-29T08:15:30.250Z'],
    ['2026-11-29 08:15:30.123456789+01:30', '2026-11-29T06:45:30.123Z'],
    ['2028-02-29T23:59:59-23:59', '2028-03-01T23:58:59.000Z'],
    ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
    ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
  ])('%s is %s', (text, expected) => {
    const value = moment(text);
    expect(value instanceof Date && value.toISOString()).toBe(expected);
  });

  it.each([
    '0000-01-01T00:00:00Z',
    '0001-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59-00:01',
    '2026-02-30T00:00:00Z',
    '2026-02-29T00:00:00Z',
    '2026-04-31T00:00:00Z',
    '2026-00-01T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-11-29T24:00:00Z',
    '2026-11-29T23:60:00Z',
    '2026-11-29T23:59:60Z',
    '2026-11-29T08:15:30+24:00',
    '2026-11-29T08:15:30',
    '2026-11-29',
    '+10000-01-01T00:00:00Z',
    '',
  ])('%j is none, and the refusal names it', (text) => {
    expect(() => moment(text)).toThrow(GraphQLError);
    expect(() => moment(text)).toThrow(`${JSON.stringify(text)} is no DateTime.`);
  });

  it('is text, and what is said of a long one is short', () => {
    expect(() => moment(1_764_400_000)).toThrow('1764400000 is no DateTime.');
    expect(() => moment('9'.repeat(10_000))).toThrow(/^.{1,200}$/);
  });
});
