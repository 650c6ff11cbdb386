import type { Viewer } from '../auth/viewer.ts';
import type { Context } from '../resolvers/context.ts';
import { authorityOf } from './kept-answers.ts';

/**
 * Whose a result is, seen by what was looked at while it was made:
 *
 *   anyone   nothing was asked about who asks
 *   alike    role, scopes and members of the credential alone: all who have the same of these
 *   own      anything else: the very credential
 *
 * So a resolver that begins to ask more makes its results more private by itself.
 */
export type Reach = 'anyone' | 'alike' | 'own';

/** What one execution looked at. */
export interface Sight {
  readonly reach: Reach;
  /** What changes with time was looked at as well: the result is as old as it is. */
  readonly ages: boolean;
}

/** Parts of the service that are the same whoever asks. */
const ofAll: ReadonlySet<PropertyKey> = new Set<keyof Context>([
  'accounts',
  'config',
  'fleet',
  'installation',
]);

/** The same context, which notices what is looked at. */
export function watched(context: Context): { readonly context: Context; sight(): Sight } {
  let reach: Reach = 'anyone';
  let ages = false;
  const look = (at: Reach) => {
    if (reach !== 'own' && at !== 'anyone') reach = at;
    if (at === 'own') ages = true;
  };
  const member = noticing<Viewer['member']>((name) => look(name === 'role' ? 'alike' : 'own'));
  const viewer = noticing<Viewer>((name) => {
    if (name !== 'member') look(name === 'scopes' || name === 'memberIds' ? 'alike' : 'own');
  });
  const all = noticing<Context>((name) => {
    if (ofAll.has(name)) ages = true;
    else if (name !== 'viewer') look('own');
  });
  return {
    context: all(context, {
      viewer: (present) => viewer(present, { member: (each) => member(each) }),
    }),
    sight: () => ({ reach, ages }),
  };
}

/** Whose a result of that reach is. */
export function audienceOf(viewer: Viewer, reach: Exclude<Reach, 'anyone'>): string {
  return reach === 'own' ? authorityOf(viewer) : `alike ${alikeOf(viewer)}`;
}

function alikeOf({ member, scopes, memberIds }: Viewer): string {
  const members = memberIds === null ? null : [...memberIds].sort();
  return JSON.stringify([member.role, [...scopes].sort(), members]);
}

type Wraps<Target> = { readonly [Name in keyof Target]?: (value: Target[Name]) => Target[Name] };

function noticing<Target extends object>(notice: (name: keyof Target) => void) {
  return (target: Target, wraps: Wraps<Target> = {}): Target =>
    new Proxy(target, {
      get(_, name) {
        const key = name as keyof Target;
        notice(key);
        return wraps[key]?.(target[key]) ?? target[key];
      },
    });
}
