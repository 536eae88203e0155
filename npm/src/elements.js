// Element types and the arrays that hold them.
import { kindOf } from "./errors.js";

/** Name, ONNX's number, bits, and the kind of array. Types without a kind of their own have that of their bits. */
const TABLE = [
  ["float", 1, 32, Float32Array],
  ["uint8", 2, 8, Uint8Array],
  ["int8", 3, 8, Int8Array],
  ["uint16", 4, 16, Uint16Array],
  ["int16", 5, 16, Int16Array],
  ["int32", 6, 32, Int32Array],
  ["int64", 7, 64, BigInt64Array],
  ["string", 8, 0, Array],
  ["bool", 9, 8, Uint8Array],
  ["float16", 10, 16, globalThis.Float16Array ?? Uint16Array],
  ["double", 11, 64, Float64Array],
  ["uint32", 12, 32, Uint32Array],
  ["uint64", 13, 64, BigUint64Array],
  ["bfloat16", 16, 16, Uint16Array],
  ["float8e4m3fn", 17, 8, Uint8Array],
  ["float8e4m3fnuz", 18, 8, Uint8Array],
  ["float8e5m2", 19, 8, Uint8Array],
  ["float8e5m2fnuz", 20, 8, Uint8Array],
  ["uint4", 21, 4, Uint8Array],
  ["int4", 22, 4, Uint8Array],
  ["float4e2m1", 23, 4, Uint8Array],
  ["float8e8m0", 24, 8, Uint8Array],
  ["uint2", 25, 2, Uint8Array],
  ["int2", 26, 2, Uint8Array],
  ["float6e2m3", 27, 6, Uint8Array],
  ["float6e3m2", 28, 6, Uint8Array],
];

const BY_NAME = new Map(TABLE.map(([name, number, bits, kind]) => [name, { name, number, bits, kind }]));

/** The types that arrays have by themselves. */
const OF_ARRAYS = new Map([
  [Float32Array, "float"],
  [Float64Array, "double"],
  [Uint8Array, "uint8"],
  [Uint8ClampedArray, "uint8"],
  [Int8Array, "int8"],
  [Uint16Array, "uint16"],
  [Int16Array, "int16"],
  [Uint32Array, "uint32"],
  [Int32Array, "int32"],
  [BigInt64Array, "int64"],
  [BigUint64Array, "uint64"],
]);
if (globalThis.Float16Array) OF_ARRAYS.set(globalThis.Float16Array, "float16");

/** Other spellings: those that `types()` lists, in any case. */
const ALIASES = {
  float: "f32 fp32 float32 single",
  uint16: "u16",
  int16: "i16",
  int32: "i32",
  int64: "i64",
  string: "str utf8",
  bool: "boolean",
  float16: "f16 fp16 half",
  double: "f64 fp64 float64",
  uint32: "u32",
  uint64: "u64",
  bfloat16: "bf16",
  float8e4m3fn: "f8e4m3fn fp8e4m3fn e4m3fn f8e4m3 e4m3",
  float8e4m3fnuz: "f8e4m3fnuz fp8e4m3fnuz e4m3fnuz",
  float8e5m2: "f8e5m2 fp8e5m2 e5m2",
  float8e5m2fnuz: "f8e5m2fnuz fp8e5m2fnuz e5m2fnuz",
  float4e2m1: "f4e2m1 fp4e2m1 e2m1 fp4 float4e2m1fn e2m1fn",
  float8e8m0: "f8e8m0 fp8e8m0 e8m0 float8e8m0fnu f8e8m0fnu e8m0fnu",
  float6e2m3: "f6e2m3 fp6e2m3 e2m3 float6e2m3fn e2m3fn",
  float6e3m2: "f6e3m2 fp6e3m2 e3m2 float6e3m2fn e3m2fn",
};
for (const [name, aliases] of Object.entries(ALIASES)) {
  for (const alias of aliases.split(" ")) BY_NAME.set(alias, BY_NAME.get(name));
}

export function typeOf(name) {
  const found = BY_NAME.get(name) ?? BY_NAME.get(String(name).toLowerCase());
  if (!found) throw new TypeError(`\`${name}\` is not an element type: want ${names().join(", ")}`);
  return found;
}

/** Bytes of so many elements, packed as ONNX packs them. */
export const byteLength = (type, length) => Math.ceil((type.bits * length) / 8);

/** An array of a type for so many elements; packed types have theirs in bytes. */
export const emptyOf = (type, length) => new type.kind(type.bits < 8 ? byteLength(type, length) : length);

export const bytesOf = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

/** What an array holds: its type, its number of elements and its bytes; of strings the texts. */
export function read(array, from, length) {
  if (!ArrayBuffer.isView(array)) return ofList(array, from, length);
  const own = OF_ARRAYS.get(array.constructor) ?? (array instanceof Uint8Array ? "uint8" : undefined);
  if (own === undefined) throw new TypeError(`${kindOf(array)} cannot be cast: want a typed array of its elements`);
  const type = typeOf(from ?? own);
  if (type.name === "string") throw new TypeError("strings must be a list of strings");
  if (array.BYTES_PER_ELEMENT !== Math.max(1, type.bits >> 3) || (from && !sameKind(own, type))) {
    throw new TypeError(`a ${array.constructor.name} does not hold ${type.name}: want ${type.kind.name}`);
  }
  const most = type.bits < 8 ? Math.floor((array.byteLength * 8) / type.bits) : array.length;
  checkLength(type, length, array.byteLength, "bytes", (count) => byteLength(type, count));
  return { type, length: length ?? most, bytes: bytesOf(array) };
}

/** Refuses a number of elements that needs another number of units, bytes or items, than there are. */
function checkLength(type, length, units, unit, needed) {
  if (length === undefined) return;
  const isCount = Number.isInteger(length) && length >= 0;
  if (isCount && needed(length) === units) return;
  const want = isCount ? `${needed(length)} ${unit}` : "an integer, 0 or more";
  throw new RangeError(`${units} ${unit} are not ${String(length)} elements of ${type.name}: want ${want}`);
}

/** Bits are held by unsigned integers too; numbers by their own kind of array alone. */
const sameKind = (own, type) => own === type.name || /^uint/.test(own);

/** Types of the elements of a list, by the type of its items. */
const OF_ITEMS = { number: ["double"], boolean: ["bool"], string: ["string"], bigint: ["int64", "uint64"] };

/** The largest value of int64. */
const INT64_MAX = 2n ** 63n - 1n;

function ofList(list, from, length) {
  // An object without elements would be an empty list.
  if (typeof list !== "object" || typeof list?.[Symbol.iterator] !== "function") {
    throw new TypeError(`${kindOf(list)} cannot be cast: want a typed array, or a list of numbers or texts`);
  }
  const items = Array.from(list);
  const kind = items.length ? typeof items[0] : "number";
  const other = items.findIndex((item) => typeof item !== kind);
  if (other >= 0) {
    const [first, second] = [`${kind} at item 0`, `${typeof items[other]} at item ${other}`];
    throw new TypeError(`a list has items of several types: ${first}, ${second}`);
  }
  const types = OF_ITEMS[kind];
  if (!types) throw new TypeError(`a list of ${kind} cannot be cast`);
  const needsUint64 = kind === "bigint" && items.some((item) => item > INT64_MAX);
  const type = typeOf(from ?? types[needsUint64 ? 1 : 0]);
  if (!types.includes(type.name)) {
    throw new TypeError(`a list of ${kind} holds ${types.join(" or ")}, not ${from}: use a typed array`);
  }
  checkLength(type, length, items.length, "items", (count) => count);
  if (kind === "string") return { type, length: items.length, texts: items };
  const array = type.kind.from(items);
  // An array keeps the low 64 bits of a BigInt.
  const at = kind === "bigint" ? items.findIndex((item, index) => item !== array[index]) : -1;
  if (at >= 0) {
    const want = "BigInts that are all in int64, or all in uint64";
    throw new RangeError(`item ${at} of the list is ${items[at]}, which ${type.name} does not hold: want ${want}`);
  }
  return { type, length: items.length, bytes: bytesOf(array) };
}

/** Whether a typed array may take elements of a type: its own kind of array, or integers of as many bits. */
export function takes(array, type) {
  const own = OF_ARRAYS.get(array.constructor) ?? (array instanceof Uint8Array ? "uint8" : undefined);
  if (own === undefined || array.BYTES_PER_ELEMENT !== Math.max(1, type.bits >> 3)) return false;
  return own === type.name || /^u?int/.test(own);
}

/** All types' names. */
export const names = () => TABLE.map(([name]) => name);
