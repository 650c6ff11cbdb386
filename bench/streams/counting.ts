/**
 * What a subscriber makes of an event: how many lines it holds, how late they are, and whether one is
 * missing. A line begins with the time in microseconds and its number, `T1790000000000000#7:`, and ends
 * with the two characters that stand for LF in JSON, so that neither needs decoding. What is cut over
 * two events is counted where it ends. An event of a listing says when it was seen.
 */
export class Counting {
  events = 0;
  bytes = 0;
  lines = 0;
  lost = 0;
  /** Why something is missing. */
  readonly gaps = new Set<string>();
  #first: number | undefined;
  #ends = 0;

  take(event: Buffer, late: (ms: number) => void): void {
    this.events += 1;
    this.bytes += event.length;
    const text = event.indexOf(textBegins);
    if (text < 0 && event[0] !== letterT) {
      this.#other(event, late);
      return;
    }
    for (let at = text < 0 ? 0 : text + textBegins.length; ; ) {
      if (event[at] === letterT) this.#stamp(event, at, late);
      const end = event.indexOf(lineEnds, at);
      if (end < 0) return;
      this.lines += 1;
      this.#ends += 1;
      at = end + lineEnds.length;
    }
  }

  #other(event: Buffer, late: (ms: number) => void): void {
    const gap = /"gapReason":"(\w+)"/.exec(event.toString('latin1', 0, 200))?.[1];
    if (gap !== undefined) this.gaps.add(gap);
    const at = event.indexOf(observed);
    if (at < 0) return;
    const from = at + observed.length;
    late(now() - Date.parse(event.toString('latin1', from, event.indexOf('"', from))));
  }

  #stamp(event: Buffer, at: number, late: (ms: number) => void): void {
    const hash = event.indexOf(letterHash, at);
    const colon = event.indexOf(letterColon, hash);
    if (hash < 0 || colon < 0 || colon > at + 40) return;
    late(now() - number(event, at + 1, hash) / 1_000);
    const seen = number(event, hash + 1, colon);
    if (this.#first === undefined) {
      this.#first = seen;
      this.#ends = 0;
    }
    this.lost = seen - this.#first - this.#ends;
  }
}

const textBegins = Buffer.from('"text":"');
const lineEnds = Buffer.from('\\n');
const observed = Buffer.from('"observedAt":"');
const [letterT, letterHash, letterColon] = [0x54, 0x23, 0x3a];

function number(bytes: Buffer, from: number, to: number): number {
  let value = 0;
  for (let at = from; at < to; at++) value = value * 10 + (bytes[at] ?? 0) - 0x30;
  return value;
}

const now = () => performance.timeOrigin + performance.now();
