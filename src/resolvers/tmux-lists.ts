import type { AgentState, ServerRef, ServerStatus } from '../tmux/model.ts';
import type { Context } from './context.ts';
import { listingOf, visibleMembers } from './listing.ts';
import { type MemberNode, type PaneNode, panesOf, type ServerNode, serverNodes } from './nodes.ts';
import { type Page, type PageArguments, type PageOrder, pageOf, pageRequest } from './page.ts';

/**
 * Servers and panes across members. An unknown listing leaves rows out, so it is always named: the
 * page is `complete` only when nothing that the filter asks about is unknown.
 */

export interface ServersArguments extends PageArguments {
  readonly memberIds: readonly string[] | undefined;
  readonly status: readonly ServerStatus[] | undefined;
  readonly outdated: boolean | undefined;
  readonly idle: boolean | undefined;
}
export interface ServersPage extends Page<ServerNode> {
  readonly complete: boolean;
  readonly unknownMembers: readonly MemberNode[];
}

export interface PanesArguments extends PageArguments {
  readonly memberIds: readonly string[] | undefined;
  readonly server: ServerRef | undefined;
  readonly command: string | undefined;
  readonly agentState: readonly AgentState[] | undefined;
  readonly dead: boolean | undefined;
}
export interface PanesPage extends Page<PaneNode> {
  readonly complete: boolean;
  readonly unknownMembers: readonly MemberNode[];
  readonly unknownServers: readonly ServerNode[];
}

const serverOrder: PageOrder<ServerNode> = {
  name: 'tmuxServers',
  shape: ['string', 'string', 'string'],
  key: ({ member, view }) => [member.member.login, view.ref.pathHex, view.ref.generation ?? ''],
};

const paneOrder: PageOrder<PaneNode> = {
  name: 'panes',
  shape: [...serverOrder.shape, 'number', 'number', 'number', 'number'],
  key: ({ window, view }) => [
    ...serverOrder.key(window.session.server),
    window.session.view.session,
    window.view.index,
    view.index,
    view.pane,
  ],
};

/** Servers by the login of their member, then by path. */
export async function tmuxServers(
  context: Context,
  { memberIds, status, outdated, idle, ...page }: ServersArguments,
): Promise<ServersPage> {
  const request = pageRequest(context, page, serverOrder);
  const { servers, unknownMembers, unknownServers } = await visibleServers(context, memberIds);
  const matching = servers.filter(
    ({ view }) =>
      (status === undefined || status.includes(view.status)) &&
      (outdated === undefined || view.outdated === outdated),
  );
  const rows = matching.filter(({ view }) => idle === undefined || view.idle === idle);
  // Nobody is neither idle nor not: there one knows.
  const doubtful =
    idle !== undefined &&
    matching.some(({ view }) => view.idle === null && view.status !== 'ABSENT');
  return {
    ...pageOf(rows, request, serverOrder),
    complete: unknownMembers.length === 0 && unknownServers.length === 0 && !doubtful,
    unknownMembers,
  };
}

/** Panes by server, session, window index and pane index; each once, at its lowest link. */
export async function panes(
  context: Context,
  { memberIds, server, command, agentState, dead, ...page }: PanesArguments,
): Promise<PanesPage> {
  const request = pageRequest(context, page, paneOrder);
  const among =
    server === undefined
      ? memberIds
      : [server.memberId].filter((id) => memberIds === undefined || memberIds.includes(id));
  const asked = ({ view }: ServerNode) =>
    server === undefined ||
    (view.ref.pathHex === server.pathHex && view.ref.generation === server.generation);
  const seen = await visibleServers(context, among);
  const servers = seen.servers.filter(asked);
  const unknownServers = servers.filter(
    ({ view }) =>
      view.sessions === null || (agentState !== undefined && view.workingAgents === null),
  );
  const rows = servers
    .values()
    .flatMap((each) => panesOf(each))
    .filter(
      ({ view }) =>
        (command === undefined || view.currentCommand === command) &&
        (agentState?.some((state) => state === view.agent?.state) ?? true) &&
        (dead === undefined || view.dead === dead),
    );
  return {
    ...pageOf(rows, request, paneOrder),
    complete: seen.unknownMembers.length === 0 && unknownServers.length === 0,
    unknownMembers: seen.unknownMembers,
    unknownServers,
  };
}

/** What is known of the servers of every visible member (of those, when some are named), in order. */
async function visibleServers(context: Context, memberIds: readonly string[] | undefined) {
  const wanted = memberIds === undefined ? undefined : new Set(memberIds);
  const members = visibleMembers(context).filter(({ member }) => wanted?.has(member.id) ?? true);
  const listings = await Promise.all(members.map((node) => listingOf(context, node)));
  const servers: ServerNode[] = [];
  const unknownMembers: MemberNode[] = [];
  for (const [index, node] of members.entries()) {
    const listing = listings[index];
    if (listing === undefined || listing.servers === null) unknownMembers.push(node);
    else servers.push(...serverNodes(node, listing));
  }
  return {
    servers,
    unknownMembers,
    unknownServers: servers.filter(({ view }) => view.sessions === null),
  };
}
