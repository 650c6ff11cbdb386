import { escapeText } from '../../escape.ts';
import type { Survivor } from '../acts.ts';
import { ListingUnknownError, StaleGenerationError } from '../errors.ts';
import { HelperError, serverWords } from '../member-helper.ts';
import type { MemberTmux } from '../member-tmux.ts';
import type { Generation, ServerRef } from '../model.ts';
import { shownCommand } from './survivors.ts';

/**
 * What lives in the panes of a server now, and would end with it unless it takes care not to. Asks,
 * and changes nothing.
 * @throws StaleGenerationError, ListingUnknownError
 */
export async function wouldEnd(
  tmux: MemberTmux,
  ref: ServerRef,
  expected: Generation,
): Promise<readonly Survivor[]> {
  const server = tmux.server(ref);
  if (server?.generation !== expected) {
    throw new StaleGenerationError(expected, server?.generation ?? null);
  }
  try {
    const words = serverWords(tmux.target(server));
    const { rows, failure } = await tmux.helper.ask(`processes ${words}`);
    if (failure?.code === 'ESTALE') throw new StaleGenerationError(expected, null);
    if (failure !== null) {
      const detail = `${failure.code}: ${escapeText(failure.detail)}`;
      throw new ListingUnknownError(null, null, detail);
    }
    return rows.flatMap(([kind, , pid, , command]) =>
      kind === 'process' ? [{ pid: Number(pid), command: shownCommand(command ?? '') }] : [],
    );
  } catch (error) {
    if (!(error instanceof HelperError)) throw error;
    throw new ListingUnknownError(error.reason, null, error.message, { cause: error });
  }
}
