import { escapeText } from './escape.ts';

/** What somebody needs who just started the service. */
export interface Announcement {
  readonly url: string;
  /** Null: the service's own member is no ADMIN any more, so nobody has a key here. */
  readonly adminKeyFile: string | null;
  /** Opens GraphiQL signed in, once; only for a person at a terminal, never for a log. */
  readonly signInLink: string | null;
  readonly problems: readonly { readonly message: string; readonly remedy: string }[];
}

const query =
  '{ tmuxServers { complete nodes { id generation status sessions { name windows { panes { id currentCommand } } } } } }';

export function announce({ url, adminKeyFile, signInLink, problems }: Announcement): string {
  const lines = [`muxwarden listens on ${url}`];
  if (adminKeyFile !== null) {
    lines.push(
      `The key of the first ADMIN is in ${adminKeyFile}. Try it:`,
      '',
      // By a pipe: everybody on the machine sees what a command is given as arguments.
      `  printf 'Authorization: Bearer %s' "$(cat ${quoted(adminKeyFile)})" |`,
      `    curl -s ${url}/graphql -H @- -H 'Content-Type: application/json' \\`,
      `    -d '${JSON.stringify({ query })}'`,
      '',
    );
  }
  for (const { message, remedy } of problems) {
    lines.push(`Problem: ${escapeText(message)} ${escapeText(remedy)}`);
  }
  lines.push(
    signInLink === null
      ? `In a browser: \`npx muxwarden login\` prints a link that opens ${url}/graphiql signed in.`
      : `In a browser, once, within 10 minutes: ${signInLink}`,
  );
  return `${lines.join('\n')}\n`;
}

/** One word for a shell. */
function quoted(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
