// Has the installed package the bits of the native library, for every pair of types?
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as onnx from "onnx-cast";
import { compare } from "./bits.mjs";

await onnx.init();

test("the library's bits", () => {
  const wanted = JSON.parse(readFileSync(new URL("bits.json", import.meta.url), "utf8"));
  const { pairs, values, wrong } = compare(onnx, wanted);
  assert.deepEqual(wrong, []);
  const numbers = onnx.types().filter(({ name }) => name !== "string" && !name.startsWith("complex"));
  const compared = new Set(Object.keys(wanted).map((pair) => pair.split(" ", 2).join(" ")));
  assert.equal(compared.size, numbers.length ** 2, "every pair of types, and no other");
  console.log(
    `${pairs} casts, ${values.toLocaleString("en")} values, ${onnx.about().backends[0]}: the library's bits`,
  );
});
