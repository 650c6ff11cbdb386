import {
  type DocumentNode,
  execute,
  type FieldNode,
  Kind,
  type OperationDefinitionNode,
  OperationTypeNode,
  parse,
  type SelectionSetNode,
} from 'graphql';
import { z } from 'zod';
import { jsonText } from '../json-text.ts';
import type { Context } from '../resolvers/context.ts';
import { schema } from '../schema/index.ts';
import type { Look, Reads } from './reads.ts';

/**
 * A page of members, answered member by member. What it says below one member depends on that
 * member alone, so when one listing changes one part is made again and the others stay as they are.
 *
 *   { members(first: 100) { nodes { …PART } pageInfo { … } } }
 *
 *   frame   the same with `nodes { id }`: which members, and all the rest
 *   part    query($id: ID!) { node(id: $id) { ... on Member { …PART } } }
 *
 * A document of any other shape has no plan, and a frame or part with an error has no answer: then
 * the whole is executed as ever, and says what there is to say. Each part knows what it was made of
 * (`Reads`), exactly as a whole answer does.
 */
export class PartedAnswer {
  readonly #plan: Plan;
  readonly #variables: Readonly<Record<string, unknown>>;
  readonly #parts = new Map<string, Part>();
  #frame: Frame | undefined;

  readonly contentType: string;

  private constructor(
    plan: Plan,
    variables: Readonly<Record<string, unknown>>,
    contentType: string,
  ) {
    this.contentType = contentType;
    this.#plan = plan;
    this.#variables = variables;
  }

  /** @param body of a request that was answered without errors; undefined where it has another shape */
  static of(body: string, contentType: string): PartedAnswer | undefined {
    const { query, variables } = request.parse(body);
    const plan = planOf(parse(query));
    return plan && new PartedAnswer(plan, variables ?? {}, contentType);
  }

  /**
   * The answer; `reads` notes what it was made of. Parts are kept as bytes and copied once: a page
   * that was put together as text would be copied several times, and each copy be collected.
   * @param contextOf a context whose reads are noted there
   */
  async make(
    reads: Reads,
    look: Look,
    contextOf: (reads: Reads) => Context,
    newReads: () => Reads,
  ): Promise<Buffer | undefined> {
    const frame = await this.#presentFrame(look, contextOf, newReads);
    if (frame === undefined) return undefined;
    // All at once, for a cold one makes its reader wait.
    await look.at(frame.ids.flatMap((id) => this.#parts.get(id)?.reads.memberIds ?? []));
    const found = frame.ids.map((id) => this.#presentPart(id, look, contextOf, newReads));
    const parts: readonly (Part | undefined)[] = found.some((part) => part instanceof Promise)
      ? await Promise.all(found)
      : found.filter((part): part is Part => !(part instanceof Promise));
    reads.include(frame.reads);
    const pieces: Buffer[] = [frame.before];
    let length = 0;
    for (const part of parts) {
      if (part === undefined) return undefined;
      reads.include(part.reads);
      length += part.bytes.length;
      if (pieces.length > 1) pieces.push(comma);
      pieces.push(part.bytes);
    }
    if (length > mostBytes) this.#parts.clear();
    pieces.push(frame.after);
    return Buffer.concat(pieces);
  }

  /** Which members, and the bytes before and after them. */
  async #presentFrame(
    look: Look,
    contextOf: (reads: Reads) => Context,
    newReads: () => Reads,
  ): Promise<Frame | undefined> {
    const kept = this.#frame;
    if (kept !== undefined && (await kept.reads.areUnchanged(look))) return kept;
    const { frame, root, nodes } = this.#plan;
    const reads = newReads();
    const { data, errors } = await execute({
      schema,
      document: frame,
      variableValues: this.#variables,
      contextValue: contextOf(reads),
    });
    const page = data?.[root];
    if (errors !== undefined || !isRecord(page) || !reads.canBeKept) return undefined;
    const rowsOf = rows.safeParse(page[nodes]);
    if (!rowsOf.success) return undefined;
    const ids = rowsOf.data.map(({ id }) => id);
    const present = new Set(ids);
    for (const id of this.#parts.keys()) if (!present.has(id)) this.#parts.delete(id);
    const fields = Object.entries(page).map(
      ([name, value]) => [name, JSON.stringify(value)] as const,
    );
    const at = fields.findIndex(([name]) => name === nodes);
    const text = (some: typeof fields) =>
      some.map(([name, value]) => `${JSON.stringify(name)}:${value}`);
    const before = [...text(fields.slice(0, at)), `${JSON.stringify(nodes)}:[`].join(',');
    const after = [']', ...text(fields.slice(at + 1))].join(',');
    this.#frame = {
      ids,
      before: Buffer.from(`{"data":{${JSON.stringify(root)}:{${before}`),
      after: Buffer.from(`${after}}}}`),
      reads,
    };
    return this.#frame;
  }

  #presentPart(
    id: string,
    look: Look,
    contextOf: (reads: Reads) => Context,
    newReads: () => Reads,
  ): Part | Promise<Part | undefined> {
    const kept = this.#parts.get(id);
    return kept?.reads.areSeenUnchanged(look) ? kept : this.#makePart(id, contextOf, newReads());
  }

  async #makePart(
    id: string,
    contextOf: (reads: Reads) => Context,
    reads: Reads,
  ): Promise<Part | undefined> {
    const { data, errors } = await execute({
      schema,
      document: this.#plan.part,
      variableValues: { ...this.#variables, [partVariable]: id },
      contextValue: contextOf(reads),
    });
    const member = data?.[partField];
    if (errors !== undefined || !isRecord(member) || !reads.canBeKept) return undefined;
    const part = { bytes: Buffer.from(JSON.stringify(member)), reads };
    this.#parts.set(id, part);
    return part;
  }
}

interface Frame {
  readonly ids: readonly string[];
  readonly before: Buffer;
  readonly after: Buffer;
  readonly reads: Reads;
}
interface Part {
  readonly bytes: Buffer;
  readonly reads: Reads;
}
interface Plan {
  readonly frame: DocumentNode;
  readonly part: DocumentNode;
  /** Response names of `members` and of its `nodes`. */
  readonly root: string;
  readonly nodes: string;
}

/** What one answer may hold between requests. */
const mostBytes = 4 << 20;
const comma = Buffer.from(',');

/** No document of a caller may use these names; one that does has no plan. */
const partVariable = 'muxwarden_part';
const partField = 'muxwarden_part';

const request = jsonText.pipe(
  z.object({ query: z.string(), variables: z.record(z.string(), z.unknown()).nullish() }),
);
const rows = z.array(z.object({ id: z.string() }));

function planOf(document: DocumentNode): Plan | undefined {
  const operations = document.definitions.filter(
    (definition): definition is OperationDefinitionNode =>
      definition.kind === Kind.OPERATION_DEFINITION,
  );
  const [operation] = operations;
  if (operation === undefined || operations.length > 1) return undefined;
  if (operation.operation !== OperationTypeNode.QUERY || operation.directives?.length)
    return undefined;
  if (operation.variableDefinitions?.some(({ variable }) => variable.name.value === partVariable))
    return undefined;
  const members = plainFields(operation.selectionSet);
  const [field] = members ?? [];
  if (field === undefined || members?.length !== 1 || field.name.value !== 'members')
    return undefined;
  const below = field.selectionSet && plainFields(field.selectionSet);
  const nodes = below?.filter(({ name }) => name.value === 'nodes');
  const [only] = nodes ?? [];
  if (below === undefined || only?.selectionSet === undefined || nodes?.length !== 1)
    return undefined;
  // Of one response name there must be one field, or the executor would merge them.
  if (new Set(below.map(responseName)).size !== below.length) return undefined;
  const fragments = document.definitions.filter(({ kind }) => kind === Kind.FRAGMENT_DEFINITION);
  return {
    root: responseName(field),
    nodes: responseName(only),
    frame: {
      kind: Kind.DOCUMENT,
      definitions: [
        { ...operation, selectionSet: selection([frameOf(field, below, only)]) },
        ...fragments,
      ],
    },
    part: {
      kind: Kind.DOCUMENT,
      definitions: [partOf(operation, only.selectionSet), ...fragments],
    },
  };
}

/** The fields of a selection that has nothing but fields, none of them with a directive. */
function plainFields({ selections }: SelectionSetNode): readonly FieldNode[] | undefined {
  const fields = selections.filter((each) => each.kind === Kind.FIELD);
  const plain =
    fields.length === selections.length && fields.every((each) => !each.directives?.length);
  return plain ? fields : undefined;
}

function frameOf(field: FieldNode, below: readonly FieldNode[], nodes: FieldNode): FieldNode {
  const id: FieldNode = { kind: Kind.FIELD, name: { kind: Kind.NAME, value: 'id' } };
  return {
    ...field,
    selectionSet: selection(
      below.map((each) => (each === nodes ? { ...each, selectionSet: selection([id]) } : each)),
    ),
  };
}

/** Parsed rather than built: it is the document that the comment above shows. */
function partOf(
  operation: OperationDefinitionNode,
  selectionSet: SelectionSetNode,
): OperationDefinitionNode {
  const [made] = parse(
    `query($${partVariable}: ID!) { ${partField}: node(id: $${partVariable}) { ... on Member { id } } }`,
  ).definitions;
  if (made?.kind !== Kind.OPERATION_DEFINITION) throw new Error('a query is an operation');
  const [field] = plainFields(made.selectionSet) ?? [];
  const [fragment] = field?.selectionSet?.selections ?? [];
  if (field === undefined || fragment?.kind !== Kind.INLINE_FRAGMENT)
    throw new Error('a part is one field with one fragment');
  return {
    ...made,
    variableDefinitions: [
      ...(operation.variableDefinitions ?? []),
      ...(made.variableDefinitions ?? []),
    ],
    selectionSet: selection([
      { ...field, selectionSet: selection([{ ...fragment, selectionSet }]) },
    ]),
  };
}

function selection(selections: SelectionSetNode['selections']): SelectionSetNode {
  return { kind: Kind.SELECTION_SET, selections };
}

function responseName({ alias, name }: FieldNode): string {
  return (alias ?? name).value;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
