import { BlockList, isIP } from 'node:net';
import type { Config } from '../config.ts';

/**
 * Who may talk to us by a browser. A Host that is not ours is how another site's page reaches a
 * loopback address (DNS rebinding); an Origin that is not listed is another site's page itself.
 * Both are refused before anything is parsed. An IP address as Host can't be rebound.
 */
export interface Origins {
  /** Where people reach us, without a final slash. */
  readonly publicUrl: string;
  allowsHost(host: string | undefined): boolean;
  /** @param host the Host header, already allowed: a page of ours has it in its Origin */
  allowsOrigin(origin: string, host: string | undefined): boolean;
  /** A listed origin other than our own: it gets CORS headers. */
  isForeign(origin: string): boolean;
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

export function origins(config: Config, port: number): Origins {
  const { host } = config;
  const wildcard = host === '0.0.0.0' || host === '::';
  const publicUrl = (
    config.publicUrl ?? `http://${wildcard ? 'localhost' : bracketed(host)}:${port}`
  ).replace(/\/+$/, '');
  const names = new Set(['localhost', '127.0.0.1', '[::1]', bracketed(host)]);
  names.add(new URL(publicUrl).hostname);
  const listedHosts = new Set(config.allowedHosts.map((each) => each.toLowerCase()));
  const own = new Set([new URL(publicUrl).origin]);
  // What nearly every request says.
  const usual = new Set([...names].map((name) => `${name}:${port}`));
  if (isLoopback(host) || wildcard)
    for (const name of ['localhost', '127.0.0.1', '[::1]']) own.add(`http://${name}:${port}`);
  const listed = new Set(config.allowedOrigins);
  return {
    publicUrl,
    allowsHost(header) {
      if (header !== undefined && usual.has(header)) return true;
      const [, name = ''] =
        /^(\[[0-9a-f:.]+\]|[^:[\]/@\s]+)(?::\d{1,5})?$/i.exec(header ?? '') ?? [];
      const lower = name.toLowerCase();
      if (names.has(lower) || listedHosts.has(lower)) return true;
      return listedHosts.has((header ?? '').toLowerCase()) || isIP(lower.replace(/[[\]]/g, '')) > 0;
    },
    allowsOrigin: (origin, header) =>
      own.has(origin) || listed.has(origin) || origin === `http://${header ?? ''}`.toLowerCase(),
    isForeign: (origin) => listed.has(origin) && !own.has(origin),
  };
}

/** Where a request came from: the connection says, or a proxy that is configured as trusted. */
export function addressOf(
  remote: string | undefined,
  forwardedFor: string | undefined,
  trusted: BlockList,
): string | null {
  const plain = (address: string) => address.trim().replace(/^::ffff:(?=\d)/, '');
  const isTrusted = (address: string) => {
    const family = isIP(address);
    return family > 0 && trusted.check(address, family === 6 ? 'ipv6' : 'ipv4');
  };
  let address = remote === undefined ? null : plain(remote);
  // The last entry was written by the proxy that talks to us, the one before by the one behind it.
  for (const hop of (forwardedFor ?? '').split(',').reverse()) {
    if (address === null || !isTrusted(address) || isIP(plain(hop)) === 0) break;
    address = plain(hop);
  }
  return address;
}

/** @throws Error that names the entry which is neither an address nor a network */
export function trustedProxies(config: Config): BlockList {
  const list = new BlockList();
  for (const entry of config.trustedProxies) {
    const [address = '', prefix] = entry.split('/');
    const family = isIP(address);
    const bits = prefix === undefined ? undefined : Number(prefix);
    if (family === 0 || (bits !== undefined && !Number.isInteger(bits)))
      throw new Error(
        `MUXWARDEN_TRUSTED_PROXIES: '${entry}' is neither an address nor a network like 10.0.0.0/8.`,
      );
    const type = family === 6 ? 'ipv6' : 'ipv4';
    if (bits === undefined) list.addAddress(address, type);
    else list.addSubnet(address, bits, type);
  }
  return list;
}

function bracketed(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}
