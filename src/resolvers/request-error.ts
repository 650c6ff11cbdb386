/** What `errors[]` may say; everything else that a caller can act on is data. */
export const requestErrorCodes = [
  'UNAUTHENTICATED',
  'FORBIDDEN',
  'BAD_USER_INPUT',
  'RATE_LIMITED',
  'QUERY_TOO_COMPLEX',
  'LISTING_UNKNOWN',
  'INTERNAL_SERVER_ERROR',
] as const;
export type RequestErrorCode = (typeof requestErrorCodes)[number];

/** A refusal that the caller sees word for word, in `errors[]`. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly code: Exclude<RequestErrorCode, 'INTERNAL_SERVER_ERROR'>;
  constructor(code: RequestError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** @param argument as the caller wrote it, for example `filter.memberIds[2]` */
export function badInput(argument: string, problem: string): RequestError {
  return new RequestError('BAD_USER_INPUT', `\`${argument}\` ${problem}`);
}

export function forbidden(what: string): RequestError {
  return new RequestError('FORBIDDEN', `Your role or key does not allow ${what}.`);
}

export function credentialEnded(): RequestError {
  return new RequestError('UNAUTHENTICATED', 'Your credential has ended. Sign in again.');
}
