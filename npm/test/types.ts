// What a program in TypeScript may write, and what its compiler refuses: each `@ts-expect-error` is an error if there is
// none. Compiled beside the installed package, never run.
import { CastError, bitCast, cast, castFile, dequantize, explain, info, init, names, pack, quantize, quantizeFile, report, types, unpack } from "onnx-cast";
import type { ArrayOf, ElementType, Elements } from "onnx-cast";

const floats = Float32Array.of(1, 2);

export const ready: Promise<void> = init({ wasm: new URL("https://example.org/wasm/") });

export const bits: Uint16Array = cast(floats, "bfloat16");
export const doubles: Float64Array = cast([1, 2.5], "double");
export const texts: string[] = cast(floats, "string");
export const words: BigInt64Array = cast(["1"], "int64", { opset: 21 });
export const packed: Uint8Array = cast(floats, "int4", { saturate: true });
export const chosen = (to: "float" | "int8"): Float32Array | Int8Array => cast(floats, to);
export const any = (to: ElementType): Elements | string[] => cast(floats, to);
export const generic = <T extends ElementType>(to: T): ArrayOf<T> => cast(floats, to);
export const given: Int16Array = cast(floats, "float16", { out: new Int16Array(2), from: "float" });
export const union: Float32Array = cast(bits as Uint16Array | Uint8Array, "float", { from: "bfloat16", length: 2 });
export const reread: Int32Array = bitCast(floats, "int32");
export const small: Int8Array = quantize(floats, "int8", { scale: 0.5, zeroPoint: 1, axis: 0 });
export const large: Float32Array = dequantize(small, { scale: 0.5, to: "float" });
export const codes: Uint8Array = unpack(pack(Uint8Array.of(1), "uint4"), "uint4", 1);
export const rule: string = explain(0.3, "float8e8m0", { roundMode: "down" }).rule.text;
export const all: string[] = names();
export const aliases: string[] = types().flatMap((type) => type.aliases);
export const rows: Int8Array = quantize(floats, "int8", { scale: [0.5, 1], zeroPoint: [0, 1], axis: 0 });

export async function jobs(file: File) {
  const { files, summary } = await castFile({ "w.safetensors": file }, "float16", { saturate: false, include: ["*.weight"] });
  const blob: Blob | undefined = files.get("w.safetensors");
  await quantizeFile(file, "mxfp4", { layout: "compressed-tensors", signal: AbortSignal.timeout(1000) });
  const { tensors } = await info("w.safetensors", { stats: true });
  const shapes: number[][] = tensors.map(({ shape }) => shape);
  const lost: string[] = (await report(file, { to: ["float16"] })).types.map(({ verdict }) => verdict);
  const { page } = await report(file, { to: ["nvfp4"], page: true });
  try {
    await info(new Map([["a.npy", blob ?? file]]));
  } catch (error) {
    if (error instanceof CastError) return error.message;
  }
  // @ts-expect-error: a misspelt option
  await castFile(file, "float16", { satrate: false });
  // @ts-expect-error: a quantized weight has no such attribute
  await quantizeFile(file, "int8", { roundMode: "up" });
  // @ts-expect-error: nothing is cast
  await info(file, { opset: 20 });
  // @ts-expect-error: no type
  await castFile(file);
  // @ts-expect-error: a list of types
  await report(file, { to: "float16" });
  // @ts-expect-error: a Blob has no name
  await info(new Blob([]));
  return [page, shapes, lost, summary.tensors[0].to];
}

// @ts-expect-error: no such type
cast(floats, "float9");
// @ts-expect-error: an array of other elements
export const wrong: Float32Array = cast(floats, "double");
// @ts-expect-error: no such mode
cast(floats, "float8e8m0", { roundMode: "sideways" });
// @ts-expect-error: texts are a new list
cast(floats, "string", { out: floats });
// @ts-expect-error: items of several types
cast([1, "2"], "float");
// @ts-expect-error: a scale is needed
quantize(floats, "int8", {});
// @ts-expect-error: doubles are not quantized
quantize([1, 2], "int8", { scale: 1 });
// @ts-expect-error: bytes, not elements
cast(new ArrayBuffer(4), "float");
