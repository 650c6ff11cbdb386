import { escapeText } from '../../escape.ts';
import { ListingUnknownError, NotFoundError, StaleGenerationError } from '../errors.ts';
import type { HelperError } from '../member-helper.ts';
import type { PaneRef, Reason } from '../model.ts';

/** CODE of an answer -> why we don't know (docs/helper-protocol.md). */
const reasons: Readonly<Record<string, Reason>> = {
  TIMEOUT: 'TIMEOUT',
  STOPPED: 'TIMEOUT',
  EBACKLOG: 'BACKLOG_FULL',
  ETOOBIG: 'OUTPUT_TOO_LARGE',
  EMALFORMED: 'MALFORMED_ANSWER',
  EACCES: 'EACCES',
  ELOST: 'SOCKET_LOST',
  ETAKEN: 'PATH_TAKEN',
  EEXE: 'BINARY_UNREADABLE',
  EOWNER: 'FOREIGN_OWNER',
  EPEERUID: 'FOREIGN_OWNER',
  ENOTMUX: 'NOT_TMUX',
  EDIR: 'UNSAFE_DIRECTORY',
};

/** A request on one pane that the helper refused, as the error that says what it means. */
export function helperCodeError(
  failure: { readonly code: string; readonly detail: string },
  pane: PaneRef,
): Error {
  const { code, detail } = failure;
  if (code === 'ENOENT') return new NotFoundError('The pane');
  // Another process listens there, or nobody: in any case not that one.
  if (code === 'ESTALE' || code === 'EGONE' || code === 'EDEAD') {
    return new StaleGenerationError(pane.generation, null);
  }
  const words = `${code}: ${escapeText(detail)}`.slice(0, 300);
  return new ListingUnknownError(reasons[code] ?? 'HELPER_FAILED', null, words);
}

export function helperError(error: HelperError, pane: PaneRef): Error {
  if (error.code !== null)
    return helperCodeError({ code: error.code, detail: error.message }, pane);
  return new ListingUnknownError(error.reason, null, error.message, { cause: error });
}
