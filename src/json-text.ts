import { z } from 'zod';

/** A text that must be JSON, as the value that it holds; pipe it into the shape that is expected. */
export const jsonText = z.string().transform((text, context): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    context.addIssue('not JSON');
    return z.NEVER;
  }
});
