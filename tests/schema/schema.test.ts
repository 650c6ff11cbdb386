import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  BreakingChangeType,
  buildSchema,
  DangerousChangeType,
  findSchemaChanges,
  type GraphQLSchema,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isObjectType,
  parse,
  print,
  visit,
} from 'graphql';
import { describe, expect, it } from 'vitest';
import { requestErrorCodes } from '../../src/resolvers/request-error.ts';
import { schema } from '../../src/schema/index.ts';
import { printedSchema } from '../../src/schema/sdl.ts';

const committed = await readFile(join(import.meta.dirname, '../../schema.graphql'), 'utf8');

describe('the schema', () => {
  it('is the one in schema.graphql (print it again with `muxwarden schema > schema.graphql`)', () => {
    expect(printedSchema()).toBe(committed);
  });

  it('breaks no client of the committed one', () => {
    expect(breaks(buildSchema(committed), schema)).toEqual([]);
  });

  it('says everywhere what it is', () => {
    expect(undescribed(schema)).toEqual([]);
  });

  it('has no field that carries a secret', () => {
    const names = Object.values(schema.getTypeMap())
      .filter(isObjectType)
      .flatMap((type) => Object.keys(type.getFields()));
    expect(names.filter((name) => /secret|password|hash$/i.test(name))).toEqual(['hash']);
  });

  it('lets an unknown listing be null wherever rows hang on it', () => {
    for (const [type, field] of [
      ['Member', 'tmuxServers'],
      ['TmuxServer', 'sessions'],
    ] as const) {
      const object = schema.getType(type);
      expect(isObjectType(object) && String(object.getFields()[field]?.type)).not.toMatch(/!$/);
    }
  });
});

describe('the checks of the schema', () => {
  it('find a removed field, a removed value and an argument that became required', () => {
    const without = (change: (sdl: string) => string) =>
      breaks(buildSchema(committed), buildSchema(change(committed)));
    expect(without((sdl) => withoutField(sdl, 'TmuxServer', 'socketPath'))).toHaveLength(1);
    expect(without((sdl) => withoutValue(sdl, 'SPINNING'))).toHaveLength(1);
    expect(without((sdl) => sdl.replace('first: Int = 20', 'first: Int!'))).not.toEqual([]);
  });

  it('find a type, a field, an argument and a value without a description', () => {
    const bare = buildSchema('type Query { a(b: Int): C } enum C { D }');
    expect(undescribed(bare)).toEqual(['Query', 'Query.a', 'Query.a(b)', 'C', 'C.D']);
  });
});

describe('the codes of errors[]', () => {
  it('are those of the contract', () => {
    expect(requestErrorCodes).toEqual([
      'UNAUTHENTICATED',
      'FORBIDDEN',
      'BAD_USER_INPUT',
      'RATE_LIMITED',
      'QUERY_TOO_COMPLEX',
      'LISTING_UNKNOWN',
      'INTERNAL_SERVER_ERROR',
    ]);
  });
});

/** A value that is added to an enum or a member to a union is fine; all else that could break is not. */
const fine: ReadonlySet<string> = new Set([
  DangerousChangeType.VALUE_ADDED_TO_ENUM,
  DangerousChangeType.TYPE_ADDED_TO_UNION,
  DangerousChangeType.OPTIONAL_INPUT_FIELD_ADDED,
  DangerousChangeType.OPTIONAL_ARG_ADDED,
]);
const breaking = new Set<string>([
  ...Object.values(BreakingChangeType),
  ...Object.values(DangerousChangeType),
]);

function breaks(before: GraphQLSchema, after: GraphQLSchema): readonly string[] {
  return findSchemaChanges(before, after)
    .filter(({ type }) => breaking.has(type) && !fine.has(type))
    .map(({ description }) => description);
}

function undescribed(of: GraphQLSchema): readonly string[] {
  const bare: string[] = [];
  const look = (name: string, { description }: { description?: string | null | undefined }) => {
    if (!description?.trim()) bare.push(name);
  };
  for (const type of Object.values(of.getTypeMap())) {
    if (type.name.startsWith('__') || /^(Int|Float|String|Boolean|ID)$/.test(type.name)) continue;
    look(type.name, type);
    if (isEnumType(type))
      for (const value of type.getValues()) look(`${type.name}.${value.name}`, value);
    if (isInputObjectType(type))
      for (const field of Object.values(type.getFields()))
        look(`${type.name}.${field.name}`, field);
    if (isObjectType(type) || isInterfaceType(type))
      for (const field of Object.values(type.getFields())) {
        look(`${type.name}.${field.name}`, field);
        for (const argument of field.args)
          look(`${type.name}.${field.name}(${argument.name})`, argument);
      }
  }
  return bare;
}

function withoutField(sdl: string, type: string, field: string): string {
  return print(
    visit(parse(sdl), {
      ObjectTypeDefinition(node) {
        if (node.name.value !== type) return undefined;
        return { ...node, fields: node.fields?.filter(({ name }) => name.value !== field) ?? [] };
      },
    }),
  );
}

function withoutValue(sdl: string, value: string): string {
  return print(
    visit(parse(sdl), {
      EnumValueDefinition: (node) => (node.name.value === value ? null : undefined),
    }),
  );
}
