import type { IncomingHttpHeaders } from 'node:http';
import type { Authentication } from '../auth/authentication.ts';
import type { NewSession } from '../auth/sessions.ts';
import type { Authenticated } from '../auth/viewer.ts';
import type { Config } from '../config.ts';
import { isLoopback } from './origin.ts';

/** Who shows which credential. */
export type Authenticator = Pick<Authentication, 'apiKey' | 'session'>;

/** A browser must send this with every request that it authorises by cookie; other sites can't. */
export const csrfHeader = 'x-muxwarden-csrf';

export type Shown =
  | { readonly kind: 'bearer'; readonly key: string }
  | { readonly kind: 'cookie'; readonly token: string };

export const unsafeForCookies =
  'A browser session needs HTTPS, or the service bound to loopback: set MUXWARDEN_PUBLIC_URL to its https address. Keys work all the same.';

/** The cookie of this installation; undefined where a browser session would not be safe. */
export function cookieName(config: Config, publicUrl: string): string | undefined {
  if (publicUrl.startsWith('https:')) return '__Host-muxwarden';
  return isLoopback(config.host) ? 'muxwarden' : undefined;
}

/** `Set-Cookie` for a session that begins, or for one that is over. */
export function sessionCookie(
  name: string,
  session: Pick<NewSession, 'token' | 'expiresAt'> | undefined,
): string {
  const secure = name.startsWith('__Host-') ? '; Secure' : '';
  const { token, expiresAt } = session ?? { token: '', expiresAt: new Date(0) };
  return `${name}=${token}; Path=/; HttpOnly; SameSite=Strict; Expires=${expiresAt.toUTCString()}${secure}`;
}

/** What a request shows. A key goes before a cookie. */
export function shown(headers: IncomingHttpHeaders, cookie: string | undefined): Shown | undefined {
  const key = bearer(headers.authorization);
  if (key !== undefined) return { kind: 'bearer', key };
  if (cookie === undefined) return undefined;
  for (const pair of (headers.cookie ?? '').split(';')) {
    const [name, value] = pair.trim().split('=', 2);
    if (name === cookie && value) return { kind: 'cookie', token: value };
  }
  return undefined;
}

export function bearer(header: unknown): string | undefined {
  if (typeof header !== 'string') return undefined;
  return /^Bearer +(\S{1,512})$/i.exec(header.trim())?.[1];
}

export function authenticate(
  authenticator: Authenticator,
  credential: Shown | undefined,
): Authenticated {
  if (credential === undefined) return undefined;
  return credential.kind === 'bearer'
    ? authenticator.apiKey(credential.key)
    : authenticator.session(credential.token);
}
