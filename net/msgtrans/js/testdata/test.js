// The browser's half of browser_test.go: it runs the cases below against the Go
// server and posts what came of each.
import { Client, Compression, Flags, Ids, MsgtransError, PacketType, decode, decompress, encode } from '../msgtrans.js';

const URL_WS = `ws://${location.host}/msgtrans`;
const utf8 = new TextDecoder();
// What the Go server does with a message, by its biz_type.
const ECHO = 1, ASK_BACK = 2, CLOSE_ME = 3, NEVER = 4, BOMB = 5, SAY_BACK = 6, TEXT = 7, ID_BACK = 8, TWICE = 9, FLOOD = 10;

// unhandled is the rejections that nobody has caught.
const unhandled = [];
addEventListener('unhandledrejection', (e) => unhandled.push(`${e.reason}`));

function equal(got, want, what) {
  const a = JSON.stringify(got), b = JSON.stringify(want);
  if (a !== b) throw new Error(`${what}: got ${a}, want ${b}`);
}

async function fails(promise, kind, what) {
  try {
    await promise;
  } catch (e) {
    if (e instanceof MsgtransError && e.kind === kind) return e;
    throw new Error(`${what}: failed with ${e.kind ?? ''} ${e}, want kind ${kind}`);
  }
  throw new Error(`${what}: did not fail`);
}

// until resolves with the first value that the returned function is called with.
function until() {
  let call;
  const happened = new Promise((r) => { call = r; });
  return [happened, call];
}

async function using(options, f) {
  const c = new Client(URL_WS, options);
  await c.connect();
  try {
    return await f(c);
  } finally {
    await c.close();
  }
}

const hex = (s) => Uint8Array.from(s.match(/../g) ?? [], (b) => parseInt(b, 16));

const cases = {
  async 'fixtures both ways'() {
    const names = await (await fetch('/fixtures/')).json();
    equal(names.length, 10, 'number of fixtures');
    for (const name of names) {
      const bin = new Uint8Array(await (await fetch(`/fixtures/${name}.bin`)).arrayBuffer());
      const input = await (await fetch(`/fixtures/${name}.json`)).json();
      const p = decode(bin);
      const want = {
        compression: input.compression, type: input.packet_type, biz: input.biz_type,
        id: input.message_id, flags: input.reserved, ext: hex(input.ext_header_hex), payload: hex(input.payload_hex),
      };
      equal([p.compression, p.type, p.biz, p.id, p.flags, [...p.ext]], [want.compression, want.type, want.biz, want.id, want.flags, [...want.ext]], name);
      if (p.compression === Compression.Zstd) continue; // not in every browser
      equal([...await decompress(p.payload, p.compression, 1 << 20)], [...want.payload], `${name} payload`);
      if (p.compression === Compression.None) equal([...encode(want)], [...bin], `${name} bytes`);
    }
  },

  async 'u32 ids'() {
    equal(decode(encode({ id: 0xFFFFFFFF, payload: '' })).id, 4294967295, 'largest id');
    const ids = new Ids(0xFFFFFFFD);
    const pending = new Map([[0xFFFFFFFF, 0], [1, 0]]);
    equal([ids.next(pending), ids.next(pending), ids.next(pending)], [0xFFFFFFFE, 2, 3], 'ids around the wrap');
  },

  async 'what is refused'() {
    const good = encode({ type: PacketType.Request, id: 9, ext: 'ext', payload: 'payload' });
    const damage = { version: [0, 2], compression: [1, 3], packet_type: [2, 3], fragmented: [15, 1], ext_len: [9, 4] };
    for (const [name, [at, value]] of Object.entries(damage)) {
      const b = good.slice();
      b[at] = value;
      let refused = false;
      try { decode(b); } catch (e) { refused = e instanceof MsgtransError; }
      if (!refused) throw new Error(`${name} was not refused`);
    }
    const b = good.slice();
    b[14] = 0xFF;
    b[15] = 0xFE;
    equal(decode(b).flags, Flags.HighPriority | Flags.HasRouteTag, 'flags with undefined bits');
  },

  async 'requests'() {
    await using({}, async (c) => {
      const answers = await Promise.all(Array.from({ length: 500 }, (_, n) => c.request({ biz: ECHO, ext: `e${n}`, payload: `request ${n}` })));
      answers.forEach((m, n) => equal([utf8.decode(m.payload), utf8.decode(m.ext)], [`request ${n}`, `e${n}`], 'answer'));
      equal([c.stats.requests, c.stats.responses, c.stats.unmatched], [500, 500, 0], 'statistics');
    });
  },

  async 'requests by the server, while it is asked itself'() {
    const asked = [];
    await using({
      onRequest: async (m) => {
        asked.push(utf8.decode(m.payload));
        return { biz: 77, payload: `${utf8.decode(m.payload)} from the browser` };
      },
    }, async (c) => {
      const m = await c.request({ biz: ASK_BACK, payload: 'question' });
      equal(utf8.decode(m.payload), '77: question from the browser', 'what the server got');
      equal(asked, ['question'], 'what the browser was asked');
    });
  },

  async 'one-way messages, both ways, in order'() {
    const got = [];
    const [all, done] = until();
    await using({
      onMessage: (m) => {
        got.push(utf8.decode(m.payload));
        if (got.length === 200) done();
      },
    }, async (c) => {
      const want = Array.from({ length: 200 }, (_, n) => `message ${n}`);
      // Every third one is compressed, which takes its time and must not change the order.
      await Promise.all(want.map((payload, n) => c.send({ biz: SAY_BACK, compression: n % 3 ? 0 : Compression.Zlib, payload })));
      await all;
      equal(got, want, 'messages');
    });
  },

  async 'zlib by the browser'() {
    await using({}, async (c) => {
      const payload = 'compress me '.repeat(20_000);
      const m = await c.request({ biz: ECHO, compression: Compression.Zlib, flags: Flags.HasRouteTag, ext: 'route', payload });
      equal([m.compression, m.flags, utf8.decode(m.ext), m.payload.length], [Compression.Zlib, Flags.HasRouteTag, 'route', payload.length], 'answer');
      equal(utf8.decode(m.payload) === payload, true, 'payload');
    });
  },

  async 'a bomb is refused at the limit'() {
    await using({ payloadBytesMax: 1 << 20, reconnect: false }, async (c) => {
      await fails(c.request({ biz: BOMB }), 'limit', 'a bomb');
    });
  },

  async 'timeout, abort, answer twice'() {
    await using({}, async (c) => {
      const e = await fails(c.request({ biz: NEVER }, { timeout: 20 }), 'timeout', 'never answered');
      equal(e.name, 'MsgtransError', 'name');
      const abort = new AbortController();
      const asked = c.request({ biz: NEVER }, { signal: abort.signal });
      abort.abort(new Error('changed my mind'));
      await asked.then(() => { throw new Error('was answered'); }, (e) => equal(e.message, 'changed my mind', 'reason'));
      await c.request({ biz: TWICE });
      await c.request({ biz: ECHO });
      equal([c.stats.timeouts, c.stats.unmatched], [1, 1], 'timeouts and unmatched');
    });
  },

  async 'text messages are ignored and counted'() {
    await using({}, async (c) => {
      await c.request({ biz: TEXT });
      await c.request({ biz: ECHO });
      equal(c.stats.texts, 1, 'texts');
    });
  },

  async 'limits of the sender'() {
    await using({ packetBytesMax: 1000, pendingMax: 2 }, async (c) => {
      await fails(c.request({ biz: ECHO, payload: new Uint8Array(985) }), 'limit', 'a packet over the limit');
      await fails(c.send({ ext: new Uint8Array(65536) }), 'limit', 'an ext header over the limit');
      const two = [c.request({ biz: NEVER }, { timeout: 200 }), c.request({ biz: NEVER }, { timeout: 200 })];
      await fails(c.request({ biz: ECHO }), 'limit', 'a third request');
      for (const r of two) await fails(r, 'timeout', 'pending');
      await c.request({ biz: ECHO, payload: new Uint8Array(984) });
    });
  },

  async 'reconnect rejects what is pending and begins with id 1'() {
    const events = [];
    await using({ reconnect: { min: 1 }, onEvent: (e) => events.push(e.kind) }, async (c) => {
      for (let n = 0; n < 10; n++) await c.request({ biz: ECHO });
      const pending = [1, 2, 3].map(() => c.request({ biz: NEVER }));
      await c.send({ biz: CLOSE_ME });
      for (const r of pending) {
        const e = await r.then(() => null, (e) => e);
        if (!(e instanceof MsgtransError) || !['closed', 'remote'].includes(e.kind)) throw new Error(`pending: ${e}`);
      }
      // Sent while there is no connection: it waits for the next one.
      const m = await c.request({ biz: ID_BACK });
      equal([m.id, utf8.decode(m.payload)], [1, '1'], 'id after coming back');
    });
    equal(events, ['opened', 'closed', 'reconnecting', 'opened', 'closed'], 'events');
  },

  async 'close waits for answers, then refuses'() {
    const c = new Client(URL_WS);
    await c.connect();
    const asked = c.request({ biz: ASK_BACK, payload: 'x' }, { timeout: 300 });
    const closed = c.close();
    await asked.catch((e) => equal(e.kind, 'timeout', 'kind')); // nobody answers the server here
    await closed;
    equal(c.connected, false, 'connected');
    await fails(c.request({ biz: ECHO }), 'closed', 'a request after close');
  },

  async 'close while a connection is made leaves none'() {
    for (let turn = 0; turn < 3; turn++) { // at once, in a microtask, in a task
      const events = [];
      const c = new Client(URL_WS, { onEvent: (e) => events.push(e.kind) });
      const connected = c.connect().then(() => 'opened', (e) => e.kind);
      if (turn === 1) await null;
      if (turn === 2) await new Promise((r) => setTimeout(r));
      await c.close();
      const how = await connected;
      await new Promise((r) => setTimeout(r, 50));
      equal([c.connected, events], [false, how === 'opened' ? ['opened', 'closed'] : []], `connected, in turn ${turn}`);
      await fails(c.connect(), 'closed', 'connect after close');
      equal(c.connected, false, 'connected after that');
    }
  },

  async 'close while the client reconnects'() {
    const events = [];
    const [again, reconnecting] = until();
    const c = new Client(URL_WS, { reconnect: { min: 20, max: 20 }, onEvent: (e) => { events.push(e.kind); if (e.kind === 'reconnecting') reconnecting(); } });
    await c.connect();
    await c.send({ biz: CLOSE_ME });
    await again;
    await c.close();
    await new Promise((r) => setTimeout(r, 100));
    equal([c.connected, events], [false, ['opened', 'closed', 'reconnecting']], 'events');
  },

  async 'close twice, with a request pending'() {
    const c = new Client(URL_WS);
    await c.connect();
    const asked = c.request({ biz: NEVER }, { timeout: 100 });
    asked.catch(() => {});
    await Promise.all([c.close(), c.close()]);
    await fails(asked, 'timeout', 'the request');
    await c.close();
  },

  async 'close while the server ends and its messages are decompressed'() {
    for (const delay of [0, 20, 60, 120]) {
      const c = new Client(URL_WS, { onMessage: () => {} });
      await c.connect();
      await c.send({ biz: FLOOD });
      await new Promise((r) => setTimeout(r, delay));
      await c.close();
      equal(c.connected, false, 'connected');
    }
  },

  async 'close waits for handlers'() {
    const c = new Client(URL_WS, { onRequest: async () => { await new Promise((r) => setTimeout(r, 50)); return { payload: 'late' }; } });
    await c.connect();
    const asked = c.request({ biz: ASK_BACK, payload: 'x' });
    await c.close();
    equal(utf8.decode((await asked).payload), '0: late', 'what the server got');
  },

  async 'what cannot be sent'() {
    await using({}, async (c) => {
      for (const m of [{ payload: 42 }, { biz: 300 }, { flags: 8 }, { compression: 9 }, { ext: {} }]) {
        await fails(c.request(m, { timeout: 50 }), 'invalid', `request ${JSON.stringify(m)}`);
        await fails(c.send(m), 'invalid', `send ${JSON.stringify(m)}`);
      }
      await new Promise((r) => setTimeout(r, 100));
      equal([c.stats.timeouts, c.stats.requests, unhandled], [0, 0, []], 'timeouts, requests, unhandled rejections');
      equal((await c.request({ biz: ECHO })).id, 1, 'the first id');
    });
    await fails(new Client('ftp://elsewhere/').connect(), 'invalid', 'a bad address');
  },

  async 'timeouts behind one another'() {
    const c = new Client(URL_WS); // not connected
    const long = c.send({ biz: ECHO }, { timeout: 2000 });
    const ended = [];
    const late = [c.send({}, { timeout: 30 }), c.request({}, { timeout: 40 }), c.send({}, { timeout: 50 })].map((p, n) => p.catch((e) => { ended.push([n, e.kind]); }));
    await Promise.all(late);
    equal(ended, [[0, 'timeout'], [1, 'timeout'], [2, 'timeout']], 'ends');
    await c.connect();
    await long;
    equal((await c.request({ biz: ID_BACK })).id, 2, 'what was given up took no id');
    await c.close();
  },

  async 'a callback that throws harms nobody'() {
    const events = [];
    const [back, opened] = until();
    await using({
      reconnect: { min: 1 },
      onEvent: (e) => {
        events.push(e.kind);
        if (events.length === 4) opened();
        throw new Error('on purpose');
      },
    }, async (c) => {
      await c.send({ biz: CLOSE_ME });
      await back;
      await c.request({ biz: ECHO });
    });
    equal(events, ['opened', 'closed', 'reconnecting', 'opened', 'closed'], 'events');
  },

  async 'connect twice is one connection'() {
    const events = [];
    const c = new Client(URL_WS, { onEvent: (e) => events.push(e.kind) });
    await Promise.all([c.connect(), c.connect()]);
    await c.connect();
    await c.request({ biz: ECHO });
    await c.close();
    equal(events, ['opened', 'closed'], 'events');
  },

  async 'a server that hangs up is dialed with growing waits'() {
    const attempts = [];
    const [ended, gaveUp] = until();
    const c = new Client(`ws://${location.host}/hang-up`, {
      reconnect: { min: 5, max: 1000, attempts: 4 },
      onEvent: (e) => {
        if (e.kind === 'reconnecting') attempts.push([e.attempt, e.delay >= 2.5 * 2 ** (e.attempt - 1)]);
        if (e.kind === 'closed' && attempts.length === 4) gaveUp();
      },
    });
    await c.connect();
    await ended;
    await fails(c.request({}), 'closed', 'a request when the attempts are used up');
    equal(attempts, [[1, true], [2, true], [3, true], [4, true]], 'attempts');
    await c.close();
  },

  async 'no server'() {
    await fails(new Client(`ws://${location.host}/nothing-here`).connect(), 'refused', 'connect');
  },
};

const results = [];
for (const [name, f] of Object.entries(cases)) {
  const start = performance.now();
  let error = '';
  try {
    await Promise.race([f(), new Promise((_, reject) => setTimeout(() => reject(new Error('not over after 20 s')), 20_000))]);
  } catch (e) {
    error = `${e.stack ?? e}`;
  }
  results.push({ name, error, millis: Math.round(performance.now() - start) });
}
await fetch('/result', { method: 'POST', body: JSON.stringify({ agent: navigator.userAgent, results }) });
