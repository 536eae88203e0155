/* Do programs that were built with an older or a newer header run with this library? */
#include "check.h"

#include <stddef.h>

/* A struct as its macro sets it, with room for the fields of a later version. */
#define LATER(type, name)            \
    struct {                         \
        type known;                  \
        unsigned char later[24];     \
    } name;                          \
    memset(&name, 0, sizeof name);   \
    name.known.size = sizeof(type)

static const float x_data[2] = {1.0f, -3.0f};
static const size_t shape[1] = {2};

/* Options of every size from `first` on: what lies behind their end is not read. `call` uses larger.known. */
#define CHECK_OPTIONS(type, first, call)                                                              \
    do {                                                                                              \
        LATER(type, larger);                                                                          \
        /* More than the library knows, and no backend. */                                            \
        larger.known.backend = "abacus";                                                              \
        memset(larger.later, 0x5a, sizeof larger.later);                                              \
        larger.known.size = offsetof(type, backend);                                                  \
        CHECK_OK(call);                                                                               \
        larger.known.threads = (size_t)-1;                                                            \
        larger.known.size = offsetof(type, threads);                                                  \
        CHECK(larger.known.size == (first));                                                          \
        CHECK_OK(call);                                                                               \
        larger.known.size--;                                                                          \
        CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "sizeof(" #type ")", call);                           \
        larger.known.size = sizeof(type);                                                             \
        CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "no backend `abacus`", call);                              \
        larger.known.backend = NULL;                                                                  \
        CHECK_OK(call);                                                                               \
        larger.known.size = sizeof larger;                                                            \
        CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "bytes of " #type, call);                                  \
        memset(larger.later, 0, sizeof larger.later);                                                 \
        CHECK_OK(call);                                                                               \
        larger.known.size = 4097;                                                                     \
        CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "options has the size 4097", call);                   \
        larger.known.size = (size_t)-1;                                                               \
        CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "options has the size", call);                        \
    } while (0)

static int quantize(const onnx_cast_scaled_options *options) {
    onnx_cast_scaled_plan *plan = NULL;
    int status = onnx_cast_scaled_plan_quantize(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT, 0, options, &plan);
    onnx_cast_scaled_plan_free(plan);
    return status;
}

static void options(void) {
    unsigned char y[8], scales[1];
    onnx_cast_tensor x = ONNX_CAST_TENSOR_INIT;
    x.data = x_data;
    x.shape = shape;
    x.rank = 1;
    CHECK_OPTIONS(onnx_cast_options, offsetof(onnx_cast_options, round_mode) + 4,
                  onnx_cast_cast(ONNX_CAST_FLOAT, x_data, 2, ONNX_CAST_INT8, y, sizeof y, &larger.known));
    CHECK_OPTIONS(onnx_cast_scaled_options, offsetof(onnx_cast_scaled_options, threads),
                  quantize(&larger.known));
    CHECK_OPTIONS(onnx_cast_block_options, offsetof(onnx_cast_block_options, recipe) + 4,
                  onnx_cast_block_quantize(ONNX_CAST_MXFP8, ONNX_CAST_FLOAT, &x, y, 2, scales, 1, NULL, &larger.known));
}

/* Structs whose first version has all fields of this one. */
static void inputs(void) {
    unsigned char y[8], scales[1];
    const uint64_t offsets[2] = {0, 1};
    LATER(onnx_cast_tensor, x);
    LATER(onnx_cast_strings, src);
    LATER(onnx_cast_string_buffer, out);
#define QUANTIZE() onnx_cast_block_quantize(ONNX_CAST_MXFP8, ONNX_CAST_FLOAT, &x.known, y, 2, scales, 1, NULL, NULL)
#define COPY() onnx_cast_strings_to_strings(&src.known, &out.known, NULL)
#define CHECK_STRUCT(name, type, call)                                             \
    do {                                                                           \
        name.known.size = sizeof name;                                             \
        CHECK_OK(call);                                                            \
        name.later[0] = 1;                                                         \
        CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "bytes of " #type, call);               \
        name.known.size = sizeof(type) - 1;                                        \
        CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "sizeof(" #type ")", call);        \
        name.known.size = sizeof(type);                                            \
        CHECK_OK(call);                                                            \
    } while (0)
    x.known.data = x_data;
    x.known.shape = shape;
    x.known.rank = 1;
    CHECK_STRUCT(x, onnx_cast_tensor, QUANTIZE());
    src.known.offsets = offsets;
    src.known.count = 1;
    src.known.bytes = "7";
    src.known.byte_count = 1;
    CHECK_STRUCT(src, onnx_cast_strings, COPY());
    CHECK_STRUCT(out, onnx_cast_string_buffer, COPY());
    CHECK(out.known.needed == 1 && out.later[0] == 1);
}

/* Facts are written as far as the program has fields, and no further. */
static void facts(void) {
    LATER(onnx_cast_type_facts, larger);
    onnx_cast_type_facts want = ONNX_CAST_TYPE_FACTS_INIT;
    const unsigned char *bytes = (const unsigned char *)&larger;
    CHECK_OK(onnx_cast_type_get_facts(ONNX_CAST_FLOAT8E4M3FN, &want));
    for (size_t size = offsetof(onnx_cast_type_facts, has_sign); size <= sizeof larger; size++) {
        memset(&larger, 0x5a, sizeof larger);
        larger.known.size = size;
        CHECK_OK(onnx_cast_type_get_facts(ONNX_CAST_FLOAT8E4M3FN, &larger.known));
        CHECK(larger.known.size == size && larger.known.bits == 8 && larger.known.bias == want.bias);
        CHECK(memcmp(bytes + sizeof(size_t), (const unsigned char *)&want + sizeof(size_t),
                     offsetof(onnx_cast_type_facts, has_sign) - sizeof(size_t)) == 0);
        CHECK((size > offsetof(onnx_cast_type_facts, has_nan)) == (bytes[offsetof(onnx_cast_type_facts, has_nan)] == 1));
        for (size_t i = sizeof want; i < size; i++) CHECK(bytes[i] == 0);
        for (size_t i = size; i < sizeof larger; i++) CHECK(bytes[i] == 0x5a);
    }
    larger.known.size = offsetof(onnx_cast_type_facts, has_sign) - 1;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "sizeof(onnx_cast_type_facts)",
                onnx_cast_type_get_facts(ONNX_CAST_INT8, &larger.known));
}

int main(void) {
    options();
    inputs();
    facts();
    return done();
}
