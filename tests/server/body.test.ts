import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Service, startService } from '../support/synthetic-service.ts';
import { eventually } from '../support/tmux-server.ts';

let service: Service;
const sockets: Socket[] = [];
beforeEach(async () => {
  service = await startService();
  service.accounts.add('ann', 'ADMIN');
  service.accounts.add('ben', 'DEVELOPER');
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await service[Symbol.asyncDispose]();
});

const query = (field: string) => JSON.stringify({ query: `{ viewer { member { ${field} } } }` });
const post = (as: string, body: string, length = body.length) =>
  `POST /graphql HTTP/1.1\r\nHost: 127.0.0.1:${service.server.port}\r\nAuthorization: Bearer mw_${as}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`;

async function open(): Promise<{ readonly socket: Socket; readonly got: () => string }> {
  const socket = connect(service.server.port, '127.0.0.1').setNoDelay(true);
  sockets.push(socket);
  let text = '';
  socket.on('data', (bytes: Buffer) => {
    text += bytes.toString();
  });
  socket.on('error', () => {});
  await once(socket, 'connect');
  return { socket, got: () => text };
}
const bodies = (text: string) => [...text.matchAll(/^\{.*\}/gm)].map(([body]) => JSON.parse(body));

describe('a body', () => {
  it('that comes byte by byte is read whole', async () => {
    const { socket, got } = await open();
    for (const byte of post('ann', query('login'))) {
      socket.write(byte);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await eventually(() => bodies(got()).length === 1, 'an answer');
    expect(bodies(got())).toEqual([{ data: { viewer: { member: { login: 'ann' } } } }]);
  });

  it('is each request’s own, in order, where several come in one packet', async () => {
    const { socket, got } = await open();
    const asked = ['ann', 'ben', 'ann', 'nobody', 'ben', 'ann'];
    // Twice: the second time there are kept answers.
    for (let turn = 1; turn <= 2; turn += 1) {
      socket.write(asked.map((as) => post(as, query('login'))).join(''));
      await eventually(() => bodies(got()).length === turn * asked.length, 'an answer to each');
    }
    const logins = bodies(got()).map(({ data }) => data?.viewer.member.login ?? 'nobody');
    expect(logins).toEqual([...asked, ...asked]);
    const ids = [...got().matchAll(/x-request-id: (\S+)/g)].map(([, id]) => id);
    expect(new Set(ids).size).toBe(2 * asked.length);
  });

  it('that is broken off is nobody’s, and nothing is said of it', async () => {
    const { socket } = await open();
    socket.write(post('ann', query('login').slice(0, 9), 200));
    await new Promise((resolve) => setTimeout(resolve, 50));
    socket.destroy();
    const { data } = await service.query<object>('ann', '{ viewer { member { login } } }');
    expect(data).toEqual({ viewer: { member: { login: 'ann' } } });
    expect(service.log).toEqual([]);
  });

  it('of a stranger that is announced too large, and never comes, is not waited for', async () => {
    const { socket, got } = await open();
    socket.write(post('nobody', '', 20_000));
    await eventually(() => got().startsWith('HTTP/1.1 401'), 'a refusal');
  });
});
