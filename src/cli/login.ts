import { Sessions, signInUrl } from '../auth/sessions.ts';
import { readConfig } from '../config.ts';
import { Members } from '../members/members.ts';
import { runningService } from '../server/service-record.ts';
import { type Command, CommandError, exactly, readWords } from './command.ts';
import { memberNamed, ownMember } from './own-member.ts';
import { isoMinute } from './table.ts';
import { withDatabase } from './with-database.ts';

export const login: Command = {
  summary: 'print a link that signs in once',
  help: `muxwarden login [LOGIN] [--url URL]

Prints a link to the running service that opens GraphiQL in a browser, signed in. It works once,
within 10 minutes.

  LOGIN       who is signed in (default: the member of the Linux user who runs this)
  --url URL   where browsers reach the service, when it runs elsewhere on the same database`,
  async run(words, io) {
    const { values, positionals } = readWords(words, { url: { type: 'string' } });
    if (positionals.length > 1) exactly(positionals, 'LOGIN');
    const config = readConfig(io.environment);
    const url = values.url ?? config.publicUrl ?? (await runningService(config.stateDir))?.url;
    if (url === undefined || !URL.canParse(url)) {
      throw new CommandError(
        values.url === undefined
          ? `No service runs on the state directory ${config.stateDir}. Start one: muxwarden serve`
          : `--url ${values.url} is no URL, like http://127.0.0.1:4000.`,
      );
    }
    const { member, token, expiresAt } = await withDatabase(config, async (database) => {
      const all = await new Members(database).list();
      const [name] = positionals;
      const found =
        name === undefined
          ? ownMember(all, config, 'Say who signs in: muxwarden login LOGIN')
          : memberNamed(all, name);
      if (found.disabled) {
        throw new CommandError(
          `${found.login} is disabled. Let it in again first: muxwarden members enable ${found.login}`,
        );
      }
      return { member: found, ...(await new Sessions(database).createLink(found.id)) };
    });
    io.note(`Signs in ${member.login}, once, until ${isoMinute(expiresAt)}:`);
    io.out(signInUrl(url, token));
    return 0;
  },
};
