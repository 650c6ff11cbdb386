import { workingAgents } from '../resolvers/agents.ts';
import { listingOf, refreshListing, serversOf } from '../resolvers/listing.ts';
import { memberByLogin, members } from '../resolvers/members.ts';
import type { MemberNode } from '../resolvers/nodes.ts';
import type { Page } from '../resolvers/page.ts';
import { builder } from './builder.ts';
import { idArgument, memberId } from './global-ids.ts';
import { Listing, ListingState } from './listing.ts';
import { pageFields } from './page.ts';
import { Member, Node, TmuxServer } from './refs.ts';

export const Role = builder.enumType('Role', {
  description: 'What a member may do; keys can only narrow it.',
  values: {
    ADMIN: { description: 'Everything.' },
    ANALYST: {
      description: "Reads every member's listing; sees screens and acts on its own only.",
    },
    DEVELOPER: { description: 'Sees and acts on its own only.' },
  } as const,
});

Member.implement({
  description: 'An account, and the Linux user whose tmux servers it owns.',
  interfaces: [Node],
  fields: (t) => ({
    id: t.id({ description: 'Opaque.', resolve: ({ member }) => memberId(member.id) }),
    login: t.string({
      description: 'The name to sign in with.',
      resolve: ({ member }) => member.login,
    }),
    role: t.field({
      type: Role,
      description: 'What the member may do.',
      resolve: ({ member }) => member.role,
    }),
    osUser: t.string({
      nullable: true,
      description: 'The Linux user; null for an account without one.',
      resolve: ({ member }) => member.osUser,
    }),
    disabled: t.boolean({
      description: "The account can't be used to sign in. Its tmux servers are shown all the same.",
      resolve: ({ member }) => member.disabled,
    }),
    listing: t.field({
      type: Listing,
      description: "Whether we could look at this member's tmux servers, and when.",
      resolve: async (node, _, context) => (await listingOf(context, node)).status,
    }),
    workingAgents: t.int({
      nullable: true,
      description:
        'Panes whose agent is WORKING, over all servers. Null: not known of one of them.',
      resolve: (node, _, context) => workingAgents(context, node),
    }),
    tmuxServers: t.field({
      type: [TmuxServer],
      nullable: true,
      description:
        'Its tmux servers by path. Null: we could not look (see `listing`). Empty: we looked, and there is none.',
      resolve: (node, _, context) => serversOf(context, node),
    }),
  }),
});

const MemberConnection = builder.objectRef<Page<MemberNode>>('MemberConnection').implement({
  description: 'A page of members, by login.',
  fields: (t) => pageFields('Member', Member, t),
});

const MemberFilter = builder.inputType('MemberFilter', {
  description: 'Which members; everything that is given must hold.',
  fields: (t) => ({
    role: t.field({ type: Role, description: 'Members with this role.' }),
    search: t.string({
      description: 'A part of the login or of the Linux user, upper and lower case alike.',
    }),
    listing: t.field({
      type: [ListingState],
      description: 'Members whose listing is in one of these states.',
    }),
  }),
});

builder.queryFields((t) => ({
  members: t.field({
    type: MemberConnection,
    description: "The members that the viewer may see, by login. One that can't be reached stays.",
    args: {
      first: t.arg.int({ defaultValue: 20, description: 'Size of the page: 1 to 100.' }),
      after: t.arg.string({ description: 'Rows after this cursor.' }),
      filter: t.arg({ type: MemberFilter, description: 'Which members; null: all.' }),
    },
    resolve: (_, args, context) => members(context, args),
  }),
  member: t.field({
    type: Member,
    nullable: true,
    description: 'The member with this login; null when it is not there or not yours to see.',
    args: { login: t.arg.string({ required: true, description: 'The exact login.' }) },
    resolve: (_, { login }, context) => memberByLogin(context, login),
  }),
}));

builder.mutationField('refreshListing', (t) =>
  t.field({
    type: Member,
    nullable: true,
    description:
      "Asks the member's tmux servers now, past any back-off, and answers within 3 s. A read: no audit row, no idempotency key. Null: not there, or not yours.",
    extensions: { reads: true },
    args: { memberId: t.arg.id({ required: true, description: 'Whose.' }) },
    resolve: (_, args, context) =>
      refreshListing(context, idArgument('Member', 'memberId', args.memberId).id),
  }),
);
