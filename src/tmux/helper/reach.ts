import type { Command } from './process.ts';

/** The verbs of the helper, each its whole command line. */
export type Verb = 'serve' | 'act' | 'start' | 'control';

/** How one member's helper is started: the only difference between the modes. */
export type Reach = (verb: Verb) => Command;

/**
 * What the helper and, in local mode, everything it starts inherits: nothing of the service's own
 * settings, keys or `TMUX*`. The helper builds the member's environment itself.
 */
const environment = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LANG: 'C.UTF-8',
} as const;

/** The helper as the service's own user. */
export function directReach(helper: string): Reach {
  return (verb) => ({ file: helper, args: [verb], environment });
}

/**
 * The helper as the member. What changes something goes by the second name of the file, for which
 * sudo keeps a record of its own.
 */
export function sudoReach(helper: string, osUser: string): Reach {
  return (verb) => {
    const file = verb === 'act' || verb === 'start' ? `${helper}-act` : helper;
    return { file: 'sudo', args: ['-n', '-u', osUser, file, verb], environment };
  };
}

/** The program that makes accounts, as root: a rule of sudo of its own, which is there or not. */
export function provisionReach(program: string, verb: string): Command {
  return { file: 'sudo', args: ['-n', '-u', 'root', program, verb], environment };
}
