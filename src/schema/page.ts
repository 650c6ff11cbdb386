import type { ObjectFieldBuilder, ObjectRef } from '@pothos/core';
import type { Page } from '../resolvers/page.ts';
import { builder } from './builder.ts';

/** The shape that every connection has: edges, nodes, pageInfo. */

const PageInfo = builder.objectRef<Page<unknown>>('PageInfo').implement({
  description: 'Where this page stands among the others.',
  fields: (t) => ({
    hasNextPage: t.exposeBoolean('hasNextPage', { description: 'More rows come after this page.' }),
    hasPreviousPage: t.exposeBoolean('hasPreviousPage', {
      description: 'There are rows before this page.',
    }),
    startCursor: t.string({
      nullable: true,
      description: 'Cursor of the first row; null when the page is empty.',
      resolve: ({ edges }) => edges[0]?.cursor ?? null,
    }),
    endCursor: t.string({
      nullable: true,
      description: 'Cursor of the last row, for `after`; null when the page is empty.',
      resolve: ({ edges }) => edges.at(-1)?.cursor ?? null,
    }),
  }),
});

type Types = typeof builder.$inferSchemaTypes;

/**
 * Makes the fields of `<Name>Connection`, and `<Name>Edge`. The caller adds those that only its
 * connection has.
 */
export function pageFields(
  name: string,
  node: ObjectRef<Types, object>,
  t: ObjectFieldBuilder<Types, Page<object>>,
) {
  const Edge = builder.objectRef<Page<object>['edges'][number]>(`${name}Edge`).implement({
    description: 'A row and its place.',
    fields: (edge) => ({
      cursor: edge.exposeString('cursor', { description: 'Its place, for `after`. Opaque.' }),
      node: edge.field({ type: node, description: 'The row.', resolve: (row) => row.node }),
    }),
  });
  return {
    edges: t.field({
      type: [Edge],
      description: 'The rows with their cursors.',
      resolve: (page) => page.edges,
    }),
    nodes: t.field({
      type: [node],
      description: 'The rows alone.',
      resolve: (page) => page.edges.map((edge) => edge.node),
    }),
    pageInfo: t.field({
      type: PageInfo,
      description: 'Where this page stands among the others.',
      resolve: (page) => page,
    }),
  };
}
