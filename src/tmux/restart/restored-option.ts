import { escapeText } from '../../escape.ts';
import type { DescribedOption } from './server-description.ts';
import { decodeHex } from './server-description.ts';

/** With nobody attached, which is how every server begins, these would end it at once. */
export function isKeptBack({ name, value }: DescribedOption): boolean {
  return (
    (name === 'exit-unattached' || name === 'destroy-unattached') &&
    !['off', '0'].includes(decodeHex(value))
  );
}
export const whyKeptBack = 'it would end what was restored, for nobody is attached yet';

/** Set last, so that making the windows does not run the member's own commands. */
const hookNames =
  /^(?:after-|alert-|client-|command-error$|session-(?:closed|created|renamed|window-changed)$|window-(?:layout-changed|linked|pane-changed|renamed|resized|unlinked)$|pane-(?:died|exited|focus-in|focus-out|mode-changed|set-clipboard|title-changed)$)/;
export function isHook(name: string): boolean {
  return hookNames.test(name);
}

export function shownOption({ name, index }: DescribedOption): string {
  return escapeText(index === '' ? name : `${name}[${index}]`);
}
