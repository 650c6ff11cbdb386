import { appendFileSync, writeSync } from 'node:fs';
import type { Reporter, SerializedError, TestModule, TestRunEndReason } from 'vitest/node';

/**
 * The last line of a run: `N passed, N failed` and, where there were any, `, N skipped`. A file that
 * can't be loaded, an error outside of every test and a run that was cut short count as failed. A
 * skipped test is named; in CI it fails the run, for there nothing may be missing.
 */
export interface Tally {
  passed: number;
  failed: number;
  skipped: string[];
}

export function tallyLine({ passed, failed, skipped }: Tally): string {
  return `${passed} passed, ${failed} failed${skipped.length ? `, ${skipped.length} skipped` : ''}`;
}

export default class TallyReporter implements Reporter {
  private tally: Tally | undefined;

  onInit(): void {
    // When the process ends, so that nothing comes after it.
    process.once('exit', () => {
      const line = tallyLine(this.tally ?? { passed: 0, failed: 1, skipped: [] });
      writeSync(1, `${line}\n`);
      const file = process.env.MUXWARDEN_TEST_RESULT;
      if (file) appendFileSync(file, `${line}\n`);
    });
  }

  onTestRunEnd(
    modules: readonly TestModule[],
    errors: readonly SerializedError[],
    reason: TestRunEndReason,
  ): void {
    const tally = count(modules);
    tally.failed += errors.length + (reason === 'interrupted' ? 1 : 0);
    this.tally = tally;
    for (const name of tally.skipped) writeSync(1, `skipped: ${name}\n`);
    if (process.env.CI && tally.skipped.length > 0) process.exitCode = 1;
  }
}

function count(modules: readonly TestModule[]): Tally {
  const tally: Tally = { passed: 0, failed: 0, skipped: [] };
  for (const module of modules) {
    tally.failed += module.errors().length;
    for (const suite of module.children.allSuites()) tally.failed += suite.errors().length;
    for (const test of module.children.allTests()) {
      const { state } = test.result();
      if (state === 'passed') tally.passed += 1;
      else if (state === 'skipped')
        tally.skipped.push(`${module.relativeModuleId}: ${test.fullName}`);
      else tally.failed += 1;
    }
  }
  return tally;
}
