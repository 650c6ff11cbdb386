import type { IncomingMessage } from 'node:http';
import type { NewSession } from '../auth/sessions.ts';
import type { Viewer } from '../auth/viewer.ts';
import type { SessionCookie } from '../resolvers/context.ts';
import { RequestError } from '../resolvers/request-error.ts';
import { sessionCookie, unsafeForCookies } from './credential.ts';
import { type Door, refuseForgery } from './door.ts';

/** Who is signed in by the end of an operation over HTTP, and the cookie that its answer sets. */
export interface RequestSession {
  readonly viewer: Viewer;
  readonly cookie: SessionCookie | RequestError;
}

/** @param answer headers of the answer, which are sent once the operation has run */
export function sessionOf(
  { cookie: name }: Door,
  request: IncomingMessage,
  asked: Viewer,
  answer: Record<string, string>,
): RequestSession {
  if (name === undefined)
    return { viewer: asked, cookie: new RequestError('FORBIDDEN', unsafeForCookies) };
  // Else another site could sign somebody in as somebody else.
  const forgery = refuseForgery(request, 'Signing in sets a cookie, so it');
  if (forgery !== undefined)
    return { viewer: asked, cookie: new RequestError('FORBIDDEN', forgery.message) };
  let viewer = asked;
  const set = (session: NewSession | undefined) => {
    answer['set-cookie'] = sessionCookie(name, session);
  };
  return {
    get viewer() {
      return viewer;
    },
    cookie: {
      begin(session, signedIn) {
        viewer = signedIn;
        set(session);
      },
      end: () => set(undefined),
    },
  };
}
