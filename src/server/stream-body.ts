import { once } from 'node:events';
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { head } from './respond.ts';

/** Reads on only when the connection took what was read, so a slow reader holds back its source. */
export async function streamBody(
  response: ServerResponse,
  { body, status }: Response,
  headers: OutgoingHttpHeaders,
): Promise<void> {
  const reader = body?.getReader();
  if (reader === undefined) return;
  // What a source says about being left concerns nobody.
  const leave = () => {
    void reader.cancel().catch(() => undefined);
  };
  response.once('close', leave);
  if (response.destroyed) return leave();
  head(response, status, { ...headers, 'x-accel-buffering': 'no' });
  for (;;) {
    const { done, value } = await reader.read();
    if (done || response.destroyed) break;
    if (!response.write(value)) {
      const either = new AbortController();
      const { signal } = either;
      await Promise.race([
        once(response, 'drain', { signal }),
        once(response, 'close', { signal }),
      ]).finally(() => either.abort());
    }
  }
  response.off('close', leave);
  if (response.destroyed) leave();
  response.end();
}
