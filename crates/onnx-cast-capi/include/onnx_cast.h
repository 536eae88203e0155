/* The C interface of onnx-cast: ONNX's Cast, CastLike, BitCast, QuantizeLinear and DequantizeLinear.
 *
 * Written by cbindgen from the sources of the crate onnx-cast-capi, from which these comments are. Licence: MIT or Apache-2.0.
 *
 * - Functions that return int give an onnx_cast_status, and where that is not ONNX_CAST_OK a text in onnx_cast_last_error.
 *   Nothing is written then, but where a function says so.
 * - Elements are ONNX's bytes: little endian, of any alignment, types narrower than a byte packed from the low bits up.
 * - Every function may be called from any thread at any time, also with the same plan. Buffers are the caller's, and no
 *   function keeps a pointer to one. No C++ exception and no panic comes out of a function.
 */

#ifndef ONNX_CAST_H
#define ONNX_CAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* DLPack's tensor, which a program that uses it has from dlpack/dlpack.h. */
struct DLManagedTensorVersioned;

/* Options with every default: onnx_cast_options options = ONNX_CAST_OPTIONS_INIT; */
#define ONNX_CAST_OPTIONS_INIT {sizeof(onnx_cast_options), 0, 0, 0, 0, NULL}

/* The same for scaled casts: onnx_cast_scaled_options options = ONNX_CAST_SCALED_OPTIONS_INIT; */
#define ONNX_CAST_SCALED_OPTIONS_INIT {sizeof(onnx_cast_scaled_options), 0, 0, 0, 0, 0, 0, 0, 0, NULL}

/* And for block formats: onnx_cast_block_options options = ONNX_CAST_BLOCK_OPTIONS_INIT; */
#define ONNX_CAST_BLOCK_OPTIONS_INIT {sizeof(onnx_cast_block_options), 0, 0, 0, NULL}

/* A tensor of one element, which has no memory yet: onnx_cast_tensor x = ONNX_CAST_TENSOR_INIT; */
#define ONNX_CAST_TENSOR_INIT {sizeof(onnx_cast_tensor), NULL, NULL, 0}

/* No strings, and no memory for offsets yet: onnx_cast_strings src = ONNX_CAST_STRINGS_INIT; */
#define ONNX_CAST_STRINGS_INIT {sizeof(onnx_cast_strings), NULL, 0, NULL, 0}

/* A buffer without room: onnx_cast_string_buffer out = ONNX_CAST_STRING_BUFFER_INIT; */
#define ONNX_CAST_STRING_BUFFER_INIT {sizeof(onnx_cast_string_buffer), NULL, NULL, 0, 0}

/* Facts to be filled in: onnx_cast_type_facts facts = ONNX_CAST_TYPE_FACTS_INIT; */
#define ONNX_CAST_TYPE_FACTS_INIT {sizeof(onnx_cast_type_facts), NULL, 0, 0, 0, 0, 0, 0, 0, 0, false, false, false, false}

/**
 * The version of the ABI that this header describes: its major number times 65536 and its minor number.
 *
 * The major number is part of the shared library's name. It changes when a compiled program would break. The minor
 * number rises with every added function, constant, or field at the end of a struct.
 *
 * Before version 1.0 of the library the major number is 0, and the minor number rises with every change.
 */
#define ONNX_CAST_ABI_VERSION 1

/**
 * What a function returns, as an int.
 */
typedef enum onnx_cast_status {
    /**
     * Done.
     */
    ONNX_CAST_OK = 0,
    /**
     * A null pointer, a number that stands for nothing, offsets out of order, shapes that do not fit, a zero point
     * that must be 0, or a struct of an unknown size.
     */
    ONNX_CAST_INVALID_ARGUMENT = 1,
    /**
     * The operator does not take the type, the attribute or the opset, or this machine lacks the backend.
     */
    ONNX_CAST_UNSUPPORTED = 2,
    /**
     * A size that does not fit in memory.
     */
    ONNX_CAST_OVERFLOW = 3,
    /**
     * The buffer for the result is too small; nothing is written beyond its end.
     */
    ONNX_CAST_BUFFER_TOO_SMALL = 4,
    /**
     * The buffer for the result lies in memory that is read.
     */
    ONNX_CAST_OVERLAP = 5,
    /**
     * A string that is not a number of the target type. What the buffer for the result holds is unspecified.
     */
    ONNX_CAST_NOT_A_NUMBER = 6,
    /**
     * Memory that the system refuses.
     */
    ONNX_CAST_OUT_OF_MEMORY = 7,
    /**
     * A fault of this library's. Please report it, with the text.
     */
    ONNX_CAST_INTERNAL = 8,
} onnx_cast_status;

/**
 * What an onnx_cast_options says of `saturate`, an attribute of Cast-19 and CastLike-19 and later versions.
 */
typedef enum onnx_cast_saturate {
    /**
     * The attribute is not given, which means that it is true.
     */
    ONNX_CAST_SATURATE_DEFAULT = 0,
    /**
     * Float8 targets take their largest value in place of overflow.
     */
    ONNX_CAST_SATURATE_TRUE = 1,
    /**
     * Float8 targets take an infinity, or NaN where they have none.
     */
    ONNX_CAST_SATURATE_FALSE = 2,
} onnx_cast_saturate;

/**
 * What an onnx_cast_options says of `round_mode`, an attribute of Cast-24 and CastLike-24 and later versions.
 */
typedef enum onnx_cast_round_mode {
    /**
     * The attribute is not given, which means up.
     */
    ONNX_CAST_ROUND_DEFAULT = 0,
    /**
     * To float8e8m0: the next power of two that is not below the value.
     */
    ONNX_CAST_ROUND_UP = 1,
    /**
     * To float8e8m0: the next power of two that is not above the value.
     */
    ONNX_CAST_ROUND_DOWN = 2,
    /**
     * To float8e8m0: the nearer power of two, and the upper one at a tie.
     */
    ONNX_CAST_ROUND_NEAREST = 3,
} onnx_cast_round_mode;

/**
 * The element types, by ONNX's numbers (TensorProto.DataType). Functions take and give them as int32_t.
 */
typedef enum onnx_cast_type {
    /**
     * IEEE 754 binary32.
     */
    ONNX_CAST_FLOAT = 1,
    /**
     * Unsigned 8-bit integer.
     */
    ONNX_CAST_UINT8 = 2,
    /**
     * Signed 8-bit integer.
     */
    ONNX_CAST_INT8 = 3,
    /**
     * Unsigned 16-bit integer.
     */
    ONNX_CAST_UINT16 = 4,
    /**
     * Signed 16-bit integer.
     */
    ONNX_CAST_INT16 = 5,
    /**
     * Signed 32-bit integer.
     */
    ONNX_CAST_INT32 = 6,
    /**
     * Signed 64-bit integer.
     */
    ONNX_CAST_INT64 = 7,
    /**
     * UTF-8 text.
     */
    ONNX_CAST_STRING = 8,
    /**
     * One byte: 0 is false, anything else true.
     */
    ONNX_CAST_BOOL = 9,
    /**
     * IEEE 754 binary16.
     */
    ONNX_CAST_FLOAT16 = 10,
    /**
     * IEEE 754 binary64.
     */
    ONNX_CAST_DOUBLE = 11,
    /**
     * Unsigned 32-bit integer.
     */
    ONNX_CAST_UINT32 = 12,
    /**
     * Unsigned 64-bit integer.
     */
    ONNX_CAST_UINT64 = 13,
    /**
     * Two floats; BitCast only.
     */
    ONNX_CAST_COMPLEX64 = 14,
    /**
     * Two doubles; BitCast only.
     */
    ONNX_CAST_COMPLEX128 = 15,
    /**
     * The upper half of a binary32.
     */
    ONNX_CAST_BFLOAT16 = 16,
    /**
     * 4 exponent bits, 3 of significand, no infinity, largest 448.
     */
    ONNX_CAST_FLOAT8E4M3FN = 17,
    /**
     * 4 exponent bits, 3 of significand, no infinity, one zero, largest 240.
     */
    ONNX_CAST_FLOAT8E4M3FNUZ = 18,
    /**
     * 5 exponent bits, 2 of significand, with infinities, largest 57344.
     */
    ONNX_CAST_FLOAT8E5M2 = 19,
    /**
     * 5 exponent bits, 2 of significand, no infinity, one zero, largest 57344.
     */
    ONNX_CAST_FLOAT8E5M2FNUZ = 20,
    /**
     * Unsigned 4-bit integer; two to a byte, the first in the low bits.
     */
    ONNX_CAST_UINT4 = 21,
    /**
     * Signed 4-bit integer; two to a byte, the first in the low bits.
     */
    ONNX_CAST_INT4 = 22,
    /**
     * 2 exponent bits, 1 of significand, largest 6; two to a byte, the first in the low bits.
     */
    ONNX_CAST_FLOAT4E2M1 = 23,
    /**
     * 8 exponent bits: the powers of two from 2^-127 to 2^127, and NaN.
     */
    ONNX_CAST_FLOAT8E8M0 = 24,
    /**
     * Unsigned 2-bit integer; four to a byte, the first in the low bits.
     */
    ONNX_CAST_UINT2 = 25,
    /**
     * Signed 2-bit integer; four to a byte, the first in the low bits.
     */
    ONNX_CAST_INT2 = 26,
    /**
     * 2 exponent bits, 3 of significand, largest 7.5; four to three bytes, low bits first.
     */
    ONNX_CAST_FLOAT6E2M3 = 27,
    /**
     * 3 exponent bits, 2 of significand, largest 28; four to three bytes, low bits first.
     */
    ONNX_CAST_FLOAT6E3M2 = 28,
} onnx_cast_type;

/**
 * What kind of thing an element is.
 */
typedef enum onnx_cast_kind {
    /**
     * A binary float.
     */
    ONNX_CAST_KIND_FLOAT = 1,
    /**
     * A two's complement integer.
     */
    ONNX_CAST_KIND_INT = 2,
    /**
     * An unsigned integer.
     */
    ONNX_CAST_KIND_UINT = 3,
    /**
     * A truth value.
     */
    ONNX_CAST_KIND_BOOL = 4,
    /**
     * UTF-8 text.
     */
    ONNX_CAST_KIND_STRING = 5,
    /**
     * Two floats.
     */
    ONNX_CAST_KIND_COMPLEX = 6,
} onnx_cast_kind;

/**
 * The block formats: elements in blocks along the last axis, each block with a scale of one byte. The last block of an
 * axis may be short.
 */
typedef enum onnx_cast_block_format {
    /**
     * 32 elements of float8e4m3fn, and a float8e8m0.
     */
    ONNX_CAST_MXFP8 = 1,
    /**
     * 32 elements of float8e5m2, and a float8e8m0.
     */
    ONNX_CAST_MXFP8E5M2 = 2,
    /**
     * 32 elements of float6e2m3, and a float8e8m0.
     */
    ONNX_CAST_MXFP6E2M3 = 3,
    /**
     * 32 elements of float6e3m2, and a float8e8m0.
     */
    ONNX_CAST_MXFP6E3M2 = 4,
    /**
     * 32 elements of float4e2m1, and a float8e8m0.
     */
    ONNX_CAST_MXFP4 = 5,
    /**
     * 32 elements of int8, which count 64ths, and a float8e8m0.
     */
    ONNX_CAST_MXINT8 = 6,
    /**
     * 16 elements of float4e2m1, and a float8e4m3fn; the tensor has a float too.
     */
    ONNX_CAST_NVFP4 = 7,
} onnx_cast_block_format;

/**
 * How the greatest magnitude A of a block gives the power of two that is its scale in MX. emax is the exponent of the
 * element's largest value, max.
 */
typedef enum onnx_cast_scale_rule {
    /**
     * floor(log2 A) - emax, as the OCP text says.
     */
    ONNX_CAST_RULE_FLOOR = 0,
    /**
     * ceil(log2(A / max)).
     */
    ONNX_CAST_RULE_RCEIL = 1,
    /**
     * ceil(log2 A) - emax.
     */
    ONNX_CAST_RULE_CEIL = 2,
    /**
     * floor(log2 A) - emax, after A is rounded half up to the element's significand.
     */
    ONNX_CAST_RULE_EVEN = 3,
} onnx_cast_scale_rule;

/**
 * Whose arithmetic gives the scales of NVFP4.
 */
typedef enum onnx_cast_recipe {
    /**
     * ModelOpt's: the scale of the tensor is a factor.
     */
    ONNX_CAST_RECIPE_MODELOPT = 0,
    /**
     * torchao's: likewise, with other roundings.
     */
    ONNX_CAST_RECIPE_TORCHAO = 1,
    /**
     * compressed-tensors': the scale of the tensor is a divisor.
     */
    ONNX_CAST_RECIPE_COMPRESSED_TENSORS = 2,
} onnx_cast_recipe;

/**
 * An operator with its attributes, resolved for two types. It does not change, and any number of threads may run it at
 * once.
 */
typedef struct onnx_cast_plan onnx_cast_plan;

/**
 * QuantizeLinear or DequantizeLinear with its attributes, resolved for its types. It does not change, and any number
 * of threads may run it at once.
 */
typedef struct onnx_cast_scaled_plan onnx_cast_scaled_plan;

/**
 * What a type is. Start from ONNX_CAST_TYPE_FACTS_INIT; later versions may have more fields at the end.
 */
typedef struct onnx_cast_type_facts {
    /**
     * sizeof(onnx_cast_type_facts), which the caller sets: nothing beyond is written. Fields that the library does not
     * know become 0.
     */
    size_t size;
    /**
     * ONNX's name, such as "float8e4m3fn". The text is never freed.
     */
    const char *name;
    /**
     * Width in bits; 0 for strings.
     */
    uint32_t bits;
    /**
     * An onnx_cast_kind.
     */
    int32_t kind;
    /**
     * The first version of Cast that takes the type; 0 where none does.
     */
    uint32_t cast_since;
    /**
     * The first version of CastLike that takes the type; 0 where none does.
     */
    uint32_t cast_like_since;
    /**
     * The first version of BitCast that takes the type; 0 where none does.
     */
    uint32_t bit_cast_since;
    /**
     * Of a float: width of the exponent field. 0 for other kinds, as all fields below.
     */
    uint32_t exponent_bits;
    /**
     * Of a float: width of the significand field, without the implicit bit.
     */
    uint32_t significand_bits;
    /**
     * Of a float: a code with the exponent field e > 0 has the exponent e - bias.
     */
    int32_t bias;
    /**
     * Of a float: whether there is a sign bit.
     */
    bool has_sign;
    /**
     * Of a float: whether -0 is another code than 0.
     */
    bool has_negative_zero;
    /**
     * Of a float: whether there are infinities.
     */
    bool has_infinity;
    /**
     * Of a float: whether there is NaN.
     */
    bool has_nan;
} onnx_cast_type_facts;

/**
 * How to cast. Start from ONNX_CAST_OPTIONS_INIT, under which every field but size is 0 and means its default; later
 * versions may have more fields at the end. Where a function takes a pointer to options, null means all defaults.
 */
typedef struct onnx_cast_options {
    /**
     * sizeof(onnx_cast_options): the library reads no further, and later fields count as 0.
     * Fields that the library does not know must be 0.
     */
    size_t size;
    /**
     * The opset, which decides the operator's version; 0 for the newest that is known.
     */
    int64_t opset;
    /**
     * An onnx_cast_saturate.
     */
    int32_t saturate;
    /**
     * An onnx_cast_round_mode.
     */
    int32_t round_mode;
    /**
     * Threads at most: 1 for only the caller's, 0 for as many as the machine has. It never changes a result.
     */
    size_t threads;
    /**
     * The name of a backend, or null for the best of this machine; it never changes a result.
     */
    const char *backend;
} onnx_cast_options;

/**
 * A tensor to be read, whose element type the plan has. Start from ONNX_CAST_TENSOR_INIT, a single element without
 * memory; later versions may have more fields at the end.
 */
typedef struct onnx_cast_tensor {
    /**
     * sizeof(onnx_cast_tensor): the library reads no further, and later fields count as 0.
     * Fields that the library does not know must be 0.
     */
    size_t size;
    /**
     * The elements: little endian, packed, of any alignment. May be null if there are none.
     */
    const void *data;
    /**
     * The dimensions, outermost first. May be null if rank is 0.
     */
    const size_t *shape;
    /**
     * The number of dimensions; 0 for a single element.
     */
    size_t rank;
} onnx_cast_tensor;

/**
 * How to quantize to a block format or dequantize from one. Start from ONNX_CAST_BLOCK_OPTIONS_INIT, under which every
 * field but size is 0 and means its default; later versions may have more fields at the end. Where a function takes a
 * pointer to options, null means all defaults.
 */
typedef struct onnx_cast_block_options {
    /**
     * sizeof(onnx_cast_block_options): the library reads no further, and later fields count as 0.
     * Fields that the library does not know must be 0.
     */
    size_t size;
    /**
     * An onnx_cast_scale_rule, for quantizing to MX.
     */
    int32_t rule;
    /**
     * An onnx_cast_recipe, for NVFP4.
     */
    int32_t recipe;
    /**
     * Threads at most: 1 for only the caller's, 0 for as many as the machine has. It never changes a result.
     */
    size_t threads;
    /**
     * The name of a backend, or null for the best of this machine; it never changes a result.
     */
    const char *backend;
} onnx_cast_block_options;

/**
 * How to quantize or dequantize. Start from ONNX_CAST_SCALED_OPTIONS_INIT, under which every field but size is 0 and
 * means its default; later versions may have more fields at the end. Where a function takes a pointer to options, null
 * means all defaults.
 */
typedef struct onnx_cast_scaled_options {
    /**
     * sizeof(onnx_cast_scaled_options): the library reads no further, and later fields count as 0.
     * Fields that the library does not know must be 0.
     */
    size_t size;
    /**
     * The opset, which decides the operator's version; 0 for the newest that is known.
     */
    int64_t opset;
    /**
     * The axis of a scale with one dimension, or of the blocks; negative from the end. Only read if axis_given is 1,
     * and 0 otherwise.
     */
    int64_t axis;
    /**
     * The elements of a block on the axis; 0 for no blocks.
     */
    size_t block_size;
    /**
     * 1 if axis holds the axis; 0 for the attribute's default, the axis 1.
     */
    int32_t axis_given;
    /**
     * An onnx_cast_saturate; of QuantizeLinear alone.
     */
    int32_t saturate;
    /**
     * The onnx_cast_type that quotients are rounded to: float, float16 or bfloat16. 0 for that of the scale, or float
     * where that is float8e8m0 or int32. Of QuantizeLinear alone.
     */
    int32_t precision;
    /**
     * The onnx_cast_type of the result. 0 is for QuantizeLinear that of the zero point, or uint8 without one; for
     * DequantizeLinear that of the scale.
     */
    int32_t output_type;
    /**
     * Threads at most: 1 for only the caller's, 0 for as many as the machine has. It never changes a result.
     */
    size_t threads;
    /**
     * The name of a backend, or null for the best of this machine; it never changes a result.
     */
    const char *backend;
} onnx_cast_scaled_options;

/**
 * Where strings are written: string i becomes the bytes from offset i up to offset i + 1. Start from
 * ONNX_CAST_STRING_BUFFER_INIT, which has no room; later versions may have more fields at the end.
 *
 * To learn how many bytes the strings take, call with room 0: that succeeds, and sets needed and the offsets. If room
 * is positive but too small, the function returns ONNX_CAST_BUFFER_TOO_SMALL and sets them too; the content of bytes
 * is then unspecified.
 */
typedef struct onnx_cast_string_buffer {
    /**
     * sizeof(onnx_cast_string_buffer): the library reads no further, and later fields count as 0.
     * Fields that the library does not know must be 0.
     */
    size_t size;
    /**
     * Takes one offset more than there are strings, or is null where they are not wanted.
     */
    uint64_t *offsets;
    /**
     * Takes the bytes of all strings. May be null where room is 0.
     */
    char *bytes;
    /**
     * How many bytes there is room for.
     */
    size_t room;
    /**
     * Set to the number of bytes that the strings take.
     */
    size_t needed;
} onnx_cast_string_buffer;

/**
 * Strings to be read: string i is the bytes from offset i up to offset i + 1. Start from ONNX_CAST_STRINGS_INIT; later
 * versions may have more fields at the end.
 */
typedef struct onnx_cast_strings {
    /**
     * sizeof(onnx_cast_strings): the library reads no further, and later fields count as 0.
     * Fields that the library does not know must be 0.
     */
    size_t size;
    /**
     * One offset more than there are strings: the first 0, none below the one before, the last byte_count.
     */
    const uint64_t *offsets;
    /**
     * The number of strings.
     */
    size_t count;
    /**
     * The bytes of all strings. May be null where byte_count is 0.
     */
    const char *bytes;
    /**
     * The number of bytes.
     */
    size_t byte_count;
} onnx_cast_strings;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the ABI that the library has, to be compared with ONNX_CAST_ABI_VERSION: the major numbers must be
 * equal, and the library's minor number must not be the smaller one. Where the major numbers are 0, the minor numbers
 * must be equal too.
 */
uint32_t onnx_cast_abi_version(void);

/**
 * The version of the library, such as "0.1.0". The text is never freed.
 */
const char *onnx_cast_version(void);

/**
 * Whether the library has a feature: 1 or 0. Features are "scaled" (plans of QuantizeLinear and DequantizeLinear),
 * "blocks" (block formats), "strings", "dlpack", "threads", "onnxruntime" (the library can be registered as a library
 * of custom operators), and each backend that this machine can run. An unknown name gives 0.
 *
 * name: ends with a zero byte, or is null, which is 0.
 */
int onnx_cast_has_feature(const char *name);

/**
 * The name of a backend that this machine can run, best first, or null where index is not below their number. The text
 * is never freed.
 */
const char *onnx_cast_backend_name(size_t index);

/**
 * The message of the last function that failed on this thread: lower case, without a full stop. Empty if none has
 * failed. The library owns the text, which stays valid until a function fails on this thread again, or the thread
 * ends.
 */
const char *onnx_cast_last_error(void);

/**
 * The name of a type, such as "float8e4m3fn", or null for a number that is none's. The text is never freed.
 */
const char *onnx_cast_type_name(int32_t data_type);

/**
 * The type of a name: ONNX's, or one of many others ("bf16", "FLOAT8E4M3FN", "fp4"), in any case.
 *
 * name: ends with a zero byte.
 * data_type: takes the type.
 */
int onnx_cast_type_by_name(const char *name, int32_t *data_type);

/**
 * What a type is.
 *
 * data_type: an onnx_cast_type.
 * facts: takes the facts; its field size is set by the caller.
 */
int onnx_cast_type_get_facts(int32_t data_type, struct onnx_cast_type_facts *facts);

/**
 * How many bytes so many elements of a type take, packed.
 *
 * data_type: an onnx_cast_type, but not string, whose elements have no size.
 * count: the number of elements.
 * bytes: takes the number of bytes; ONNX_CAST_OVERFLOW where it does not fit in memory.
 */
int onnx_cast_byte_size(int32_t data_type, size_t count, size_t *bytes);

/**
 * ONNX's Cast: every element as another type, rounded once from the exact value.
 *
 * from: the onnx_cast_type of the elements, not string.
 * src: count elements: little endian, packed, of any alignment. May be null where count is 0.
 * count: the number of elements.
 * to: the onnx_cast_type to cast to, not string.
 * dst: takes count elements, packed, the padding of the last byte 0. No part of src.
 * dst_bytes: the bytes that dst has room for: as many as onnx_cast_byte_size says, or more, which stay as they are.
 * options: how to cast, or null for the defaults.
 */
int onnx_cast_cast(int32_t from,
                   const void *src,
                   size_t count,
                   int32_t to,
                   void *dst,
                   size_t dst_bytes,
                   const struct onnx_cast_options *options);

/**
 * ONNX's CastLike: Cast to the type of a second input, whose values do not matter. It has its own versions: it starts
 * with opset 15, and supports neither float6 type.
 *
 * like: the onnx_cast_type of the second input, not string.
 *
 * The other parameters are those of onnx_cast_cast.
 */
int onnx_cast_cast_like(int32_t from,
                        const void *src,
                        size_t count,
                        int32_t like,
                        void *dst,
                        size_t dst_bytes,
                        const struct onnx_cast_options *options);

/**
 * ONNX's BitCast: the same bits as another type of the same width. Only the padding of the last byte changes, to 0.
 *
 * The parameters are those of onnx_cast_cast; BitCast has neither saturate nor round_mode.
 */
int onnx_cast_bit_cast(int32_t from,
                       const void *src,
                       size_t count,
                       int32_t to,
                       void *dst,
                       size_t dst_bytes,
                       const struct onnx_cast_options *options);

/**
 * Resolves ONNX's Cast for two types.
 *
 * from, to: each an onnx_cast_type, string among them.
 * options: how to cast, or null for the defaults. Nothing of it is used after the call.
 * plan: takes the plan, to be freed with onnx_cast_plan_free. Not written where the function fails.
 */
int onnx_cast_plan_cast(int32_t from,
                        int32_t to,
                        const struct onnx_cast_options *options,
                        struct onnx_cast_plan **plan);

/**
 * Resolves ONNX's CastLike for two types, of which the second is that of the operator's second input. CastLike has
 * versions of its own: it starts with opset 15, and takes neither float6.
 *
 * The parameters are those of onnx_cast_plan_cast.
 */
int onnx_cast_plan_cast_like(int32_t from,
                             int32_t like,
                             const struct onnx_cast_options *options,
                             struct onnx_cast_plan **plan);

/**
 * Resolves ONNX's BitCast for two types of the same width.
 *
 * The parameters are those of onnx_cast_plan_cast; BitCast has neither saturate nor round_mode.
 */
int onnx_cast_plan_bit_cast(int32_t from,
                            int32_t to,
                            const struct onnx_cast_options *options,
                            struct onnx_cast_plan **plan);

/**
 * Frees a plan.
 *
 * plan: one of the plans of this library, which nothing uses any more, or null, which is nothing to free.
 */
void onnx_cast_plan_free(struct onnx_cast_plan *plan);

/**
 * Runs a plan between two types that are not string. Allocates nothing and takes no lock, but where a large tensor is
 * handed to other threads.
 *
 * plan: one of the plans of this library.
 * src: count elements of the plan's source type: little endian, packed, of any alignment. May be null if count is 0.
 * count: the number of elements.
 * dst: takes count elements of the plan's target type, packed, the padding of the last byte 0. No part of src.
 * dst_bytes: the bytes that dst has room for: as many as onnx_cast_byte_size says, or more, which stay as they are.
 */
int onnx_cast_plan_run(const struct onnx_cast_plan *plan, const void *src, size_t count, void *dst, size_t dst_bytes);

/**
 * How many bytes a tensor's elements and scales take in a block format.
 *
 * format: an onnx_cast_block_format.
 * shape, rank: the dimensions of the tensor; shape may be null if rank is 0.
 * element_bytes: takes the number of bytes of the elements, packed.
 * scales: takes the number of scales, of one byte each: those of the blocks of a row follow each other, row by row.
 */
int onnx_cast_block_sizes(int32_t format, const size_t *shape, size_t rank, size_t *element_bytes, size_t *scales);

/**
 * Quantizes a tensor to a block format. A block with NaN or infinity has the scale NaN and elements of 0. Allocates
 * only where the last axis is not a multiple of a block, and where a large tensor is handed to other threads.
 *
 * format: an onnx_cast_block_format.
 * from: the onnx_cast_type of x: float, float16 or bfloat16.
 * x: the input.
 * elements: takes the elements, packed. No part of x, nor of scales.
 * element_bytes: the bytes that elements has room for: as many as onnx_cast_block_sizes says, or more.
 * scales: takes the scales. No part of x.
 * scale_bytes: the bytes that scales has room for: as many as onnx_cast_block_sizes says, or more.
 * global_scale: takes the scale of the tensor, which is 1 for MX; may be null for MX.
 * options: how to quantize, or null for the defaults.
 */
int onnx_cast_block_quantize(int32_t format,
                             int32_t from,
                             const struct onnx_cast_tensor *x,
                             void *elements,
                             size_t element_bytes,
                             void *scales,
                             size_t scale_bytes,
                             float *global_scale,
                             const struct onnx_cast_block_options *options);

/**
 * Gives the values of a tensor in a block format: elements times scales, rounded to float, and then to the type.
 * Allocates nothing, but where a large tensor is handed to other threads.
 *
 * format: an onnx_cast_block_format.
 * elements: the elements and the shape of the tensor.
 * scales: as many bytes as onnx_cast_block_sizes says. May be null if there are none.
 * global_scale: of NVFP4 the scale of the tensor, whose recipe options name; not used for MX.
 * to: the onnx_cast_type of the result: float, float16 or bfloat16.
 * dst: takes as many elements as the tensor has. No part of what is read.
 * dst_bytes: the bytes that dst has room for: as many as onnx_cast_byte_size says, or more, which stay as they are.
 * options: how to dequantize, or null for the defaults; its rule is not used.
 */
int onnx_cast_block_dequantize(int32_t format,
                               const struct onnx_cast_tensor *elements,
                               const void *scales,
                               float global_scale,
                               int32_t to,
                               void *dst,
                               size_t dst_bytes,
                               const struct onnx_cast_block_options *options);

/**
 * Resolves ONNX's QuantizeLinear for the types of its inputs: y = saturate(round(x / scale) + zero point).
 *
 * x: the onnx_cast_type of the values.
 * scale: the onnx_cast_type of the scale.
 * zero_point: the onnx_cast_type of the zero point, which is that of the result too. 0 if there is none, or if its
 * type is output_type.
 * options: how to quantize, or null for the defaults. Nothing of it is used after the call.
 * plan: takes the plan, to be freed with onnx_cast_scaled_plan_free. Not written where the function fails.
 */
int onnx_cast_scaled_plan_quantize(int32_t x,
                                   int32_t scale,
                                   int32_t zero_point,
                                   const struct onnx_cast_scaled_options *options,
                                   struct onnx_cast_scaled_plan **plan);

/**
 * Resolves ONNX's DequantizeLinear for the types of its inputs: y = (x - zero point) * scale.
 *
 * x: the onnx_cast_type of the quantized elements, which is that of a zero point too.
 * scale: the onnx_cast_type of the scale.
 * options: how to dequantize, or null for the defaults. Nothing of it is used after the call. A scale of float8e8m0
 * needs output_type.
 * plan: takes the plan, to be freed with onnx_cast_scaled_plan_free. Not written where the function fails.
 */
int onnx_cast_scaled_plan_dequantize(int32_t x,
                                     int32_t scale,
                                     const struct onnx_cast_scaled_options *options,
                                     struct onnx_cast_scaled_plan **plan);

/**
 * Frees a plan.
 *
 * plan: one of the scaled plans of this library, which nothing uses any more, or null, which is nothing to free.
 */
void onnx_cast_scaled_plan_free(struct onnx_cast_scaled_plan *plan);

/**
 * The type of a plan's result.
 *
 * plan: one of the scaled plans of this library.
 * data_type: takes the onnx_cast_type.
 */
int onnx_cast_scaled_plan_output_type(const struct onnx_cast_scaled_plan *plan, int32_t *data_type);

/**
 * Runs a plan. Allocates nothing and takes no lock, but where a large tensor is handed to other threads.
 *
 * The scale has no dimension or one element, for the tensor; or one dimension of the size of the axis; or, with a
 * block_size, the dimensions of x with an element for each block on the axis, of which the last may be short.
 *
 * plan: one of the scaled plans of this library.
 * x: the input.
 * scale: the scale.
 * zero_point: the zero point, of the shape of the scale, or null for 0. That of int32 or of a float type must be 0.
 * dst: takes as many elements as x has of the plan's output type, packed, the padding of the last byte 0. No part of
 * the elements and shapes that are read.
 * dst_bytes: the bytes that dst has room for: as many as onnx_cast_byte_size says, or more, which stay as they are.
 */
int onnx_cast_scaled_plan_run(const struct onnx_cast_scaled_plan *plan,
                              const struct onnx_cast_tensor *x,
                              const struct onnx_cast_tensor *scale,
                              const struct onnx_cast_tensor *zero_point,
                              void *dst,
                              size_t dst_bytes);

/**
 * ONNX's Cast to string: every element as plain decimal digits, or a word (NaN, INF, -INF).
 *
 * from: the onnx_cast_type of the elements, not string.
 * src: count elements: little endian, packed, of any alignment. May be null where count is 0.
 * count: the number of elements.
 * out: takes the strings.
 * options: how to cast, or null for the defaults.
 */
int onnx_cast_to_strings(int32_t from,
                         const void *src,
                         size_t count,
                         struct onnx_cast_string_buffer *out,
                         const struct onnx_cast_options *options);

/**
 * ONNX's Cast from string: every text as a number, rounded once from its decimal value.
 *
 * src: the strings.
 * to: the onnx_cast_type to cast to, not string.
 * dst: takes as many elements as there are strings, packed, the padding of the last byte 0. No part of src.
 * dst_bytes: the bytes that dst has room for: as many as onnx_cast_byte_size says, or more, which stay as they are.
 * options: how to cast, or null for the defaults.
 *
 * Gives ONNX_CAST_NOT_A_NUMBER, with the element and its text in onnx_cast_last_error, where one is not a number of
 * the target type.
 */
int onnx_cast_from_strings(const struct onnx_cast_strings *src,
                           int32_t to,
                           void *dst,
                           size_t dst_bytes,
                           const struct onnx_cast_options *options);

/**
 * ONNX's Cast from string to string: a copy.
 *
 * src: the strings.
 * out: takes the strings.
 * options: how to cast, or null for the defaults.
 */
int onnx_cast_strings_to_strings(const struct onnx_cast_strings *src,
                                 struct onnx_cast_string_buffer *out,
                                 const struct onnx_cast_options *options);

/**
 * Runs a plan to string, as onnx_cast_to_strings does.
 */
int onnx_cast_plan_run_to_strings(const struct onnx_cast_plan *plan,
                                  const void *src,
                                  size_t count,
                                  struct onnx_cast_string_buffer *out);

/**
 * Runs a plan from string to another type, as onnx_cast_from_strings does. Allocates nothing and takes no lock.
 */
int onnx_cast_plan_run_from_strings(const struct onnx_cast_plan *plan,
                                    const struct onnx_cast_strings *src,
                                    void *dst,
                                    size_t dst_bytes);

/**
 * Runs a plan from string to string, as onnx_cast_strings_to_strings does. Allocates nothing and takes no lock.
 */
int onnx_cast_plan_run_strings_to_strings(const struct onnx_cast_plan *plan,
                                          const struct onnx_cast_strings *src,
                                          struct onnx_cast_string_buffer *out);

/**
 * The onnx_cast_type of a type of DLPack's.
 *
 * code, bits: the fields of a DLDataType.
 * data_type: takes the type.
 */
int onnx_cast_type_of_dlpack(uint8_t code, uint8_t bits, int32_t *data_type);

/**
 * ONNX's Cast of a DLPack tensor to a new one.
 *
 * src: a tensor of DLPack 1 in the host's memory (kDLCPU, kDLCUDAHost, kDLROCMHost), of any strides; elements narrower
 *     than a byte are packed without gaps, or one in a byte, as its flags specify. Lanes become an additional last
 *     dimension. The caller keeps ownership.
 * to: the onnx_cast_type to cast to, not string.
 * options: how to cast, or null for the defaults.
 * result: takes a new tensor: packed, without gaps, aligned to 256 bytes. The caller calls its deleter. Not written
 *     where the function fails.
 */
int onnx_cast_dlpack(const struct DLManagedTensorVersioned *src,
                     int32_t to,
                     const struct onnx_cast_options *options,
                     struct DLManagedTensorVersioned **result);

/**
 * Runs a plan on a DLPack tensor, as onnx_cast_dlpack does.
 */
int onnx_cast_plan_run_dlpack(const struct onnx_cast_plan *plan,
                              const struct DLManagedTensorVersioned *src,
                              struct DLManagedTensorVersioned **result);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ONNX_CAST_H */
