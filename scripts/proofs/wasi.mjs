// Runs a WebAssembly program that was built for WASI (wasm32-wasip1), as cargo's runner: scripts/proofs/emulated.sh
// uses it.
//
//   node --no-warnings scripts/proofs/wasi.mjs PROGRAM [ARGUMENT ...]
//
// The program gets the arguments, the environment, the standard streams, and of the file system this repository and the
// current directory.
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { WASI } from "node:wasi";

const [program] = process.argv.slice(2);
const repository = fileURLToPath(new URL("..", import.meta.url));
const wasi = new WASI({
  version: "preview1",
  args: process.argv.slice(2),
  env: process.env,
  preopens: { [repository]: repository, ".": "." },
  returnOnExit: true,
});
const module = await WebAssembly.compile(await readFile(program));
const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
// A trap, which is how a panic ends, is an exception here, and node ends with 1.
process.exitCode = wasi.start(instance);
