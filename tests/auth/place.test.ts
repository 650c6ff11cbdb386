import { expect, it } from 'vitest';
import { placeOf } from '../../src/auth/place.ts';

it.each([
  [null, 'unknown'],
  ['192.0.2.7', '192.0.2.7'],
  ['::1', '0:0:0:0::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['2001:DB8:0:0:1:2:3:4', '2001:db8:0:0::/64'],
  ['2001:0db8:00aa:0001:1:2:3:4', '2001:db8:aa:1::/64'],
  ['2001:db8:aa:1::', '2001:db8:aa:1::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['64:ff9b::192.0.2.33', '64:ff9b:0:0::/64'],
  ['1:2:3:4:5:6:192.0.2.33', '1:2:3:4::/64'],
])('is for %s the place %s', (address, place) => {
  expect(placeOf(address)).toBe(place);
});
