import { isIPv6 } from 'node:net';

/**
 * Where an address is from, for counting: an IPv4 address is a place of its own, and so are the 64
 * bits that an IPv6 address begins with, since whoever has one of those has all below it.
 */
export function placeOf(address: string | null): string {
  if (address === null) return 'unknown';
  if (!isIPv6(address)) return address;
  const [head = '', tail] = address.replace(/%.*$/, '').toLowerCase().split('::', 2);
  const before = head === '' ? [] : head.split(':');
  const after = tail ? tail.split(':') : [];
  // An IPv4 address at the end stands for two groups, behind the 64 bits in any case.
  const written = before.length + after.length + (address.includes('.') ? 1 : 0);
  const groups = [
    ...before,
    ...Array.from({ length: tail === undefined ? 0 : Math.max(8 - written, 0) }, () => '0'),
    ...after,
  ];
  return `${groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`;
}
