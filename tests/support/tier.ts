/** True in `npm run test:long`. */
export const longTier = process.env.MUXWARDEN_TEST_TIER === 'long';

/** The number of rounds for this tier; print it, so that a run says what it covered. */
export function rounds(short: number, long: number): number {
  return longTier ? long : short;
}
