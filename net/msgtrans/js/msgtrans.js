// msgtrans over WebSocket for browsers: an ES module without a build step.
//
//   import { Client } from './msgtrans.js';
//   const c = new Client('wss://host/msgtrans', { onMessage: (m) => console.log(m.biz, m.payload) });
//   await c.connect();
//   const reply = await c.request({ biz: 7, payload: 'ping' });
//
// Life of a client: connect() makes the first connection and fails if that does.
// When a connection ends, everything pending is rejected, and unless close() was
// called the client connects again, with backoff; the ids of the next connection
// begin at 1. What is sent meanwhile waits for it, until its timeout. After close()
// the client is of no more use.
//
// A message has id, biz, flags, compression, ext and payload; on receipt the payload
// is decompressed and both are Uint8Arrays. Messages and requests of the server are
// handled in the order in which they came; a handler that returns a promise does not
// hold up the next one.
//
// It does not repeat a request and has no heartbeat: send a message of your own.

import { Compression, Flags, HEADER_BYTES, MsgtransError, PacketType, bytesOf, compress, decode, decompress, encode } from './packet.js';

export { Compression, Flags, MsgtransError, PacketType, compress, decode, decompress, encode } from './packet.js';

// SUBPROTOCOL selects msgtrans on WebSocket.
export const SUBPROTOCOL = 'msgtrans.v1';

const ID_MAX = 0xFFFFFFFF;

// Ids issues message ids: from 1, wrapping from 2^32-1 to 1, without those pending.
export class Ids {
  #last;
  constructor(last = 0) { this.#last = last; }
  next(pending) {
    do {
      this.#last = this.#last >= ID_MAX ? 1 : this.#last + 1;
    } while (pending.has(this.#last));
    return this.#last;
  }
}

const DEFAULTS = {
  requestTimeout: 10_000, // ms
  handshakeTimeout: 10_000, // ms
  closeTimeout: 2000, // ms that close waits for the server's end of the connection
  idleTimeout: 300_000, // ms without a packet either way; 0 never ends a connection
  pendingMax: 1024,
  packetBytesMax: 1 << 20,
  payloadBytesMax: 16 << 20, // decompressed
  sendBytesMax: 16 << 20, // what the browser has not sent yet; more is refused
  // Waits in ms, doubled from min to max until a connection has proved itself by a packet
  // or by lasting for max; 0 attempts are no bound; false never connects again.
  reconnect: { min: 100, max: 30_000, attempts: 0 },
  onMessage: undefined, // (message) of a OneWay
  onRequest: undefined, // (message), returns the answer or a promise of it
  onEvent: undefined, // ({ kind: opened|closed|reconnecting, error, attempt, delay }), in this order
};

export class Client {
  stats = { requests: 0, responses: 0, timeouts: 0, unmatched: 0, unhandled: 0, unanswered: 0, discarded: 0, texts: 0 };
  #url;
  #o;
  // The connection: { socket, since, got, over, end }. over is resolved by end when all
  // that came on it has been taken and its end was reported.
  #conn = null;
  #connecting = null; // the attempt under way: { made, fail }
  #dialing = false; // #again is at work
  #attempts = 0; // in a row, without a connection that proved itself
  #ids;
  #pending = new Map();
  #incoming = Promise.resolve(); // packets are taken in order, though decompression is not immediate
  #outgoing = Promise.resolve(); // and leave in order, though compression is not
  #answering = new Set(); // requests of the server that its handler has not answered
  #waiters = new Set(); // those who wait for a connection
  #closed = null; // the error of a client that has ended
  #closing = null; // the promise of close
  #reason = null; // why this end closes the socket
  #active = 0; // when a packet last came or went

  constructor(url, options = {}) {
    this.#url = url;
    this.#o = { ...DEFAULTS, ...options };
    if (this.#o.reconnect) this.#o.reconnect = { ...DEFAULTS.reconnect, ...options.reconnect };
  }

  get connected() { return this.#conn !== null; }

  // connect makes the first connection. Where there is one, or one is being made, it
  // resolves with that.
  async connect() {
    if (this.#closed !== null) throw this.#closed;
    if (this.#conn !== null) return;
    if (this.#dialing) await this.#connection({ done: false });
    else await (this.#connecting?.made ?? this.#open());
  }

  // request sends a Request and resolves with the Response. signal, an AbortSignal,
  // and timeout, in ms, end the wait, that for a connection included.
  async request(message, { timeout = this.#o.requestTimeout, signal } = {}) {
    signal?.throwIfAborted();
    const cell = newCell();
    const timer = setTimeout(() => {
      if (!cell.done) this.stats.timeouts++;
      this.#give(cell, new MsgtransError('timeout', 'request: no Response'));
    }, timeout);
    const aborted = () => this.#give(cell, signal.reason);
    signal?.addEventListener('abort', aborted);
    this.#send(PacketType.Request, message, cell);
    try {
      return await cell.end;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', aborted);
    }
  }

  // send sends a OneWay. It resolves when the message is with the browser.
  async send(message, { timeout = this.#o.requestTimeout } = {}) {
    const cell = newCell();
    const timer = setTimeout(() => this.#give(cell, new MsgtransError('timeout', 'send: no connection')), timeout);
    this.#send(PacketType.OneWay, message, cell);
    try {
      await cell.end;
    } finally {
      clearTimeout(timer);
    }
  }

  // close refuses new messages, waits for what is pending, here and in handlers, and
  // ends the connection. A handler must not wait for it.
  close() {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close() {
    this.#closed ??= new MsgtransError('closed', 'closed by this end');
    this.#wake();
    this.#connecting?.fail(this.#closed);
    for (let last = null; last !== this.#outgoing || this.#pending.size > 0 || this.#answering.size > 0;) {
      last = this.#outgoing;
      await last;
      await Promise.allSettled([...this.#pending.values()].map((cell) => cell.end));
      await this.#incoming;
      await Promise.allSettled(this.#answering);
    }
    const conn = this.#conn;
    if (conn !== null) {
      conn.socket.close(1000);
      const timer = setTimeout(() => this.#lost(conn, 1006), this.#o.closeTimeout);
      await conn.over;
      clearTimeout(timer);
    }
  }

  // #give rejects a message that its caller has given up, or that has failed.
  #give(cell, error) {
    if (cell.done) return;
    cell.done = true;
    if (cell.id !== undefined && this.#pending.get(cell.id) === cell) this.#pending.delete(cell.id);
    cell.reject(error);
    this.#wake(); // it may be what the next ones wait behind
  }

  #wake() { for (const w of this.#waiters) w(); }

  // #open makes one attempt to connect.
  #open() {
    let socket;
    try {
      socket = new WebSocket(this.#url, [SUBPROTOCOL]);
    } catch (cause) {
      return Promise.reject(new MsgtransError('invalid', `connect: ${cause.message}`, { cause }));
    }
    const attempt = {};
    const made = new Promise((resolve, reject) => {
      attempt.fail = (error) => {
        socket.close();
        reject(error);
      };
      this.#watchSocket(socket, resolve, attempt.fail);
    });
    attempt.made = made.finally(() => { this.#connecting = null; });
    this.#connecting = attempt;
    return attempt.made;
  }

  #watchSocket(socket, made, failed) {
    socket.binaryType = 'arraybuffer';
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      failed(new MsgtransError('timeout', 'connect: no connection'));
    }, this.#o.handshakeTimeout);
    let conn = null;
    let idle;
    socket.onopen = () => {
      clearTimeout(timer);
      if (late || this.#closed !== null) { // whoever waited has been told
        socket.close(1000);
        return;
      }
      conn = { socket, since: performance.now(), got: false };
      conn.over = new Promise((r) => { conn.end = r; });
      this.#conn = conn;
      this.#ids = new Ids();
      this.#reason = null;
      this.#active = performance.now();
      if (this.#o.idleTimeout > 0) idle = setInterval(() => this.#watch(socket), this.#o.idleTimeout / 4);
      this.#event({ kind: 'opened' });
      this.#wake();
      made();
    };
    socket.onmessage = (e) => {
      if (conn === null || this.#conn !== conn) return;
      this.#active = performance.now();
      if (typeof e.data === 'string') {
        this.stats.texts++;
        return;
      }
      this.#incoming = this.#incoming.then(() => this.#take(conn, new Uint8Array(e.data)));
    };
    socket.onclose = (e) => {
      clearTimeout(timer);
      clearInterval(idle);
      if (conn === null) {
        failed(this.#closed ?? new MsgtransError('refused', `connect: no connection (${e.code})`));
        return;
      }
      this.#lost(conn, e.code);
    };
  }

  // #lost ends a connection whose socket is closed, when what had come before is taken.
  #lost(conn, code) {
    this.#incoming = this.#incoming.then(() => this.#ended(conn, code));
  }

  #watch(socket) {
    if (performance.now() - this.#active >= this.#o.idleTimeout) this.#break(socket, new MsgtransError('timeout', 'no packet came or went'));
  }

  // #break ends a connection on which something is wrong.
  #break(socket, error) {
    this.#reason ??= error;
    socket.close(error.kind === 'limit' ? 4009 : 4002);
  }

  #ended(conn, code) {
    if (this.#conn !== conn) return;
    const regular = code === 1000 || code === 1001;
    const error = this.#reason ?? this.#closed ?? new MsgtransError(regular ? 'closed' : 'remote', `the connection has ended (${code})`);
    this.#conn = null;
    for (const cell of [...this.#pending.values()]) this.#give(cell, error);
    this.#event({ kind: 'closed', error });
    // A server that accepts and hangs up is like one that does not accept.
    if (conn.got || performance.now() - conn.since >= this.#o.reconnect?.max) this.#attempts = 0;
    conn.end();
    if (this.#closed === null) this.#again(error);
  }

  // #again connects until that succeeds, the client is closed or the attempts are used up.
  async #again(error) {
    const { min, max, attempts } = this.#o.reconnect || {};
    this.#dialing = true;
    while (this.#o.reconnect && (attempts === 0 || this.#attempts < attempts)) {
      this.#attempts++;
      const whole = Math.min(max, min * 2 ** (this.#attempts - 1));
      const delay = whole - Math.random() * whole / 2;
      this.#event({ kind: 'reconnecting', error, attempt: this.#attempts, delay });
      await new Promise((r) => setTimeout(r, delay));
      if (this.#closed !== null) break;
      try {
        await this.#open();
        break;
      } catch (e) {
        error = e;
      }
      if (this.#closed !== null) break;
    }
    this.#dialing = false;
    if (this.#conn === null) this.#closed ??= error;
    this.#wake();
  }

  // #event reports; what the callback throws is not the connection's fault.
  #event(e) {
    try {
      this.#o.onEvent?.(e);
    } catch (error) {
      console.error(error);
    }
  }

  // #send queues a message. cell.done says that its caller has given up. A Request's
  // cell becomes pending, the others are over when the browser has the message.
  #send(type, message, cell) {
    if (this.#closed !== null && type !== PacketType.Response) {
      this.#give(cell, this.#closed);
      return;
    }
    let copy;
    try {
      // Copied at once: the caller may go on with its bytes.
      copy = { ...message, compression: message.compression ?? Compression.None, type, ext: bytesOf(message.ext).slice(), payload: bytesOf(message.payload).slice() };
    } catch (error) {
      this.#give(cell, error);
      return;
    }
    const packed = compress(copy.payload, copy.compression);
    packed.catch(() => {});
    this.#outgoing = this.#outgoing.then(async () => {
      copy.payload = await packed;
      if (type === PacketType.Response) {
        if (this.#conn !== cell.conn) throw new MsgtransError('closed', 'the connection of the request has ended');
      } else {
        await this.#connection(cell);
      }
      if (!cell.done) this.#queue(copy, cell);
    }).catch((e) => this.#give(cell, e));
  }

  // #connection waits until there is one, or cell has been given up.
  async #connection(cell) {
    while (this.#conn === null && this.#closed === null && !cell.done) {
      await new Promise((r) => {
        const wake = () => {
          this.#waiters.delete(wake);
          r();
        };
        this.#waiters.add(wake);
      });
    }
    if (this.#conn === null && this.#closed !== null) throw this.#closed;
  }

  #queue(packet, cell) {
    const socket = this.#conn.socket;
    const bytes = HEADER_BYTES + packet.ext.length + packet.payload.length;
    if (bytes > this.#o.packetBytesMax) throw new MsgtransError('limit', `a packet of ${bytes} bytes, at most ${this.#o.packetBytesMax}`);
    if (socket.bufferedAmount + bytes > this.#o.sendBytesMax) throw new MsgtransError('limit', 'the send queue is full');
    if (packet.type === PacketType.Request && this.#pending.size >= this.#o.pendingMax) {
      throw new MsgtransError('limit', `more than ${this.#o.pendingMax} pending requests`);
    }
    const response = packet.type === PacketType.Response;
    const encoded = encode({ ...packet, id: response ? packet.id : ID_MAX });
    if (!response) { // only what can be sent takes an id
      packet.id = this.#ids.next(this.#pending);
      new DataView(encoded.buffer).setUint32(4, packet.id);
    }
    if (packet.type === PacketType.Request) {
      cell.id = packet.id;
      this.#pending.set(cell.id, cell);
      this.stats.requests++;
    }
    this.#active = performance.now();
    socket.send(encoded);
    if (packet.type !== PacketType.Request) {
      cell.done = true;
      cell.resolve();
    }
  }

  // #take handles one binary message.
  async #take(conn, bytes) {
    if (this.#conn !== conn || this.#reason !== null) return;
    conn.got = true;
    let cell;
    try {
      if (bytes.length > this.#o.packetBytesMax) throw new MsgtransError('limit', `a packet of ${bytes.length} bytes, at most ${this.#o.packetBytesMax}`);
      const m = decode(bytes);
      if (m.type === PacketType.Response) {
        cell = this.#pending.get(m.id);
        if (cell === undefined) {
          this.stats.unmatched++;
          return;
        }
      }
      m.payload = await decompress(m.payload, m.compression, this.#o.payloadBytesMax);
      if (cell !== undefined) this.#answer(cell, m);
      else this.#handle(conn, m);
    } catch (error) {
      this.#break(conn.socket, error);
    }
  }

  #answer(cell, m) {
    if (cell.done) {
      this.stats.unmatched++;
      return;
    }
    cell.done = true;
    this.#pending.delete(cell.id);
    this.stats.responses++;
    cell.resolve(m);
  }

  #handle(conn, m) {
    const handler = m.type === PacketType.Request ? this.#o.onRequest : this.#o.onMessage;
    if (handler === undefined) {
      this.stats.unhandled++;
      return;
    }
    if (this.#closed !== null && this.#pending.size === 0) { // or a busy server would keep close waiting
      this.stats.discarded++;
      return;
    }
    // What a handler throws is not the connection's fault.
    const result = new Promise((r) => r(handler(m)));
    if (m.type !== PacketType.Request) {
      result.catch((e) => console.error(e));
      return;
    }
    const answered = result.then((answer) => {
      const cell = newCell();
      cell.conn = conn;
      this.#send(PacketType.Response, { ...answer, id: m.id }, cell);
      return cell.end;
    }).catch((e) => {
      this.stats.unanswered++;
      if (!(e instanceof MsgtransError) || e.kind === 'invalid') console.error(e);
    }).finally(() => this.#answering.delete(answered));
    this.#answering.add(answered);
  }
}

// newCell returns what is kept of a message until it is over: end is its outcome.
function newCell() {
  const cell = { done: false };
  cell.end = new Promise((resolve, reject) => { cell.resolve = resolve; cell.reject = reject; });
  cell.end.catch(() => {}); // somebody else is told
  return cell;
}
