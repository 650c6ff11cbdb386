/** Facts about this service itself. */
export interface Installation {
  readonly version: string;
  readonly startedAt: Date;
  /** 99th percentile of the event loop's delay since the last reading, milliseconds. */
  eventLoopDelayP99Ms(): number;
}
