import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { isAlive, lifeOf } from '../database/process-life.ts';
import { writeFileDurably } from '../durable-file.ts';
import { jsonText } from '../json-text.ts';
import { ifThere } from '../system-error.ts';

/** What a running service leaves in its state directory, for commands: `service.json`. */
const shape = jsonText.pipe(
  z.object({
    url: z.url(),
    /** Where it listens, whatever address it has outside. */
    port: z.number().int().positive().optional(),
    pid: z.number().int().positive(),
    startTicks: z.string(),
  }),
);
export type ServiceRecord = z.infer<typeof shape>;

/** Written once the service listens; disposing it takes it away. */
export async function writeServiceRecord(
  stateDir: string,
  url: string,
  port?: number,
): Promise<AsyncDisposable> {
  const path = join(stateDir, 'service.json');
  const life = await lifeOf(process.pid);
  const record: ServiceRecord = {
    url,
    ...(port === undefined ? {} : { port }),
    pid: process.pid,
    startTicks: life?.startTicks ?? '',
  };
  await writeFileDurably(path, `${JSON.stringify(record)}\n`, 0o600);
  return { [Symbol.asyncDispose]: () => rm(path, { force: true }) };
}

/** The service that runs on this state directory; undefined when none does. */
export async function runningService(stateDir: string): Promise<ServiceRecord | undefined> {
  const text = await ifThere(readFile(join(stateDir, 'service.json'), 'utf8'));
  const record = shape.safeParse(text).data;
  return record !== undefined && (await isAlive(record)) ? record : undefined;
}
