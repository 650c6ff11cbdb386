import type { Context } from './context.ts';
import { badInput } from './request-error.ts';

/**
 * Pages of rows that are in memory. A cursor is the sort key of its row, so it holds its place when
 * rows come and go, its own included.
 */
export interface Page<Row> {
  readonly edges: readonly { readonly cursor: string; readonly node: Row }[];
  readonly hasNextPage: boolean;
  readonly hasPreviousPage: boolean;
}
export interface PageArguments {
  readonly first?: number | null | undefined;
  readonly after?: string | null | undefined;
}
/** Compared part by part: numbers as numbers, texts by code unit. */
export type SortKey = readonly (string | number)[];

export interface PageOrder<Row> {
  /** Goes into the cursor, so that one of another connection is refused. */
  readonly name: string;
  readonly shape: readonly ('string' | 'number')[];
  readonly key: (row: Row) => SortKey;
}

export interface PageRequest {
  readonly first: number;
  readonly after: SortKey | undefined;
}

/** @throws RequestError (BAD_USER_INPUT) that names `first` or `after` */
export function pageRequest<Row>(
  context: Context,
  { first, after }: PageArguments,
  order: PageOrder<Row>,
): PageRequest {
  const size = first ?? 20;
  const { maxPageSize } = context.config;
  if (size < 1 || size > maxPageSize) throw badInput('first', `is from 1 to ${maxPageSize}.`);
  const key = after == null ? undefined : decodeCursor(after, order);
  if (after != null && key === undefined)
    throw badInput(
      'after',
      'is not a cursor of this connection. Take it from `pageInfo.endCursor`.',
    );
  return { first: size, after: key };
}

/** @param rows in the order of `order`; read only as far as the page needs */
export function pageOf<Row>(
  rows: Iterable<Row>,
  { first, after }: PageRequest,
  order: PageOrder<Row>,
): Page<Row> {
  const edges: { readonly cursor: string; readonly node: Row }[] = [];
  let hasPreviousPage = false;
  for (const node of rows) {
    const key = order.key(node);
    if (after !== undefined && compareKeys(key, after) <= 0) hasPreviousPage = true;
    else if (edges.length === first) return { edges, hasPreviousPage, hasNextPage: true };
    else
      edges.push({
        node,
        // Made when it is asked for: most pages are asked for the last one alone.
        get cursor() {
          return encodeCursor(key, order.name);
        },
      });
  }
  return { edges, hasPreviousPage, hasNextPage: false };
}

export function compareKeys(one: SortKey, other: SortKey): number {
  for (const [index, part] of one.entries()) {
    const against = other[index] ?? '';
    if (part !== against) return part < against ? -1 : 1;
  }
  return 0;
}

export function encodeCursor(key: SortKey, name: string): string {
  return Buffer.from(JSON.stringify([name, ...key])).toString('base64url');
}

export function decodeCursor<Row>(text: string, order: PageOrder<Row>): SortKey | undefined {
  if (text.length > 2_048) return undefined;
  let parts: unknown;
  try {
    parts = JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    return undefined;
  }
  if (!Array.isArray(parts)) return undefined;
  const [name, ...key]: unknown[] = parts;
  if (name !== order.name || key.length !== order.shape.length) return undefined;
  if (!isKey(key) || key.some((part, index) => typeof part !== order.shape[index]))
    return undefined;
  return encodeCursor(key, order.name) === text ? key : undefined;
}

function isKey(parts: readonly unknown[]): parts is SortKey {
  return parts.every((part) => typeof part === 'string' || Number.isSafeInteger(part));
}
