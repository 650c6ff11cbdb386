import type { Benchmark } from './measure.ts';

export const membersPage: Benchmark = { name: 'members-page', run: async () => [] };
