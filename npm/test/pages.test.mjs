// Do the examples of the pages run, and give what the comments behind them say? The pages lie beside this file.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import * as onnx from "onnx-cast";

/** A .safetensors file, for examples that are given one. */
function file() {
  const values = new Uint8Array(Float32Array.of(1, -2.5, 0.3, 1e-9).buffer);
  const header = JSON.stringify({ w: { dtype: "F32", shape: [4], data_offsets: [0, values.length] } });
  const text = new TextEncoder().encode(header.padEnd(Math.ceil(header.length / 8) * 8));
  return new Blob([new BigUint64Array([BigInt(text.length)]), text, values]);
}

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

/** An example as the body of a function: imports are names that it is given, and commented values go through `shown`. */
function body(block) {
  const lines = block.split("\n").filter((line) => !line.startsWith("import "));
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
    const names = { ...onnx, file: file(), shown, counts };
    for (const [, block] of blocks) await new AsyncFunction(...Object.keys(names), body(block))(...Object.values(names));
    assert.ok(counts.compared > 0, `${page}: nothing is compared`);
  });
}
