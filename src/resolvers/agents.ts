import type { AgentView, MemberListing } from '../tmux/model.ts';
import type { Context } from './context.ts';
import { listingOf } from './listing.ts';
import type { MemberNode, PaneNode } from './nodes.ts';

export interface PaneAgent {
  readonly agent: AgentView;
  readonly observedAt: Date;
}

/** Seen when the rows of its server were. */
export function agentOf({ window, view: { agent } }: PaneNode): PaneAgent | null {
  const { observedAt } = window.session.server.view.listing;
  return agent === null || observedAt === null ? null : { agent, observedAt };
}

/** Over all of the member's servers; null where that of one is not known. */
export function workingAgents(
  context: Context,
  node: MemberNode,
): number | null | Promise<number | null> {
  const listing = listingOf(context, node);
  return listing instanceof Promise ? listing.then(sum) : sum(listing);
}

function sum({ servers }: MemberListing): number | null {
  if (servers === null) return null;
  return servers.reduce<number | null>(
    (all, server) =>
      all === null || server.workingAgents === null ? null : all + server.workingAgents,
    0,
  );
}
