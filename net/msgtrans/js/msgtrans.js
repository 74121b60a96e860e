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
// begin at 1. What is sent meanwhile waits for it, until its timeout.
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
  idleTimeout: 300_000, // ms without a packet either way; 0 never ends a connection
  pendingMax: 1024,
  packetBytesMax: 1 << 20,
  payloadBytesMax: 16 << 20, // decompressed
  sendBytesMax: 16 << 20, // what the browser has not sent yet; more is refused
  reconnect: { min: 100, max: 30_000, attempts: 0 }, // ms; 0 attempts are no bound; false never
  onMessage: undefined, // (message) of a OneWay
  onRequest: undefined, // (message), returns the answer or a promise of it
  onEvent: undefined, // ({ kind: opened|closed|reconnecting, error, attempt, delay })
};

export class Client {
  stats = { requests: 0, responses: 0, timeouts: 0, unmatched: 0, unhandled: 0, unanswered: 0, texts: 0 };
  #url;
  #o;
  #socket = null;
  #ids;
  #pending = new Map();
  #incoming = Promise.resolve(); // packets are taken in order, though decompression is not immediate
  #outgoing = Promise.resolve(); // and leave in order, though compression is not
  #waiters = new Set(); // those who wait for a connection
  #closed = null; // the error of a client that has ended
  #reason = null; // why this end closes the socket
  #active = 0; // when a packet last came or went

  constructor(url, options = {}) {
    this.#url = url;
    this.#o = { ...DEFAULTS, ...options };
    if (this.#o.reconnect) this.#o.reconnect = { ...DEFAULTS.reconnect, ...options.reconnect };
  }

  get connected() { return this.#socket !== null; }

  // connect makes the first connection.
  async connect() {
    await this.#open();
  }

  // request sends a Request and resolves with the Response. signal, an AbortSignal,
  // and timeout, in ms, end the wait.
  async request(message, { timeout = this.#o.requestTimeout, signal } = {}) {
    signal?.throwIfAborted();
    const cell = { done: false };
    const answer = new Promise((resolve, reject) => { cell.resolve = resolve; cell.reject = reject; });
    const timer = setTimeout(() => {
      if (!cell.done) this.stats.timeouts++;
      this.#give(cell, new MsgtransError('timeout', 'request: no Response'));
    }, timeout);
    const aborted = () => this.#give(cell, signal.reason);
    signal?.addEventListener('abort', aborted);
    this.#send(PacketType.Request, message, cell).catch((e) => this.#give(cell, e));
    try {
      return await answer;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', aborted);
    }
  }

  // send sends a OneWay. It resolves when the message is with the browser.
  async send(message, { timeout = this.#o.requestTimeout } = {}) {
    const cell = { done: false };
    const timer = setTimeout(() => { cell.done = true; }, timeout);
    try {
      await this.#send(PacketType.OneWay, message, cell);
    } finally {
      clearTimeout(timer);
    }
  }

  // close refuses new messages, waits for what is pending and ends the connection.
  async close() {
    const error = new MsgtransError('closed', 'closed by this end');
    if (this.#closed === null) this.#closed = error;
    for (const w of this.#waiters) w();
    await this.#outgoing;
    await Promise.allSettled([...this.#pending.values()].map((c) => new Promise((r) => { c.settled = r; })));
    await this.#incoming;
    const socket = this.#socket;
    if (socket !== null) {
      const ended = new Promise((r) => socket.addEventListener('close', r));
      socket.close(1000);
      await ended;
    }
  }

  // #give rejects a request that its caller has given up, or that has failed.
  #give(cell, error) {
    if (cell.done) return;
    cell.done = true;
    if (cell.id !== undefined && this.#pending.get(cell.id) === cell) this.#pending.delete(cell.id);
    cell.reject(error);
    cell.settled?.();
  }

  #open() {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(this.#url, [SUBPROTOCOL]);
      socket.binaryType = 'arraybuffer';
      let opened = false;
      const timer = setTimeout(() => socket.close(), this.#o.handshakeTimeout);
      let idle;
      socket.onopen = () => {
        opened = true;
        clearTimeout(timer);
        this.#socket = socket;
        this.#ids = new Ids();
        this.#reason = null;
        this.#active = performance.now();
        if (this.#o.idleTimeout > 0) idle = setInterval(() => this.#watch(socket), this.#o.idleTimeout / 4);
        this.#event({ kind: 'opened' });
        for (const w of this.#waiters) w();
        resolve();
      };
      socket.onmessage = (e) => {
        if (this.#socket !== socket) return;
        this.#active = performance.now();
        if (typeof e.data === 'string') {
          this.stats.texts++;
          return;
        }
        this.#incoming = this.#incoming.then(() => this.#take(socket, new Uint8Array(e.data)));
      };
      socket.onclose = (e) => {
        clearTimeout(timer);
        clearInterval(idle);
        if (!opened) {
          reject(new MsgtransError('refused', `connect: no connection (${e.code})`));
          return;
        }
        // What had come before is taken first.
        this.#incoming = this.#incoming.then(() => this.#ended(e));
      };
    });
  }

  #watch(socket) {
    if (performance.now() - this.#active >= this.#o.idleTimeout) this.#break(socket, new MsgtransError('timeout', 'no packet came or went'));
  }

  // #break ends a connection on which something is wrong.
  #break(socket, error) {
    this.#reason ??= error;
    socket.close(error.kind === 'limit' ? 4009 : 4002);
  }

  #ended(e) {
    const regular = e.code === 1000 || e.code === 1001;
    const error = this.#reason ?? this.#closed ?? new MsgtransError(regular ? 'closed' : 'remote', `the connection has ended (${e.code})`);
    this.#socket = null;
    for (const cell of [...this.#pending.values()]) this.#give(cell, error);
    this.#event({ kind: 'closed', error });
    if (this.#closed === null) this.#again(error);
  }

  async #again(error) {
    const { min, max, attempts } = this.#o.reconnect || {};
    for (let attempt = 1; this.#o.reconnect && (attempts === 0 || attempt <= attempts); attempt++) {
      const whole = Math.min(max, min * 2 ** (attempt - 1));
      const delay = whole - Math.random() * whole / 2;
      this.#event({ kind: 'reconnecting', error, attempt, delay });
      await new Promise((r) => setTimeout(r, delay));
      if (this.#closed !== null) return;
      try {
        await this.#open();
        return;
      } catch (e) {
        error = e;
      }
    }
    this.#closed = error;
    for (const w of this.#waiters) w();
  }

  #event(e) { this.#o.onEvent?.(e); }

  // #send queues a message. cell.done says that its caller has given up; a Request's
  // cell becomes pending.
  #send(type, message, cell) {
    if (this.#closed !== null) return Promise.reject(this.#closed);
    const compression = message.compression ?? Compression.None;
    // Copied at once: the caller may go on with its bytes.
    const copy = { ...message, compression, type, ext: bytesOf(message.ext).slice(), payload: bytesOf(message.payload).slice() };
    const packed = compress(copy.payload, compression);
    packed.catch(() => {});
    const sent = this.#outgoing.then(async () => {
      copy.payload = await packed;
      if (type === PacketType.Response) {
        if (this.#socket !== cell.socket) throw new MsgtransError('closed', 'the connection of the request has ended');
      } else {
        await this.#connection(cell);
      }
      if (cell.done) throw new MsgtransError('timeout', 'no connection');
      this.#queue(copy, cell);
    });
    this.#outgoing = sent.catch(() => {});
    return sent;
  }

  // #connection waits until there is one.
  async #connection(cell) {
    while (this.#socket === null && this.#closed === null && !cell.done) {
      await new Promise((r) => {
        const timer = setTimeout(wake, 50); // to see a caller that gave up
        const waiters = this.#waiters;
        function wake() {
          clearTimeout(timer);
          waiters.delete(wake);
          r();
        }
        waiters.add(wake);
      });
    }
    if (this.#socket === null && this.#closed !== null) throw this.#closed;
  }

  #queue(packet, cell) {
    const bytes = HEADER_BYTES + packet.ext.length + packet.payload.length;
    if (bytes > this.#o.packetBytesMax) throw new MsgtransError('limit', `a packet of ${bytes} bytes, at most ${this.#o.packetBytesMax}`);
    if (this.#socket.bufferedAmount + bytes > this.#o.sendBytesMax) throw new MsgtransError('limit', 'the send queue is full');
    if (packet.type === PacketType.Request && this.#pending.size >= this.#o.pendingMax) {
      throw new MsgtransError('limit', `more than ${this.#o.pendingMax} pending requests`);
    }
    if (packet.type !== PacketType.Response) packet.id = this.#ids.next(this.#pending);
    const encoded = encode(packet);
    if (packet.type === PacketType.Request) {
      cell.id = packet.id;
      this.#pending.set(cell.id, cell);
      this.stats.requests++;
    }
    this.#active = performance.now();
    this.#socket.send(encoded);
  }

  // #take handles one binary message.
  async #take(socket, bytes) {
    if (this.#socket !== socket || this.#reason !== null) return;
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
      else this.#handle(socket, m);
    } catch (error) {
      this.#break(socket, error);
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
    cell.settled?.();
  }

  #handle(socket, m) {
    const handler = m.type === PacketType.Request ? this.#o.onRequest : this.#o.onMessage;
    if (handler === undefined) {
      this.stats.unhandled++;
      return;
    }
    // What a handler throws is not the connection's fault.
    const result = new Promise((r) => r(handler(m)));
    if (m.type !== PacketType.Request) {
      result.catch((e) => console.error(e));
      return;
    }
    result.then((answer) => this.#send(PacketType.Response, { ...answer, id: m.id }, { done: false, socket })).catch((e) => {
      this.stats.unanswered++;
      if (!(e instanceof MsgtransError)) console.error(e);
    });
  }
}
