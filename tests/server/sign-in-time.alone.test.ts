import { expect, it } from 'vitest';
import { browser, startAccountsServiceOn } from '../support/accounts-service.ts';
import { SyntheticFleet } from '../support/synthetic-fleet.ts';
import { rounds } from '../support/tier.ts';

const signIn = `mutation($login: String!, $password: String!) {
  signIn(input: { login: $login, password: $password }) { __typename }
}`;

it('takes as long for a login that is nobody’s, disabled or without a password as for a wrong one', async () => {
  await using service = await startAccountsServiceOn(new SyntheticFleet(), 'embedded', {
    MUXWARDEN_TRUSTED_PROXIES: '127.0.0.1',
  });
  const password = 'canary-correct-horse';
  await service.add('wrong', 'DEVELOPER', password);
  await service.add('bare', 'DEVELOPER');
  const { id } = await service.add('disabled', 'DEVELOPER', password);
  await service.members.change(id, { disabled: true });
  await service.accounts.reload();
  const took = new Map(
    ['wrong', 'nobody', 'bare', 'disabled'].map((login): [string, number[]] => [login, []]),
  );
  const count = rounds(9, 100);
  for (let round = 0; round < count; round += 1) {
    for (const [login, times] of took) {
      // Each from a place of its own, or the tries of one would be used up.
      const headers = { ...browser(service.url), 'x-forwarded-for': `10.1.${round}.1` };
      const began = performance.now();
      const { data } = await service.post(signIn, { login, password: 'another one' }, { headers });
      times.push(performance.now() - began);
      expect(data).toEqual({ signIn: { __typename: 'ReauthenticationRequiredError' } });
    }
  }
  const median = (times: readonly number[]) => {
    const sorted = times.slice(1).sort((one, other) => one - other);
    return sorted[Math.floor(sorted.length / 2)] ?? 0;
  };
  const known = median(took.get('wrong') ?? []);
  const said = [...took].map(([login, times]) => `${login} ${median(times).toFixed(1)} ms`);
  console.log(`${count} refused sign-ins each, median: ${said.join(', ')}`);
  // Without the work of a hash it would be a tenth.
  for (const times of took.values()) {
    expect(median(times) / known).toBeGreaterThan(0.5);
    expect(median(times) / known).toBeLessThan(2);
  }
});
