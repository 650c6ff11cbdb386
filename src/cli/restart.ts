import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { systemClock } from '../concurrency/clock.ts';
import { type Config, readConfig } from '../config.ts';
import { jsonText } from '../json-text.ts';
import { runningService, type ServiceRecord } from '../server/service-record.ts';
import { type Command, CommandError, exactly, readWords } from './command.ts';

const document = `mutation ($input: RestartServiceInput!) { restartService(input: $input) {
  __typename ... on RestartServicePayload { unit recorded } ... on UserError { message } } }`;

const answerShape = jsonText.pipe(
  z.object({
    data: z
      .object({
        restartService: z.object({
          unit: z.string().optional(),
          recorded: z.boolean().optional(),
          message: z.string().optional(),
        }),
      })
      .nullish(),
    errors: z.array(z.object({ message: z.string() })).optional(),
  }),
);

/** Until the service is there again. */
const backWithinMs = 60_000;

export const restart: Command = {
  summary: 'have the service manager restart the service',
  help: `muxwarden restart [--reason TEXT]

Has the running service restart itself by its service manager (restartService, with admin.key), and
waits until it is back. It is on record. Acts finish first, streams continue afterwards, and members'
tmux servers are not touched.

  --reason TEXT   why, for the audit log`,
  async run(words, io) {
    const { values, positionals } = readWords(words, { reason: { type: 'string' } });
    exactly(positionals);
    const config = readConfig(io.environment);
    const before = await runningService(config.stateDir);
    if (before === undefined)
      throw new CommandError(
        `No service runs on the state directory ${config.stateDir}. Start it as you start it: systemctl start muxwarden, or muxwarden serve.`,
      );
    const unit = await askFor(config, before, values.reason ?? null);
    io.note(`${unit} is being restarted.`);
    const after = await nextLife(config, before);
    io.out(`The service runs again, as process ${after.pid} at ${after.url}.`);
    return 0;
  },
};

/** @returns the unit. @throws CommandError with what the service said */
async function askFor(
  config: Config,
  record: ServiceRecord,
  reason: string | null,
): Promise<string> {
  const keyFile = join(config.stateDir, 'admin.key');
  const key = await readFile(keyFile, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    throw new CommandError(
      `${keyFile} can't be read (${cause.code}), and the service wants to know who asks. Run this as the user who runs the service, or restart it as root: systemctl restart muxwarden`,
    );
  });
  const input = { idempotencyKey: randomUUID(), reason };
  const text = await post(config, record, key.trim(), { query: document, variables: { input } });
  const answer = answerShape.safeParse(text).data;
  const said = answer?.data?.restartService;
  if (said?.unit !== undefined) return said.unit;
  throw new CommandError(
    said?.message ?? answer?.errors?.[0]?.message ?? 'The service gave no answer that makes sense.',
  );
}

/** To where it listens, whatever address it has outside. */
function post(
  { host, port, maxBodyBytes }: Config,
  record: ServiceRecord,
  key: string,
  body: object,
): Promise<string> {
  const here = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return new Promise((resolve, reject) => {
    const call = request(
      {
        ...{ host: here, port: record.port ?? port, method: 'POST', path: '/graphql' },
        headers: {
          host: new URL(record.url).host,
          authorization: `Bearer ${key}`,
          ...{ 'content-type': 'application/json', accept: 'application/json' },
        },
        timeout: 30_000,
      },
      (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (piece: string) => {
          if (text.length < maxBodyBytes) text += piece;
        });
        response.on('end', () => resolve(text));
        response.on('error', fail);
      },
    );
    const fail = (cause: Error) =>
      reject(
        new CommandError(
          `The service at ${here}:${record.port ?? port} does not answer (${cause.message}). Restart it as root: systemctl restart muxwarden`,
          { cause },
        ),
      );
    call.on('timeout', () => call.destroy(new Error('no answer in 30 s')));
    call.on('error', fail);
    call.end(JSON.stringify(body));
  });
}

async function nextLife({ stateDir }: Config, before: ServiceRecord): Promise<ServiceRecord> {
  const end = systemClock.monotonic() + backWithinMs;
  while (systemClock.monotonic() < end) {
    const now = await runningService(stateDir);
    if (now !== undefined && (now.pid !== before.pid || now.startTicks !== before.startTicks))
      return now;
    await sleep(100);
  }
  throw new CommandError(
    `The service was told to stop, and was not back within ${backWithinMs / 1_000} s. Look, as root: systemctl status muxwarden; journalctl --unit muxwarden`,
  );
}
