import { escapeText } from '../../escape.ts';
import { ListingUnknownError, WorkingDirectoryMissingError } from '../errors.ts';
import { HelperError } from '../member-helper.ts';
import type { LocatedPane, MemberTmux } from '../member-tmux.ts';
import { askDescription } from './restoration.ts';

/**
 * Where a pane's program is to start again, as hex: where it is now. A directory that is gone is
 * refused here, before anything was sent, since tmux would start the program in the home without a
 * word. The kernel says `DIR (deleted)` of one that was removed, also after it was made again.
 * @throws WorkingDirectoryMissingError, ListingUnknownError
 */
export async function workingDirectory(tmux: MemberTmux, located: LocatedPane): Promise<string> {
  const exact = await exactPath(tmux, located);
  const remade = exact.endsWith(deleted) ? exact.slice(0, -deleted.length) : undefined;
  let refusal = '';
  for (const path of remade === undefined ? [exact] : [exact, remade]) {
    const { code, detail } = await probe(tmux, path);
    if (code === 'OK') return path;
    refusal = detail || code;
  }
  const path = Buffer.from(remade ?? exact, 'hex').toString('utf8');
  throw new WorkingDirectoryMissingError(path, escapeText(refusal));
}

const deleted = Buffer.from(' (deleted)').toString('hex');

/** The bytes themselves: the listing's text can't hold a path that is no UTF-8, nor that of a dead pane. */
async function exactPath(tmux: MemberTmux, { server, pane }: LocatedPane): Promise<string> {
  const path = pane.currentPath;
  if (path?.startsWith('/') && !path.includes('\ufffd')) {
    return Buffer.from(path, 'utf8').toString('hex');
  }
  const described = await askDescription(tmux, server);
  const window =
    'description' in described
      ? [...described.description.windows.values()].find(({ panes }) =>
          panes.some((one) => one.pane === pane.pane),
        )
      : undefined;
  const exact = window?.panes.find((one) => one.pane === pane.pane)?.path;
  if (exact) return exact;
  throw new ListingUnknownError(
    null,
    null,
    `tmux ${server.version} does not tell the directory of this pane, and its program has ended`,
  );
}

async function probe(
  tmux: MemberTmux,
  directory: string,
): Promise<{ readonly code: string; readonly detail: string }> {
  try {
    const { rows, failure } = await tmux.helper.act(`probe-directory dir=${directory}`);
    const row = rows.find(([kind]) => kind === 'directory');
    if (failure !== null) return failure;
    return { code: row?.[1] ?? '', detail: row?.[2] ?? '' };
  } catch (error) {
    if (!(error instanceof HelperError)) throw error;
    throw new ListingUnknownError(error.reason, null, error.message, { cause: error });
  }
}
