import { decodeId, encodeId, type GlobalIdType, type IdOf } from '../resolvers/id.ts';
import {
  lifeOf,
  type PaneNode,
  paneRef,
  type ServerNode,
  type SessionNode,
  type WindowNode,
} from '../resolvers/nodes.ts';
import { badInput } from '../resolvers/request-error.ts';

/** Ids in arguments and ids in answers. What an id means is written in resolvers/id.ts. */

/**
 * What an id argument names.
 * @param argument as the caller wrote it, for the error: `input.paneId`, `filter.memberIds[2]`
 * @throws RequestError (BAD_USER_INPUT) unless it is an id of that type
 */
export function idArgument<Type extends GlobalIdType>(
  type: Type,
  argument: string,
  id: string,
): IdOf<Type> {
  const decoded = decodeId(id);
  if (!isOf(type, decoded))
    throw badInput(argument, `is not the id of a ${type}. Take it from a field \`id\`.`);
  return decoded;
}

export function idArguments<Type extends GlobalIdType>(
  type: Type,
  argument: string,
  ids: readonly string[],
): readonly IdOf<Type>[] {
  return ids.map((id, index) => idArgument(type, `${argument}[${index}]`, id));
}

const memberIds = new Map<string, string>();

/** Remembered, for it is in every row of every page. */
export function memberId(id: string): string {
  let encoded = memberIds.get(id);
  if (encoded === undefined) {
    encoded = encodeId({ type: 'Member', id });
    if (memberIds.size >= 10_000) memberIds.clear();
    memberIds.set(id, encoded);
  }
  return encoded;
}

export const serverId = ({ view }: ServerNode) => encodeId({ type: 'TmuxServer', ref: view.ref });
export const sessionId = (node: SessionNode) =>
  encodeId({ type: 'TmuxSession', ref: { ...lifeOf(node.server), session: node.view.session } });
export const windowId = (node: WindowNode) =>
  encodeId({
    type: 'TmuxWindow',
    ref: {
      ...lifeOf(node.session.server),
      session: node.session.view.session,
      window: node.view.window,
    },
  });
export const paneId = (node: PaneNode) => encodeId({ type: 'TmuxPane', ref: paneRef(node) });

function isOf<Type extends GlobalIdType>(
  type: Type,
  id: { readonly type: GlobalIdType } | undefined,
): id is IdOf<Type> {
  return id?.type === type;
}
