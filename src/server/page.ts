import { createHash } from 'node:crypto';

/** Text as HTML shows it. */
function html(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** What a policy lists to allow exactly this inline script or style. */
export function hashOf(inline: string): string {
  return `'sha256-${createHash('sha256').update(inline).digest('base64')}'`;
}

const style =
  'body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1rem}' +
  'input{width:100%;font:inherit;margin:.5rem 0}button{font:inherit;padding:.4rem 1.2rem}';

/** A small page of our own, with the policy that allows it its style, its script and its form. */
export function smallPage(
  title: string,
  body: string,
  script = '',
): { readonly body: string; readonly policy: string } {
  return {
    body: `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${html(title)}</title><style>${style}</style></head><body><h1>${html(title)}</h1>${body}${script && `<script>${script}</script>`}</body></html>`,
    policy: [
      "default-src 'none'",
      `style-src ${hashOf(style)}`,
      `script-src ${script === '' ? "'none'" : hashOf(script)}`,
      "form-action 'self'",
      "base-uri 'none'",
      "frame-ancestors 'none'",
    ].join('; '),
  };
}
