import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLField,
  type GraphQLNamedType,
  type GraphQLSchema,
  getNamedType,
  isCompositeType,
  isInterfaceType,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';
import type { Config } from '../config.ts';
import { badInput, RequestError } from '../resolvers/request-error.ts';

/**
 * Limits on what would run: the chosen operation with its fragments spread and its `@skip` and
 * `@include` applied, measured before any field runs and alike on every transport.
 *
 * A fragment is measured once, however often it is spread: its size does not depend on the place.
 * So the measuring itself takes no longer than the document is.
 *
 *   depth       fields below each other; introspection (`__schema`, `__type`) is exempt
 *   aliases     how many fields have one
 *   complexity  a scalar 0, an object field 1, `cost` where a field's extensions say so; what is
 *               below `nodes` and `edges` of a connection counts `first` times, what is below
 *               `nodes(ids:)` once for each id
 *   acts        fields of a mutation that are not marked `reads`: one at most
 */
export type Limits = Pick<Config, 'maxDepth' | 'maxAliases' | 'maxComplexity' | 'maxPageSize'>;
type Variables = Readonly<Record<string, unknown>>;

interface Size {
  readonly depth: number;
  readonly aliases: number;
  readonly complexity: number;
}

/** The refusal, or undefined when the operation may run. */
export function overLimit(
  limits: Limits,
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
  variables: Variables,
): RequestError | undefined {
  const measure = new Measure(limits, schema, document, withDefaults(operation, variables));
  const root = schema.getRootType(operation.operation);
  if (root === undefined || root === null) return undefined;
  const acts = measure.acts(operation, root);
  if (acts > 1)
    return badInput('mutation', 'takes one field that changes something. Send them one by one.');
  const size = measure.selection(operation.selectionSet, root);
  const over = (what: string, is: number, most: number) =>
    is > most
      ? new RequestError(
          'QUERY_TOO_COMPLEX',
          `The ${what} of this operation is ${is}; ${most} is the most.`,
        )
      : undefined;
  return (
    over('depth', size.depth, limits.maxDepth) ??
    over('number of aliases', size.aliases, limits.maxAliases) ??
    over('complexity', size.complexity, limits.maxComplexity)
  );
}

class Measure {
  readonly #limits: Limits;
  readonly #schema: GraphQLSchema;
  readonly #variables: Variables;
  readonly #fragments = new Map<string, FragmentDefinitionNode>();
  readonly #measured = new Map<string, Size>();

  constructor(limits: Limits, schema: GraphQLSchema, document: DocumentNode, variables: Variables) {
    this.#limits = limits;
    this.#schema = schema;
    this.#variables = variables;
    for (const definition of document.definitions) {
      if (definition.kind === Kind.FRAGMENT_DEFINITION)
        this.#fragments.set(definition.name.value, definition);
    }
  }

  selection(set: SelectionSetNode, parent: GraphQLNamedType, times = 1): Size {
    let depth = 0;
    let aliases = 0;
    let complexity = 0;
    for (const selection of set.selections) {
      if (this.#isSkipped(selection.directives)) continue;
      let size: Size;
      let many = 1;
      if (selection.kind === Kind.FIELD) {
        size = this.#field(selection, parent);
        if (isPaged(selection)) many = times;
      } else if (selection.kind === Kind.INLINE_FRAGMENT) {
        const type = selection.typeCondition?.name.value;
        size = this.selection(
          selection.selectionSet,
          (type === undefined ? undefined : this.#schema.getType(type)) ?? parent,
          times,
        );
      } else {
        size = this.#fragment(selection.name.value, times);
      }
      depth = Math.max(depth, size.depth);
      aliases += size.aliases;
      complexity += many * size.complexity;
    }
    return { depth, aliases, complexity };
  }

  /** Fields that change something, each response name once: fields of one name are merged. */
  acts(operation: OperationDefinitionNode, root: GraphQLNamedType): number {
    if (operation.operation !== 'mutation') return 0;
    const names = new Set<string>();
    const spread = new Set<string>();
    const collect = (set: SelectionSetNode) => {
      for (const selection of set.selections) {
        if (this.#isSkipped(selection.directives)) continue;
        if (selection.kind === Kind.FIELD) {
          const definition = fieldOf(root, selection.name.value);
          if (definition !== undefined && definition.extensions.reads !== true)
            names.add((selection.alias ?? selection.name).value);
        } else if (selection.kind === Kind.INLINE_FRAGMENT) {
          collect(selection.selectionSet);
        } else if (!spread.has(selection.name.value)) {
          spread.add(selection.name.value);
          const fragment = this.#fragments.get(selection.name.value);
          if (fragment !== undefined) collect(fragment.selectionSet);
        }
      }
    };
    collect(operation.selectionSet);
    return names.size;
  }

  #fragment(name: string, times: number): Size {
    // On a connection the same fragment counts by `first`, so that is part of what was measured.
    const key = `${times} ${name}`;
    const known = this.#measured.get(key);
    if (known !== undefined) return known;
    const fragment = this.#fragments.get(name);
    const type = fragment && this.#schema.getType(fragment.typeCondition.name.value);
    const size =
      fragment === undefined || type === undefined
        ? { depth: 0, aliases: 0, complexity: 0 }
        : this.selection(fragment.selectionSet, type, times);
    this.#measured.set(key, size);
    return size;
  }

  #field(field: FieldNode, parent: GraphQLNamedType): Size {
    const name = field.name.value;
    const aliases = field.alias === undefined ? 0 : 1;
    const definition = fieldOf(parent, name);
    const type =
      definition === undefined ? this.#introspected(name) : getNamedType(definition.type);
    const below =
      field.selectionSet === undefined || type === undefined
        ? { depth: 0, aliases: 0, complexity: 0 }
        : this.selection(field.selectionSet, type, this.#times(field, definition, type));
    const cost = definition?.extensions.cost;
    const own =
      typeof cost === 'number' ? cost : type !== undefined && isCompositeType(type) ? 1 : 0;
    return {
      depth: name.startsWith('__') ? 0 : 1 + below.depth,
      aliases: aliases + below.aliases,
      complexity: own + this.#named(field, definition) * below.complexity,
    };
  }

  /** How many things a field names by `ids`; 1 for one without. */
  #named(field: FieldNode, definition: GraphQLField<unknown, unknown> | undefined): number {
    if (!definition?.args.some(({ name }) => name === 'ids')) return 1;
    const given = field.arguments?.find(({ name }) => name.value === 'ids')?.value;
    let count = 1;
    if (given?.kind === Kind.LIST) count = given.values.length;
    else if (given?.kind === Kind.VARIABLE) {
      const ids = this.#variables[given.name.value];
      if (Array.isArray(ids)) count = ids.length;
    }
    // Beyond this the resolver refuses, and names the argument.
    return Math.min(count, this.#limits.maxPageSize);
  }

  #introspected(name: string): GraphQLNamedType | undefined {
    if (name === '__schema') return this.#schema.getType('__Schema');
    return name === '__type' ? this.#schema.getType('__Type') : undefined;
  }

  /** How many rows a connection gives at most; 1 for anything else. */
  #times(
    field: FieldNode,
    definition: GraphQLField<unknown, unknown> | undefined,
    type: GraphQLNamedType,
  ): number {
    if (!type.name.endsWith('Connection')) return 1;
    const given = field.arguments?.find(({ name }) => name.value === 'first')?.value;
    let first: unknown;
    if (given?.kind === Kind.INT) first = Number(given.value);
    else if (given?.kind === Kind.VARIABLE) first = this.#variables[given.name.value];
    if (typeof first !== 'number') {
      const argument = definition?.args.find(({ name }) => name === 'first');
      first =
        argument?.default !== undefined && 'value' in argument.default
          ? argument.default.value
          : 20;
    }
    // Beyond these the resolver refuses, and names the argument.
    return typeof first === 'number' ? Math.min(Math.max(first, 1), this.#limits.maxPageSize) : 1;
  }

  #isSkipped(directives: FieldNode['directives']): boolean {
    for (const { name, arguments: given } of directives ?? []) {
      if (name.value !== 'skip' && name.value !== 'include') continue;
      const value = given?.find((argument) => argument.name.value === 'if')?.value;
      let holds: unknown;
      if (value?.kind === Kind.BOOLEAN) holds = value.value;
      else if (value?.kind === Kind.VARIABLE) holds = this.#variables[value.name.value];
      if (holds === (name.value === 'skip')) return true;
    }
    return false;
  }
}

/** Only numbers, booleans and how long a list is matter here: `first`, `if` and `ids`. */
function withDefaults(operation: OperationDefinitionNode, variables: Variables): Variables {
  const all: Record<string, unknown> = { ...variables };
  for (const { variable, defaultValue } of operation.variableDefinitions ?? []) {
    const name = variable.name.value;
    if (all[name] !== undefined || defaultValue === undefined) continue;
    if (defaultValue.kind === Kind.INT) all[name] = Number(defaultValue.value);
    if (defaultValue.kind === Kind.BOOLEAN) all[name] = defaultValue.value;
    if (defaultValue.kind === Kind.LIST) all[name] = defaultValue.values;
  }
  return all;
}

function isPaged(field: FieldNode): boolean {
  return field.name.value === 'nodes' || field.name.value === 'edges';
}

function fieldOf(type: GraphQLNamedType, name: string): GraphQLField<unknown, unknown> | undefined {
  return isObjectType(type) || isInterfaceType(type) ? type.getFields()[name] : undefined;
}
