export const roles = ['ADMIN', 'ANALYST', 'DEVELOPER'] as const;
export type Role = (typeof roles)[number];

/** An account, and the Linux user (`osUser`) whose tmux servers it owns. */
export interface Member {
  readonly id: string;
  readonly login: string;
  readonly role: Role;
  readonly osUser: string | null;
  readonly disabled: boolean;
  readonly createdAt: Date;
}
