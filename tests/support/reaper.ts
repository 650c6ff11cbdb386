import { type ChildProcess, spawn } from 'node:child_process';

/**
 * A test process that is killed disposes of nothing, and a tmux server that it leaves behind may hold
 * a pane that prints for ever. So a companion of each test process waits for its end, and then ends
 * the tmux servers on the sockets that it was told of, also those that the code under test started.
 */
export function endServersWithThisProcess(socket: string): void {
  companion ??= start();
  companion.stdin?.write(`${socket}\n`);
}

let companion: ChildProcess | undefined;

function start(): ChildProcess {
  // A group of its own: whoever ends the tests by their group must not end it too.
  const child = spawn('perl', ['-e', waitAndEnd], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  child.unref();
  const input: unknown = child.stdin;
  if (input !== null && typeof input === 'object' && 'unref' in input) {
    if (typeof input.unref === 'function') input.unref();
  }
  return child;
}

const waitAndEnd = String.raw`
  while (<STDIN>) { chomp; $ours{$_} = 1 }
  for my $pid (map { m{(\d+)} ? $1 : () } glob '/proc/[0-9]*') {
    open my $comm, '<', "/proc/$pid/comm" or next;
    next if (<$comm> // '') ne "tmux: server\n";
    open my $line, '<', "/proc/$pid/cmdline" or next;
    my @words = split /\0/, <$line> // '';
    kill 'KILL', $pid if grep { $ours{$_} } @words;
  }
`;
