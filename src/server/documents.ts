import { readFile } from 'node:fs/promises';
import { Kind, Lexer, parse, Source, stripIgnoredCharacters, TokenKind } from 'graphql';
import { z } from 'zod';
import type { Viewer } from '../auth/viewer.ts';
import { type Config, ConfigError } from '../config.ts';
import { jsonText } from '../json-text.ts';
import { RequestError } from '../resolvers/request-error.ts';

/**
 * Which documents a caller may send at all; looked at before anything of them is validated, for what
 * a validator says about fields is a map of the schema, and alike on every transport.
 *
 *   introspection       in production for an ADMIN alone
 *   trusted documents   where a file of them is set, a browser session sends those alone, whatever
 *                       script may have got into its page; keys are for programs, and may send any
 */
export interface Documents {
  /** The refusal, or undefined when it may go on. */
  refuse(viewer: Viewer, query: string): RequestError | undefined;
  /** The trusted document of that id. */
  byId(id: string): string | undefined;
}

/** @throws ConfigError for a file of trusted documents that can't be used */
export async function openDocuments(
  config: Pick<Config, 'production' | 'trustedDocuments' | 'maxTokens'>,
): Promise<Documents> {
  const trusted =
    config.trustedDocuments === undefined ? undefined : await readTrusted(config.trustedDocuments);
  const texts = new Set(trusted?.values());
  return {
    refuse(viewer, query) {
      const introspects = /\b__(?:schema|type)\b/.test(query) && hasIntrospection(query);
      if (introspects && config.production && viewer.member.role !== 'ADMIN')
        return new RequestError(
          'FORBIDDEN',
          'Only an ADMIN may ask for the schema here. It is printed by `muxwarden schema`.',
        );
      if (trusted === undefined || viewer.via === 'API_KEY') return undefined;
      if (texts.has(normalized(query) ?? '')) return undefined;
      if (introspects && isIntrospection(query, config.maxTokens)) return undefined;
      return new RequestError(
        'FORBIDDEN',
        'A browser session may send only the documents that this service trusts, and this is none of them. Use a key: `Authorization: Bearer mw_…`.',
      );
    },
    byId: (id) => trusted?.get(id.replace(/^sha256:/, '')),
  };
}

const shape = jsonText.pipe(z.record(z.string(), z.string()));

/** `{ "<id>": "<document>" }`, as GraphQL Code Generator writes its persisted documents. */
async function readTrusted(path: string): Promise<ReadonlyMap<string, string>> {
  const refused = (why: string, cause?: unknown) =>
    new ConfigError(
      `MUXWARDEN_TRUSTED_DOCUMENTS can't be used: ${path} ${why}. It takes a JSON file: {"<id>": "<document>"}.`,
      { cause },
    );
  const text = await readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    throw refused(`can't be read (${cause.code ?? cause.message})`, cause);
  });
  const { data } = shape.safeParse(text);
  if (data === undefined) throw refused('holds something else');
  const trusted = new Map<string, string>();
  for (const [id, document] of Object.entries(data)) {
    const same = normalized(document);
    if (same === undefined) throw refused(`has no GraphQL document under ${JSON.stringify(id)}`);
    trusted.set(id, same);
  }
  return trusted;
}

/** The same for all ways of writing it with other blanks, commas and comments; undefined: no GraphQL. */
function normalized(document: string): string | undefined {
  try {
    return stripIgnoredCharacters(document);
  } catch {
    return undefined;
  }
}

/** As a name of the document, not in a text or a comment. What is no GraphQL, its parser refuses. */
function hasIntrospection(query: string): boolean {
  const lexer = new Lexer(new Source(query));
  try {
    for (let token = lexer.advance(); token.kind !== TokenKind.EOF; token = lexer.advance())
      if (token.kind === TokenKind.NAME && /^__(?:schema|type)$/.test(token.value ?? ''))
        return true;
    return false;
  } catch {
    return false;
  }
}

/** Asks for nothing but the schema, as GraphiQL does when it opens. */
function isIntrospection(query: string, maxTokens: number): boolean {
  try {
    return parse(query, { maxTokens }).definitions.every(
      (definition) =>
        definition.kind === Kind.FRAGMENT_DEFINITION ||
        (definition.kind === Kind.OPERATION_DEFINITION &&
          definition.selectionSet.selections.every(
            (selection) =>
              selection.kind === Kind.FIELD &&
              /^__(?:schema|type|typename)$/.test(selection.name.value),
          )),
    );
  } catch {
    return false;
  }
}
