import { describe, expect, it } from 'vitest';
import { helperFailure } from '../../../src/tmux/helper/helper-failure.ts';
import { directReach, sudoReach } from '../../../src/tmux/helper/reach.ts';

const exit = { code: 1, signal: null, startFailure: null };

describe('the way to a member', () => {
  it('is the helper and its verb alone', () => {
    expect(directReach('/opt/h')('serve')).toMatchObject({ file: '/opt/h', args: ['serve'] });
  });

  it('through sudo goes by a second name for what changes something', () => {
    const reach = sudoReach('/opt/h', 'alice');
    const args = (['serve', 'control', 'act', 'start'] as const).map((verb) => reach(verb).args);
    expect(args).toEqual([
      ['-n', '-u', 'alice', '/opt/h', 'serve'],
      ['-n', '-u', 'alice', '/opt/h', 'control'],
      ['-n', '-u', 'alice', '/opt/h-act', 'act'],
      ['-n', '-u', 'alice', '/opt/h-act', 'start'],
    ]);
  });

  it('carries no setting of the service', () => {
    expect(Object.keys(sudoReach('/opt/h', 'alice')('serve').environment)).toEqual([
      'PATH',
      'LANG',
    ]);
  });
});

describe('a helper that ended without an answer', () => {
  const sudo = sudoReach('/opt/h', 'alice')('serve');

  it.each([
    ['sudo: a password is required', 'EACCES'],
    ['Sorry, user svc is not allowed to execute /opt/h serve as alice on host.', 'EACCES'],
    ['svc is not in the sudoers file.', 'EACCES'],
    ['sudo: /opt/h: command not found', 'HELPER_MISSING'],
    ['sudo: unknown user alice', 'HELPER_FAILED'],
    ['', 'HELPER_FAILED'],
  ])('by sudo, which says "%s", is %s', (words, reason) => {
    const failure = helperFailure(sudo, exit, words);
    expect(failure.reason).toBe(reason);
    expect(failure.message).toContain(words);
  });

  it('or was never started, says which part is missing', () => {
    const missing = { code: null, signal: null, startFailure: 'ENOENT' };
    expect(helperFailure(sudo, missing, '').message).toContain('sudo is not installed');
    const direct = directReach('/opt/h')('serve');
    expect(helperFailure(direct, missing, '').reason).toBe('HELPER_MISSING');
    expect(helperFailure(direct, { ...missing, startFailure: 'EACCES' }, '').reason).toBe(
      'HELPER_FAILED',
    );
  });

  it('is quoted with its words bounded and harmless', () => {
    const direct = directReach('/opt/h')('serve');
    const hostile = `\u001b]52;c;aGk=\u0007${'x'.repeat(5_000)}`;
    const { message } = helperFailure(direct, { ...exit, code: 9 }, hostile);
    expect(message).not.toMatch(/[\u0000-\u001f]/);
    expect(message.length).toBeLessThan(500);
  });
});
