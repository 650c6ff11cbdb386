import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Counted, Subscribing } from './subscribers.ts';

/** Many subscribers in a process of their own, all of which have begun. */
export interface Subscribers extends AsyncDisposable {
  /** What came since the last time that it was asked. */
  count(): Promise<Counted>;
}

export async function subscribe(what: Subscribing): Promise<Subscribers> {
  const child = fork(join(import.meta.dirname, 'subscribers.ts'));
  const gone = once(child, 'exit').then(([code]) => {
    throw new Error(`the subscribers ended with ${code}`);
  });
  gone.catch(() => undefined);
  const answer = async (message: Subscribing | 'count') => {
    const answered = once(child, 'message');
    child.send(message);
    const [said] = await Promise.race([answered, gone]);
    return said;
  };
  await answer(what);
  return {
    count: async () => (await answer('count')) as Counted,
    async [Symbol.asyncDispose]() {
      child.disconnect();
      await gone.catch(() => undefined);
    },
  };
}
