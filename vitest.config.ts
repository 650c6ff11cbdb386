import { defineConfig } from 'vitest/config';

const long = process.env.MUXWARDEN_TEST_TIER === 'long';

export default defineConfig({
  // One graphql module: vitest would otherwise load its CommonJS and its ES build side by side.
  ssr: { resolve: { conditions: ['node', 'module-sync'] } },
  test: {
    reporters: ['default', './tests/setup/reporter.ts'],
    setupFiles: ['tests/support/clean-environment.ts'],
    testTimeout: long ? 600_000 : 60_000,
    hookTimeout: 60_000,
    // As `eventually` waits: what takes a moment takes longer on a busy machine.
    expect: { poll: { timeout: 10_000, interval: 20 } },
    projects: [
      {
        extends: true,
        test: {
          name: 'together',
          include: ['tests/**/*.test.ts'],
          exclude: ['tests/**/*.alone.test.ts'],
          maxWorkers: 3,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'alone',
          include: ['tests/**/*.alone.test.ts'],
          maxWorkers: 1,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
