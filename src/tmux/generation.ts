import type { Generation } from './model.ts';

/**
 * One life of a tmux server, as the API names it: `bootId:pid:startTicks`. The boot id makes it
 * differ across reboots, the start time (field 22 of `/proc/PID/stat`) across reuse of a pid.
 */
export interface Life {
  readonly bootId: string;
  readonly pid: number;
  /** Clock ticks since boot; a string, for it is compared and never computed with. */
  readonly ticks: string;
}

const shape = /^([0-9a-f-]{1,64}):([1-9]\d{0,9}):(\d{1,20})$/;

export function formatGeneration(life: Life): Generation {
  return `${life.bootId}:${life.pid}:${life.ticks}`;
}

/** Undefined for anything that `formatGeneration` does not make. */
export function parseGeneration(text: string): Life | undefined {
  const [, bootId, pid, ticks] = shape.exec(text) ?? [];
  if (bootId === undefined || pid === undefined || ticks === undefined) return undefined;
  return { bootId, pid: Number(pid), ticks };
}
