/** What the system refused, by its code. */
export function isSystemError(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}

/**
 * What a look at a file gives; undefined when nothing is there, which ENOENT alone says (and ESRCH of
 * the files of a process). Whatever else it fails with says nothing about that, and is thrown.
 */
export async function ifThere<T>(look: Promise<T>): Promise<T | undefined> {
  try {
    return await look;
  } catch (error) {
    if (isSystemError(error, 'ENOENT', 'ESRCH')) return undefined;
    throw error;
  }
}
