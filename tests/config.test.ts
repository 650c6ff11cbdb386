import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { ConfigError, limitsOf, otherNames, readConfig, unknownSettings } from '../src/config.ts';

const read = (environment: NodeJS.ProcessEnv = {}) =>
  readConfig({ HOME: '/home/alice', ...environment });

const manyNames = Array.from({ length: 41 }, (_, number) => `agent-${1_000 + number}`).join();

describe('the configuration', () => {
  it('has a default for everything, and is frozen', () => {
    const config = readConfig({ HOME: '/home/alice' });
    expect(config).toMatchObject({
      host: '127.0.0.1',
      port: 4000,
      stateDir: '/home/alice/.local/state/muxwarden',
      databaseUrl: undefined,
      mode: 'local',
      socketDirs: ['/tmp/tmux-$UID', '/home/alice/.local/state/muxwarden/tmux'],
      tmuxBin: 'tmux',
    });
    expect(Object.isFrozen(config)).toBe(true);
    expect(limitsOf(config)).toContainEqual({ name: 'MUXWARDEN_MAX_DEPTH', value: 12 });
  });

  it('works in an empty environment', () => {
    expect(readConfig({}).stateDir).toMatch(/^\/.*\/\.local\/state\/muxwarden$/);
  });

  it('takes a name that is set to nothing as not set', () => {
    expect(read({ MUXWARDEN_PORT: '', DATABASE_URL: '', MUXWARDEN_MODE: '' })).toEqual(read());
  });

  it('follows XDG_STATE_HOME and TMUX_TMPDIR', () => {
    const config = read({ XDG_STATE_HOME: '/var/state', TMUX_TMPDIR: '/run/tmux' });
    expect(config.stateDir).toBe('/var/state/muxwarden');
    expect(config.socketDirs[0]).toBe('/run/tmux/tmux-$UID');
  });

  it('looks only where members put their sockets themselves in system mode', () => {
    expect(read({ MUXWARDEN_MODE: 'system' }).socketDirs).toEqual(['/tmp/tmux-$UID']);
    expect(read({ MUXWARDEN_SOCKET_DIRS: '/run/a:$HOME/b' }).socketDirs).toEqual([
      '/run/a',
      '$HOME/b',
    ]);
  });

  it('takes agents by their kind, or by the names that a kind goes by', () => {
    expect([...read({ MUXWARDEN_AGENTS: ' mine , c=claude|claude-code' }).agents]).toEqual([
      ['mine', 'mine'],
      ['claude', 'c'],
      ['claude-code', 'c'],
    ]);
    expect(read().agents.get('gemini-cli')).toBe('gemini');
    expect(read().agents.get('aider')).toBe('aider');
  });

  it.each([
    [
      { MUXWARDEN_PORT: '65536' },
      /^MUXWARDEN_PORT can't be used: it takes a whole number from 0 to 65535\.$/,
    ],
    [{ MUXWARDEN_PORT: '80a' }, /MUXWARDEN_PORT.*whole number/],
    [{ MUXWARDEN_MODE: 'remote' }, /MUXWARDEN_MODE.*local.*system/],
    [{ MUXWARDEN_SOCKET_DIRS: 'relative' }, /MUXWARDEN_SOCKET_DIRS.*absolute.*'relative'/],
    [
      { MUXWARDEN_PUBLIC_URL: 'example.org' },
      /^MUXWARDEN_PUBLIC_URL can't be used: it takes a URL like https:/,
    ],
    [{ MUXWARDEN_AGENTS: 'claude,bad name' }, /MUXWARDEN_AGENTS.*'bad name'.*kind=name/],
    [{ MUXWARDEN_AGENTS: 'a=b=c' }, /MUXWARDEN_AGENTS.*'a=b=c'/],
    [{ MUXWARDEN_AGENTS: 'a=b|' }, /MUXWARDEN_AGENTS.*'a=b\|'/],
    [{ MUXWARDEN_AGENTS: 'x'.repeat(33) }, /MUXWARDEN_AGENTS/],
    [{ MUXWARDEN_AGENTS: manyNames }, /MUXWARDEN_AGENTS.*400 letters/],
    [{ DATABASE_URL: 'mysql://u:secret-word@h/d' }, /DATABASE_URL/],
    [
      { DATABASE_URL: 'postgres://u:secret-word@h:port/d' },
      /^DATABASE_URL can't be used: it takes a URL like postgres:\/\/user:password@host:5432\/database\.$/,
    ],
    [{ MUXWARDEN_HOST: '  ' }, /^MUXWARDEN_HOST can't be used: it is empty\.$/],
  ])('names the setting that can not be used: %j', (environment, message) => {
    const refused = () => read(environment);
    expect(refused).toThrow(ConfigError);
    expect(refused).toThrow(message);
    expect(refused).not.toThrow(/secret-word/);
  });

  it('is written down whole, with the defaults as they are', async () => {
    const page = await readFile(new URL('../docs/configuration.md', import.meta.url), 'utf8');
    for (const name of otherNames) expect(page).toContain(`| \`${name}\` |`);
    for (const { name, value } of limitsOf(read())) {
      expect(page).toMatch(new RegExp(`\\| \`${name}\` \\|.*\\| \`?${value}\`? \\|`));
    }
  });

  it('knows which names are mistyped', () => {
    expect(
      unknownSettings({
        MUXWARDEN_PROT: '1',
        MUXWARDEN_PORT: '1',
        MUXWARDEN_MAX_DEPTH: '3',
        MUXWARDEN_TEST_TIER: 'long',
        PATH: '/bin',
      }),
    ).toEqual(['MUXWARDEN_PROT']);
  });
});
