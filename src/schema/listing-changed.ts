import {
  type ListingEvent as ListingEventValue,
  listingChanges,
} from '../resolvers/listing-changes.ts';
import { thrown } from '../resolvers/stream.ts';
import { builder } from './builder.ts';
import { idArguments, memberId } from './global-ids.ts';
import { Member } from './refs.ts';

type Of<Name> = Extract<ListingEventValue, { readonly __typename: Name }>;

const ListingSnapshot = builder.objectRef<Of<'ListingSnapshot'>>('ListingSnapshot').implement({
  description: 'The whole present state of one member. It replaces what came before.',
  fields: (t) => ({
    member: t.expose('member', { type: Member, description: 'The member, as it is now.' }),
  }),
});

const ListingSynced = builder.objectRef<Of<'ListingSynced'>>('ListingSynced').implement({
  description: 'The state of every member was sent; from here on come changes.',
  fields: (t) => ({
    at: t.expose('at', { type: 'DateTime', description: 'When that was.' }),
  }),
});

const MemberRemoved = builder.objectRef<Of<'MemberRemoved'>>('MemberRemoved').implement({
  description: 'The member is not there, or not yours to see (any more).',
  fields: (t) => ({
    memberId: t.id({
      description: 'Its id.',
      resolve: (event) => memberId(event.memberId),
    }),
  }),
});

const ListingEvent = builder.unionType('ListingEvent', {
  description: 'An event of `listingChanged`.',
  types: [ListingSnapshot, ListingSynced, MemberRemoved],
});

builder.subscriptionField('listingChanged', (t) =>
  t.field({
    type: ListingEvent,
    description:
      "One ListingSnapshot for each member, then ListingSynced, then a ListingSnapshot whenever a member's listing changed. A slow reader gets the latest state. Figures that change all the time (CPU, open files, ages) are no change.",
    args: {
      memberIds: t.arg.idList({
        description: 'These members. Null: every visible one, also those that come later.',
      }),
    },
    subscribe: (_, { memberIds }, context) =>
      listingChanges(
        context,
        memberIds == null
          ? null
          : idArguments('Member', 'memberIds', memberIds).map(({ id }) => id),
      ),
    resolve: (event) => thrown(event),
  }),
);
