// Measures the npm package in node, one thread, beside what JavaScript people use and a copy of as many bytes:
//
//   npm pack --prefix npm ... and install it with @petamoriken/float16 and onnxruntime-web in a folder, then
//   node bench/javascript.mjs FOLDER [--record records/javascript.md]
//
// Every result is compared with ours before anything is timed. Rounds alternate between all; medians are shown.
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc");
const [folder, ...options] = process.argv.slice(2);
if (!folder) throw new Error("usage: node bench/javascript.mjs FOLDER [--record FILE]");
const LENGTH = 1 << 20;
const ROUNDS = 31;
/** Milliseconds in which each contestant gets warm, and the engine after them. */
const WARM = 500;
const COPY = "copy";
const require = createRequire(join(resolve(folder), "x.js"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const ours = await import(pathToFileURL(join(resolve(folder), "node_modules/onnx-cast/src/index.js")).href);
await ours.init();
const half = await load("@petamoriken/float16");
const runtime = await load("onnxruntime-web").catch(() => null);

/** Values of a weight: normal, by the sum of uniform ones, and reproducible. */
function weights() {
  let state = 1;
  const uniform = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  return Float32Array.from({ length: LENGTH }, () => uniform() + uniform() + uniform() + uniform() - 2);
}

const floats = weights();
const encoded = Object.fromEntries(
  ["float16", "bfloat16", "float8e4m3fn", "int4"].map((to) => [to, ours.cast(floats, to)]),
);
const [asWords, asFloats] = [new Uint32Array(floats.buffer), (words) => new Float32Array(words.buffer)];

// What people write by hand.
const tables = Object.fromEntries(
  ["float16", "float8e4m3fn"].map((type) => {
    const bits = type === "float16" ? 16 : 8;
    const codes = Array.from({ length: 1 << bits }, (_, code) => code);
    const array = bits === 16 ? Uint16Array.from(codes) : Uint8Array.from(codes);
    return [type, Float32Array.from(ours.cast(array, "float", { from: type }))];
  }),
);
const out = {
  float16: new Uint16Array(LENGTH),
  bfloat16: new Uint16Array(LENGTH),
  float8e4m3fn: new Uint8Array(LENGTH),
  int4: new Uint8Array(LENGTH / 2),
  float: new Float32Array(LENGTH),
};
const outWords = new Uint32Array(out.float.buffer);
const scratch = new Float32Array(1);
const scratchBits = new Uint32Array(scratch.buffer);

const byTable = (codes, table) => {
  for (let i = 0; i < codes.length; i += 1) out.float[i] = table[codes[i]];
  return out.float;
};
const byHand = {
  "float:bfloat16": () => {
    for (let i = 0; i < LENGTH; i += 1) {
      const word = asWords[i];
      out.bfloat16[i] = (word & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
    }
    return out.bfloat16;
  },
  "bfloat16:float": () => {
    const codes = encoded.bfloat16;
    for (let i = 0; i < LENGTH; i += 1) outWords[i] = codes[i] << 16;
    return out.float;
  },
  "float16:float": () => byTable(halves, tables.float16),
  "float8e4m3fn:float": () => byTable(encoded.float8e4m3fn, tables.float8e4m3fn),
  "float:float8e4m3fn": () => {
    for (let i = 0; i < LENGTH; i += 1) {
      // Adding a power of two rounds at the right place; below 2^-6 the step is that of subnormals.
      const word = asWords[i];
      const magnitude = word & 0x7fffffff;
      const sign = (word >>> 24) & 0x80;
      if (magnitude > 0x43e00000) {
        out.float8e4m3fn[i] = sign | (magnitude > 0x7f800000 ? 0x7f : 0x7e);
      } else if (magnitude < 0x3c800000) {
        scratchBits[0] = magnitude;
        scratch[0] = scratch[0] + 16384;
        out.float8e4m3fn[i] = sign | (scratchBits[0] - 0x46800000);
      } else {
        const rounded = magnitude + 0x7ffff + ((magnitude >>> 20) & 1);
        out.float8e4m3fn[i] = sign | Math.min(0x7e, (rounded >>> 20) - (120 << 3));
      }
    }
    return out.float8e4m3fn;
  },
  "float:int4": () => {
    const even = (value) => {
      const rounded = Math.round(value);
      return rounded - value === 0.5 && rounded & 1 ? rounded - 1 : rounded;
    };
    for (let i = 0; i < LENGTH; i += 2) out.int4[i >> 1] = (even(floats[i]) & 15) | ((even(floats[i + 1]) & 15) << 4);
    return out.int4;
  },
  "int4:float": () => {
    const codes = encoded.int4;
    for (let i = 0; i < codes.length; i += 1) {
      out.float[2 * i] = (codes[i] << 28) >> 28;
      out.float[2 * i + 1] = (codes[i] << 24) >> 28;
    }
    return out.float;
  },
};
const halves = new Uint16Array(encoded.float16.buffer);
const polyfilled = new half.Float16Array(floats);
const bare = {
  "float:float16": () => new half.Float16Array(floats),
  "float16:float": () => new Float32Array(polyfilled),
};
const native = globalThis.Float16Array && {
  "float:float16": () => globalThis.Float16Array.from(floats),
  "float16:float": () => Float32Array.from(encoded.float16),
};

/** A model of one Cast, as protocol buffers. */
function castModel(from, to) {
  const varint = (value) => (value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)]);
  const text = (value) => [...new TextEncoder().encode(value)];
  const field = (number, bytes) => [...varint((number << 3) | 2), ...varint(bytes.length), ...bytes];
  const int = (number, value) => [...varint(number << 3), ...varint(value)];
  const value = (name, type) => [
    ...field(1, text(name)),
    ...field(2, field(1, [...int(1, type), ...field(2, field(1, int(1, LENGTH)))])),
  ];
  const node = [
    ...field(1, text("x")),
    ...field(2, text("y")),
    ...field(4, text("Cast")),
    ...field(5, [...field(1, text("to")), ...int(3, to), ...int(20, 2)]),
  ];
  const graph = [
    ...field(1, node),
    ...field(2, text("g")),
    ...field(11, value("x", from)),
    ...field(12, value("y", to)),
  ];
  return Uint8Array.from([...int(1, 9), ...field(7, graph), ...field(8, int(2, 19))]);
}

const NUMBERS = { float: 1, float16: 10, bfloat16: 16, float8e4m3fn: 17, int4: 22 };
async function session(pair) {
  if (!runtime) return null;
  const [from, to] = pair.split(":");
  runtime.env.wasm.numThreads = 1;
  runtime.env.logLevel = "error";
  try {
    const made = await runtime.InferenceSession.create(castModel(NUMBERS[from], NUMBERS[to]), {
      executionProviders: ["wasm"],
    });
    const data = from === "float" ? floats : from === "float16" ? halves : encoded[from];
    const run = async () =>
      (await made.run({ x: new runtime.Tensor(from === "float" ? "float32" : from, data, [LENGTH]) })).y.data;
    await run();
    return run;
  } catch {
    return null; // it casts no such types
  }
}

const PAIRS = ["float16", "bfloat16", "float8e4m3fn", "int4"].flatMap((type) => [`float:${type}`, `${type}:float`]);
const bytesOf = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength);
const median = (times) => times.sort((a, b) => a - b)[times.length >> 1];

const rows = [];
for (const pair of PAIRS) {
  const [from, to] = pair.split(":");
  const source = from === "float" ? floats : encoded[from];
  const target = ours.cast(source, to, { from, length: LENGTH });
  const contestants = {
    ours: () => ours.cast(source, to, { from, length: LENGTH, out: target }),
    "by hand": byHand[pair],
    "@petamoriken/float16": bare[pair],
    Float16Array: native?.[pair],
    "onnxruntime-web": await session(pair),
  };
  // A copy that reads and writes as many bytes as the cast does.
  const moved = new Uint8Array((source.byteLength + target.byteLength) / 2).fill(1);
  const place = new Uint8Array(moved.length);
  const times = { [COPY]: [] };
  for (const [name, run] of Object.entries(contestants)) {
    if (!run) continue;
    const result = await run();
    if (!bytesOf(result).equals(bytesOf(target))) throw new Error(`${pair}: ${name} gives other bits`);
    times[name] = [];
  }
  contestants[COPY] = () => place.set(moved);
  // Engines compile what is hot once more, in threads of their own: rounds before that are not counted.
  for (const name of Object.keys(times)) {
    const start = performance.now();
    while (performance.now() - start < WARM) await contestants[name]();
  }
  await new Promise((resolve) => setTimeout(resolve, WARM));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const name of Object.keys(times)) {
      // What others left behind is not collected in our time, nor ours in theirs.
      collect();
      const start = performance.now();
      await contestants[name]();
      times[name].push(performance.now() - start);
    }
  }
  rows.push([pair, Object.fromEntries(Object.entries(times).map(([name, all]) => [name, median(all)]))]);
}
const names = [...new Set(rows.flatMap(([, times]) => Object.keys(times)))];
const line = (cells) => `| ${cells.join(" | ")} |`;
const text = [
  `# The npm package's speed`,
  "",
  `${new Date().toISOString().slice(0, 10)}, ${cpus()[0].model}, node ${process.versions.node}, ` +
    `\`${ours.about().backends[0]}\`, \`node bench/javascript.mjs FOLDER --record records/javascript.md\`.`,
  "",
  `${LENGTH.toLocaleString("en")} elements, one thread, ours and the loops by hand into an array that is there, the`,
  "others into a new one (they have no other way). Milliseconds, medians of rounds in turn. A copy is a",
  "`Uint8Array.set` that reads and writes as many bytes as the cast. Losing rows are kept.",
  "",
  line(["from", "to", ...names, "fastest JavaScript / ours"]),
  line(Array(names.length + 3).fill("---")),
  ...rows.map(([pair, times]) => {
    const { ours: own, [COPY]: copy, ...others } = times;
    const cells = names.map((name) => times[name]?.toFixed(3) ?? "-");
    return line([...pair.split(":"), ...cells, (Math.min(...Object.values(others)) / own).toFixed(2)]);
  }),
  "",
].join("\n");
console.log(text);
const record = options.indexOf("--record");
if (record >= 0) writeFileSync(options[record + 1], text);
