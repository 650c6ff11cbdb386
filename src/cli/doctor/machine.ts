import { readFile } from 'node:fs/promises';
import { execa } from 'execa';
import { type Config, unknownSettings } from '../../config.ts';
import { trustedProxies } from '../../server/origin.ts';
import { ifThere } from '../../system-error.ts';
import { parseVersionLine } from '../../tmux/tmux-version.ts';
import { versionLimits } from '../../tmux/version-limits.ts';
import { bad, type Check, good } from './check.ts';

/** Node.js, the settings, and the programs of the system. */
export async function* machineChecks(
  config: Config,
  environment: NodeJS.ProcessEnv,
): AsyncIterable<Check> {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  yield major > 24 || (major === 24 && minor >= 7)
    ? good('Node.js', process.versions.node)
    : bad('Node.js', `${process.versions.node}, and 24.7 is needed`, 'Install Node.js 24.');
  const unknown = unknownSettings(environment);
  yield unknown.length === 0
    ? good('settings', `${config.mode} mode; every MUXWARDEN_ name is known`)
    : bad('settings', `${unknown.join(', ')}: no such setting`, 'Correct the name, or unset it.');
  yield* proxies(config);
  yield withLimits(
    await program('tmux', [config.tmuxBin, '-V'], 'tmux', 'Or set MUXWARDEN_TMUX_BIN.'),
  );
  yield await program('perl', ['perl', '-e', 'printf "%vd", $^V'], 'perl', 'The helper needs it.');
  if (config.mode === 'system') {
    yield await program('sudo', ['sudo', '-V'], 'sudo', 'System mode reaches members by it.');
  }
}

/**
 * We speak no TLS ourselves, so behind an https address stands somebody who does; unless that is
 * known, all callers come from its one address, and share the tries of one place.
 */
function* proxies(config: Config): Iterable<Check> {
  const name = 'trusted proxies';
  const isBehindTls = config.publicUrl?.startsWith('https:') === true;
  if (!isBehindTls && config.trustedProxies.length === 0) return;
  try {
    trustedProxies(config);
  } catch (cause) {
    const [said = '', ...rest] = cause instanceof Error ? cause.message.split(': ') : [];
    yield bad(name, rest.join(': '), `Correct ${said}.`);
    return;
  }
  yield config.trustedProxies.length > 0
    ? good(name, config.trustedProxies.join(', '))
    : bad(
        name,
        'MUXWARDEN_PUBLIC_URL is https, so a proxy stands in front, and none is trusted: everybody comes from its address',
        'Set MUXWARDEN_TRUSTED_PROXIES to the addresses from which it connects.',
      );
}

/** An old tmux is all right; what goes without on it is said. */
function withLimits(check: Check): Check {
  const limits = check.ok ? versionLimits(parseVersionLine(check.detail) ?? '') : [];
  return { ...check, detail: [check.detail, ...limits].join('; ') };
}

async function program(
  name: string,
  [file = '', ...words]: readonly string[],
  packageName: string,
  more: string,
): Promise<Check> {
  const result = await execa(file, words, { reject: false, timeout: 5_000, stdin: 'ignore' });
  if (result.exitCode === 0) return good(name, (result.stdout.split('\n')[0] ?? '').slice(0, 100));
  const detail =
    result.code === 'ENOENT'
      ? `'${file}' is not here`
      : `'${file}' does not run: ${(result.stderr || result.originalMessage || '').slice(0, 200)}`;
  return bad(name, detail, `Install it: ${await installCommand(packageName)}. ${more}`);
}

/** By the system's own package manager, as /etc/os-release names the system. */
export async function installCommand(packageName: string): Promise<string> {
  const release = (await ifThere(readFile('/etc/os-release', 'utf8'))) ?? '';
  const ids = [...release.matchAll(/^ID(?:_LIKE)?="?([^"\n]*)"?$/gm)].flatMap(([, names = '']) =>
    names.split(' '),
  );
  const [, command = `by your system's package manager: ${packageName}`] =
    installers.find(([id]) => ids.includes(id)) ?? [];
  return command.replace('PACKAGE', packageName);
}

const installers: readonly (readonly [string, string])[] = [
  ['debian', 'apt-get install PACKAGE'],
  ['ubuntu', 'apt-get install PACKAGE'],
  ['alpine', 'apk add PACKAGE'],
  ['fedora', 'dnf install PACKAGE'],
  ['rhel', 'dnf install PACKAGE'],
  ['suse', 'zypper install PACKAGE'],
  ['arch', 'pacman -S PACKAGE'],
];
