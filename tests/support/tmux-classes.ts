import { longTier } from './tier.ts';
import { presentVersions } from './tmux-server.ts';

/** One tmux of each version class; in the long tier every version that is here. */
export const presentClasses = presentVersions.filter(
  (version) => longTier || version !== '3.5a' || !presentVersions.includes('3.3a'),
);
