import type { Config } from '../config.ts';
import type { Problem } from './fleet.ts';
import type { InstalledTmux } from './member-tmux.ts';
import type { MemberListing } from './model.ts';

export interface Findings {
  readonly config: Config;
  readonly asRoot: boolean;
  /** Undefined while nobody has looked. */
  readonly helperIsThere: boolean | undefined;
  readonly installedTmux: InstalledTmux | undefined;
  readonly tmuxWasLookedFor: boolean;
  /** Why no tools of these members can report. */
  readonly hooks: readonly { readonly memberId: string; readonly why: string }[];
  readonly listings: readonly MemberListing[];
}

/** What an operator should put right, of the machine first, then of members. */
export function problemsOf(findings: Findings): readonly Problem[] {
  const { config, asRoot, installedTmux, tmuxWasLookedFor, listings } = findings;
  const problems: Problem[] = [];
  const add = (code: string, message: string, remedy: string, memberId: string | null = null) =>
    problems.push({ code, message, remedy, memberId });

  const missedBy = listings.some(({ status }) => status.reason === 'HELPER_MISSING');
  if (findings.helperIsThere === false || missedBy) {
    add(
      'HELPER_MISSING',
      `The helper can't be run at ${config.helper}, so no tmux can be asked.`,
      config.mode === 'system'
        ? 'Run muxwarden install-system as root, or set MUXWARDEN_HELPER. perl has to be installed.'
        : 'Set MUXWARDEN_HELPER to libexec/muxwarden-member of this version. perl has to be installed.',
    );
  }
  if (asRoot) {
    add(
      'RUNS_AS_ROOT',
      config.mode === 'local'
        ? 'The service runs as root, and so does its helper.'
        : 'The service runs as root, which system mode does not need.',
      config.mode === 'local'
        ? 'Run it as the user whose tmux it is to show.'
        : 'Run it as a service account without a shell; muxwarden install-system makes one.',
    );
  }
  if (tmuxWasLookedFor && installedTmux === undefined) {
    add(
      'TMUX_MISSING',
      `No tmux that runs was found (${config.tmuxBin}). Servers that run already are shown; none can be started.`,
      'Install it: apt-get install tmux (Debian, Ubuntu), dnf install tmux (Fedora), apk add tmux (Alpine). Or set MUXWARDEN_TMUX_BIN.',
    );
  }
  for (const { memberId, status } of listings) {
    const { reason, detail } = status;
    if (reason !== 'EACCES' && reason !== 'HELPER_FAILED' && reason !== 'UNSAFE_DIRECTORY')
      continue;
    add(
      reason === 'UNSAFE_DIRECTORY' ? 'UNSAFE_DIRECTORY' : 'MEMBER_UNREACHABLE',
      `The tmux of this member can't be looked at: ${detail ?? reason}.`,
      reason === 'UNSAFE_DIRECTORY'
        ? 'Each directory on the way has to be the member’s or root’s, and not writable by others.'
        : 'Check the member’s Linux user, its membership in the members’ group and the sudoers rule: muxwarden doctor.',
      memberId,
    );
  }
  for (const { memberId, why } of findings.hooks) {
    add(
      'HOOKS_UNAVAILABLE',
      `Tools of this member can't report: ${why}.`,
      'docs/hooks.md says whose the folder is to be. Nothing else is missing without it.',
      memberId,
    );
  }
  return problems;
}
