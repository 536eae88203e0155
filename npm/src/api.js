// What the package offers on arrays and values, over a module that is loaded.
import { byteLength, bytesOf, emptyOf, read, takes, typeOf } from "./elements.js";

import { kindOf, refuseOthers } from "./errors.js";

/** Elements of a step: a multiple of 8, so that packed elements fill bytes, and few enough for the nearest caches. */
const STEP = 1 << 15;

/** Options as requests name them. */
const attributes = ({ opset, saturate, roundMode, precision, axis, blockSize }) => ({
  opset,
  saturate,
  round_mode: roundMode,
  precision,
  axis,
  block_size: blockSize,
});

const OF_CALLS = ["from", "length", "opset", "out"];
const OF_SCALES = [...OF_CALLS, "scale", "scaleType", "scaleShape", "zeroPoint", "shape", "axis", "blockSize"];
const OF_VALUES = ["from", "opset", "saturate", "roundMode", "precision", "scale", "scaleType", "zeroPoint"];

/** Options of each function. */
const CALLS = {
  cast: [...OF_CALLS, "saturate", "roundMode"],
  bitCast: OF_CALLS,
  quantize: [...OF_SCALES, "saturate", "precision"],
  dequantize: [...OF_SCALES, "to"],
  explain: OF_VALUES,
  explainAll: OF_VALUES,
  explainBlock: ["from", "scaleRule", "recipe", "globalScale"],
};

export function makeApi(module) {
  /** Runs the plan over all elements, step by step. */
  function steps(from, to, length, input, output) {
    for (let start = 0; start < length; start += STEP) {
      const count = Math.min(STEP, length - start);
      const [first, last] = [byteLength(from, start), byteLength(from, start + count)];
      module.run(
        count,
        input.subarray(first, last),
        output.subarray(byteLength(to, start), byteLength(to, start + count)),
      );
    }
  }

  /** The array for the result: new, or `out`, which may not overlap the bytes of the source. */
  function outputFor(type, length, out, bytes) {
    if (out === undefined) return emptyOf(type, length);
    if (!ArrayBuffer.isView(out) || !takes(out, type)) {
      throw new TypeError(`\`out\` is ${kindOf(out)}, which does not hold ${type.name}: want ${type.kind.name}`);
    }
    const want = byteLength(type, length);
    if (out.byteLength !== want) {
      throw new RangeError(`\`out\` has ${out.byteLength} bytes: want ${want}, for ${length} elements of ${type.name}`);
    }
    // Later elements of the source would be overwritten before they are read.
    const isApart = out.buffer !== bytes?.buffer || out.byteOffset >= bytes.byteOffset + bytes.byteLength ||
      bytes.byteOffset >= out.byteOffset + out.byteLength;
    if (!isApart) throw new RangeError("`out` overlaps the array in memory: want an array of its own");
    return out;
  }

  /** Casts an array to a type. */
  function cast(array, to, options = {}) {
    refuseOthers("cast", options, CALLS.cast);
    const source = read(array, options.from, options.length);
    const target = typeOf(to);
    if (target.name === "string" && options.out !== undefined) throw new TypeError("texts have no `out`");
    if (target.name === "string") return source.texts ? [...source.texts] : print(source, options);
    if (source.texts) return parse(source, target, options);
    const output = outputFor(target, source.length, options.out, source.bytes);
    module.plan(source.type.number, target.number, options);
    steps(source.type, target, source.length, source.bytes, bytesOf(output));
    return output;
  }

  /** Reads the bits of an array as another type of the same width. */
  function bitCast(array, to, options = {}) {
    refuseOthers("bitCast", options, CALLS.bitCast);
    const source = read(array, options.from, options.length);
    const target = typeOf(to);
    module.planBits(source.type.number, target.number, options.opset);
    const output = outputFor(target, source.length, options.out, source.bytes);
    steps(source.type, target, source.length, source.bytes, bytesOf(output));
    return output;
  }

  function print({ type, length, bytes }, options) {
    module.ask({ job: "print", from: type.name, len: length, ...attributes(options) }, [bytes]);
    const lengths = new Uint32Array(module.result(6).buffer);
    const text = module.result();
    const decoder = new TextDecoder();
    let at = 0;
    return Array.from(lengths, (size) => decoder.decode(text.subarray(at, (at += size))));
  }

  function parse({ texts, length }, target, options) {
    const encoded = texts.map((text) => new TextEncoder().encode(text));
    const lengths = Uint32Array.from(encoded, (bytes) => bytes.length);
    const all = new Uint8Array(lengths.reduce((sum, size) => sum + size, 0));
    encoded.reduce((at, bytes) => (all.set(bytes, at), at + bytes.length), 0);
    module.ask({ job: "parse", to: target.name, ...attributes(options) }, [all, bytesOf(lengths)]);
    return filled(target, length, options.out);
  }

  /** The result of a request as an array. */
  function filled(type, length, out, bytes) {
    const output = outputFor(type, length, out, bytes);
    bytesOf(output).set(module.slot(5));
    return output;
  }

  /** Whether this is a number of JavaScript. */
  const isNumber = (given) => typeof given === "number" || typeof given === "bigint";

  /** Numbers of JavaScript as an array of a type, which must have each if they are zero points. */
  function ofNumbers(name, given, type) {
    const array = cast(given, type);
    if (name !== "zeroPoint") return array;
    const back = cast(array, "double", { from: type, length: given.length });
    const at = given.findIndex((one, index) => back[index] !== Number(one));
    if (at >= 0) throw new RangeError(`zeroPoint is ${given[at]}, which ${typeOf(type).name} does not have`);
    return array;
  }

  /** A scale or zero point: a number for each element of its shape, a list of numbers, or an array. */
  function side(name, given, type, shape) {
    const count = shape && size(name === "scale" ? "scaleShape" : "shape", shape);
    const list = isNumber(given) ? Array(count ?? 1).fill(given) : given;
    const isList = Array.isArray(list) && list.every(isNumber);
    if (!isList && !ArrayBuffer.isView(list)) {
      throw new TypeError(`\`${name}\` is ${kindOf(given)}: want a number, a list of numbers or a typed array`);
    }
    if (isList && list.length !== (count ?? list.length)) {
      throw new RangeError(`\`${name}\` has ${list.length} numbers: want ${count}`);
    }
    const array = isList ? ofNumbers(name, list, type ?? "float") : list;
    const own = isList ? (type ?? "float") : type;
    const { bytes, length, type: found } = read(array, own, isList ? list.length : count);
    return { bytes, about: { type: found.name, shape: shape ?? (isNumber(given) ? [] : [length]) } };
  }

  /** The number of elements of a shape. */
  function size(name, shape) {
    const isShape = Array.isArray(shape) && shape.every((extent) => Number.isInteger(extent) && extent >= 0);
    if (!isShape) throw new TypeError(`\`${name}\` is not a list of integers, 0 or more: ${String(shape)}`);
    return shape.reduce((product, extent) => product * extent, 1);
  }

  function scaled(job, source, shape, options, more) {
    const { scale, scaleType, scaleShape, zeroPoint } = options;
    if (scale === undefined) throw new TypeError(`${job} needs a scale`);
    if (source.texts) throw new TypeError(`${job} takes numbers, not strings`);
    const by = side("scale", scale, scaleType, scaleShape);
    const tensors = [source.bytes, by.bytes];
    const request = { job, from: source.type.name, shape, scale: by.about, ...attributes(options), ...more };
    if (zeroPoint !== undefined) {
      const zero = side("zeroPoint", zeroPoint, more.to_of_zero, scaleShape ?? by.about.shape);
      tensors.push(zero.bytes);
      request.zero_point = zero.about;
    }
    const answer = module.ask(request, tensors);
    const array = filled(typeOf(answer.type), source.length, options.out, source.bytes);
    module.clear();
    return array;
  }

  /** QuantizeLinear: `saturate(round(x / scale) + zeroPoint)`. */
  function quantize(array, to, options = {}) {
    refuseOthers("quantize", options, CALLS.quantize);
    const shape = options.shape;
    const source = read(array, options.from, options.length ?? (shape && size("shape", shape)));
    return scaled("quantize", source, shape ?? [source.length], options, {
      to: typeOf(to).name,
      to_of_zero: typeOf(to).name,
    });
  }

  /** DequantizeLinear: `(x - zeroPoint) * scale`. */
  function dequantize(array, options = {}) {
    refuseOthers("dequantize", options, CALLS.dequantize);
    const shape = options.shape;
    const source = read(array, options.from, options.length ?? (shape && size("shape", shape)));
    const to = options.to && typeOf(options.to).name;
    return scaled("dequantize", source, shape ?? [source.length], options, { to, to_of_zero: source.type.name });
  }

  /** Packs codes, one in a byte, as ONNX packs a type of fewer than 8 bits. */
  function pack(codes, type) {
    if (codes?.BYTES_PER_ELEMENT !== 1) {
      throw new TypeError(`the codes are ${kindOf(codes)}: want a Uint8Array or an Int8Array`);
    }
    module.ask({ job: "pack", type: typeOf(type).name }, [bytesOf(codes)]);
    return module.result();
  }

  /** Unpacks elements, one code in a byte: the inverse of `pack`. */
  function unpack(bytes, type, length) {
    const source = read(bytes, typeOf(type).name, length);
    module.ask({ job: "unpack", type: source.type.name, len: source.length }, [source.bytes]);
    return module.result();
  }

  /** A value as requests take it: a number is written so that it reads back as the same. */
  const valueText = (value) =>
    Object.is(value, -0) ? "-0" : String(value).replace("Infinity", "inf").replace("NaN", "nan");

  const single = (value, { from, scale, scaleType, zeroPoint, ...options }) => ({
    value: valueText(value),
    from,
    scale: scale === undefined ? undefined : valueText(scale),
    scale_type: scaleType,
    zero_point: zeroPoint === undefined ? undefined : valueText(zeroPoint),
    ...attributes(options),
  });

  /** The type of a number of JavaScript; a scaled one is a float, because the operator takes no doubles. */
  const ownType = (value, { scale }) => (typeof value === "number" && scale === undefined ? "double" : undefined);

  /** One cast of one value, taken apart. */
  function explain(value, to, options = {}) {
    refuseOthers("explain", options, CALLS.explain);
    return module.ask({
      job: "explain",
      to,
      from: ownType(value, options),
      ...defined(single(value, options)),
    });
  }

  /** One value in every type. */
  function explainAll(value, options = {}) {
    refuseOthers("explainAll", options, CALLS.explainAll);
    return module.ask({
      job: "explain_all",
      from: ownType(value, options),
      ...defined(single(value, options)),
    });
  }

  /** Explains a block of values in MX or NVFP4. */
  function explainBlock(values, format, options = {}) {
    refuseOthers("explainBlock", options, CALLS.explainBlock);
    const { from, scaleRule, recipe, globalScale } = options;
    if (typeof values?.map !== "function") throw new TypeError(`the values are ${kindOf(values)}: want a list`);
    return module.ask({
      job: "explain_block",
      values: values.map(valueText),
      format,
      from,
      scale_rule: scaleRule,
      recipe,
      global_scale: globalScale,
    });
  }

  const defined = (object) => Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));

  const types = () => module.ask({ job: "types" }).types;
  const about = () => module.ask({ job: "about" });
  return { cast, bitCast, quantize, dequantize, pack, unpack, explain, explainAll, explainBlock, types, about };
}
