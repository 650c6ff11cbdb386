/**
 * What was made of an object, for as long as the object lives, where nobody else sees it.
 *
 * A `WeakMap` tells the same, and is right for what lives long. But V8 collects young objects without
 * looking whether an entry's key is still alive: all values of an old `WeakMap` survive until the whole
 * heap is collected, which is put off until 64 MiB of buffers have piled up. So what is made of each
 * event is held by the event itself, and goes with it.
 */
export class MadeOf<Source extends object, Value> {
  readonly #name = Symbol('made of it');

  get(source: Source): Value | undefined {
    return (source as { readonly [name: symbol]: Value | undefined })[this.#name];
  }

  set(source: Source, value: Value): void {
    // Not enumerable, so that a copy of the source has none of it.
    Object.defineProperty(source, this.#name, { value, configurable: true });
  }
}
