import { Kind, parse, type SelectionSetNode } from 'graphql';
import type { Viewer } from '../auth/viewer.ts';

/**
 * Who has no credential yet may do one thing over HTTP: sign in. Such a request is small, and its
 * document holds that mutation and nothing else; whatever is not so is refused as before, and nothing
 * of it runs. The viewer of it has no scope and no member, until the sign-in makes another one.
 */
export const mostAnonymousBytes = 8_192;

/** Whether the document asks for `signIn` alone; false for all that can't be read. */
export function asksToSignIn(query: string, maxTokens: number): boolean {
  try {
    return parse(query, { maxTokens }).definitions.every((definition) => {
      if (definition.kind === Kind.FRAGMENT_DEFINITION) return true;
      if (definition.kind !== Kind.OPERATION_DEFINITION) return false;
      return definition.operation === 'mutation' && isSignInAlone(definition.selectionSet);
    });
  } catch {
    // What is wrong with it is for somebody who is known.
    return false;
  }
}

/** Fields at the top by name, so not by way of a fragment. */
function isSignInAlone({ selections }: SelectionSetNode): boolean {
  return selections.every(
    (selection) => selection.kind === Kind.FIELD && selection.name.value === 'signIn',
  );
}

export const nobody: Viewer = {
  member: {
    id: '00000000-0000-0000-0000-000000000000',
    login: '',
    role: 'DEVELOPER',
    osUser: null,
    disabled: true,
    createdAt: new Date(0),
  },
  scopes: new Set(),
  memberIds: new Set(),
  via: 'SESSION',
  credentialId: '',
  madeByAdmin: false,
  expiresAt: null,
};
