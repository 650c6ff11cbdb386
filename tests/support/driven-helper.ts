import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { helperPath } from './helper-client.ts';
import { scratchDirectory } from './scratch.ts';

export interface DrivenInput {
  readonly verb: 'serve' | 'act' | 'start';
  readonly bytes: Buffer;
}

export interface DrivenHelper extends AsyncDisposable {
  /** How it ends for each input: its status and its last words. */
  run(inputs: readonly DrivenInput[]): Promise<readonly string[]>;
}

/**
 * The helper as it is, but for its end and its input: one process reads one input after the other, each
 * in pieces of its own, as a process of its own would. What a request does it does not do.
 */
export async function drivenHelper(): Promise<DrivenHelper> {
  const folder = await scratchDirectory();
  const [driver, inputFile] = [join(folder.path, 'driver'), join(folder.path, 'inputs')];
  await writeFile(driver, await driverOf());
  return {
    async run(inputs) {
      const lines = inputs.map(({ verb, bytes }) => `${verb} ${bytes.toString('hex')}\n`);
      await writeFile(inputFile, lines.join(''));
      const { stdout, stderr } = await execa('perl', [driver, 'serve', inputFile], {
        env: { PATH: '/usr/bin:/bin' },
        extendEnv: false,
        maxBuffer: 1 << 30,
      });
      const ends = stdout.split('\n');
      if (stderr !== '' || ends.length !== inputs.length)
        throw new Error(`${ends.length} ends of ${inputs.length} inputs; ${stderr}`);
      return ends;
    },
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

async function driverOf(): Promise<string> {
  const source = await readFile(helperPath, 'utf8');
  const end = '\n$verbs{ $ARGV[0] }->();\nexit 0;\n';
  if (!source.endsWith(end)) throw new Error('the helper ends in another way');
  return `
    BEGIN {
        $main::file = pop @ARGV;
        *CORE::GLOBAL::exit = sub { die bless [$_[0] // 0, ''], q(Left) };
        *CORE::GLOBAL::sysread = sub (*\\$$;$) {
            my ($handle, $into, $most, $at) = @_;
            die "reads $handle" if $handle !~ /\\bSTDIN\\z/;
            my $piece = 1 + (length($main::coming) >> 1);
            substr $$into, $at // 0, length $$into, substr $main::coming, 0, $most < $piece ? $most : $piece, '';
            return length($$into) - ($at // 0);
        };
    }
${source.slice(0, -end.length)}
    { no strict 'refs'; no warnings;
      *{"main::$_"} = sub { return } for grep { /\\A(?:act|request)_|\\A(?:limit|start_in_own_unit|begin_starter)\\z/ } keys %main::;
      *main::request_start = sub { read_plan($_[0]{bytes}); return };
      *main::leave = sub { die bless [$_[0], "muxwarden-member: $_[1]"], q(Left) }; }
    open my $inputs, '<', $main::file or die;
    open my $told, '>&', \\*STDOUT or die;
    open STDOUT, '>', '/dev/null' or die;
    $SIG{__WARN__} = sub { die $_[0] };
    while (my $line = <$inputs>) {
        chop $line;
        (my $verb, $main::coming) = split / /, $line;
        $main::coming = pack 'H*', $main::coming // '';
        @ARGV = ($verb); $input = ''; alarm 0;
        my ($status, $said) = eval { $verbs{$verb}->(); 1 } ? (0, '') : ref $@ eq 'Left' ? @{$@} : ("died: $@", '');
        print {$told} "$status $said" =~ s/\\n/ /gr, "\\n";
    }
    close $told; POSIX::_exit(0);
  `;
}
