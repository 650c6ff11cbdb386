import { defineConfig } from 'drizzle-kit';

// `npm run db:generate` writes the next folder of migrations/ from the tables.
export default defineConfig({
  dialect: 'postgresql',
  schema: './src/database/tables.ts',
  out: './migrations',
});
