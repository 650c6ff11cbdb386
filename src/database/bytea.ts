import { customType } from 'drizzle-orm/pg-core';

/** PostgreSQL's byte string as a Buffer. */
export const bytea = customType<{ data: Buffer }>({ dataType: () => 'bytea' });
