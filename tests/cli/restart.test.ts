import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { run } from '../../src/cli/run.ts';
import { writeServiceRecord } from '../../src/server/service-record.ts';
import { scratchDirectory } from '../support/scratch.ts';

/** What `muxwarden restart` says where it can't; by real units: install-system.test.ts, lab/user-unit. */

async function restart(environment: Record<string, string>) {
  const said: string[] = [];
  const status = await run(['restart'], {
    environment,
    out: (text) => said.push(text),
    note: (text) => said.push(text),
    readSecret: async () => '',
  });
  return { status, said: said.join('\n') };
}

it('says what to do where no service runs, where its key is gone, and where it does not answer', async () => {
  await using scratch = await scratchDirectory();
  const environment = { MUXWARDEN_STATE_DIR: scratch.path };
  expect(await restart(environment)).toEqual({
    status: 1,
    said: expect.stringMatching(/^muxwarden: No service runs on .* Start it/),
  });
  await using _record = await writeServiceRecord(scratch.path, 'https://mux.example.org', 1);
  expect((await restart(environment)).said).toMatch(/admin\.key can't be read.*systemctl restart/);
  await writeFile(join(scratch.path, 'admin.key'), 'mw_key\n', { mode: 0o600 });
  expect((await restart(environment)).said).toMatch(
    /127\.0\.0\.1:1 does not answer.*systemctl restart/,
  );
});

it('asks where the service listens, by its outside name and key, and tells its refusal', async () => {
  await using scratch = await scratchDirectory();
  const asked: unknown[] = [];
  const server = createServer((request, response) => {
    const { host, authorization } = request.headers;
    asked.push([request.method, request.url, host, authorization]);
    response.end(
      JSON.stringify({ data: { restartService: { message: 'Nobody would start it.' } } }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await writeFile(join(scratch.path, 'admin.key'), 'mw_key\n', { mode: 0o600 });
  await using _record = await writeServiceRecord(scratch.path, 'https://mux.example.org', port);
  expect(await restart({ MUXWARDEN_STATE_DIR: scratch.path })).toEqual({
    status: 1,
    said: 'muxwarden: Nobody would start it.',
  });
  expect(asked).toEqual([['POST', '/graphql', 'mux.example.org', 'Bearer mw_key']]);
  server.close();
});
