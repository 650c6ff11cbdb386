import { ownUser } from '../auth/bootstrap.ts';
import type { Config } from '../config.ts';
import { loginFor } from '../members/login.ts';
import type { Member } from '../members/member.ts';
import { MemberNotFoundError } from '../members/members.ts';
import { CommandError } from './command.ts';

/** @throws MemberNotFoundError */
export function memberNamed(all: readonly Member[], login: string): Member {
  const found = all.find((member) => member.login === login);
  if (found === undefined) throw new MemberNotFoundError(login);
  return found;
}

/** The member that stands for whoever runs this. @throws CommandError that ends with `remedy` */
export function ownMember(
  all: readonly Member[],
  { mode }: Pick<Config, 'mode'>,
  remedy: string,
): Member {
  const user = ownUser();
  const found =
    all.find((member) => member.osUser === user) ??
    (mode === 'system' ? all.find(({ login }) => login === loginFor(user)) : undefined);
  if (found !== undefined) return found;
  throw new CommandError(`No member stands for the Linux user ${user}. ${remedy}`);
}
