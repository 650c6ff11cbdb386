import { eventually } from '../support/tmux-server.ts';
import type { Lab, MemberName } from './lab.ts';
import type { Service } from './service.ts';

/** What a dashboard asks for, and what it saw. */
export interface ServerSeen {
  readonly id: string;
  readonly socketPath: string;
  readonly status: string;
  readonly reason: string | null;
  readonly detail: string | null;
  readonly pid: number | null;
  readonly listing: ListingSeen;
  readonly sessions:
    | readonly {
        readonly id: string;
        readonly name: string;
        readonly windows: readonly WindowSeen[];
      }[]
    | null;
}
interface WindowSeen {
  readonly id: string;
  readonly panes: readonly { readonly id: string }[];
}
export interface ListingSeen {
  readonly state: 'FRESH' | 'STALE' | 'UNKNOWN';
  readonly reason: string | null;
  readonly detail: string | null;
  readonly observedAt: string | null;
}
export interface MemberSeen {
  readonly id: string;
  readonly login: string;
  readonly osUser: string | null;
  readonly listing: ListingSeen;
  readonly tmuxServers: readonly ServerSeen[] | null;
}

const document = `{
  members(first: 100) { nodes {
    id login osUser
    listing { state reason detail observedAt }
    tmuxServers {
      id socketPath status reason detail pid
      listing { state reason detail observedAt }
      sessions { id name windows { id panes { id } } }
    }
  } }
}`;

/** Every member by login, and how long the answer took. */
export async function lookAtMembers(
  service: Service,
): Promise<{ readonly ms: number; readonly members: ReadonlyMap<string, MemberSeen> }> {
  const { data, errors, ms } = await service.query<{ members: { nodes: readonly MemberSeen[] } }>(
    document,
  );
  if (data === null || errors.length > 0) throw new Error(JSON.stringify(errors));
  return { ms, members: new Map(data.members.nodes.map((member) => [member.login, member])) };
}

/** Adds these users of the lab as members by the command line; resolves when the service has them. */
export async function addMembers(
  lab: Lab,
  service: Service,
  names: readonly MemberName[],
): Promise<void> {
  for (const name of names) {
    await service.cli(['members', 'add', name, '--os-user', lab.users[name].name]);
  }
  await eventually(async () => {
    const { data } = await service.query<{ members: { nodes: readonly { login: string }[] } }>(
      '{ members(first: 100) { nodes { login } } }',
    );
    const logins = data?.members.nodes.map(({ login }) => login);
    return names.every((name) => logins?.includes(name));
  }, 'the members are there');
}

export async function refresh(service: Service, memberId: string): Promise<MemberSeen> {
  const { data, errors } = await service.query<{ refreshListing: MemberSeen | null }>(
    `mutation ($memberId: ID!) { refreshListing(memberId: $memberId) {
      id login osUser
      listing { state reason detail observedAt }
      tmuxServers { id socketPath status reason detail pid
        listing { state reason detail observedAt }
        sessions { id name windows { id panes { id } } } }
    } }`,
    { memberId },
  );
  if (data?.refreshListing == null) throw new Error(JSON.stringify(errors));
  return data.refreshListing;
}
