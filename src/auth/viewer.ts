import type { Member } from '../members/member.ts';

export const scopes = ['READ', 'STREAM', 'ACT', 'RESTART', 'ADMIN'] as const;
/** READ: listings. STREAM: pane content. ACT: restartPane. RESTART: server restart and repair. */
export type Scope = (typeof scopes)[number];

/** Who asks, by which credential, and how far that one reaches. Scopes and members only narrow the role. */
export interface Viewer {
  readonly member: Member;
  readonly scopes: ReadonlySet<Scope>;
  /** Members that the credential may touch; null: every one that the role allows. */
  readonly memberIds: ReadonlySet<string> | null;
  readonly via: 'API_KEY' | 'SESSION' | 'SIGN_IN_LINK';
  /** Row id of the API key or the session. */
  readonly credentialId: string;
  /** A key with RESTART stands for a password only when an ADMIN made it. */
  readonly madeByAdmin: boolean;
  readonly expiresAt: Date | null;
}

/** Whoever shows a credential: at once where it is known, else after a look for a new one. */
export type Authenticated = Viewer | undefined | Promise<Viewer | undefined>;
