// The packet codec of msgtrans version 1. Integers are big-endian; all of them fit
// into a JavaScript number.
//
//   offset  bytes  field
//        0      1  version, 1
//        1      1  compression of the payload
//        2      1  packet_type
//        3      1  biz_type
//        4      4  message_id
//        8      2  ext_header_len
//       10      4  payload_len, as sent
//       14      2  reserved: flags
//       16      -  ext header, then payload

export const VERSION = 1;
export const HEADER_BYTES = 16;
export const EXT_BYTES_MAX = 65535;

export const PacketType = Object.freeze({ OneWay: 0, Request: 1, Response: 2 });
export const Compression = Object.freeze({ None: 0, Zstd: 1, Zlib: 2 });
export const Flags = Object.freeze({ Fragmented: 1, HighPriority: 2, HasRouteTag: 4 });

const SENDABLE_FLAGS = Flags.HighPriority | Flags.HasRouteTag;
const NOTHING = new Uint8Array(0);
const text = new TextEncoder();

// MsgtransError is every error of this module. kind is one of timeout, closed,
// refused, remote, limit and invalid, as in the Go package.
export class MsgtransError extends Error {
  constructor(kind, message, options) {
    super(`msgtrans: ${message}`, options);
    this.name = 'MsgtransError';
    this.kind = kind;
  }
}

// bytesOf returns what a caller gave as payload or ext header as bytes; a string
// becomes UTF-8.
export function bytesOf(v) {
  if (v === undefined || v === null) return NOTHING;
  if (typeof v === 'string') return text.encode(v);
  if (v instanceof Uint8Array) return v;
  if (v instanceof ArrayBuffer) return new Uint8Array(v);
  if (ArrayBuffer.isView(v)) return new Uint8Array(v.buffer, v.byteOffset, v.byteLength);
  throw new MsgtransError('invalid', 'a payload or ext header has to be a string, an ArrayBuffer or a view of one');
}

function within(name, v, max) {
  if (!Number.isInteger(v) || v < 0 || v > max) throw new MsgtransError('invalid', `${name} ${v} is outside 0..${max}`);
  return v;
}

// encode returns a packet as bytes. payload is as it is to be sent, so compressed
// if compression says so.
export function encode({ compression = 0, type = 0, biz = 0, id, flags = 0, ext, payload }) {
  const e = bytesOf(ext);
  const p = bytesOf(payload);
  if (e.length > EXT_BYTES_MAX) throw new MsgtransError('limit', `an ext header of ${e.length} bytes, at most ${EXT_BYTES_MAX}`);
  if (flags & ~SENDABLE_FLAGS) throw new MsgtransError('invalid', `undefined flags ${flags}`);
  if (id === 0 && type !== PacketType.Response) throw new MsgtransError('invalid', 'message id 0 is never sent');
  const b = new Uint8Array(HEADER_BYTES + e.length + p.length);
  const v = new DataView(b.buffer);
  b[0] = VERSION;
  b[1] = within('compression', compression, Compression.Zlib);
  b[2] = within('packet_type', type, PacketType.Response);
  b[3] = within('biz_type', biz, 255);
  v.setUint32(4, within('message_id', id, 0xFFFFFFFF));
  v.setUint16(8, e.length);
  v.setUint32(10, p.length);
  v.setUint16(14, flags);
  b.set(e, HEADER_BYTES);
  b.set(p, HEADER_BYTES + e.length);
  return b;
}

// decode reads one packet, which has to be all of bytes. ext and payload are views
// of it; the payload is as it was sent.
export function decode(bytes) {
  const refuse = (why) => { throw new MsgtransError('remote', why); };
  if (bytes.length < HEADER_BYTES) refuse(`${bytes.length} bytes are no header`);
  const v = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const packet = {
    compression: bytes[1],
    type: bytes[2],
    biz: bytes[3],
    id: v.getUint32(4),
    flags: v.getUint16(14),
  };
  const ext = HEADER_BYTES + v.getUint16(8);
  const end = ext + v.getUint32(10);
  if (bytes[0] !== VERSION) refuse(`unsupported version ${bytes[0]}`);
  if (packet.compression > Compression.Zlib) refuse(`unknown compression ${packet.compression}`);
  if (packet.type > PacketType.Response) refuse(`unknown packet_type ${packet.type}`);
  if (packet.flags & Flags.Fragmented) refuse('FRAGMENTED is not used by version 1');
  if (bytes.length !== end) refuse(`${bytes.length} bytes instead of ${end}`);
  packet.flags &= SENDABLE_FLAGS;
  packet.ext = bytes.subarray(HEADER_BYTES, ext);
  packet.payload = bytes.subarray(ext, end);
  return packet;
}

// The names that the browser's compression streams have for the algorithms. Zstd is
// there only in some browsers.
const FORMATS = { [Compression.Zstd]: 'zstd', [Compression.Zlib]: 'deflate' };

function stream(constructor, compression, kind) {
  if (FORMATS[compression] === undefined) throw new MsgtransError(kind, `unknown compression ${compression}`);
  try {
    return new constructor(FORMATS[compression]);
  } catch (cause) {
    throw new MsgtransError(kind, `this browser has no ${FORMATS[compression]}`, { cause });
  }
}

// compress returns payload compressed.
export async function compress(payload, compression) {
  if (compression === Compression.None) return payload;
  return drain(payload, stream(CompressionStream, compression, 'invalid'), Infinity);
}

// decompress returns payload decompressed, and stops at max bytes.
export async function decompress(payload, compression, max) {
  if (compression === Compression.None || payload.length === 0) {
    if (payload.length > max) throw new MsgtransError('limit', `a payload of ${payload.length} bytes, at most ${max}`);
    return payload;
  }
  return drain(payload, stream(DecompressionStream, compression, 'remote'), max);
}

async function drain(bytes, transform, max) {
  const writer = transform.writable.getWriter();
  // A failure to write shows where the result is read.
  writer.write(bytes).catch(() => {});
  writer.close().catch(() => {});
  const reader = transform.readable.getReader();
  const chunks = [];
  let length = 0;
  for (;;) {
    let next;
    try {
      next = await reader.read();
    } catch (cause) {
      throw new MsgtransError('remote', 'a compressed payload is corrupt', { cause });
    }
    if (next.done) break;
    length += next.value.length;
    if (length > max) {
      reader.cancel().catch(() => {});
      throw new MsgtransError('limit', `a payload of more than ${max} bytes when decompressed`);
    }
    chunks.push(next.value);
  }
  const out = new Uint8Array(length);
  let at = 0;
  for (const c of chunks) {
    out.set(c, at);
    at += c.length;
  }
  return out;
}
