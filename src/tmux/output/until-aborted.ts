/** What `work` gives, unless the signal is aborted first: then its reason, and the work goes on unheard. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      // Its failure is nobody's any more.
      work.catch(() => {});
      return reject(signal.reason);
    }
    const abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
