import { readFile } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/concurrency/clock.ts';
import { ProcessHelper } from '../../../src/tmux/helper/helper.ts';
import { Processes } from '../../../src/tmux/helper/process.ts';
import { directReach } from '../../../src/tmux/helper/reach.ts';
import { HelperError } from '../../../src/tmux/member-helper.ts';
import { standInHelper } from '../../support/stand-in-helper.ts';
import { eventually, startTicks } from '../../support/tmux-server.ts';

async function helperOf(script: string, idleMs = 60_000) {
  const standIn = await standInHelper(script);
  const processes = new Processes(8);
  const helper = new ProcessHelper({
    reach: directReach(standIn.path),
    processes,
    clock: systemClock,
    idleMs,
  });
  return {
    helper,
    processes,
    standIn,
    async [Symbol.asyncDispose]() {
      await helper[Symbol.asyncDispose]();
      await standIn[Symbol.asyncDispose]();
    },
  };
}

const failureOf = (promise: Promise<unknown>): Promise<HelperError> =>
  promise.then(
    () => Promise.reject(new Error('it did not fail')),
    (error: unknown) => (error instanceof HelperError ? error : Promise.reject(error)),
  );

const gone = async (pid: number) => (await startTicks(pid)) === undefined;

describe('the kept process', () => {
  it('answers many requests, one after the other, in the order of asking', async () => {
    await using world = await helperOf('while :; do answer "row"; done');
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) => world.helper.ask(`word${index} a=1`)),
    );
    expect(answers.map(({ rows }) => rows)).toEqual(Array.from({ length: 20 }, () => [['row']]));
    expect(await world.standIn.started()).toHaveLength(1);
    expect(world.processes.gate.inside).toBe(0);
  });

  it('is ended when nobody has asked for a while, and started again by the next request', async () => {
    await using world = await helperOf('while :; do answer "row"; done', 200);
    await world.helper.ask('snapshot');
    const [first = 0] = await world.standIn.started();
    await eventually(() => gone(first), 'the idle process to end');
    await world.helper.ask('snapshot');
    expect(await world.standIn.started()).toHaveLength(2);
  });

  it('that died between two requests is replaced without a failure', async () => {
    await using world = await helperOf('while :; do answer "row"; done');
    await world.helper.ask('snapshot');
    const [first = 0] = await world.standIn.started();
    process.kill(first, 'SIGKILL');
    await eventually(() => gone(first), 'it to die');
    const answer = await world.helper.ask('snapshot');
    expect(answer.rows).toEqual([['row']]);
  });

  it('that stalls is ended by KILL where TERM is not enough, and never stands beside its successor', async () => {
    await using world = await helperOf(
      `trap '' TERM; [ -e "$0.second" ] && while :; do answer "row"; done; : > "$0.second"; request; while :; do sleep 0.05; done`,
    );
    const at = performance.now();
    const failure = await failureOf(world.helper.ask('snapshot', { deadlineMs: 300 }));
    expect(failure.reason).toBe('TIMEOUT');
    expect(performance.now() - at).toBeLessThan(2_000);
    const answer = await world.helper.ask('snapshot', { pastBackOff: true });
    expect(answer.rows).toEqual([['row']]);
    const [first = 0, second] = await world.standIn.started();
    expect(await gone(first)).toBe(true);
    expect(second).toBeDefined();
  });

  it('is not started again and again while it fails, but for who has a pause of his own', async () => {
    await using world = await helperOf('request; echo broken >&2; exit 9');
    const failure = await failureOf(world.helper.ask('snapshot'));
    expect(failure.reason).toBe('HELPER_FAILED');
    expect(failure.message).toContain('exit status 9');
    expect(failure.message).toContain('broken');
    for (let again = 0; again < 50; again++) await failureOf(world.helper.ask('capture'));
    expect(await world.standIn.started()).toHaveLength(1);
    await failureOf(world.helper.ask('snapshot', { pastBackOff: true }));
    expect(await world.standIn.started()).toHaveLength(2);
  });

  it('serves the next request after one that nobody waits for any more', async () => {
    await using world = await helperOf('answer "one"; sleep 0.3; answer "two"; answer "three"');
    await world.helper.ask('snapshot');
    const abort = new AbortController();
    const left = world.helper.ask('capture', { signal: abort.signal });
    abort.abort(new Error('left'));
    await expect(left).rejects.toThrow('left');
    expect((await world.helper.ask('capture')).rows).toEqual([['three']]);
  });
});

describe('reads that wait', () => {
  it('are overtaken by a snapshot, and refused at once where too many wait', async () => {
    await using world = await helperOf('while :; do answer "row"; done');
    const order: string[] = [];
    const captures = Array.from({ length: 300 }, (_, pane) =>
      world.helper.ask(`capture pane=${pane}`).then(
        () => order.push('capture'),
        (error: unknown) => error,
      ),
    );
    await world.helper.ask('snapshot');
    // The one that was under way when it was asked for.
    expect(order.length).toBeLessThanOrEqual(1);
    const refused = (await Promise.all(captures)).filter((answer) => typeof answer !== 'number');
    expect(refused).toHaveLength(300 - 65);
    expect(refused[0]).toBeInstanceOf(HelperError);
    expect(refused[0]).toMatchObject({
      reason: 'TIMEOUT',
      message: "64 reads wait for this member's helper already. Ask again later",
    });
    expect((await world.helper.ask('capture pane=1')).rows).toEqual([['row']]);
  });

  it('never have a snapshot refused', async () => {
    await using world = await helperOf('while :; do answer "row"; done');
    const captures = Array.from({ length: 65 }, (_, pane) => world.helper.ask(`capture a=${pane}`));
    await Promise.all([world.helper.ask('snapshot a=1'), world.helper.ask('snapshot a=2')]);
    await Promise.all(captures);
  });

  it('are sent once where they are equal, and each asker may leave alone', async () => {
    await using world = await helperOf(
      'count=0; while :; do count=$((count + 1)); answer "$count"; done',
    );
    const abort = new AbortController();
    const first = world.helper.ask('display');
    const left = world.helper.ask('capture pane=1', { signal: abort.signal });
    const stayed = Array.from({ length: 100 }, () => world.helper.ask('capture pane=1'));
    const other = world.helper.ask('capture pane=2');
    abort.abort(new Error('left'));
    await expect(left).rejects.toThrow('left');
    expect((await first).rows).toEqual([['1']]);
    expect(new Set((await Promise.all(stayed)).map(({ rows }) => String(rows)))).toEqual(
      new Set(['2']),
    );
    expect((await other).rows).toEqual([['3']]);
  });

  it('make place when their askers leave', async () => {
    await using world = await helperOf('answer "one"; sleep 0.3; while :; do answer "row"; done');
    const busy = world.helper.ask('display');
    const abort = new AbortController();
    const left = Array.from({ length: 64 }, (_, pane) =>
      world.helper.ask(`capture pane=${pane}`, { signal: abort.signal }),
    );
    const all = Promise.allSettled(left);
    expect((await failureOf(world.helper.ask('capture pane=64'))).reason).toBe('TIMEOUT');
    abort.abort(new Error('left'));
    expect((await all).every(({ status }) => status === 'rejected')).toBe(true);
    expect((await world.helper.ask('capture pane=64')).rows).toEqual([['row']]);
    await busy;
  });
});

describe('an answer', () => {
  const odd: Readonly<Record<string, string>> = {
    'with another number': `request; printf 'begin\\t7\\tsnapshot\\nend\\t7\\t0\\t0\\n'; sleep 9`,
    'with another name': `request; printf 'begin\\t1\\tcapture\\nend\\t1\\t0\\t0\\n'; sleep 9`,
    'with fewer rows than its end says': `request; printf 'begin\\t1\\tsnapshot\\na\\nend\\t1\\t2\\t4\\n'; sleep 9`,
    'with more bytes than its end says': `request; printf 'begin\\t1\\tsnapshot\\nabc\\nend\\t1\\t1\\t2\\n'; sleep 9`,
    'with words before it': `request; printf 'hello\\nbegin\\t1\\tsnapshot\\nend\\t1\\t0\\t0\\n'; sleep 9`,
  };
  it.each(Object.entries(odd))('%s is not believed', async (_, script) => {
    await using world = await helperOf(script);
    const failure = await failureOf(world.helper.ask('snapshot'));
    expect(failure.reason).toBe('MALFORMED_ANSWER');
    const [pid = 0] = await world.standIn.started();
    await eventually(() => gone(pid), 'the odd process to end');
  });

  it('without an end record is none, also when the process ends well', async () => {
    await using world = await helperOf(`request; printf 'begin\\t1\\tsnapshot\\nrow\\n'; exit 0`);
    expect((await failureOf(world.helper.ask('snapshot'))).reason).toBe('HELPER_FAILED');
  });

  it('that never ends is cut off at 1 MiB', async () => {
    await using world = await helperOf('request; yes 0123456789012345678901234567890123456789');
    const failure = await failureOf(world.helper.ask('snapshot', { deadlineMs: 10_000 }));
    expect(failure.reason).toBe('OUTPUT_TOO_LARGE');
    const [pid = 0] = await world.standIn.started();
    await eventually(() => gone(pid), 'the flooding process to end');
  });

  it('with a fail line is a failure of the request, not of the helper', async () => {
    await using world = await helperOf(
      `while request; do printf 'begin\\t%s\\t%s\\nfail\\tESTALE\\tgone\\nend\\t%s\\t1\\t17\\n' "$sequence" "$name" "$sequence"; done`,
    );
    const answer = await world.helper.ask('capture');
    expect(answer).toMatchObject({ rows: [], failure: { code: 'ESTALE', detail: 'gone' } });
    await world.helper.ask('capture');
    expect(await world.standIn.started()).toHaveLength(1);
  });
});

describe('an act', () => {
  it('is a process of its own, over when its answer is there though a grandchild holds its output', async () => {
    await using world = await helperOf(
      `[ "$1" = act ] || exit 9; sleep 1000 & echo $! > "$0.beside"; answer "sent"; exit 0`,
    );
    const answer = await world.helper.act('signal pid=1 ticks=1 signal=term');
    expect(answer.rows).toEqual([['sent']]);
    const beside = Number(await readFile(`${world.standIn.path}.beside`, 'utf8'));
    expect(await gone(beside)).toBe(false);
    process.kill(beside, 'SIGKILL');
  });

  it('gets its plan as bytes after the request', async () => {
    await using world = await helperOf(
      `request; plan=$(cat); printf 'begin\\t1\\tstart\\n%s\\nend\\t1\\t1\\t%s\\n' "$plan" $((\${#plan} + 1))`,
    );
    const answer = await world.helper.start('start bytes=5', Buffer.from('hello'));
    expect(answer.rows).toEqual([['hello']]);
  });

  it('that does not answer in time is ended and may have happened', async () => {
    await using world = await helperOf('request; sleep 60');
    const failure = await failureOf(world.helper.act('kill-server', { deadlineMs: 200 }));
    expect(failure.reason).toBe('TIMEOUT');
    const [pid = 0] = await world.standIn.started();
    await eventually(() => gone(pid), 'the slow act to end');
  });
});

describe('a control client', () => {
  it('is handed over after its ready line, with every byte that came along', async () => {
    await using world = await helperOf(
      `request; printf 'ready\\t4711\\t3.3a\\nfirst\\n'; read -r line; printf 'got %s\\n' "$line"; cat > /dev/null`,
    );
    const abort = new AbortController();
    await using connection = await world.helper.control('control session=0', abort.signal);
    expect(connection).toMatchObject({ pid: 4711, version: '3.3a' });
    let text = '';
    connection.output.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    connection.input.write('hello\n');
    await eventually(() => text === 'first\ngot hello\n', 'both lines');
    expect(world.processes.gate.inside).toBe(0);
    abort.abort();
    await connection.ended;
  });

  it('that is refused tells the code', async () => {
    await using world = await helperOf(
      `request; printf 'begin\\t1\\tcontrol\\nfail\\tESTALE\\tanother life\\nend\\t1\\t1\\t26\\n'`,
    );
    const failure = await failureOf(world.helper.control('control', new AbortController().signal));
    expect(failure).toMatchObject({ code: 'ESTALE', reason: 'HELPER_FAILED' });
  });
});

describe('a helper', () => {
  it('that is not there is HELPER_MISSING', async () => {
    await using helper = new ProcessHelper({
      reach: directReach('/nowhere/helper'),
      processes: new Processes(8),
      clock: systemClock,
      idleMs: 1_000,
    });
    expect((await failureOf(helper.ask('snapshot'))).reason).toBe('HELPER_MISSING');
  });

  it('leaves no process behind when it is closed, and answers nobody from then on', async () => {
    const world = await helperOf(`trap '' TERM; answer "row"; request; sleep 60`);
    await world.helper.ask('snapshot');
    const waiting = failureOf(world.helper.ask('snapshot'));
    await wait(50);
    await world.helper[Symbol.asyncDispose]();
    await waiting;
    for (const pid of await world.standIn.started()) expect(await gone(pid)).toBe(true);
    expect((await failureOf(world.helper.ask('snapshot'))).reason).toBe('HELPER_FAILED');
    await world.standIn[Symbol.asyncDispose]();
  });

  it('of a failing member takes one place of all, however many fail', async () => {
    await using hanging = await standInHelper('request; sleep 60');
    await using fine = await standInHelper('while :; do answer "row"; done');
    const processes = new Processes(2);
    const options = { processes, clock: systemClock, idleMs: 60_000 };
    const bad = Array.from(
      { length: 3 },
      () => new ProcessHelper({ ...options, reach: directReach(hanging.path) }),
    );
    await using good = new ProcessHelper({ ...options, reach: directReach(fine.path) });
    const ask = (helper: ProcessHelper, deadlineMs: number) =>
      failureOf(helper.ask('snapshot', { deadlineMs, pastBackOff: true }));
    for (const helper of bad) await ask(helper, 400);
    let failed = 0;
    const failures = bad.map((helper) => ask(helper, 30_000).then(() => (failed += 1)));
    await eventually(() => processes.gate.waiting === 2, 'two wait for the one place');
    await good.ask('snapshot');
    expect([failed, processes.gate.waiting]).toEqual([0, 2]);
    await Promise.all(bad.map((helper) => helper[Symbol.asyncDispose]()));
    await Promise.all(failures);
  });
});
