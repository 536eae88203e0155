/**
 * An element type of ONNX, and other spellings of some. At run time all spellings that `aliases` in `types()` lists are
 * accepted, in any case.
 */
export type ElementType =
  | "float"
  | "uint8"
  | "int8"
  | "uint16"
  | "int16"
  | "int32"
  | "int64"
  | "string"
  | "bool"
  | "float16"
  | "double"
  | "uint32"
  | "uint64"
  | "bfloat16"
  | "float8e4m3fn"
  | "float8e4m3fnuz"
  | "float8e5m2"
  | "float8e5m2fnuz"
  | "uint4"
  | "int4"
  | "float4e2m1"
  | "float8e8m0"
  | "uint2"
  | "int2"
  | "float6e2m3"
  | "float6e3m2"
  | "float32"
  | "float64"
  | "f16"
  | "bf16"
  | "f32"
  | "f64"
  | "boolean";

/** Float16Array where the engine and its types have it, else never. */
type Halves = typeof globalThis extends { Float16Array: { prototype: infer Array } } ? Array : never;

/** An array of numbers, or of their bits. */
export type Elements =
  | Halves
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

export type RoundMode = "up" | "down" | "nearest";

export interface SourceOptions {
  /** The type of the elements, if the array's kind does not determine it: bits of bfloat16 are in a Uint16Array. */
  from?: ElementType;
  /** The number of elements: of a packed array by default all that fit its bytes, of others their length. */
  length?: number;
}

export interface CastOptions extends SourceOptions {
  /** The opset, which selects the operator's version; by default the newest. */
  opset?: number;
  /** For float8: whether a value out of range becomes the nearest end of the range (the default). */
  saturate?: boolean;
  /** For float8e8m0: how a value between two powers of two is rounded; by default up. */
  roundMode?: RoundMode;
}

/**
 * Loads the module that the functions on arrays and values need; once, however often it is called. Functions on files
 * load theirs themselves.
 */
export function init(options?: {
  /** The folder with the modules (`*.wasm`, `report.html`), where a bundler or a server moves them. */
  wasm?: string | URL;
}): Promise<void>;

/** The array that holds elements of a type. */
export type ArrayOf<T extends ElementType> = T extends "string"
  ? string[]
  : T extends "float" | "float32" | "f32"
    ? Float32Array
    : T extends "double" | "float64" | "f64"
      ? Float64Array
      : T extends "float16" | "f16"
        ? Halves | Uint16Array
        : T extends "bfloat16" | "bf16" | "uint16"
          ? Uint16Array
          : T extends "int8"
            ? Int8Array
            : T extends "int16"
              ? Int16Array
              : T extends "int32"
                ? Int32Array
                : T extends "uint32"
                  ? Uint32Array
                  : T extends "int64"
                    ? BigInt64Array
                    : T extends "uint64"
                      ? BigUint64Array
                      : Uint8Array;

/** What can be cast: a typed array, or a list of numbers, truth values or texts. */
export type Castable = Elements | readonly number[] | readonly bigint[] | readonly boolean[] | readonly string[];

/**
 * What the library refuses: a value, a type, an attribute or a file. An argument of a wrong kind is a `TypeError` or a
 * `RangeError`; a file that cannot be read is an `Error` with the system's `code`.
 */
export class CastError extends TypeError {
  name: "CastError";
}

/**
 * Casts an array to a type, exactly as ONNX's Cast does.
 *
 * The result is the typed array of the type; for types without one, an unsigned array of their bits, packed as ONNX
 * packs them where they have fewer than 8. float16 is a Float16Array where the engine has it, else a Uint16Array. With
 * `out`, that is the result.
 */
export function cast<Out extends Elements>(
  array: Castable,
  to: Exclude<ElementType, "string">,
  options: CastOptions & { out: Out },
): Out;
export function cast<T extends ElementType>(
  array: Castable,
  to: T,
  options?: CastOptions & { out?: undefined },
): ArrayOf<T>;

/** Reads the bits of an array as another type of the same width: ONNX's BitCast. */
export function bitCast<Out extends Elements>(
  array: Elements,
  to: Exclude<ElementType, "string">,
  options: SourceOptions & { opset?: number; out: Out },
): Out;
export function bitCast<T extends Exclude<ElementType, "string">>(
  array: Elements,
  to: T,
  options?: SourceOptions & { opset?: number; out?: undefined },
): ArrayOf<T>;

export interface ScaleOptions extends SourceOptions {
  /** One number; or a list of numbers or an array, with an element for each index on the axis, or for each block. */
  scale: number | readonly number[] | Elements;
  /** The type of the scale, if the array's kind does not determine it; by default float for numbers. */
  scaleType?: ElementType;
  /** The shape of a scale of blocks: that of the array, with the number of blocks on the axis. */
  scaleShape?: readonly number[];
  /** One number, for every scale; or as many as there are scales: a list of numbers, or an array, packed as `to` is. */
  zeroPoint?: number | readonly number[] | Elements;
  /** The shape of the array; by default one dimension. */
  shape?: readonly number[];
  /** The axis of the scales or blocks, negative from the end; by default 1. */
  axis?: number;
  /** Elements along the axis that share a scale. */
  blockSize?: number;
  opset?: number;
  /** The array for the result, instead of a new one. */
  out?: Elements;
}

/** ONNX's QuantizeLinear, which takes no doubles: a list of numbers has to become a Float32Array first. */
export function quantize<T extends Exclude<ElementType, "string">>(
  array: Elements,
  to: T,
  options: ScaleOptions & { saturate?: boolean; precision?: ElementType },
): ArrayOf<T>;

/** ONNX's DequantizeLinear, to the type of the scale, or to another. */
export function dequantize<T extends Exclude<ElementType, "string">>(
  array: Elements,
  options: ScaleOptions & { to: T },
): ArrayOf<T>;
export function dequantize(array: Elements, options: ScaleOptions): Elements;

/** Packs codes, one in a byte, as ONNX packs a type of fewer than 8 bits. Of each byte, only the low bits are kept. */
export function pack(codes: Uint8Array | Int8Array, type: ElementType): Uint8Array;

/** Unpacks elements, one code in a byte: the inverse of `pack`. A cast to int8 gives numbers. */
export function unpack(bytes: Uint8Array, type: ElementType, length?: number): Uint8Array;

/** One side of a cast. `exact` has every digit. */
export interface Side {
  type: string;
  bits?: string;
  value: string;
  [more: string]: unknown;
}

export interface Explanation {
  source: Side;
  result: Side;
  rule: { id: string; text: string };
  [more: string]: unknown;
}

export interface ExplainOptions extends Omit<CastOptions, "length"> {
  scale?: number | string;
  scaleType?: ElementType;
  zeroPoint?: number | string;
  precision?: ElementType;
}

/** Explains one cast of one value. A string is a decimal or, with `from`, bits such as `0x3f80`. */
export function explain(value: number | bigint | string, to: ElementType, options?: ExplainOptions): Explanation;

/** One value in every type, or the error for a type that refuses it. */
export function explainAll(
  value: number | bigint | string,
  options?: ExplainOptions,
): ({ to: string; explained: Explanation } | { to: string; error: string })[];

/** Explains a block of values in MX or NVFP4. */
export function explainBlock(
  values: readonly (number | string)[],
  format: string,
  options?: { from?: ElementType; scaleRule?: string; recipe?: string; globalScale?: number },
): Record<string, unknown>;

/** What a type is. */
export interface TypeFacts {
  name: string;
  /** ONNX's number, `TensorProto.DataType`. */
  code: number;
  /** The width; null for strings. */
  bits: number | null;
  kind: string;
  aliases: string[];
  [more: string]: unknown;
}

/** The table of types: limits, codes of NaN, and the operators' versions. */
export function types(): TypeFacts[];

/** The version, and the available kernels, best first. */
export function about(): { version: string; backends: string[] };

/** Every type's name. */
export function names(): string[];

/**
 * A File, or several files by their paths; in node also paths of the system. The extension of the name is the format: a
 * Blob, which has no name, is given as `{ "w.safetensors": blob }`.
 */
export type Files = File | string | Map<string, Blob | string> | Record<string, Blob | string>;

export interface JobOptions {
  /** The file or folder to use, if several are given. */
  path?: string;
  /** Called with the number of bytes done and the total. */
  onProgress?: (done: number, total: number) => void;
  /** Ends the work. */
  signal?: AbortSignal;
  /** Only tensors with names like these: globs, or `re:` and a regular expression. */
  include?: readonly string[];
  exclude?: readonly string[];
}

/** Attributes of the casts. */
interface Attributes {
  /**
   * The type of elements in files that do not store it: raw bytes, and arrays of `V1`. Texts `PATTERN=TYPE` give it for
   * the arrays of an archive whose names match.
   */
  from?: string | readonly string[];
  opset?: number;
  saturate?: boolean;
  roundMode?: RoundMode;
}

export interface Info {
  format: string;
  tensors: { name: string; type: string | null; shape: number[]; bytes: number | null; [more: string]: unknown }[];
  [more: string]: unknown;
}

/**
 * What a file holds: its tensors, their types and shapes. `stats` reads all elements, too; `types` infers the types of all
 * values of a model.
 */
export function info(
  files: Files,
  options?: JobOptions & { from?: string | readonly string[]; stats?: boolean; types?: boolean },
): Promise<Info>;

export interface ReportOptions extends JobOptions, Attributes {
  /** Types, and block formats such as mxfp4 and nvfp4; by default float16, bfloat16 and float8e4m3fn. */
  to?: readonly string[];
  /** The rule for the scales of blocks. */
  scaleRule?: string;
  /** Tensors of fewer elements are left out. */
  minElements?: number;
}

export interface Report {
  /** For each requested type, the loss of all tensors. */
  types: { type: string; tensors: number; verdict: string; [more: string]: unknown }[];
  tensors: { name: string; [more: string]: unknown }[];
  [more: string]: unknown;
}

/** What casts to each of several types would lose. */
export function report(
  files: Files,
  options?: ReportOptions & { page?: false; title?: string },
): Promise<Report>;
/** With `page`, also a page that shows it. */
export function report(
  files: Files,
  options: ReportOptions & { page: true; title?: string },
): Promise<{ report: Report; page: string }>;

export interface Written {
  summary: {
    tensors: { name: string; from: string; to: string; shape: number[]; [more: string]: unknown }[];
    bytes_before: number;
    bytes_after: number;
    [more: string]: unknown;
  };
  /** The outputs by their paths. */
  files: Map<string, Blob>;
}

/**
 * Casts the tensors of a file; the extension of `output` is its format. A model keeps its types: Cast nodes return the
 * weights to theirs.
 */
export function castFile(
  files: Files,
  to: ElementType,
  options?: JobOptions & Attributes & { output?: string; raiseOpset?: boolean },
): Promise<Written>;

/** Quantizes the weights of a checkpoint or a model. */
export function quantizeFile(
  files: Files,
  to: string,
  options?: JobOptions & {
    output?: string;
    layout?: string;
    activations?: "dynamic" | "none";
    scaleRule?: string;
    /** How a model reads its weights: by DequantizeLinear, by onnxruntime's MatMulNBits, or as integers. */
    form?: "qdq" | "matmulnbits" | "dynamic";
    /** With `matmulnbits`, a zero point for each block. */
    zeroPoints?: boolean;
    /** With `dynamic`, weights of 7 bits, whose products do not saturate on x86 processors without VNNI. */
    reduceRange?: boolean;
    raiseOpset?: boolean;
  },
): Promise<Written>;
