import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import type { Client, Pool } from 'pg';
import type { Logger } from 'pino';
import type { Bell } from '../concurrency/bell.ts';

/** Where this process says what happens to it; a pino logger is one. */
export type Log = Pick<Logger, 'info' | 'warn' | 'error'>;

/** NOTIFY of other connections and processes, heard over one connection that mends itself. */
export interface Notifications {
  /**
   * Rings at every NOTIFY on the channel, and after each (re)connection, for what was missed: then
   * read again from the table. Listening begins with the first call.
   */
  bell(channel: string): Bell;
  /** False while nothing can be heard. */
  readonly connected: boolean;
}

/** The open database: one pool, its query builder, and what other processes announce. */
export interface Database extends AsyncDisposable {
  readonly pool: Pool;
  readonly drizzle: NodePgDatabase;
  readonly notifications: Notifications;
  /** What is connected to, for messages; without a password. */
  readonly target: string;
  /** A connection of its own, outside the pool and its time limits; the caller ends it. */
  connect(): Promise<Client>;
  /** The same as the role that owns the tables; where there is one role for all, as that. */
  connectAsOwner(): Promise<Client>;
  /** The role of `pool` and `connect`, where another one owns the tables. */
  readonly grantee: string | undefined;
}
