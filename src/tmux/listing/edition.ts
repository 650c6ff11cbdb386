/**
 * One number for all listings of a fleet: it is another one whenever any of them may be another object
 * than before. Each listing tells when it shows something else, and until when what it shows holds,
 * for age alone makes it another one too. So whoever finds the number that it found before knows in
 * one comparison that every listing is still the very same.
 */
export class Edition {
  #number = 0;
  #holdsUntil = Number.POSITIVE_INFINITY;

  /** Something else is shown. */
  turn(): void {
    this.#number += 1;
  }

  /** Something that is shown holds until then (monotonic), and no longer. */
  holds(until: number): void {
    if (until < this.#holdsUntil) this.#holdsUntil = until;
  }

  /** @param settle makes what is too old another one, and has all tell again until when they hold */
  at(now: number, settle: () => void): number {
    if (now >= this.#holdsUntil) {
      this.#holdsUntil = Number.POSITIVE_INFINITY;
      settle();
    }
    return this.#number;
  }
}
