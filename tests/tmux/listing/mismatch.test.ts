import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { restartRequest } from '../../support/acting-member.ts';
import { localFleet } from '../../support/local-fleet.ts';
import { lacks } from '../../support/needs.ts';
import { library, patchedTmux } from '../../support/patched-tmux.ts';
import { scratchDirectory } from '../../support/scratch.ts';
import { presentVersions, startTicks } from '../../support/tmux-server.ts';

const version = presentVersions.at(-1) ?? '3.8';

describe.skipIf(lacks('gcc', 'patchelf'))(
  'a server whose client says that it is of another version',
  () => {
    it.each([
      [1, 1],
      [3, 0],
    ])(
      '%i times, with status %i, is VERSION_MISMATCH and never empty; it can be restarted',
      async (times, status) => {
        await using local = await localFleet();
        await using scratch = await scratchDirectory();
        const binary = join(scratch.path, 'tmux');
        const needed = await library(scratch.path, 'refusing-client', {
          TIMES: times,
          STATUS: status,
        });
        await patchedTmux(version, binary, needed);
        const tmux = await local.tmux({ version, binary, name: 'apart' });
        await local.tmux({ name: 'fine' });
        const listing = await local.refresh();
        expect(listing.servers).toHaveLength(2);
        const view = local.server('apart');
        expect(view).toMatchObject({
          status: 'RUNNING',
          reason: 'VERSION_MISMATCH',
          version,
          sessions: null,
          listing: { state: 'UNKNOWN' },
        });
        expect(view.detail).toMatch(
          `runs ${version}, and its client says: server version is too old`,
        );
        expect(local.server('fine').listing.state).toBe('FRESH');

        const pid = await tmux.pid();
        using act = await local.fleet.prepareRestartServer(restartRequest(view, { force: true }));
        const { after } = await act.run();
        expect(after).toMatchObject({ status: 'RUNNING', sessionCount: 1 });
        expect(await startTicks(pid)).toBeUndefined();
      },
    );
  },
);
