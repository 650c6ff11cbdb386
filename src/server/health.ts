import type { IncomingMessage, ServerResponse } from 'node:http';
import { sendJson } from './respond.ts';

/** Why the service can't do its work now; empty: it can. For people who run it, without names. */
export type Readiness = () => Promise<readonly string[]>;

/** Alive: the event loop turns. */
export function answerHealth(_request: IncomingMessage, response: ServerResponse): void {
  sendJson(response, 200, { status: 'alive' });
}

/** Ready: 200, or 503 with the reasons. */
export async function answerReady(
  readiness: Readiness,
  draining: AbortSignal,
  response: ServerResponse,
): Promise<void> {
  let reasons: readonly string[];
  try {
    reasons = draining.aborted ? ['the service is stopping'] : await readiness();
  } catch {
    // What failed is for the log of whoever looks; here it only means "no".
    reasons = ['the readiness could not be found out'];
  }
  if (reasons.length === 0) sendJson(response, 200, { status: 'ready' });
  else sendJson(response, 503, { status: 'not ready', reasons }, { 'retry-after': '2' });
}
