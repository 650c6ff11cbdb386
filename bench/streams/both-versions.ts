import { tmuxBinary, type Version } from '../../tests/support/tmux-server.ts';
import type { Figure } from '../measure.ts';

/** The figures of a part for both versions that are compared: one before the changes of 3.6, and the newest. */
export async function bothVersions(
  measure: (version: Version) => Promise<readonly Figure[]>,
): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  for (const version of ['3.3a', '3.8'] as const) {
    if (tmuxBinary(version) === undefined) {
      console.log(
        `tmux ${version} is not on this machine: bash tests/setup/tmux-versions puts it there`,
      );
      continue;
    }
    for (const figure of await measure(version))
      figures.push({ ...figure, name: `${figure.name}, tmux ${version}` });
  }
  return figures;
}
