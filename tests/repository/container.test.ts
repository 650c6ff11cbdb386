import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';

/** No container can run where the tests run; what can be read is checked. */

const root = join(import.meta.dirname, '../..');

// Strict: a key that Compose does not know, or that is in the wrong place, is refused.
const service = z.strictObject({
  image: z.string().optional(),
  build: z.literal('.').optional(),
  init: z.literal(true),
  depends_on: z
    .record(z.string(), z.strictObject({ condition: z.literal('service_healthy') }))
    .optional(),
  environment: z.record(z.string(), z.string()),
  networks: z.array(z.string()),
  ports: z.array(z.string()).optional(),
  volumes: z.array(z.string()),
  healthcheck: z
    .strictObject({ test: z.array(z.string()), interval: z.string(), retries: z.number() })
    .optional(),
  cap_drop: z.array(z.string()).optional(),
  security_opt: z.array(z.string()).optional(),
  stop_grace_period: z.string().optional(),
  restart: z.string(),
});
const compose = z.strictObject({
  services: z.strictObject({ database: service, muxwarden: service }),
  networks: z.record(z.string(), z.strictObject({ internal: z.boolean() }).nullable()),
  volumes: z.record(z.string(), z.null()),
});

describe('docker-compose.yml', async () => {
  const file = compose.parse(parse(await readFile(join(root, 'docker-compose.yml'), 'utf8')));
  const { database, muxwarden } = file.services;

  it('names each network and volume that it uses', () => {
    for (const each of [database, muxwarden]) {
      expect(Object.keys(file.networks)).toEqual(expect.arrayContaining(each.networks));
      const volumes = each.volumes.map((volume) => volume.split(':')[0]);
      expect(Object.keys(file.volumes)).toEqual(expect.arrayContaining(volumes));
    }
  });

  it('gives the database to nobody outside, and the service to this machine alone', () => {
    expect(database.ports).toBeUndefined();
    expect(database.networks.map((name) => file.networks[name]?.internal)).toEqual([true]);
    expect(muxwarden.ports).toEqual(['127.0.0.1:4000:4000']);
  });

  it('waits for the database, whose check it defines and whose account it uses', () => {
    expect(Object.keys(muxwarden.depends_on ?? {})).toEqual(['database']);
    expect(database.healthcheck?.test).toContain('pg_isready');
    const url = muxwarden.environment.DATABASE_URL?.replace(/\$\{(\w+):-([^}]*)\}/g, '$2');
    const { username, hostname, pathname, password } = new URL(url ?? '');
    expect([username, hostname, pathname]).toEqual(['muxwarden', 'database', '/muxwarden']);
    expect(database.environment.POSTGRES_PASSWORD).toContain(password);
  });
});

describe('Dockerfile', async () => {
  const text = await readFile(join(root, 'Dockerfile'), 'utf8');
  const ignored = (await readFile(join(root, '.dockerignore'), 'utf8')).split('\n');

  it('starts what the package has, as an ordinary user', () => {
    expect(text).toMatch(/^USER demo$/m);
    expect(text).toMatch(/exec node bin\/muxwarden\.js serve/);
    for (const part of ['src', 'bin', 'libexec', 'migrations', 'package-lock.json']) {
      expect(ignored).not.toContain(part);
    }
  });

  it('brings the Node that the service needs', () => {
    expect(text).toMatch(/^FROM node:24-/m);
  });
});
