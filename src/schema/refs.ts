import type { Node as NodeValue } from '../resolvers/find.ts';
import type {
  ApiKeyNode,
  MemberNode,
  PaneNode,
  ServerNode,
  SessionNode,
  WindowNode,
} from '../resolvers/nodes.ts';
import { builder } from './builder.ts';

/** Types that refer to each other: named here, written in the file of their name. */
/** Its value may be a promise, so that each entry of `nodes` fails alone. */
export const Node = builder.interfaceRef<NodeValue | Promise<NodeValue | null>>('Node');
export const Member = builder.objectRef<MemberNode>('Member');
export const TmuxServer = builder.objectRef<ServerNode>('TmuxServer');
export const TmuxSession = builder.objectRef<SessionNode>('TmuxSession');
export const TmuxWindow = builder.objectRef<WindowNode>('TmuxWindow');
export const TmuxPane = builder.objectRef<PaneNode>('TmuxPane');
export const ApiKey = builder.objectRef<ApiKeyNode>('ApiKey');
