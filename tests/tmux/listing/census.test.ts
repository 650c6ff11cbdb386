import { describe, expect, it } from 'vitest';
import { attemptOf, CpuMeter, judge } from '../../../src/tmux/listing/census.ts';
import type { ServerRow } from '../../../src/tmux/listing/rows.ts';

const row = (fields: Partial<ServerRow> = {}): ServerRow => ({
  pathHex: '2f73',
  code: 'OK',
  detail: '',
  pid: 42,
  ticks: '7',
  processState: 'S',
  cpuTicks: 0,
  openFiles: 8,
  openFilesLimit: 1024,
  startedAt: 0,
  binaryDeleted: false,
  version: '3.3a',
  ...fields,
});
const member = (uptimeMs: number) => ({ uid: 1000, bootId: 'b', ticksPerSecond: 100, uptimeMs });
const timedOut = {
  status: 'UNRESPONSIVE',
  reason: 'TIMEOUT',
  detail: 'no whole answer in time',
} as const;

describe('each code of the helper', () => {
  it.each([
    ['OK', 'RUNNING', null, 'answered'],
    ['EDEAD', 'ABSENT', 'STALE_SOCKET', 'answered'],
    ['STOPPED', 'STOPPED', null, 'none'],
    ['TIMEOUT', 'UNRESPONSIVE', 'TIMEOUT', 'failed'],
    ['EBACKLOG', 'UNRESPONSIVE', 'BACKLOG_FULL', 'failed'],
    ['ETOOBIG', 'RUNNING', 'OUTPUT_TOO_LARGE', 'failed'],
    ['EMALFORMED', 'RUNNING', 'MALFORMED_ANSWER', 'failed'],
    ['ECLIENT', 'RUNNING', 'MALFORMED_ANSWER', 'failed'],
    ['ESOCKTYPE', 'UNKNOWN', 'NOT_TMUX', 'none'],
    ['EOWNER', 'UNKNOWN', 'FOREIGN_OWNER', 'none'],
    ['EPEERUID', 'UNKNOWN', 'FOREIGN_OWNER', 'none'],
    ['ENOTMUX', 'UNKNOWN', 'NOT_TMUX', 'none'],
    ['EEXE', 'UNKNOWN', 'BINARY_UNREADABLE', 'none'],
    ['EACCES', 'UNKNOWN', 'EACCES', 'none'],
    ['EDIR', 'UNKNOWN', 'UNSAFE_DIRECTORY', 'none'],
    ['EPATHLONG', 'UNKNOWN', 'PATH_TOO_LONG', 'none'],
    ['ELOST', 'RUNNING', 'SOCKET_LOST', 'none'],
    ['ETAKEN', 'RUNNING', 'PATH_TAKEN', 'none'],
    ['ENEWS', 'UNKNOWN', 'MALFORMED_ANSWER', 'failed'],
  ])('%s is %s, %s', (code, status, reason, asked) => {
    expect(attemptOf(row({ code }))).toMatchObject({ status, reason, asked });
  });

  it.each(['No such file or directory', '/tmp/tmux-1 does not exist'])(
    'says that nobody listens only where a file is left over: %s',
    (detail) => {
      const gone = attemptOf(row({ code: 'EDEAD', detail }));
      expect(gone).toMatchObject({ status: 'ABSENT', reason: null });
    },
  );

  it.each([
    'open terminal failed: not a terminal',
    'server version is too old for client',
    'protocol version mismatch (client 8, server 7)',
    'server exited unexpectedly',
  ])('of a client that says "%s" is VERSION_MISMATCH, never an empty list', (detail) => {
    const attempt = attemptOf(row({ code: 'ECLIENT', detail }));
    expect(attempt).toMatchObject({
      status: 'RUNNING',
      reason: 'VERSION_MISMATCH',
      asked: 'failed',
    });
    expect(attempt?.detail).toContain('3.3a');
  });
});

describe('a server’s status', () => {
  it('while it is left out is what the last attempt said', () => {
    expect(judge(row({ code: 'SKIPPED' }), timedOut, true, 5)).toEqual(timedOut);
  });

  it('is STOPPED as soon as the process table says so', () => {
    const skipped = row({ code: 'SKIPPED', processState: 'T' });
    expect(judge(skipped, timedOut, true, 0).status).toBe('STOPPED');
  });

  it('is SPINNING at 90 % of a core and more, and only while it does not answer', () => {
    const skipped = row({ code: 'SKIPPED' });
    expect(judge(skipped, timedOut, true, 89.9).status).toBe('UNRESPONSIVE');
    expect(judge(skipped, timedOut, true, 90).status).toBe('SPINNING');
    expect(judge(row(), timedOut, false, 100).status).toBe('RUNNING');
  });

  it('names exhausted descriptors as the reason, of a server that runs too', () => {
    const full = { openFiles: 64, openFilesLimit: 64 };
    expect(judge(row(full), undefined, false, 1)).toMatchObject({
      status: 'RUNNING',
      reason: 'DESCRIPTORS_EXHAUSTED',
    });
    expect(judge(row({ ...full, code: 'TIMEOUT' }), undefined, true, 99)).toMatchObject({
      status: 'SPINNING',
      reason: 'DESCRIPTORS_EXHAUSTED',
    });
    expect(judge(row({ ...full, openFiles: 63 }), undefined, false, 1).reason).toBeNull();
  });
});

describe('the CPU meter', () => {
  it('tells the share of a core between looks at least 2 s apart', () => {
    const meter = new CpuMeter();
    expect(meter.read(row({ cpuTicks: 100 }), member(10_000))).toBeNull();
    expect(meter.read(row({ cpuTicks: 190 }), member(11_000))).toBeNull();
    expect(meter.read(row({ cpuTicks: 290 }), member(12_000))).toBe(95);
    expect(meter.read(row({ cpuTicks: 300 }), member(13_000))).toBe(95);
    expect(meter.read(row({ cpuTicks: 300 }), member(14_000))).toBe(5);
  });

  it('begins anew with another process, and knows nothing of one that can’t be seen', () => {
    const meter = new CpuMeter();
    meter.read(row({ cpuTicks: 1_000 }), member(10_000));
    meter.read(row({ cpuTicks: 2_000 }), member(20_000));
    expect(meter.read(row({ cpuTicks: 5, ticks: '8' }), member(30_000))).toBeNull();
    expect(meter.read(row({ pid: null }), member(40_000))).toBeNull();
  });
});
