import { access, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { Hooks } from '../../src/tmux/hooks/hooks.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { eventually } from '../support/tmux-server.ts';

describe('what listens for reports of hooks', () => {
  it('ends at once, and waits for no pause that only a new start needs', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'mw-hooks-'));
    const config = readConfig({ HOME: folder, MUXWARDEN_STATE_DIR: folder });
    const clock = new FakeClock();
    const hooks = new Hooks(config, clock);
    const unused = () => {
      throw new Error('nobody reports');
    };
    hooks.add(userInfo().username, {
      ...{ memberId: 'alice', peek: unused, refresh: unused, report: unused },
    });
    await eventually(
      () =>
        access(join(config.hooksDir, 'socket')).then(
          () => true,
          () => undefined,
        ),
      'it listens',
    );
    // By a clock that stands still.
    await hooks[Symbol.asyncDispose]();
    expect(clock.pending).toBe(0);
    await expect(access(join(config.hooksDir, 'socket'))).rejects.toThrow('ENOENT');
    await rm(folder, { recursive: true });
  });
});
