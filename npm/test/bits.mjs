// Compares the module with the native library: hashes of the results of every pair of types
// (crates/onnx-cast-wasm/tests/bits.rs makes them). Runs in node and in a browser.
const WIDE = Math.floor(10_000_000 / 6) + 1;

/** Two hashes of 32 bits, in hexadecimal. */
export function hash(bytes) {
  let [a, b] = [0x811c9dc5, 0x811c9dc5];
  for (let i = 0; i < bytes.length; i += 1) {
    a = Math.imul(a ^ bytes[i], 0x01000193);
    b = Math.imul(b ^ bytes[i], 0x85ebca6b);
  }
  return [a, b].map((part) => (part >>> 0).toString(16).padStart(8, "0")).join("");
}

/** Random elements, as `random` in bits.rs. */
function random({ name, code, bits }) {
  let state = Math.imul(code, 2654435761);
  const next = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
  const words = new Uint32Array((WIDE * bits) / 32);
  let at = 0;
  for (let index = 0; index < WIDE; index += 1) {
    let low = next();
    let high = bits === 64 ? next() : 0;
    if (index % 2 === 1) {
      const more = next();
      if (name === "float") low = (low & 0x807fffff) | ((95 + (more & 63)) << 23);
      else if (name === "double") high = (high & 0x800fffff) | ((959 + (more & 127)) << 20);
      else if (bits === 32) low >>>= more & 31;
      else [low, high] = shifted(low, high, more & 63);
    }
    words[at++] = low;
    if (bits === 64) words[at++] = high;
  }
  return words;
}

function shifted(low, high, by) {
  if (by === 0) return [low, high];
  if (by < 32) return [(low >>> by) | (high << (32 - by)), high >>> by];
  return [high >>> (by - 32), 0];
}

const KINDS = {
  int32: Int32Array,
  uint32: Uint32Array,
  float: Float32Array,
  double: Float64Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
};

/** The elements of a source as `cast` takes them. */
function elements(api, type) {
  const { name, bits } = type;
  if (name === "bool") return { array: Uint8Array.of(0, 1), length: 2 };
  if (bits < 8) {
    const codes = Uint8Array.from({ length: 1 << bits }, (_, index) => index);
    return { array: api.pack(codes, name), length: codes.length };
  }
  if (bits === 8) return { array: Uint8Array.from({ length: 256 }, (_, index) => index), length: 256 };
  if (bits === 16) return { array: Uint16Array.from({ length: 1 << 16 }, (_, index) => index), length: 1 << 16 };
  const words = random(type);
  return { array: new KINDS[name](words.buffer), length: WIDE };
}

/** Compares all pairs; returns how many were compared and which differ. */
export function compare(api, wanted) {
  const types = Object.fromEntries(api.types().map((type) => [type.name, type]));
  const wrong = [];
  let [last, source, values] = ["", null, 0];
  for (const [pair, want] of Object.entries(wanted).sort(([a], [b]) => (a < b ? -1 : 1))) {
    const [from, to, setting = ""] = pair.split(" ");
    if (from !== last) [last, source] = [from, elements(api, types[from])];
    const [name, value] = setting.split("=");
    const options = { saturate: { saturate: false }, round_mode: { roundMode: value } }[name] ?? {};
    const result = api.cast(source.array, to, { from, length: source.length, ...options });
    values += source.length;
    if (hash(new Uint8Array(result.buffer, result.byteOffset, result.byteLength)) !== want) wrong.push(pair);
  }
  return { pairs: Object.keys(wanted).length, values, wrong };
}
