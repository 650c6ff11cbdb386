import type { HeldSession } from '../tmux/acts.ts';

/** Of the 8,192 characters that a fact may have. */
const most = 8_000;

/** What a server holds, for the record: names and directories as JSON texts, the last ones counted if there are too many. */
export function sessionsText(sessions: readonly HeldSession[]): string {
  const texts = sessions.map(
    ({ name, directory, windows, panes }) =>
      `${JSON.stringify(name)} in ${JSON.stringify(directory)} (windows ${windows}, panes ${panes})`,
  );
  let text = '';
  for (const [index, one] of texts.entries()) {
    const more = index === 0 ? one : `, ${one}`;
    if (text.length + more.length > most) return `${text}, and ${texts.length - index} more`;
    text += more;
  }
  return text;
}
