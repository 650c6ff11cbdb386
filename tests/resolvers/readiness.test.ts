import { expect, it } from 'vitest';
import { whyNotReady } from '../../src/resolvers/readiness.ts';
import { openTestDatabase } from '../support/postgres.ts';
import { eventually } from '../support/tmux-server.ts';

it('a database that stands still is a reason, told before it goes on', async () => {
  await using test = await openTestDatabase('server');
  const server = test.server ?? expect.fail();
  const ask = () => whyNotReady(test.database, { problems: () => [] });
  expect(await ask()).toEqual([]);
  await server.signal('SIGSTOP');
  try {
    expect(await ask()).toEqual(['the database does not answer']);
  } finally {
    await server.signal('SIGCONT');
  }
  await eventually(async () => (await ask()).length === 0, 'it answers again');
});
