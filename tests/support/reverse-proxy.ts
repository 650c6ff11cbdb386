import { access, mkdir, readFile, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { execa } from 'execa';
import { ifThere } from '../../src/system-error.ts';
import { freePort } from './postgres.ts';
import { eventually } from './tmux-server.ts';

/**
 * nginx and Caddy as docs/deployment.md configures them: what is printed there is what runs, but for
 * ports and the place of the certificate.
 */
export type ProxyKind = 'nginx' | 'caddy';

export interface ReverseProxy extends AsyncDisposable {
  readonly port: number;
  /** Of the authority that its certificate is signed by. */
  readonly ca: string;
}

/** The name that the documentation uses. */
export const publicName = 'mux.example.org';

export async function startProxy(
  kind: ProxyKind,
  upstream: number,
  folder: string,
): Promise<ReverseProxy> {
  const port = await freePort();
  await mkdir(folder);
  const documented = exchange(await block(kind), '127.0.0.1:4000', `127.0.0.1:${upstream}`);
  const { words, file, ca } = await (kind === 'nginx' ? nginx : caddy)(documented, port, folder);
  const running = execa(await programOf(kind), words, {
    ...{ stdin: 'ignore', all: true, reject: false, extendEnv: false },
    env: { PATH: '/usr/bin:/bin', HOME: folder },
  });
  let ended: string | undefined;
  running.then(({ all }) => {
    ended = all;
  });
  const authority = await eventually(async () => {
    if (ended !== undefined)
      throw new Error(`${kind} ended: ${ended}\n${await readFile(file, 'utf8')}`);
    const signer = await ifThere(readFile(ca, 'utf8'));
    return signer !== undefined && (await hasCertificate(port, signer)) ? signer : undefined;
  }, `${kind} listens with its certificate`);
  return {
    port,
    ca: authority,
    async [Symbol.asyncDispose]() {
      running.kill('SIGTERM');
      await running;
    },
  };
}

interface Configured {
  readonly words: readonly string[];
  readonly file: string;
  readonly ca: string;
}

async function nginx(documented: string, port: number, folder: string): Promise<Configured> {
  const [ca, key, file] = [join(folder, 'ca.pem'), join(folder, 'ca.key'), join(folder, 'conf')];
  const subject = ['-subj', `/CN=${publicName}`, '-addext', `subjectAltName=DNS:${publicName}`];
  const made = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'];
  await execa('openssl', ['req', '-x509', ...made, ...subject, '-keyout', key, '-out', ca]);
  const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  let server = exchange(documented, 'listen 443 ssl', `listen 127.0.0.1:${port} ssl`);
  server = exchange(server, `/etc/ssl/${publicName}.pem`, ca);
  server = exchange(server, `/etc/ssl/${publicName}.key`, key);
  await writeFile(
    file,
    `daemon off; pid ${folder}/pid; ${process.getuid?.() === 0 ? 'user root;' : ''}
events {}
http {
access_log off;
${folders.map((name) => `${name}_temp_path ${join(folder, name)};`).join('\n')}
${server}
}
`,
  );
  return { words: ['-c', file, '-e', 'stderr'], file, ca };
}

async function caddy(documented: string, port: number, folder: string): Promise<Configured> {
  const [storage, file] = [join(folder, 'storage'), join(folder, 'conf')];
  await writeFile(
    file,
    `{
admin off
local_certs
skip_install_trust
auto_https disable_redirects
https_port ${port}
default_bind 127.0.0.1
storage file_system ${storage}
}
${documented}`,
  );
  return {
    words: ['run', '--adapter', 'caddyfile', '--config', file],
    file,
    ca: join(storage, 'pki/authorities/local/root.crt'),
  };
}

async function block(kind: ProxyKind): Promise<string> {
  const page = await readFile(join(import.meta.dirname, '../../docs/deployment.md'), 'utf8');
  const found = new RegExp(`^\`\`\`${kind}\n([\\s\\S]*?)^\`\`\``, 'm').exec(page)?.[1];
  if (found === undefined) throw new Error(`docs/deployment.md has no block of ${kind}`);
  return found;
}

function exchange(text: string, old: string, now: string): string {
  if (!text.includes(old)) throw new Error(`docs/deployment.md does not say ${old} any more`);
  return text.replaceAll(old, now);
}

/** Undefined: neither on the machine nor where tests/setup/proxies puts it. */
export async function findProxy(kind: ProxyKind): Promise<string | undefined> {
  const cache = process.getuid?.() === 0 ? '/var/cache' : join(homedir(), '.cache');
  const folders = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin'];
  for (const folder of [...folders, join(cache, 'muxwarden/proxies')]) {
    const path = join(folder, kind);
    if (
      await access(path).then(
        () => true,
        () => false,
      )
    )
      return path;
  }
  return undefined;
}

async function programOf(kind: ProxyKind): Promise<string> {
  const found = await findProxy(kind);
  if (found === undefined) throw new Error(`no ${kind}: run tests/setup/proxies`);
  return found;
}

/** Caddy listens before its authority has signed anything. */
const hasCertificate = (port: number, ca: string) =>
  new Promise<boolean>((resolve) => {
    const socket = connect({ ...{ host: '127.0.0.1', port }, ca, servername: publicName });
    socket.on('secureConnect', () => {
      resolve(true);
      socket.destroy();
    });
    socket.on('error', () => resolve(false));
  });
