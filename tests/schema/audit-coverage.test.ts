import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isEnumType } from 'graphql';
import { describe, expect, it } from 'vitest';
import { schema } from '../../src/schema/index.ts';

/** Whether and how each mutation is on record is said in docs/audit.md, and nowhere else. */

const page = await readFile(join(import.meta.dirname, '../../docs/audit.md'), 'utf8');
const table = /\| mutation \| action \| rows \|\n[-| ]+\n((?:\|.*\n)+)/.exec(page)?.[1] ?? '';
const coverage = new Map(
  [...table.matchAll(/^\| `(\w+)` \| (.+?) \| (.+?) \|$/gm)].map(
    ([, mutation = '', action = '', rows = '']) => [mutation, { action, rows }],
  ),
);
const mutations = Object.values(schema.getMutationType()?.getFields() ?? {});

describe('the table of what is on record', () => {
  it('has every mutation of the schema, and no other', () => {
    expect(coverage.size).toBe(table.trimEnd().split('\n').length);
    expect([...coverage.keys()].sort()).toEqual(mutations.map(({ name }) => name).sort());
  });

  it('says of each that changes something by which action and rows, and of the others none', () => {
    const actions = schema.getType('AuditAction');
    const known = isEnumType(actions) ? actions.getValues().map(({ name }) => `\`${name}\``) : [];
    for (const { name, extensions } of mutations) {
      const { action = '', rows = '' } = coverage.get(name) ?? {};
      if (extensions.reads === true) expect([name, action]).toEqual([name, 'none']);
      else expect(known).toContain(action);
      expect([name, rows]).toEqual([
        name,
        expect.stringMatching(extensions.reads === true ? /^none: / : /^(INTENT and )?OUTCOME\b/),
      ]);
    }
  });
});
