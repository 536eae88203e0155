// The package as it is installed: what its functions give, what they refuse, and the examples of the pages, which lie
// beside this file. `onnx-cast` is the installed package.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, openAsBlob, readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import * as onnx from "onnx-cast";

const unready = (() => {
  try {
    return onnx.cast([1], "float");
  } catch (error) {
    return error.message;
  }
})();
await onnx.init();

const bitsOf = (array) => [...new Uint8Array(array.buffer, array.byteOffset, array.byteLength)];

/** A safetensors file of one float tensor. */
function safetensors(name, values) {
  const data = new Uint8Array(Float32Array.from(values).buffer);
  const header = JSON.stringify({ [name]: { dtype: "F32", shape: [values.length], data_offsets: [0, data.length] } });
  const text = new TextEncoder().encode(header.padEnd(Math.ceil(header.length / 8) * 8));
  return new Blob([new BigUint64Array([BigInt(text.length)]), text, data]);
}

/** A model of one MatMul with a weight of 16 by 16 floats, as protocol buffers. */
function model(values) {
  const bytesOfText = (text) => new TextEncoder().encode(text);
  const varint = (value) => (value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)]);
  const int = (field, value) => [...varint(field << 3), ...varint(value)];
  const bytes = (field, value) => [...varint((field << 3) | 2), ...varint(value.length), ...value];
  const text = (field, value) => bytes(field, bytesOfText(value));
  const float = bytes(2, bytes(1, int(1, 1)));
  const data = new Uint8Array(Float32Array.from(values).buffer);
  const graph = [
    bytes(1, [text(1, "x"), text(1, "w"), text(2, "y"), text(4, "MatMul")].flat()),
    text(2, "g"),
    bytes(5, [int(1, 16), int(1, 16), int(2, 1), text(8, "w"), bytes(9, data)].flat()),
    bytes(11, [...text(1, "x"), ...float]),
    bytes(12, [...text(1, "y"), ...float]),
  ];
  return new Blob([Uint8Array.from([...int(1, 10), ...bytes(7, graph.flat()), ...bytes(8, int(2, 21))])]);
}

test("casts between typed arrays", () => {
  const floats = Float32Array.of(0.3, -1, 65504, 1e9, NaN);
  const half = onnx.cast(floats, "float16");
  assert.deepEqual([...new Uint16Array(half.buffer)], [0x34cd, 0xbc00, 0x7bff, 0x7c00, 0x7e00]);
  assert.equal(half.constructor, globalThis.Float16Array ?? Uint16Array);
  assert.deepEqual(bitsOf(onnx.cast(floats, "float8e4m3fn")), [0x2a, 0xb8, 0x7e, 0x7e, 0x7f]);
  assert.deepEqual(bitsOf(onnx.cast(floats, "float8e4m3fn", { saturate: false })), [0x2a, 0xb8, 0x7f, 0x7f, 0x7f]);
  assert.deepEqual([...onnx.cast(half, "float", { from: "float16" })].slice(0, 3), [0.300048828125, -1, 65504]);
  assert.deepEqual([...onnx.cast(Float32Array.of(1.9, -1.9, 3e9), "int32")], [1, -1, 2147483647]);
  assert.deepEqual([...onnx.cast(BigInt64Array.of(-1n, 5n), "uint8")], [255, 5]);
  assert.deepEqual([...onnx.cast([1, 2.5], "bfloat16")], [0x3f80, 0x4020]);
  assert.deepEqual([...onnx.cast([true, false], "float")], [1, 0]);
  assert.deepEqual([...onnx.cast(Float32Array.of(3), "float8e8m0", { roundMode: "down" })], [0x80]);
});

test("casts long arrays step by step, and into an array that is given", () => {
  const floats = Float32Array.from({ length: 100_003 }, (_, index) => index % 1000);
  const out = new Uint16Array(floats.length);
  assert.equal(onnx.cast(floats, "bfloat16", { out }), out);
  assert.deepEqual([out[1], out[100_002]], [0x3f80, 0x4000]);
  assert.deepEqual(onnx.cast(out.subarray(1, 3), "float", { from: "bfloat16" }), Float32Array.of(1, 2));
  const packed = onnx.cast(floats, "int4");
  assert.equal(packed.length, 50_002);
  assert.deepEqual(
    [...onnx.cast(packed, "int8", { from: "int4", length: 100_003 }).slice(0, 9)],
    [0, 1, 2, 3, 4, 5, 6, 7, -8],
  );
});

test("casts lists of BigInts exactly, or names the item that no type holds", () => {
  const max = 2n ** 64n - 1n;
  assert.deepEqual([...onnx.cast([max, 0n], "uint64")], [max, 0n]);
  assert.deepEqual([...onnx.cast([max], "float")], [2 ** 64]);
  assert.deepEqual([...onnx.cast([2n ** 63n - 1n, -(2n ** 63n)], "int64")], [2n ** 63n - 1n, -(2n ** 63n)]);
  assert.deepEqual([...onnx.bitCast([2n ** 63n], "int64")], [-(2n ** 63n)]);
  assert.deepEqual([...onnx.bitCast([-1n], "uint64")], [max]);
  assert.deepEqual([...onnx.cast([1n], "float", { from: "uint64" })], [1]);
  assert.deepEqual([...onnx.quantize(Float32Array.of(2 ** 64), "int8", { scale: max })], [1]);
  for (const [list, from, text] of [
    [[1n, max + 1n], undefined, /^item 1 of the list is 18446744073709551616, which uint64 does not hold: want BigInts/],
    [[-(2n ** 63n) - 1n], undefined, /^item 0 of the list is -9223372036854775809, which int64 does not hold/],
    [[max, -1n], undefined, /^item 1 of the list is -1, which uint64 does not hold/],
    [[0n, 2n ** 63n], "int64", /^item 1 of the list is 9223372036854775808, which int64 does not hold/],
    [[-1n], "uint64", /^item 0 of the list is -1, which uint64 does not hold/],
  ])
    assert.throws(() => onnx.cast(list, "float", { from }), { name: "RangeError", message: text });
  assert.throws(() => onnx.cast([1n], "float", { from: "int32" }), /a list of bigint holds int64 or uint64, not int32/);
  assert.throws(() => onnx.cast([1n, 2], "float"), /several types: bigint at item 0, number at item 1/);
  assert.throws(() => onnx.cast([1, , 2], "float"), /several types: number at item 0, undefined at item 1/);
});

test("checks the length of a list as that of an array", () => {
  assert.deepEqual([...onnx.cast([1, 2], "int8", { length: 2 })], [1, 2]);
  for (const [list, length, text] of [
    [[1, 2, 3], 2, /^3 items are not 2 elements of double: want 2 items$/],
    [["1", "2"], 3, /^2 items are not 3 elements of string: want 3 items$/],
    [[1n], 0, /^1 items are not 0 elements of int64: want 0 items$/],
    [[true], 1.5, /^1 items are not 1.5 elements of bool: want an integer, 0 or more$/],
  ])
    assert.throws(() => onnx.cast(list, "string", { length }), { name: "RangeError", message: text });
});

test("refuses an output in the memory of its input, which later steps still read", () => {
  const floats = new Float32Array(100_000).fill(3);
  for (const run of [
    () => onnx.cast(floats.subarray(0, 50_000), "double", { out: new Float64Array(floats.buffer) }),
    () => onnx.bitCast(floats, "int32", { out: new Int32Array(floats.buffer) }),
    () => onnx.quantize(floats, "int8", { scale: 1, out: new Int8Array(floats.buffer, 0, floats.length) }),
  ])
    assert.throws(run, { name: "RangeError", message: /`out` overlaps the array/ });
  const [low, high] = [floats.subarray(0, 50_000), new Int32Array(floats.buffer, 200_000)];
  assert.equal(onnx.cast(low, "int32", { out: high })[49_999], 3);
});

test("packs, and refuses what does not fit", () => {
  const packed = onnx.pack(Uint8Array.of(1, 2, 3), "uint4");
  assert.deepEqual([...packed], [0x21, 0x03]);
  assert.deepEqual([...onnx.unpack(packed, "uint4", 3)], [1, 2, 3]);
  assert.deepEqual([...onnx.unpack(Uint8Array.of(0xf8), "int4")], [8, 15]);
  assert.deepEqual([...onnx.cast(Uint8Array.of(0xf8), "int8", { from: "int4" })], [-8, -1]);
  for (const [run, text] of [
    [() => onnx.cast(Float32Array.of(1), "float9"), /not an element type/],
    [() => onnx.cast(Float32Array.of(1), "float16", { from: "float16" }), /does not hold float16/],
    [() => onnx.cast(packed, "float", { from: "uint4", length: 5 }), /not 5 elements of uint4: want 3 bytes/],
    [() => onnx.cast(Float32Array.of(1), "float16", { opset: 5000 }), /opset|version/i],
    [() => onnx.cast(Float32Array.of(1), "float8e8m0", { roundMode: "sideways" }), /roundMode/],
    [() => onnx.cast(Float32Array.of(1), "float16", { opset: "x" }), /`opset` is not an integer: x/],
    [() => onnx.cast(Float32Array.of(1), "float16", { opset: 13.5 }), /`opset` is not an integer/],
    [() => onnx.cast(Float32Array.of(1), "float16", { opset: NaN }), /`opset` is not an integer/],
    [() => onnx.cast(Float32Array.of(1), "float16", { opset: 0 }), /opset 0/],
    [() => onnx.cast(Float32Array.of(1), "float16", { opset: -13 }), /opset -13/],
    [() => onnx.cast(Float32Array.of(1), "float16", { opset: 2 ** 32 + 13 }), /opset/],
    [() => onnx.cast(Float32Array.of(1), "string", { opset: NaN }), /`opset` is NaN/],
    [() => onnx.bitCast(Float32Array.of(1), "int32", { opset: "x" }), /`opset` is not an integer/],
    [() => onnx.bitCast(Float32Array.of(1), "int32", { opset: 0 }), /opset 0/],
    [() => onnx.cast(Float32Array.of(1), "float8e4m3fn", { saturate: "no" }), /neither true nor false/],
    [() => onnx.cast({}, "float"), /Object cannot be cast/],
    [() => onnx.cast(null, "float"), /null cannot be cast/],
    [() => onnx.cast("12", "float"), /String cannot be cast/],
    [() => onnx.cast(new ArrayBuffer(4), "float"), /ArrayBuffer cannot be cast/],
    [() => onnx.cast(new DataView(new ArrayBuffer(4)), "float"), /DataView cannot be cast/],
    [() => onnx.cast([1, "2"], "float"), /several types/],
    [() => onnx.cast(Float32Array.of(1, 2), "float16", { out: new Uint16Array(1) }), /`out` has 2 bytes: want 4, for 2 /],
    [() => onnx.cast(Float32Array.of(1, 2), "float16", { out: new Float32Array(1) }), /does not hold float16/],
    [() => onnx.cast(Float32Array.of(1), "int32", { out: new Float32Array(1) }), /does not hold int32: want Int32Array/],
    [() => onnx.cast(Float32Array.of(1), "float", { out: [0] }), /`out` is Array/],
    [() => onnx.pack([1, 2], "int4"), /the codes are Array: want a Uint8Array or an Int8Array/],
    [() => onnx.pack(Float32Array.of(1), "int4"), /the codes are Float32Array/],
    [() => onnx.cast(packed, "int8", { from: "uint4", length: 2.5 }), /want an integer, 0 or more/],
    [() => onnx.cast(["1", "x"], "float"), /x/],
  ])
    assert.throws(run, text);
});

test("takes every spelling of a type that the library has", () => {
  for (const { name, aliases } of onnx.types().filter(({ kind }) => !["complex", "string"].includes(kind))) {
    const want = onnx.cast([1], name);
    for (const alias of [...aliases, name.toUpperCase()]) assert.deepEqual(onnx.cast([1], alias), want, alias);
  }
  assert.deepEqual(onnx.cast([1], "utf8"), ["1"]);
  assert.equal(onnx.names().length, 26);
  assert.throws(() => onnx.cast([1], "constructor"), /`constructor` is not an element type: want float, .*float6e3m2$/);
});

test("casts strings", () => {
  assert.deepEqual(onnx.cast(Float32Array.of(0.1, NaN, -Infinity), "string"), ["0.1", "NaN", "-INF"]);
  assert.deepEqual([...onnx.cast(["1e3", "-0.5", "nan"], "float")], [1000, -0.5, NaN]);
  assert.deepEqual(onnx.cast(["é"], "string"), ["é"]);
});

test("reads bits", () => {
  assert.deepEqual([...onnx.bitCast(Float32Array.of(1), "uint32")], [0x3f800000]);
  assert.throws(() => onnx.bitCast(Float32Array.of(1), "uint16"));
});

test("quantizes, and back", () => {
  const x = Float32Array.of(0.3, -1, 2.5, 1000);
  const options = { shape: [2, 2], axis: 0, scale: Float32Array.of(0.1, 10) };
  const y = onnx.quantize(x, "int8", options);
  assert.deepEqual([...y], [3, -10, 0, 100]);
  assert.deepEqual(
    [...onnx.dequantize(y, options)],
    [...Float32Array.of(3 * Math.fround(0.1), -10 * Math.fround(0.1), 0, 1000)],
  );
  assert.deepEqual(
    [...onnx.quantize(Float32Array.of(0.5, -0.5), "uint8", { scale: 0.5, zeroPoint: 128 })],
    [129, 127],
  );
  assert.deepEqual([...onnx.quantize(Float32Array.of(1, 2, 3), "int4", { scale: 1 })], [0x21, 0x03]);
  const blocks = onnx.quantize(Float32Array.of(1, 2, 30, 40), "int8", {
    scale: Float32Array.of(1, 10),
    scaleShape: [2],
    axis: 0,
    blockSize: 2,
  });
  assert.deepEqual([...blocks], [1, 2, 3, 4]);
  assert.throws(() => onnx.quantize(x, "int8", {}), /scale/);
  // A zero point that is a number is that of every scale; lists of numbers are as good as arrays.
  const rows = { shape: [2, 2], axis: 0, scale: [0.1, 10] };
  const zero = [[...onnx.quantize(x, "int8", { ...rows, zeroPoint: 3 })], [6, -7, 3, 103]];
  assert.deepEqual(...zero);
  assert.deepEqual([...onnx.quantize(x, "int8", { ...rows, zeroPoint: [3, 3] })], zero[1]);
  const ofBlocks = { shape: [2, 2], axis: 1, blockSize: 2, scaleShape: [2, 1], scale: [1, 100], zeroPoint: 8 };
  const nibbles = onnx.quantize(x, "uint4", ofBlocks);
  assert.deepEqual([...nibbles], [0x78, 0xf8]);
  assert.deepEqual([...onnx.dequantize(nibbles, { ...ofBlocks, from: "uint4" })], [0, -1, 0, 700]);
  for (const [more, text] of [
    [{ scale: [1, 2, 3] }, /a scale of shape \[3\]/],
    [{ scale: [1], scaleShape: [2] }, /`scale` has 1 numbers: want 2/],
    [{ zeroPoint: [1] }, /`zeroPoint` has 1 numbers: want 2/],
    [{ zeroPoint: [1, 200] }, /zeroPoint is 200, which int8 does not have/],
    [{ scale: "0.5" }, /`scale` is String: want a number, a list of numbers or a typed array/],
    [{ scale: ["0.5"] }, /`scale` is Array/],
    [{ shape: "22" }, /`shape` is not a list of integers, 0 or more: 22/],
    [{ scaleShape: [-1] }, /`scaleShape` is not a list/],
  ])
    assert.throws(() => onnx.quantize(x, "int8", { ...rows, ...more }), text);
  assert.throws(() => onnx.dequantize(["1"], { scale: 1 }), /dequantize takes numbers, not strings/);
  assert.throws(() => onnx.explainBlock("1", "mxfp4"), /the values are String: want a list/);
  for (const [type, zeroPoint] of [["int4", 20], ["uint4", -1], ["uint8", 300], ["uint8", 1.9], ["int8", NaN]]) {
    assert.throws(() => onnx.quantize(x, type, { scale: 1, zeroPoint }), /zeroPoint is .*, which u?int[48] does not have/);
  }
  for (const wrong of [{ axis: 0.9 }, { axis: NaN }, { blockSize: 2.5 }, { saturate: 2 }, { axis: "0" }]) {
    const named = new RegExp(`\`${Object.keys(wrong)[0]}\` is`);
    assert.throws(() => onnx.quantize(x, "int8", { scale: 1, ...wrong }), named);
  }
});

test("explains", () => {
  const { result, rule } = onnx.explain(0.3, "float8e4m3fn");
  assert.deepEqual([result.bits, rule.id], ["0x2a", "nearest"]);
  assert.equal(onnx.explain("0x3f80", "float", { from: "bfloat16" }).result.value, "1");
  const all = onnx.explainAll("1e5", { from: "float" });
  assert.equal(all.find(({ to }) => to === "float16").explained.result.value, "INF");
  assert.equal(onnx.explain(0.3, "int8", { scale: 0.05 }).result.value, "6");
  assert.equal(onnx.explainBlock(["0.3", "-1.7"], "mxfp4", { from: "float" }).elements.length, 2);
  assert.throws(() => onnx.explain("nothing", "float", { from: "float" }), /nothing/);
  assert.equal(onnx.types().length, 28);
  assert.match(onnx.about().backends.join(), /^(simd128|portable)$/);
});

test("looks at files, and casts them", async () => {
  const values = Array.from({ length: 3000 }, (_, index) => (index - 1500) / 7);
  const blob = safetensors("w", values);
  const held = await onnx.info({ "a.safetensors": blob });
  assert.deepEqual(
    held.tensors.map(({ name, type, shape }) => [name, type, shape]),
    [["w", "float", [3000]]],
  );
  const lost = await onnx.report({ "a.safetensors": blob }, { to: ["float16", "mxfp4"] });
  assert.deepEqual(
    lost.types.map(({ type }) => type),
    ["float16", "mxfp4"],
  );
  const shown = await onnx.report({ "a.safetensors": blob }, { to: ["float16"], page: true, title: "<w>" });
  assert.match(shown.page, /^<!doctype html>/);
  assert.match(shown.page, /"title":"\\u003cw>"/);
  assert.ok(!shown.page.includes("{{"), "every mark of the page is filled in");
  let heard = 0;
  const { files, summary } = await onnx.castFile({ "a.safetensors": blob }, "float16", {
    onProgress: () => (heard += 1),
  });
  assert.equal(summary.tensors[0].to, "float16");
  const bytes = new Uint8Array(await files.get("a.safetensors").arrayBuffer());
  const size = Number(new DataView(bytes.buffer).getBigUint64(0, true));
  const want = onnx.cast(Float32Array.from(values), "float16");
  assert.deepEqual(bytes.slice(8 + size), new Uint8Array(want.buffer));
  assert.ok(heard > 0);
  const onProgress = () => {
    throw new RangeError("of the caller");
  };
  const failed = onnx.castFile({ "a.safetensors": blob }, "float16", { onProgress });
  await assert.rejects(failed, { name: "RangeError", message: "of the caller" });
});

test("looks at models, and casts and quantizes their weights", async () => {
  const values = Array.from({ length: 256 }, (_, index) => (index - 128) / 7);
  const [name, blob] = ["M.ONNX", model(values)];
  const listed = (held) => held.tensors.map(({ name, type, shape }) => [name, type, shape]);
  const held = await onnx.info({ [name]: blob });
  assert.deepEqual([held.format, listed(held)], ["onnx", [["w", "float", [16, 16]]]]);
  const { tensors } = await onnx.report({ [name]: blob }, { to: ["float16", "int8"] });
  assert.deepEqual([tensors[0].name, tensors[0].values], ["w", 256]);
  const cast = await onnx.castFile({ [name]: blob }, "float16");
  const written = await onnx.info({ [name]: cast.files.get(name) });
  assert.deepEqual(
    [written.tensors.map(({ type }) => type), written.model.casts.map(({ from, to }) => [from, to])],
    [["float16"], [["float16", "float"]]],
  );
  const bytes = Buffer.from(await cast.files.get(name).arrayBuffer());
  const half = onnx.cast(Float32Array.from(values), "float16");
  assert.ok(bytes.includes(Buffer.from(half.buffer, half.byteOffset, half.byteLength)), "the bits that arrays get");
  // float8e8m0 is there from opset 23 on, and the model has 21.
  await assert.rejects(onnx.castFile({ [name]: blob }, "float8e8m0"), /M\.ONNX.*opset/);
  const raised = await onnx.castFile({ [name]: blob }, "float8e8m0", { raiseOpset: true });
  assert.equal((await onnx.info({ [name]: raised.files.get(name) })).tensors[0].type, "float8e8m0");
  const quantized = await onnx.quantizeFile({ [name]: blob }, "int8");
  const types = (await onnx.info({ [name]: quantized.files.get(name) })).tensors.map(({ type }) => type);
  assert.ok(types.includes("int8"), types.join());
  const options = { form: "matmulnbits", zeroPoints: true };
  const products = await onnx.quantizeFile({ [name]: blob }, "int4", options);
  const operands = (await onnx.info({ [name]: products.files.get(name) })).tensors.map((tensor) => tensor.name);
  assert.deepEqual(operands, ["w_Q4", "w_scales", "w_zero_points"]);
  await assert.rejects(onnx.quantizeFile({ [name]: blob }, "int8", { form: "other" }), /form/);
  // A model is not a file of tensors, whatever its name, and the other way round.
  await assert.rejects(onnx.castFile({ [name]: blob }, "float16", { output: "w.npy" }), /M\.ONNX.*model/);
  await assert.rejects(onnx.info({ "w.npy": blob }), /w\.npy/);
  await assert.rejects(onnx.info({ [name]: safetensors("w", values) }), /M\.ONNX.*not a valid ONNX model/);
  // An option without an effect is no error.
  const plain = await onnx.castFile({ "a.safetensors": safetensors("w", values) }, "float16", { raiseOpset: true });
  assert.deepEqual(plain.summary.ignored, [{ option: "raise_opset", why: "is for models (.onnx to .onnx)" }]);
});

test("refuses patterns that match no tensor", async () => {
  const values = Array.from({ length: 256 }, (_, index) => index);
  for (const [name, blob] of [["a.safetensors", safetensors("layer.weight", values)], ["m.onnx", model(values)]]) {
    const near = name === "m.onnx" ? "w" : "layer.weight";
    const typed = near === "w" ? "v" : "layer.wieght";
    const message = `${name}: \`exclude\` \`${typed}\` matches no tensor (did you mean \`${near}\`?)`;
    const [file, exclude] = [{ [name]: blob }, [typed]];
    await assert.rejects(onnx.castFile(file, "float16", { exclude }), { message });
    await assert.rejects(onnx.info(file, { exclude }), { message });
    await assert.rejects(onnx.report(file, { exclude }), { message });
    await assert.rejects(onnx.quantizeFile(file, "int8", { exclude }), { message });
  }
});

test("reads paths of the system and blobs of files, and refuses broken ones", async () => {
  const folder = mkdtempSync(join(tmpdir(), "onnx-cast-"));
  try {
    const path = join(folder, "b.safetensors");
    writeFileSync(path, new Uint8Array(await safetensors("w", [1, 2, 3]).arrayBuffer()));
    for (const given of [path, { "b.safetensors": await openAsBlob(path) }]) {
      assert.equal((await onnx.info(given)).tensors[0].name, "w");
    }
    writeFileSync(path, "not a file of tensors");
    await assert.rejects(onnx.info(path), /b\.safetensors/);
    await assert.rejects(onnx.info(join(folder, "none.safetensors")), /ENOENT|none/);
    const ended = new AbortController();
    const work = onnx.report({ "a.safetensors": safetensors("w", [1]) }, { signal: ended.signal });
    ended.abort(new Error("enough"));
    await assert.rejects(work, /enough/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("reads a large file of the system in little memory", () => {
  const folder = mkdtempSync(join(tmpdir(), "onnx-cast-"));
  try {
    const [path, size] = [join(folder, "w.safetensors"), 2 ** 29];
    const header = JSON.stringify({ w: { dtype: "F32", shape: [size / 4], data_offsets: [0, size] } });
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(header.length));
    writeFileSync(path, Buffer.concat([length, Buffer.from(header)]));
    truncateSync(path, 8 + header.length + size);
    // In a process of its own, whose memory is known. Its worker does not get `--input-type`, which workers refuse.
    const program = `
      import { info } from "onnx-cast";
      await info(${JSON.stringify(path)}, { stats: true });
      console.log(process.resourceUsage().maxRSS);
    `;
    const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "--eval", program], {
      cwd: new URL("./", import.meta.url),
      encoding: "utf8",
    });
    assert.ok(Number(stdout) > 0, stderr);
    assert.ok(Number(stdout) < 384 * 1024, `${stdout.trim()} KiB for a file of 512 MiB`);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("loads the module once, where it is told to", async () => {
  assert.match(unready, /cast needs the module: `await init\(\)` first/);
  const [cast, again] = [onnx.cast, onnx.init()];
  await again;
  assert.equal(cast, onnx.cast);
  await assert.rejects(onnx.init({ wsm: "x" }), /`wsm` is not an option of init/);
  // In a process of its own: a folder that lacks the module, and then one that has it.
  const program = `
    import { cast, info, init } from "onnx-cast";
    import { writeFileSync } from "node:fs";
    const failed = await init({ wasm: "./nowhere" }).then(() => "", (error) => error.code);
    await init({ wasm: new URL("./wasm", ${JSON.stringify(import.meta.resolve("onnx-cast").replace("src/index.js", ""))}) });
    writeFileSync(1, failed + cast([1.5], "float")[0]);
  `;
  const { stdout } = spawnSync(process.execPath, ["--input-type=module", "--eval", program], {
    cwd: new URL("./", import.meta.url),
    encoding: "utf8",
  });
  assert.equal(stdout, "ENOENT1.5");
});

test("is there for require, where node has it for modules", () => {
  const program = `const { cast, init } = require("onnx-cast"); init().then(() => console.log(cast([2.5], "int8")[0]))`;
  const cwd = new URL("./", import.meta.url);
  const { stdout, stderr } = spawnSync(process.execPath, ["--eval", program], { cwd, encoding: "utf8" });
  if (process.features.require_module) assert.equal(stdout, "2\n", stderr);
  else assert.match(stderr, /ERR_REQUIRE_ESM/);
});

test("names what is wrong, and throws errors of its own class", async () => {
  const blob = safetensors("w", [1, 2, 3]);
  const files = { "a.safetensors": blob };
  for (const [given, text] of [
    [null, /the files are null: want a File/],
    [undefined, /the files are undefined/],
    [3, /the files are Number/],
    [[blob], /the files are Array/],
    [new Uint8Array(4), /the files are Uint8Array/],
    [new ArrayBuffer(4), /the files are ArrayBuffer/],
    [{}, /there are no files/],
    [new Map(), /there are no files/],
    [{ "a.safetensors": 3 }, /the file `a\.safetensors` is Number/],
    [blob, /a Blob has no name to tell its format: want a File, or `\{ "w\.safetensors": blob \}`/],
  ]) {
    await assert.rejects(onnx.info(given), { name: "TypeError", message: text });
    await assert.rejects(onnx.castFile(given, "float16"), { name: "TypeError", message: text });
  }
  for (const [run, text] of [
    [() => onnx.castFile(files), /castFile needs a second argument/],
    [() => onnx.castFile(files, "float16", { satrate: false }), /`satrate` is not an option of castFile: want .*saturate/],
    [() => onnx.castFile(files, "float16", { layout: "gguf" }), /`layout` is not an option of castFile/],
    [() => onnx.quantizeFile(files, "int8", { roundMode: "up" }), /`roundMode` is not an option of quantizeFile/],
    [() => onnx.info(files, { opset: 20 }), /`opset` is not an option of info/],
    [() => onnx.report(files, { form: "qdq" }), /`form` is not an option of report/],
    [() => onnx.info(files, null), /the options of info are null/],
    [() => onnx.report(files, { to: "float16" }), /`to` is String \(float16\): want an array of strings/],
    [() => onnx.report(files, { to: [16] }), /`to` is an Array with other items: want an array of strings/],
    [() => onnx.report(files, { include: "w*" }), /`include` is String \(w\*\): want an array of strings/],
    [() => onnx.report(files, { minElements: -1 }), /`minElements` is Number \(-1\): want an integer, 0 or more/],
    [() => onnx.info(files, { stats: "yes" }), /`stats` is String \(yes\): want true or false/],
    [() => onnx.info(files, { onProgress: true }), /`onProgress` is Boolean \(true\): want a function/],
    [() => onnx.info(files, { signal: {} }), /`signal` is Object: want an AbortSignal/],
    [() => onnx.castFile(files, ["float16"]), /what castFile writes is Array: want a string/],
    [() => onnx.castFile(files, "float16", { output: 3 }), /`output` is Number \(3\): want a string/],
    [() => onnx.castFile(files, "float16", { opset: "20" }), /`opset` is String \(20\): want an integer/],
    [async () => onnx.cast([1], "float", { satrate: false }), /`satrate` is not an option of cast/],
    [async () => onnx.bitCast(Int8Array.of(1), "uint8", { saturate: true }), /not an option of bitCast/],
    [async () => onnx.quantize(Float32Array.of(1), "int8", { scale: 1, zeropoint: 1 }), /not an option of quantize/],
    [async () => onnx.dequantize(Int8Array.of(1), { scale: 1, zeropoint: 1 }), /not an option of dequantize/],
    [async () => onnx.explain(1, "float", { scales: 1 }), /not an option of explain:/],
    [async () => onnx.explainAll(1, { scales: 1 }), /not an option of explainAll/],
    [async () => onnx.explainBlock([1], "mxfp4", { rules: "even" }), /not an option of explainBlock/],
    [async () => onnx.cast([1], "string", { out: new Uint8Array(4) }), /texts have no `out`/],
  ])
    await assert.rejects(run, { name: "TypeError", message: text });
  // Several files of which each is one to read.
  const one = new Blob(["x"]);
  for (const several of [{ "a.npy": one, "b.npy": one }, { "a.onnx": one, "b.onnx": one }]) {
    const message = /2 files, and none says which one to read: want `path`, the name of one/;
    await assert.rejects(onnx.info(several), { name: "TypeError", message });
  }
  // An option that is given as undefined or, in a job, as null is not given.
  assert.equal((await onnx.report(files, { to: null, opset: null, satrate: undefined })).types.length, 3);
  assert.deepEqual([...onnx.cast([1], "int8", { satrate: undefined })], [1]);
  // What the library itself refuses, here and in a worker.
  const isRefused = (error) => {
    assert.ok(error instanceof onnx.CastError && error instanceof TypeError, String(error));
    assert.deepEqual([error.name, error.message.includes("opset") || error.message.includes("Cast-19")], ["CastError", true]);
    return true;
  };
  assert.throws(() => onnx.cast([1], "float16", { opset: 5000 }), isRefused);
  await assert.rejects(onnx.castFile(files, "float8e8m0", { opset: 20 }), isRefused);
  await assert.rejects(onnx.info("none.safetensors"), (error) => {
    assert.deepEqual([error.constructor, error.code], [Error, "ENOENT"]);
    return true;
  });
});

/** Compares a value with the comment behind it: `Uint8Array [0x21, 0x03], packed` or `"a text"`; others only describe. */
function shown(value, comment, counts) {
  const array = /^(\w+Array) \[([^\]]*)\]/.exec(comment);
  const text = /^"[^"]*"/.exec(comment);
  if (array) {
    assert.equal(value.constructor.name, array[1], comment);
    assert.deepEqual(value, globalThis[array[1]].from(array[2].split(","), Number), comment);
  } else if (text) {
    assert.equal(value, JSON.parse(text[0]));
  } else {
    assert.notEqual(value, undefined, comment);
  }
  counts.compared += array || text ? 1 : 0;
  return value;
}

/**
 * An example as the body of a function: what it imports is given to it, if the package has it, and commented values go
 * through `shown`.
 */
function body(block) {
  const imports = /^import \{ (.*) \} from "onnx-cast";$/;
  const lines = block.split("\n").filter((line) => {
    const [, names] = imports.exec(line) ?? [];
    for (const name of names?.split(", ") ?? []) assert.ok(name in onnx, `the package has no ${name}`);
    return names === undefined;
  });
  const line = /^(const (?:\w+|\{[^}]*\}) = )?(.*?);\s*\/\/ (.*)$/;
  return lines.map((it) => it.replace(line, (_, name, value, comment) => {
    return `${name ?? ""}shown(${value}, ${JSON.stringify(comment)}, counts);`;
  })).join("\n");
}

const AsyncFunction = (async () => {}).constructor;
const folder = new URL("./", import.meta.url);

for (const page of readdirSync(folder).filter((name) => name.endsWith(".md"))) {
  test(`the examples of ${page}`, async () => {
    const blocks = readFileSync(new URL(page, folder), "utf8").matchAll(/^```js\n(.*?)^```/gms);
    const counts = { compared: 0 };
    // A `File`, as a page gets it from its user.
    const file = new File([safetensors("w", [1, -2.5, 0.3, 1e-9])], "w.safetensors");
    const names = { ...onnx, file, shown, counts };
    const run = [...blocks].filter(([, block]) => !block.includes("// not run by the tests: "));
    for (const [, block] of run) await new AsyncFunction(...Object.keys(names), body(block))(...Object.values(names));
    assert.ok(counts.compared > 0, `${page}: nothing is compared`);
  });
}
