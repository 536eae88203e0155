// The WebAssembly module: how it is loaded, and its functions with bytes in place of addresses.

import { CastError } from "./errors.js";

/** The slots of the module: buffers with numbers (crates/onnx-cast-wasm/src/slots.rs). */
const INPUT = 0;
const OUTPUT = 1;
const TENSORS = 2;
const RESULT = 5;

/** A module of one function that needs vector instructions. */
const VECTORS = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
];

/** An attribute that is not given, where a call takes integers of 32 bits; and the least that is. */
const NOT_GIVEN = -(2 ** 31);
const LEAST = NOT_GIVEN + 1;

/** An opset as a call takes it. What is beyond 32 bits is out of every range. */
function opsetOf(opset) {
  if (opset === undefined || opset === null) return NOT_GIVEN;
  if (!Number.isInteger(opset)) throw new TypeError(`\`opset\` is not an integer: ${String(opset)}`);
  return Math.min(Math.max(opset, LEAST), 2 ** 31 - 1);
}

/** A truth value as a call takes it. */
function flagOf(name, value) {
  if (value === undefined || value === null) return -1;
  if (typeof value !== "boolean") throw new TypeError(`\`${name}\` is neither true nor false: ${String(value)}`);
  return Number(value);
}

/** The library's text with the names that options have in JavaScript. Tensors keep theirs. */
const withOurNames = (text) =>
  text.replace(/(?<!tensor `)\b(round_mode|block_size|scale_type|zero_point)\b/g, (name) =>
    name.replace(/_(.)/, (_, letter) => letter.toUpperCase()),
  );

/** A value of a request. JSON has no NaN and no infinity, and leaves functions out: either would not be given. */
function sendable(name, value) {
  const isLost = typeof value === "number" ? !Number.isFinite(value) : /^(function|symbol)$/.test(typeof value);
  if (isLost) throw new TypeError(`\`${withOurNames(name)}\` is ${String(value)}`);
  return value;
}

/** Whether this engine has vector instructions. */
export const hasVectors = () => WebAssembly.validate(new Uint8Array(VECTORS));

/**
 * The crate that reads archives can encrypt, and imports random numbers for that. This library never encrypts, so the
 * functions are there in name only.
 */
function unused(compiled) {
  const found = {};
  for (const { module, name } of WebAssembly.Module.imports(compiled)) {
    if (module === "host") continue;
    found[module] ??= {};
    found[module][name] = () => {
      throw new Error(`${name} is not there`);
    };
  }
  return found;
}

/** The module's functions for files, where none are lent. */
const NO_FILES = {
  open: () => -1,
  size: () => 0,
  read: () => -1,
  list: () => -1,
  listed() {},
  create: () => -1,
  write: () => -1,
  close: () => -1,
  tell: () => 0,
};

export class Module {
  #exports;
  #bytes = new Uint8Array();

  constructor(exports) {
    this.#exports = exports;
  }

  /** Makes a module that runs. `lend` makes the host's functions for files; it gets a function for the memory. */
  static async of(compiled, lend) {
    let module;
    const host = lend ? lend(() => module.memory()) : NO_FILES;
    const { exports } = await WebAssembly.instantiate(compiled, { ...unused(compiled), host });
    module = new Module(exports);
    return module;
  }

  /** All memory. It moves when it grows, so nobody keeps it. */
  memory() {
    const { buffer } = this.#exports.memory;
    if (this.#bytes.buffer !== buffer) this.#bytes = new Uint8Array(buffer);
    return this.#bytes;
  }

  /** The bytes of a slot; they change with the next call. */
  slot(slot) {
    const at = this.#exports.oc_address(slot);
    return this.memory().subarray(at, at + this.#exports.oc_len(slot));
  }

  put(slot, bytes) {
    const at = this.#exports.oc_reserve(slot, bytes.length);
    if (at === 0) throw new RangeError(`cannot allocate ${bytes.length} bytes`);
    this.memory().set(bytes, at);
  }

  #check(status) {
    if (status < 0) throw new CastError(withOurNames(new TextDecoder().decode(this.slot(OUTPUT))));
  }

  /** Prepares casts between types given by ONNX's numbers. */
  plan(from, to, { opset, saturate, roundMode } = {}) {
    const mode = roundMode === undefined ? -1 : ["up", "down", "nearest"].indexOf(roundMode);
    if (mode < 0 && roundMode !== undefined)
      throw new TypeError(`roundMode \`${roundMode}\` is neither up, down nor nearest`);
    this.#check(this.#exports.oc_plan(from, to, opsetOf(opset), flagOf("saturate", saturate), mode));
  }

  planBits(from, to, opset) {
    this.#check(this.#exports.oc_plan_bits(from, to, opsetOf(opset)));
  }

  /** Casts `length` elements as the plan says: bytes to bytes. */
  run(length, input, output) {
    this.put(INPUT, input);
    this.#check(this.#exports.oc_run(length));
    const at = this.#exports.oc_address(OUTPUT);
    output.set(this.memory().subarray(at, at + output.length));
  }

  /** Answers a request; `tensors` are the bytes of tensors that go with it. */
  ask(request, tensors = []) {
    tensors.forEach((bytes, index) => this.put(TENSORS + index, bytes));
    this.put(INPUT, new TextEncoder().encode(JSON.stringify(request, sendable)));
    this.#check(this.#exports.oc_answer());
    return JSON.parse(new TextDecoder().decode(this.slot(OUTPUT)));
  }

  /** A copy of the bytes of the tensor that a request gave. */
  result(slot = RESULT) {
    return this.slot(slot).slice();
  }

  /** Gives memory back that the last requests took. */
  clear() {
    this.#exports.oc_clear();
  }
}
