import type { Benchmark } from '../measure.ts';
import { controlReading } from './control-reading.ts';
import { fanOuts } from './fan-out.ts';
import { listingFollowers } from './followers.ts';
import { manyPanes } from './many-panes.ts';
import { memory } from './memory.ts';
import { stalled } from './stalled.ts';

/** What many watch at once, each part by its own name and in about three minutes. */
export const streams: readonly Benchmark[] = [
  controlReading,
  ...fanOuts,
  manyPanes,
  listingFollowers,
  memory,
  stalled,
];
