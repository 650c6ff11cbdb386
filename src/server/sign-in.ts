import type { IncomingMessage, ServerResponse } from 'node:http';
import { AuditUnavailableError } from '../audit/audit.ts';
import type { NewSession } from '../auth/sessions.ts';
import { signInByLink } from '../resolvers/sign-in.ts';
import { BodyTooLargeError, readBody } from './body.ts';
import { sessionCookie, unsafeForCookies } from './credential.ts';
import { clientAddress, type Door, refuseOrigin, userAgentOf } from './door.ts';
import { smallPage } from './page.ts';
import { send } from './respond.ts';

/**
 * A sign-in link, `/sign-in#TOKEN`: the token is in the fragment, which no browser sends and no log
 * sees. The page puts it into a form; only its POST uses the token up, so a preview, a prefetch or a
 * HEAD does not. Without scripts the token is pasted by hand.
 */
export async function answerSignIn(
  door: Door,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const foreign = refuseOrigin(door, request);
  if (foreign !== undefined) return page(response, 403, 'Not from there', foreign.message);
  if (door.cookie === undefined)
    return page(response, 403, 'Not over this connection', unsafeForCookies);
  if (request.method === 'GET' || request.method === 'HEAD') return form(response);
  if (request.method !== 'POST')
    return page(response, 405, 'Not like that', 'Open the link in a browser.', {
      allow: 'GET, POST',
    });
  await redeem(door, door.cookie, request, response);
}

async function redeem(
  door: Door,
  cookie: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  // Without this another site could sign somebody in as somebody else.
  if (request.headers.origin === undefined)
    return page(response, 403, 'Not from there', 'The form was not sent by this page.');
  if (!/^application\/x-www-form-urlencoded\b/.test(request.headers['content-type'] ?? ''))
    return page(response, 415, 'Not like that', 'Use the form of this page.');
  let body: Buffer;
  try {
    body = await readBody(request, 4_096);
  } catch (error) {
    if (!(error instanceof BodyTooLargeError)) return;
    return page(response, 413, 'Not like that', 'That is no sign-in token.', {
      connection: 'close',
    });
  }
  const said = new URLSearchParams(body.toString()).get('token')?.trim() ?? '';
  // Whoever pastes the whole link is right as well.
  const token = said.slice(said.lastIndexOf('#') + 1);
  const caller = { address: clientAddress(door, request), userAgent: userAgentOf(request) };
  let session: NewSession | undefined;
  try {
    session = await signInByLink(door.parts, caller, token);
  } catch (error) {
    if (!(error instanceof AuditUnavailableError)) throw error;
    return page(response, 503, 'Not now', error.message);
  }
  if (session === undefined)
    return page(
      response,
      403,
      'This link can’t be used',
      'It was used already, or it is too old. Get another one with <code>muxwarden login</code>.',
    );
  send(response, 303, '', {
    location: '/graphiql',
    'set-cookie': sessionCookie(cookie, session),
  });
}

const fill =
  "const field=document.forms[0].elements.token,token=location.hash.slice(1);if(token){field.value=token;field.labels[0].hidden=true;field.type='hidden';history.replaceState(null,'',location.pathname)}";

function form(response: ServerResponse): void {
  const { body, policy } = smallPage(
    'Sign in to muxwarden',
    '<form method="post" action="/sign-in"><label for="token">The sign-in link, or its part after <code>#</code>:</label><input id="token" name="token" required autocomplete="off" spellcheck="false"><p><button type="submit">Sign in</button></p></form>',
    fill,
  );
  // Same-origin, for with no-referrer the form's own POST would have no Origin to check.
  send(response, 200, body, {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policy,
    'referrer-policy': 'same-origin',
  });
}

function page(
  response: ServerResponse,
  status: number,
  title: string,
  text: string,
  headers: Record<string, string> = {},
): void {
  const { body, policy } = smallPage(title, `<p>${text}</p>`);
  send(response, status, body, {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policy,
    ...headers,
  });
}
