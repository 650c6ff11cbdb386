import { maySeePaneContent } from '../auth/authority.ts';
import type { PaneRef } from '../tmux/model.ts';
import type { PaneCapture } from '../tmux/pane-events.ts';
import type { Context } from './context.ts';
import { badInput, forbidden } from './request-error.ts';
import {
  type ListingUnknownValue,
  type NotFoundValue,
  orUserError,
  type StaleGenerationValue,
} from './user-error.ts';

export interface PaneCaptureValue extends PaneCapture {
  readonly __typename: 'PaneCapture';
}

/** Lines of history that one capture may ask for. */
export const mostHistory = 10_000;

/** What is on the screen of a pane now, with `lines` of history above it. */
export async function capture(
  context: Context,
  pane: PaneRef,
  lines: number,
): Promise<PaneCaptureValue | StaleGenerationValue | ListingUnknownValue | NotFoundValue> {
  if (!maySeePaneContent(context.viewer, pane.memberId)) throw forbidden('seeing this screen');
  if (lines < 0 || lines > mostHistory) throw badInput('lines', `is from 0 to ${mostHistory}.`);
  return await orUserError(
    ['StaleGenerationError', 'ListingUnknownError', 'NotFoundError'],
    async () => ({
      ...(await context.fleet.capture(pane, lines, context.signal)),
      __typename: 'PaneCapture' as const,
    }),
  );
}
