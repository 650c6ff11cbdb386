import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  checkedLogin,
  checkedOsUser,
  InvalidMemberError,
  loginFor,
} from '../../src/members/login.ts';

it.each(['a', '_', 'alice', 'a-b_c9', `a${'b'.repeat(31)}`])('takes the login %s', (login) => {
  expect(checkedLogin(login)).toBe(login);
});

it.each(['', 'Alice', '9a', '-a', 'a b', 'a.b', 'é', 'a\n', `a${'b'.repeat(32)}`, '#(touch x)'])(
  'refuses the login %j and says what one is',
  (login) => {
    expect(() => checkedLogin(login)).toThrow(InvalidMemberError);
    expect(() => checkedLogin(login)).toThrow(/1 to 32/);
  },
);

it('takes the names of Linux users with dots and capitals, and no paths or options', () => {
  expect(checkedOsUser('Alice.B')).toBe('Alice.B');
  for (const name of ['-u', '../x', 'a/b', '#0', 'a b', '']) {
    expect(() => checkedOsUser(name)).toThrow(InvalidMemberError);
  }
});

it('finds a valid login for every name', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (name) => {
      const login = loginFor(name);
      expect(checkedLogin(login)).toBe(login);
    }),
  );
  expect(loginFor('Alice.B')).toBe('alice-b');
  expect(loginFor('9lives')).toBe('_9lives');
});
