import { ListingUnknownError } from '../errors.ts';
import { helperCodeError, helperError } from '../helper/helper-answer-error.ts';
import {
  HelperError,
  type MemberHelper,
  type ServerTarget,
  serverWords,
} from '../member-helper.ts';
import type { PaneRef } from '../model.ts';
import type { PaneCapture } from '../pane-events.ts';

export interface HelperCapture extends PaneCapture {
  readonly alternate: boolean;
  readonly dead: boolean;
}

/**
 * What a pane shows, asked once, with `lines` of history above.
 * @throws StaleGenerationError, NotFoundError, ListingUnknownError, the signal's reason
 */
export async function captureByHelper(
  helper: MemberHelper,
  target: ServerTarget,
  pane: PaneRef,
  lines: number,
  now: number,
  signal?: AbortSignal,
): Promise<HelperCapture> {
  const request = `capture ${serverWords(target)} pane=${pane.pane} lines=${lines}`;
  const answer = await helper.ask(request, signal ? { signal } : {}).catch((error: unknown) => {
    throw error instanceof HelperError ? helperError(error, pane) : error;
  });
  if (answer.failure !== null) throw helperCodeError(answer.failure, pane);
  const screen =
    answer.rows
      .find(([kind]) => kind === 'screen')
      ?.slice(1)
      .map(Number) ?? [];
  const [columns, rows, cursorColumn, cursorRow, alternate, dead] = screen;
  const hex = answer.rows.filter(([kind]) => kind === 'data').map(([, data]) => data ?? '');
  if (
    columns === undefined ||
    rows === undefined ||
    cursorColumn === undefined ||
    cursorRow === undefined ||
    !screen.every(Number.isSafeInteger)
  ) {
    throw new ListingUnknownError('MALFORMED_ANSWER', null, 'the capture has no screen');
  }
  return {
    data: Buffer.from(hex.join(''), 'hex'),
    columns,
    rows,
    cursorColumn,
    cursorRow,
    observedAt: new Date(now),
    alternate: alternate === 1,
    dead: dead === 1,
  };
}
