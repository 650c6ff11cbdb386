import { execute, parse, validate } from 'graphql';
import { readConfig } from '../src/config.ts';
import { schema } from '../src/schema/index.ts';
import { engine } from '../src/server/engine.ts';
import { SharedResults } from '../src/server/shared-results.ts';
import { SubscriptionCount } from '../src/server/subscription-count.ts';
import { viewer } from '../tests/support/acting.ts';
import {
  listing,
  memberUuid,
  SyntheticFleet,
  server,
  session,
} from '../tests/support/synthetic-fleet.ts';
import { SyntheticAccounts } from '../tests/support/synthetic-service.ts';
import { type Benchmark, inTurns, median } from './measure.ts';

/** The listing query with every limit on, beside graphql-js without any: parsed, validated and run anew each time. */
const query = `query($first: Int!) {
  members(first: $first) {
    nodes {
      id login role
      listing { ...L }
      tmuxServers { id socketPath status version outdated listing { ...L } }
    }
    pageInfo { hasNextPage endCursor }
  }
}
fragment L on Listing { state version observedAt reason }`;
const times = 40;

export const limits: Benchmark = {
  name: 'limits',
  async run(rounds) {
    const config = readConfig({ HOME: '/nonexistent' });
    const fleet = new SyntheticFleet();
    const accounts = new SyntheticAccounts();
    for (let number = 1; number <= 100; number += 1) {
      const { id } = accounts.add(`member-${number}`, number === 1 ? 'ADMIN' : 'DEVELOPER');
      const servers = [0, 1, 2, 3, 4].map((index) =>
        server(id, index, { sessions: [session(index)] }),
      );
      fleet.set(listing(id, servers));
    }
    const admin = accounts.member(memberUuid(1));
    if (admin === undefined) throw new Error('there is no admin');
    const operation = { config, fleet, accounts, viewer: viewer(admin), requestId: 'r' };
    const variableValues = { first: 100 };
    const limited = engine(config.maxTokens, new SubscriptionCount(1), new SharedResults());
    const sides = {
      on: async () => {
        const document = limited.parse(query);
        if (limited.validate(schema, document).length > 0) throw new Error('not valid');
        const contextValue = { operation };
        return await limited.execute({ schema, document, variableValues, contextValue });
      },
      off: async () => {
        const document = parse(query);
        if (validate(schema, document).length > 0) throw new Error('not valid');
        return await execute({ schema, document, variableValues, contextValue: operation });
      },
    };
    const timed = (side: 'on' | 'off') => async () => {
      const began = performance.now();
      for (let count = 0; count < times; count += 1) {
        const { errors } = await sides[side]();
        if (errors !== undefined) throw errors[0];
      }
      return (performance.now() - began) / times;
    };
    const both = { on: timed('on'), off: timed('off') };
    await inTurns(1, both);
    const found = await inTurns(rounds * 2, both);
    const [on, off] = [median(found.on), median(found.off)];
    return [
      {
        name: 'listing query with all limits',
        ratio: off / on,
        detail: `${on.toFixed(2)} ms with all limits, ${off.toFixed(2)} ms without any (500 tmux servers)`,
      },
    ];
  },
};
