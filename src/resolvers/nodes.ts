import type { ApiKey } from '../auth/accounts.ts';
import type { Member } from '../members/member.ts';
import type {
  MemberListing,
  PaneRef,
  PaneView,
  ServerView,
  SessionView,
  WindowView,
} from '../tmux/model.ts';

/**
 * What the types of the API stand on: a view out of one listing, with the way up to its member.
 * All of one answer that hang below one `MemberNode` come from one listing, so no answer mixes two.
 * A node exists only after authority over its member was checked (find.ts, listing.ts).
 */
export interface MemberNode {
  readonly __typename: 'Member';
  readonly member: Member;
  /** Set at the first look, so that the rest of the answer sees the same. */
  listing: MemberListing | Promise<MemberListing> | undefined;
}
export interface ServerNode {
  readonly __typename: 'TmuxServer';
  readonly member: MemberNode;
  readonly view: ServerView;
}
export interface SessionNode {
  readonly __typename: 'TmuxSession';
  readonly server: ServerNode;
  readonly view: SessionView;
}
export interface WindowNode {
  readonly __typename: 'TmuxWindow';
  readonly session: SessionNode;
  readonly view: WindowView;
}
/** `window` is the link by which it was reached; what the API calls its window is the lowest one. */
export interface PaneNode {
  readonly __typename: 'TmuxPane';
  readonly window: WindowNode;
  readonly view: PaneView;
}
export interface ApiKeyNode extends ApiKey {
  readonly __typename: 'ApiKey';
}

export function memberNode(member: Member, listing?: MemberListing): MemberNode {
  return { __typename: 'Member', member, listing };
}

export function serverNodes(member: MemberNode, listing: MemberListing): readonly ServerNode[] {
  return (listing.servers ?? []).map((view) => ({ __typename: 'TmuxServer', member, view }));
}

export function sessionNodes(server: ServerNode): readonly SessionNode[] | null {
  return server.view.sessions?.map((view) => ({ __typename: 'TmuxSession', server, view })) ?? null;
}

export function windowNodes(session: SessionNode): readonly WindowNode[] {
  return session.view.windows.map((view) => ({ __typename: 'TmuxWindow', session, view }));
}

export function paneNodes(window: WindowNode): readonly PaneNode[] {
  return window.view.panes.map((view) => ({ __typename: 'TmuxPane', window, view }));
}

/** Rows exist only of a server that was seen, so its generation is known. */
export function lifeOf({ view }: ServerNode) {
  if (view.generation === null) throw new Error('rows of a server without a generation');
  const { memberId, pathHex } = view.ref;
  return { memberId, pathHex, generation: view.generation };
}

export function paneRef({ window, view }: PaneNode): PaneRef {
  return { ...lifeOf(window.session.server), pane: view.pane };
}

/** Every link of one tmux window: once per session, sessions in order of id. The first is the lowest. */
export function linksOf(server: ServerNode, window: number): readonly WindowNode[] {
  const links: WindowNode[] = [];
  for (const session of sessionNodes(server) ?? []) {
    const view = session.view.windows.find((each) => each.window === window);
    if (view !== undefined) links.push({ __typename: 'TmuxWindow', session, view });
  }
  return links;
}

/** The panes of a server, each once, at its lowest link. */
export function* panesOf(server: ServerNode): Generator<PaneNode> {
  const seen = new Set<number>();
  for (const session of sessionNodes(server) ?? []) {
    for (const window of windowNodes(session)) {
      if (seen.has(window.view.window)) continue;
      seen.add(window.view.window);
      yield* paneNodes(window);
    }
  }
}
