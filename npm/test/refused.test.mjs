// One table of bad requests (crates/testkit/data/refused.json), which the command and Python refuse too.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as onnx from "onnx-cast";

await onnx.init();

const table = JSON.parse(readFileSync(new URL("./refused.json", import.meta.url)));

/** What the package calls the options of the other jobs. */
const named = (options, names = {}) =>
  Object.fromEntries(
    Object.entries(options).map(([name, value]) => [
      names[name] ?? name.replace(/_(.)/g, (_, letter) => letter.toUpperCase()),
      value,
    ]),
  );

function weights() {
  const header = JSON.stringify({
    "layer.0.weight": { dtype: "F32", shape: [4, 64], data_offsets: [0, 1024] },
    "layer.0.norm": { dtype: "F32", shape: [4], data_offsets: [1024, 1040] },
  });
  const length = new DataView(new ArrayBuffer(8));
  length.setBigUint64(0, BigInt(header.length), true);
  return new Blob([length, header, new Float32Array(260)]);
}

/** Does what a row asks for. */
async function request({ job, to, input = "w.safetensors", output = "out.safetensors", options = {} }) {
  const given = { "w.safetensors": weights(), "empty.safetensors": new Blob([]), "w.txt": new Blob([]) };
  // A path of the system, where there is no such file.
  const file = given[input] ? { [input]: given[input] } : new URL(input, import.meta.url).pathname;
  switch (job) {
    case "cast":
      return onnx.castFile(file, to, { output, ...named(options) });
    case "quantize":
      return onnx.quantizeFile(file, to, { output, ...named(options) });
    case "info":
      return onnx.info(file, named(options));
    case "report":
      return onnx.report(file, { to: [to], ...named(options) });
    case "value": {
      const { scale, zero_point: zero, ...more } = options;
      const by = Array.isArray(scale) ? Float32Array.from(scale) : scale;
      const zeroPoint = zero === undefined ? undefined : Number(zero);
      return onnx.quantize(Float32Array.of(0.3, 1), to, { scale: by, zeroPoint, ...named(more, {}) });
    }
    default:
      throw new assert.AssertionError({ message: `no job is called ${job}` });
  }
}

test("refuses what the command and Python refuse", async () => {
  let asked = 0;
  for (const row of table.filter((row) => (row.in ?? ["javascript"]).includes("javascript"))) {
    if (row.ignored) {
      const done = await request(row);
      const ignored = (done.summary ?? done).ignored ?? [];
      assert.deepEqual(ignored.map(({ option }) => option), row.ignored, row.what);
      asked += 1;
      continue;
    }
    const says = row.says.javascript ?? row.says;
    await assert.rejects(request(row), (error) => {
      assert.ok(!(error instanceof assert.AssertionError), error.message);
      assert.ok(error.message.includes(says), `${row.what}: ${error.message}`);
      return true;
    }, row.what);
    asked += 1;
  }
  assert.ok(asked > 50, `${asked} requests`);
});
