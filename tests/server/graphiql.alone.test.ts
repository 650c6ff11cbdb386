import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listing, server } from '../support/synthetic-fleet.ts';
import { type Service, startService } from '../support/synthetic-service.ts';

/** Debian's Chromium opens the sign-in link and uses GraphiQL, with the network otherwise closed. */
const executablePath = process.env.MUXWARDEN_TEST_CHROMIUM ?? '/usr/bin/chromium';

let browser: Browser;
let service: Service;
beforeAll(async () => {
  browser = await chromium.launch({
    executablePath,
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
  service = await startService();
  const ann = service.accounts.add('ann', 'ADMIN');
  service.fleet.set(listing(ann.id, [server(ann.id, 1)]));
});
afterAll(async () => {
  await browser?.close();
  await service?.[Symbol.asyncDispose]();
});

interface Visit extends AsyncDisposable {
  readonly page: Page;
  /** What the page asked of anybody else: aborted. */
  readonly elsewhere: string[];
  /** What the page's policy or scripts complained about. */
  readonly complaints: string[];
}

async function visit(javaScriptEnabled = true): Promise<Visit> {
  const context = await browser.newContext({ javaScriptEnabled });
  const elsewhere: string[] = [];
  const complaints: string[] = [];
  await context.route(
    (url) => url.origin !== service.url && url.protocol !== 'blob:' && url.protocol !== 'data:',
    async (route) => {
      elsewhere.push(route.request().url());
      await route.abort();
    },
  );
  const page = await context.newPage();
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  return { page, elsewhere, complaints, [Symbol.asyncDispose]: () => context.close() };
}

/** Opens the page with this query in its editor, and runs it. */
async function run(page: Page, query: string): Promise<void> {
  await page.goto(`${service.url}/graphiql?query=${encodeURIComponent(query)}`);
  await page.locator('.graphiql-editor .view-line').first().waitFor();
  await page.locator('button.graphiql-execute-button').click();
}

const answer = (page: Page) => page.locator('.result-window, .graphiql-response').first();

describe('GraphiQL in Chromium', () => {
  it('signs in by the link, runs a query and follows a subscription, and asks nobody else', async () => {
    service.accounts.links.set('one-time-token', 'ann');
    await using visited = await visit();
    const { page, elsewhere, complaints } = visited;
    await page.goto(`${service.url}/sign-in#one-time-token`);
    // The token is in the form by now, and no longer in the address bar or the history.
    await expect.poll(() => new URL(page.url()).hash).toBe('');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL(`${service.url}/graphiql`);
    await page.locator('button.graphiql-execute-button').waitFor();

    await run(page, '{ viewer { via member { login } } }');
    await expect
      .poll(() => answer(page).textContent(), { timeout: 30_000 })
      .toContain('SIGN_IN_LINK');

    await run(
      page,
      'subscription { listingChanged { ... on ListingSnapshot { member { listing { version } } } } }',
    );
    await expect.poll(() => service.fleet.following, { timeout: 30_000 }).toBe(1);
    const { member } = service.accounts.viewer('ann');
    service.fleet.set(listing(member.id, [], { version: 'seen-live' }));
    await expect.poll(() => answer(page).textContent(), { timeout: 30_000 }).toContain('seen-live');

    await page.close();
    await expect.poll(() => service.fleet.following, { timeout: 30_000 }).toBe(0);
    expect(elsewhere).toEqual([]);
    expect(complaints.filter((text) => /Content Security Policy|Refused/.test(text))).toEqual([]);
  });

  it('signs in without scripts, too', async () => {
    service.accounts.links.set('pasted-token', 'ann');
    await using visited = await visit(false);
    const { page } = visited;
    const link = `${service.url}/sign-in#pasted-token`;
    await page.goto(link);
    await page.getByRole('textbox').fill(link);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL(`${service.url}/graphiql`);
    const cookies = await page.context().cookies();
    expect(cookies).toMatchObject([{ name: 'muxwarden', httpOnly: true, sameSite: 'Strict' }]);
  });
});
