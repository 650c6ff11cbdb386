import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hex, rowsOf, ServingHelper } from '../../support/helper-client.ts';
import { stopProcess } from '../../support/stop-process.ts';
import { rounds } from '../../support/tier.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { eventually, type Version } from '../../support/tmux-server.ts';
import { Member, readSnapshot, type StartedServer } from './member.ts';

/** Looks after which a server that does nothing is asked no more: two of them ask it all the same. */
const looksToRest = 3;
const changesPerVersion = rounds(9, 400);
/** How many of the changes are such that the server does not run. */
const silentChanges = 4;
console.log(`at rest: ${changesPerVersion} changes by hand for each version`);

let member: Member;
beforeAll(async () => {
  member = await Member.any();
});
afterAll(() => member[Symbol.asyncDispose]());

describe.concurrent.each(presentClasses)('a tmux %s server', (version) => {
  it('that rests is not asked, and what is held of it equals what it would say, whatever was done to it', async () => {
    await using world = await World.start(version);
    const done: string[] = [];
    for (let round = 0; round < changesPerVersion; round++) {
      await world.rest();
      // First those of which tmux hears nothing, then all others, each time from another one on.
      const changes = Object.entries(world.changes);
      const loud = changes.slice(silentChanges);
      const [name, change] =
        (round < silentChanges ? changes[round] : loud[(round * 7 + world.seed) % loud.length]) ??
        [];
      if (name === undefined || change === undefined) throw new Error('no change');
      done.push(name);
      await change();
      await world.settled();
      const held = await world.look();
      const whole = await world.wholeLook();
      expect({ after: done.slice(-3), ...held.shown }).toEqual({
        after: done.slice(-3),
        ...whole.shown,
      });
    }
  }, 600_000);

  it('is asked again all the same after 1, 2, 4, 8 … looks, and by whoever holds no rows', async () => {
    await using world = await World.start(version);
    const rests = async () => {
      world.forget();
      const looks: number[] = [];
      for (let look = 0; look < 18; look++) {
        await world.settled();
        if ((await world.look()).code === 'SAME') looks.push(look);
      }
      return looks.join();
    };
    // Where the machine is so busy that the server does not come to sleep again in time, it does not rest.
    const wanted = '3,5,6,7,9,10,11,12,13,14,15,17';
    await eventually(async () => (await rests()) === wanted, 'the looks', 50_000);
    world.forget();
    expect((await world.look()).code).toBe('OK');
    world.claim('00ff');
    expect((await world.look()).code).toBe('OK');
  });
});

/** A server with three panes, a helper whose answers are kept, and each time another one that knows nothing yet. */
class World implements AsyncDisposable {
  readonly seed = Math.floor(Math.random() * 1_000);
  readonly #server: StartedServer;
  readonly #directory: string;
  readonly #kept = new ServingHelper(member.runner);
  readonly #clients: ReturnType<typeof spawn>[] = [];
  #held: string | undefined;
  #rows: readonly (readonly string[])[] | undefined;
  #count = 0;

  private constructor(server: StartedServer, directory: string) {
    this.#server = server;
    this.#directory = directory;
  }

  static async start(version: Version): Promise<World> {
    const directory = `${version}-${Math.random().toString(36).slice(2, 7)}`;
    await member.folder(directory);
    const server = await member.server(version, `${directory}/s`);
    await server.tmux('set-option', '-g', 'automatic-rename', 'off');
    await server.tmux('split-window', '-d', '-t', 'main:', silentProgram);
    await server.tmux('new-session', '-d', '-s', 'other', '-x', '80', '-y', '24', 'exec sh');
    return new World(server, member.path(directory));
  }

  readonly changes: Readonly<Record<string, () => Promise<unknown>>> = {
    nothing: async () => {},
    'a program that goes to another directory without a word': () => this.#signal('SIGUSR1'),
    'a program that becomes another without a word': () => this.#signal('SIGUSR2'),
    'a directory under another name': async () => {
      const [from, to] = [join(this.#directory, this.#name()), join(this.#directory, this.#name())];
      await mkdir(from, { mode: 0o755 });
      await this.#keys(`cd ${from}`);
      await this.rest();
      await rename(from, to);
    },
    'a new name of a window': () => this.#tmux('rename-window', '-t', 'other:', this.#name()),
    'cd in a shell': () => this.#keys(`cd /${['usr', 'tmp', 'var'][this.#count++ % 3]}`),
    'a split': () => this.#tmux('split-window', '-d', '-t', 'other:', 'exec sh'),
    'a title by hand': () => this.#tmux('select-pane', '-t', 'main:.0', '-T', this.#name()),
    'a title by the program': () => this.#keys(`printf '\\033]2;${this.#name()}\\007'`),
    'nothing, again': async () => {},
    'another active pane': () => this.#tmux('select-pane', '-t', 'main:.+'),
    'a job beside a shell': () => this.#keys('sleep 601 &'),
    'a program that its shell has left': () => this.#keys('(sleep 602 &)'),
    'a program that begins': () => this.#keys('sleep 600'),
    'a program that ends': () => this.#tmux('send-keys', '-t', 'other:', 'C-c'),
    'a client that comes': async () => {
      const { socket, tmux } = this.#server;
      const { uid, gid } = member.runner;
      const binary = await tmux('display-message', '-p', '#{pid}').then(
        (pid) => `/proc/${pid}/exe`,
      );
      const args = ['-u', '-S', socket, '-C', 'attach', '-t', 'main'];
      const client = spawn(binary, args, { uid, gid, env: { TERM: 'dumb' }, stdio: 'pipe' });
      client.stdout.resume();
      await once(client.stdout, 'data');
      this.#clients.push(client);
    },
    'a client that goes': async () => {
      const client = this.#clients.pop();
      client?.stdin?.end();
      if (client !== undefined) await once(client, 'exit');
    },
    'another size': () =>
      this.#tmux('resize-window', '-t', 'other:', '-x', String(60 + (this.#count++ % 40))),
    'an option': () => this.#tmux('set-option', '-g', '@agent_state', this.#name()),
    'a new window and its end': async () => {
      await this.#tmux('new-window', '-d', '-t', 'main:', 'exec sh');
      await this.#tmux('kill-window', '-t', 'main:{end}');
    },
    'a stopped server': async () => {
      await stopProcess(this.#server.pid);
      const [held, whole] = [await this.look(), await this.wholeLook()];
      expect([held.code, whole.code]).toEqual(['STOPPED', 'STOPPED']);
      process.kill(this.#server.pid, 'SIGCONT');
    },
  };

  /** Looks until it would not be asked, if nothing happened. */
  async rest(): Promise<void> {
    await this.settled();
    for (let look = 0; look < looksToRest; look++) {
      await this.look();
      await this.settled();
    }
  }

  /** Waits until nothing of the server has run for a moment. */
  async settled(): Promise<void> {
    let before = '';
    await eventually(
      async () => {
        await wait(80);
        const pids = await family(this.#server.pid);
        const now = (await Promise.all(pids.map((pid) => file(`/proc/${pid}/schedstat`)))).join();
        const same = now === before;
        before = now;
        return same;
      },
      'it rests',
      30_000,
    );
  }

  /** As the service looks: what is not told again is held. */
  async look(): Promise<Look> {
    const held = this.#held === undefined ? '' : ` held=${this.#held}`;
    const answer = await this.#kept.ask(`snapshot dirs=${hex(this.#directory)}${held}`);
    this.#held = rowsOf(answer, 'look')[0]?.[0];
    const server = readSnapshot(answer).server(this.#server.socket);
    if (server.code === 'TIMEOUT') return this.look();
    if (server.code !== 'SAME') this.#rows = server.rows;
    else expect(server.rows).toEqual([]);
    return { code: server.code, shown: shown(server, this.#rows ?? []) };
  }

  async wholeLook(): Promise<Look> {
    await using other = new ServingHelper(member.runner);
    const answer = await other.ask(`snapshot dirs=${hex(this.#directory)}`);
    const server = readSnapshot(answer).server(this.#server.socket);
    if (server.code === 'TIMEOUT') return this.wholeLook();
    return { code: server.code, shown: shown(server, server.rows) };
  }

  forget(): void {
    this.#held = undefined;
  }
  claim(look: string): void {
    this.#held = look;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.stdin?.end();
    await this.#kept[Symbol.asyncDispose]();
    await this.#server[Symbol.asyncDispose]();
  }

  #name(): string {
    return `n${this.#count++}`;
  }
  #tmux(...command: readonly string[]): Promise<string> {
    return this.#server.tmux(...command);
  }
  #keys(line: string): Promise<string> {
    return this.#tmux('send-keys', '-t', 'other:', line, 'Enter');
  }
  async #signal(signal: 'SIGUSR1' | 'SIGUSR2'): Promise<void> {
    const pid = Number(await this.#tmux('display-message', '-p', '-t', 'main:0.1', '#{pane_pid}'));
    await this.rest();
    process.kill(pid, signal);
  }
}

/** On SIGUSR1 it goes elsewhere, on SIGUSR2 it becomes a program of another name; it writes nothing. */
const silentProgram = `exec perl -e '$SIG{USR1} = sub { chdir((qw(/ /usr /var /etc))[$n++ % 4]) }; $SIG{USR2} = sub { exec "sleep", 10000 + $$ }; sleep 1 while 1 + sleep 100000'`;

interface Look {
  readonly code: string;
  readonly shown: ReturnType<typeof shown>;
}

function shown(
  {
    pid,
    ticks,
    deleted,
    version,
    binary,
    detail,
  }: ReturnType<typeof readSnapshot>['servers'][number],
  rows: readonly (readonly string[])[],
) {
  return { pid, ticks, deleted, version, binary, detail, rows };
}

/** It, and all that descends from it. */
async function family(pid: number): Promise<readonly number[]> {
  const children = (await file(`/proc/${pid}/task/${pid}/children`)).split(' ').filter(Boolean);
  return [pid, ...(await Promise.all(children.map((child) => family(Number(child))))).flat()];
}

async function file(path: string): Promise<string> {
  return await readFile(path, 'utf8').catch(() => '');
}
