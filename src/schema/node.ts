import { findNode } from '../resolvers/find.ts';
import { badInput } from '../resolvers/request-error.ts';
import { builder } from './builder.ts';
import { Node } from './refs.ts';

Node.implement({
  description:
    'Anything that has an id. Ids are opaque, the same for all viewers, and never reused.',
  fields: (t) => ({
    id: t.id({
      description: 'Opaque. Names this thing and no other, for ever.',
      // Every type that implements this says its own.
      resolve: () => {
        throw new Error('a Node without an id');
      },
    }),
  }),
});

builder.queryFields((t) => ({
  node: t.field({
    type: Node,
    nullable: true,
    description:
      "The thing with this id. Null: it is not there, not yours, or of an earlier life of its tmux server. Null with LISTING_UNKNOWN in `errors`: it can't be said.",
    args: { id: t.arg.id({ required: true, description: 'An `id` of any type.' }) },
    resolve: (_, { id }, context) => findNode(context, id),
  }),
  nodes: t.field({
    type: t.listRef(Node, { nullable: true }),
    description: 'The things with these ids, in this order; each entry as `node` would answer it.',
    args: {
      ids: t.arg.idList({ required: true, description: 'Up to 100 ids of any type.' }),
    },
    resolve: (_, { ids }, context) => {
      if (ids.length > context.config.maxPageSize)
        throw badInput('ids', `takes at most ${context.config.maxPageSize} ids.`);
      return ids.map((id) => findNode(context, id));
    },
  }),
}));
