/** Doubling pauses: how long to wait after the nth failure in a row, from its end. */
export interface BackOff {
  readonly firstMs: number;
  readonly maxMs: number;
}

export function backOffMs(failures: number, { firstMs, maxMs }: BackOff): number {
  if (failures < 1) return 0;
  return Math.min(firstMs * 2 ** Math.min(failures - 1, 30), Math.max(firstMs, maxMs));
}
