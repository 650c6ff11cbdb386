import type { PaneAgent } from '../resolvers/agents.ts';
import { builder } from './builder.ts';

/** Agents in panes. All that is said of them is the member's own claim. */

export const AgentState = builder.enumType('AgentState', {
  description: 'What an agent does.',
  values: {
    WORKING: { description: 'It works.' },
    WAITING: { description: 'It waits for a human.' },
    IDLE: { description: 'It has nothing to do.' },
    UNKNOWN: { description: 'It runs, and nothing tells what it does.' },
  } as const,
});

const AgentEvidence = builder.enumType('AgentEvidence', {
  description: 'What the state was taken from. What says most comes first.',
  values: {
    SELF_REPORT: { description: 'The option `@agent_state` of the pane, as the agent set it.' },
    HOOK: { description: 'A hook of the agent.' },
    PROCESS: { description: 'The program in the foreground of the pane.' },
    OUTPUT: { description: 'Something was written in the pane a moment ago.' },
    TITLE: { description: 'The title of the pane, as its program set it.' },
  } as const,
});

export const Agent = builder.objectRef<PaneAgent>('Agent').implement({
  description: "An agent in the foreground of a pane. All of it is the member's own claim.",
  fields: (t) => ({
    kind: t.string({
      description:
        'Which one, for example `claude`; of one that is in no list the name of its program. Untrusted text of the member.',
      resolve: ({ agent }) => agent.kind,
    }),
    state: t.field({
      type: AgentState,
      description: 'What it does.',
      resolve: ({ agent }) => agent.state,
    }),
    since: t.field({
      type: 'DateTime',
      nullable: true,
      description: 'Since when it does that, as it says itself. Null: it does not say.',
      resolve: ({ agent }) => agent.since,
    }),
    evidence: t.field({
      type: AgentEvidence,
      description: 'What the state was taken from.',
      resolve: ({ agent }) => agent.evidence,
    }),
    observedAt: t.field({
      type: 'DateTime',
      description: 'When the pane was looked at.',
      resolve: ({ observedAt }) => observedAt,
    }),
  }),
});
