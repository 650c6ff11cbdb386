import {
  type ControlConnection,
  type HelperAnswer,
  HelperError,
  type MemberHelper,
} from '../member-helper.ts';

/** Stands where a member can't be reached at all: says why, and starts nothing. */
export class RefusingHelper implements MemberHelper {
  readonly #message: string;

  constructor(message: string) {
    this.#message = message;
  }

  ask(): Promise<HelperAnswer> {
    return this.#refuse();
  }
  act(): Promise<HelperAnswer> {
    return this.#refuse();
  }
  start(): Promise<HelperAnswer> {
    return this.#refuse();
  }
  control(): Promise<ControlConnection> {
    return this.#refuse();
  }
  async [Symbol.asyncDispose](): Promise<void> {}

  #refuse(): Promise<never> {
    return Promise.reject(new HelperError('EACCES', this.#message));
  }
}
