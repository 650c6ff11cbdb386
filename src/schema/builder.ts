import SchemaBuilder from '@pothos/core';
import type { Context } from '../resolvers/context.ts';

/**
 * The one builder. It knows no types: each file of this folder adds its own, with the queries that
 * return them beside them, and index.ts loads the files.
 *
 * Fields are non-null unless they say `nullable: true`: null means "not known", so it is always
 * on purpose. Every type, field, argument and value has a description; a test walks the schema.
 */
export const builder = new SchemaBuilder<{
  Context: Context;
  DefaultFieldNullability: false;
  Scalars: {
    ID: { Input: string; Output: string };
    DateTime: { Input: Date; Output: Date };
    Bytes: { Input: Uint8Array; Output: Uint8Array };
    ByteCount: { Input: number; Output: number };
  };
}>({ defaultFieldNullability: false });

builder.queryType({ description: 'What can be asked. Reads change nothing and are not audited.' });
builder.mutationType({
  description:
    'What can be done. Each act that changes something is put on record before it happens; one such field per operation.',
});
builder.subscriptionType({
  description: 'What can be watched: over WebSocket (graphql-transport-ws) or by POST as SSE.',
});
