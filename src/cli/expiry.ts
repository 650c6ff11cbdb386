import { UsageError } from './command.ts';

const units: Readonly<Record<string, number>> = { h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** `30d`, `12h`, `4w`, or a date. @throws UsageError, also for a time that is past */
export function expiryOf(text: string, now: number = Date.now(), option = '--expires'): Date {
  const [, count, unit] = /^(\d{1,5})([hdw])$/.exec(text) ?? [];
  const moment =
    count !== undefined && unit !== undefined
      ? now + Number(count) * (units[unit] ?? 0)
      : /^\d{4}-\d{2}-\d{2}/.test(text)
        ? Date.parse(text)
        : Number.NaN;
  if (Number.isNaN(moment)) {
    throw new UsageError(
      `${option} takes a time from now like 30d, 12h or 4w, or a date like 2027-01-31, not '${text}'.`,
    );
  }
  if (moment <= now) throw new UsageError(`${option} ${text} is in the past.`);
  return new Date(moment);
}
