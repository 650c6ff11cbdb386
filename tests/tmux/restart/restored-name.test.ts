import { describe, expect, it } from 'vitest';
import { restoredName } from '../../../src/tmux/restart/restored-name.ts';
import { presentVersions, startTmux } from '../../support/tmux-server.ts';

const hex = (text: string) => Buffer.from(text, 'utf8').toString('hex');
const text = (bytes: string) => Buffer.from(bytes, 'hex').toString('utf8');

// Each as a member might type it; `##` is how a format is told to mean `#`.
const typed = [
  'plain',
  'é世🙂',
  'back\\slash',
  '\\',
  'a\\nb',
  '\\\\',
  '##(touch x)',
  'q\'uo"te;x',
  '$1',
  'cost$HOME',
  '$_x$' + '{y}$',
  'a\\$HOME',
  '-h',
  'a|b c',
];

describe.each(presentVersions)('a name stored by tmux %s', (version) => {
  it.each(['session', 'window'] as const)('is stored as the same %s name again', async (kind) => {
    await using server = await startTmux({ version });
    const target = '$0:';
    const command = kind === 'session' ? 'rename-session' : 'rename-window';
    const rename = (name: string) =>
      server.run(
        command,
        '-t',
        target,
        '--',
        name,
        ';',
        'display-message',
        '-p',
        '-t',
        target,
        `#{${kind}_name}`,
      );
    for (const name of typed) {
      const before = await rename(name);
      const again = text(restoredName(hex(before), kind, version, version));
      expect(await rename(again.replaceAll('#', '##')), JSON.stringify(name)).toBe(before);
    }
  });
});

describe('a name that the new version would refuse', () => {
  it('is spelt out rather than lost', () => {
    // 3.5 stored a typed newline and a broken byte as escapes; 3.7 takes neither raw.
    expect(text(restoredName(hex('a\\nb\\377'), 'session', '3.5a', '3.7c'))).toBe('a\\nb?');
    expect(text(restoredName(hex('a\\nb'), 'session', '3.5a', '3.3a'))).toBe('a\nb');
    expect(text(restoredName(hex('a.b:c'), 'session', '3.8', '3.1c'))).toBe('a_b_c');
    expect(text(restoredName(hex('a.b:c'), 'window', '3.8', '3.1c'))).toBe('a.b:c');
    expect(text(restoredName('61ff0a', 'session', '3.1c', '3.8'))).toBe('a?\\n');
  });
});
