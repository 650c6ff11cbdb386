/** A name of a member or its Linux user that can't be used; `field` is the one that holds it. */
export class InvalidMemberError extends Error {
  override readonly name = 'InvalidMemberError';
  readonly field: 'login' | 'osUser' | 'password';
  constructor(field: 'login' | 'osUser' | 'password', message: string) {
    super(message);
    this.field = field;
  }
}

/** @throws InvalidMemberError */
export function checkedLogin(text: string): string {
  if (/^[a-z_][a-z0-9_-]{0,31}$/.test(text)) return text;
  throw new InvalidMemberError(
    'login',
    'A login is 1 to 32 of the characters a-z, 0-9, _ and -, and begins with a letter or _.',
  );
}

/** The name of a Linux user, as useradd and directories of users allow it. @throws InvalidMemberError */
export function checkedOsUser(text: string): string {
  if (/^[A-Za-z_][A-Za-z0-9_.-]{0,31}$/.test(text)) return text;
  throw new InvalidMemberError(
    'osUser',
    'The name of a Linux user is 1 to 32 of the characters A-Z, a-z, 0-9, _, . and -, and begins with a letter or _.',
  );
}

/** The nearest valid login to the name of a Linux user. */
export function loginFor(osUser: string): string {
  const login = osUser
    .toLowerCase()
    .replace(/[^a-z0-9_-]/g, '-')
    .replace(/^(?=[^a-z_])/, '_')
    .slice(0, 32);
  return login || 'admin';
}
