import type { ListingStatus } from '../tmux/model.ts';
import { builder } from './builder.ts';
import { Reason } from './enums.ts';

export const ListingState = builder.enumType('ListingState', {
  description: 'How far a listing can be trusted.',
  values: {
    FRESH: { description: 'The last attempt succeeded, a moment ago.' },
    STALE: {
      description: 'Older, or the last attempt failed: the last known rows, with their age.',
    },
    UNKNOWN: { description: 'Not known: never seen, or too old. The rows are null, never `[]`.' },
  } as const,
});

export const Listing = builder.objectRef<ListingStatus>('Listing').implement({
  description: 'How good what we know is, and when it will be better.',
  fields: (t) => ({
    state: t.expose('state', {
      type: ListingState,
      description: 'How far it can be trusted.',
    }),
    version: t.exposeString('version', {
      description:
        'Opaque. Differs whenever what a reader sees differs; figures and ages that change all the time left out.',
    }),
    observedAt: t.expose('observedAt', {
      type: 'DateTime',
      nullable: true,
      description: 'When the rows were last seen; null: never.',
    }),
    reason: t.expose('reason', {
      type: Reason,
      nullable: true,
      description: 'Why it is not FRESH, or what is odd although it is.',
    }),
    detail: t.exposeString('detail', {
      nullable: true,
      description: 'The same as a sentence, for people.',
    }),
    consecutiveFailures: t.exposeInt('consecutiveFailures', {
      description: 'Attempts that failed since the last that succeeded.',
    }),
    nextAttemptAt: t.expose('nextAttemptAt', {
      type: 'DateTime',
      nullable: true,
      description: 'Not asked again before this; null: as soon as somebody reads.',
    }),
  }),
});
