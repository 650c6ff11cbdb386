import { CommandError } from '../command.ts';

/** What an installation made, so that this and nothing else is changed by the next and taken away. */
export type Made =
  | { readonly kind: 'group' | 'account'; readonly name: string }
  | { readonly kind: 'directory' | 'tree' | 'state' | 'hooks'; readonly path: string }
  | { readonly kind: 'file'; readonly path: string; readonly sha256: string }
  /** For its owner to change: taken away only as it was made. */
  | { readonly kind: 'settings'; readonly path: string; readonly sha256: string };

/** One thing that is made, or brought to what this version wants. */
export interface Step {
  /** `account muxwarden`. */
  readonly what: string;
  readonly made: Made;
  /** What has to hear of a change of it. */
  readonly after?: () => Promise<unknown>;
  /** It takes away what an earlier installation made, and this one is not to have. */
  readonly takes?: true;
  /**
   * Looks only. Null: it is as it should be; else what is to be done, as `made` or `updated`.
   * @throws CommandError when something is in the way that is not ours
   */
  look(before: Made | undefined): Promise<string | null>;
  /** Does it, whole or not at all; gives what takes it back. */
  apply(): Promise<() => Promise<unknown>>;
}

export const keyOf = (made: Made) => `${made.kind} ${'path' in made ? made.path : made.name}`;

/** Something has the name that is wanted. */
export function inTheWay(path: string, is: string): CommandError {
  return new CommandError(
    `${path} is in the way: ${is}. Move it away, and run install-system again. Nothing was changed.`,
  );
}
