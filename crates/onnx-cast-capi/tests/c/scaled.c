/* Do the plans of QuantizeLinear and DequantizeLinear give ONNX's results, obey the options, and refuse what does not
 * fit? */
#include "check.h"

#include <stdlib.h>

static const float X[] = {0.3f, -1.0f, 2.5f, 1000.0f, -0.5f, 7.0f};
static const float SCALES[] = {0.5f, 2.0f, 0.25f, 1.0f, 4.0f, 8.0f};
static const size_t SHAPE[] = {2, 3};
static onnx_cast_scaled_plan *plan;

static onnx_cast_tensor tensor(const void *data, const size_t *shape, size_t rank) {
    onnx_cast_tensor made = ONNX_CAST_TENSOR_INIT;
    made.data = data;
    made.shape = shape;
    made.rank = rank;
    return made;
}

static void per_tensor(void) {
    signed char y[8];
    float back[6];
    int32_t type = 0;
    const size_t one = 1;
    const onnx_cast_tensor x = tensor(X, SHAPE, 2), scale = tensor(SCALES, NULL, 0), same = tensor(SCALES, &one, 1);
    const onnx_cast_tensor quantized = tensor(y, SHAPE, 2), zero_point = tensor("\x80", NULL, 0);
    CHECK_OK(onnx_cast_scaled_plan_quantize(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT, 0, NULL, &plan));
    CHECK_OK(onnx_cast_scaled_plan_output_type(plan, &type));
    CHECK(type == ONNX_CAST_UINT8);
    memset(y, 0x5a, sizeof y);
    CHECK_OK(onnx_cast_scaled_plan_run(plan, &x, &scale, NULL, y, sizeof y));
    CHECK(memcmp(y, "\x01\x00\x05\xff\x00\x0e\x5a\x5a", 8) == 0);
    CHECK_OK(onnx_cast_scaled_plan_run(plan, &x, &same, &zero_point, y, 6));
    CHECK(memcmp(y, "\x81\x7e\x85\xff\x7f\x8e\x5a", 7) == 0);
    onnx_cast_scaled_plan_free(plan);
    CHECK_OK(onnx_cast_scaled_plan_dequantize(ONNX_CAST_UINT8, ONNX_CAST_FLOAT, NULL, &plan));
    CHECK_OK(onnx_cast_scaled_plan_output_type(plan, &type));
    CHECK(type == ONNX_CAST_FLOAT);
    CHECK_OK(onnx_cast_scaled_plan_run(plan, &quantized, &scale, &zero_point, back, sizeof back));
    const float want[] = {0.5f, -1.0f, 2.5f, 63.5f, -0.5f, 7.0f};
    CHECK(memcmp(back, want, sizeof want) == 0);
    onnx_cast_scaled_plan_free(plan);
    onnx_cast_scaled_plan_free(NULL);
    /* At an opset without output_dtype, the zero point gives the type. */
    onnx_cast_scaled_options options = ONNX_CAST_SCALED_OPTIONS_INIT;
    options.opset = 13;
    CHECK_OK(onnx_cast_scaled_plan_quantize(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT, ONNX_CAST_INT8, &options, &plan));
    const onnx_cast_tensor none = tensor("\xff", NULL, 0);
    CHECK_OK(onnx_cast_scaled_plan_run(plan, &x, &scale, &none, y, sizeof y));
    CHECK(memcmp(y, "\x00\xfd\x04\x7f\xfe\x0d", 6) == 0);
    onnx_cast_scaled_plan_free(plan);
}

static void axes(void) {
    signed char y[6];
    const size_t three = 3, two = 2, blocks[] = {2, 2};
    onnx_cast_scaled_options options = ONNX_CAST_SCALED_OPTIONS_INIT;
    const onnx_cast_tensor x = tensor(X, SHAPE, 2);
#define QUANTIZE(shape, rank)                                                                                        \
    do {                                                                                                             \
        const onnx_cast_tensor scale_ = tensor(SCALES, shape, rank);                                                 \
        CHECK_OK(onnx_cast_scaled_plan_quantize(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT, 0, &options, &plan));              \
        CHECK_OK(onnx_cast_scaled_plan_run(plan, &x, &scale_, NULL, y, sizeof y));                                   \
        onnx_cast_scaled_plan_free(plan);                                                                            \
    } while (0)
    options.output_type = ONNX_CAST_INT8;
    /* A zeroed axis is the default, 1, and the axis 0 can be said. */
    QUANTIZE(&three, 1);
    CHECK(memcmp(y, "\x01\x00\x0a\x7f\x00\x1c", 6) == 0);
    options.axis_given = 1;
    QUANTIZE(&two, 1);
    CHECK(memcmp(y, "\x01\xfe\x05\x7f\x00\x04", 6) == 0);
    options.axis = -1;
    QUANTIZE(&three, 1);
    CHECK(memcmp(y, "\x01\x00\x0a\x7f\x00\x1c", 6) == 0);
    /* Blocks of 2 on an axis of 3: the last is short. */
    options.block_size = 2;
    QUANTIZE(blocks, 2);
    CHECK(memcmp(y, "\x01\xfe\x01\x7f\xfe\x07", 6) == 0);
#undef QUANTIZE
}

static void types(void) {
    unsigned char y[6];
    uint16_t halves[6];
    int32_t type = 0;
    onnx_cast_scaled_options options = ONNX_CAST_SCALED_OPTIONS_INIT;
    const onnx_cast_tensor x = tensor(X, SHAPE, 2), power = tensor("\x80", NULL, 0), packed = tensor(y, SHAPE, 2);
    /* A scale of 2 in float8e8m0: 0.15, -0.5, 1.25, 500, -0.25 and 3.5 as float4e2m1, and back times 2. */
    options.output_type = ONNX_CAST_FLOAT4E2M1;
    CHECK_OK(onnx_cast_scaled_plan_quantize(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT8E8M0, 0, &options, &plan));
    CHECK_OK(onnx_cast_scaled_plan_run(plan, &x, &power, NULL, y, 3));
    CHECK(memcmp(y, "\x90\x72\x68", 3) == 0);
    onnx_cast_scaled_plan_free(plan);
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "output_dtype",
                onnx_cast_scaled_plan_dequantize(ONNX_CAST_FLOAT4E2M1, ONNX_CAST_FLOAT8E8M0, NULL, &plan));
    options.output_type = ONNX_CAST_FLOAT16;
    CHECK_OK(onnx_cast_scaled_plan_dequantize(ONNX_CAST_FLOAT4E2M1, ONNX_CAST_FLOAT8E8M0, &options, &plan));
    CHECK_OK(onnx_cast_scaled_plan_output_type(plan, &type));
    CHECK(type == ONNX_CAST_FLOAT16);
    CHECK_OK(onnx_cast_scaled_plan_run(plan, &packed, &power, NULL, halves, sizeof halves));
    const uint16_t want[] = {0x0000, 0xbc00, 0x4000, 0x4a00, 0x8000, 0x4800};
    CHECK(memcmp(halves, want, sizeof want) == 0);
    onnx_cast_scaled_plan_free(plan);
    /* saturate. */
    const float large = 1e6f, unit = 1.0f;
    const onnx_cast_tensor huge = tensor(&large, NULL, 0), by_one = tensor(&unit, NULL, 0);
    for (int32_t saturate = 0; saturate <= 2; saturate++) {
        options.output_type = ONNX_CAST_FLOAT8E4M3FN;
        options.saturate = saturate;
        CHECK_OK(onnx_cast_scaled_plan_quantize(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT, 0, &options, &plan));
        CHECK_OK(onnx_cast_scaled_plan_run(plan, &huge, &by_one, NULL, y, 1));
        CHECK(y[0] == (saturate == ONNX_CAST_SATURATE_FALSE ? 0x7f : 0x7e));
        onnx_cast_scaled_plan_free(plan);
    }
    /* precision: as float16 the quotients are 3.5 and 2.5, which go to the even integers. */
    const float close[] = {3.4995f, 2.5005f};
    const size_t two = 2;
    const onnx_cast_tensor near_ties = tensor(close, &two, 1);
    options = (onnx_cast_scaled_options)ONNX_CAST_SCALED_OPTIONS_INIT;
    CHECK_OK(onnx_cast_scaled_plan_quantize(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT, 0, &options, &plan));
    CHECK_OK(onnx_cast_scaled_plan_run(plan, &near_ties, &by_one, NULL, y, 2));
    CHECK(memcmp(y, "\x03\x03", 2) == 0);
    onnx_cast_scaled_plan_free(plan);
    options.precision = ONNX_CAST_FLOAT16;
    CHECK_OK(onnx_cast_scaled_plan_quantize(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT, 0, &options, &plan));
    CHECK_OK(onnx_cast_scaled_plan_run(plan, &near_ties, &by_one, NULL, y, 2));
    CHECK(memcmp(y, "\x04\x02", 2) == 0);
    onnx_cast_scaled_plan_free(plan);
}

static void options_refused(void) {
    onnx_cast_scaled_options options = ONNX_CAST_SCALED_OPTIONS_INIT;
    plan = (onnx_cast_scaled_plan *)&failures;
#define QUANTIZE(x, scale, zero_point) onnx_cast_scaled_plan_quantize(x, scale, zero_point, &options, &plan)
#define FLOATS(zero_point) QUANTIZE(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT, zero_point)
    options.axis = 2;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "axis is 2 and axis_given 0", FLOATS(0));
    options.axis_given = 7;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "axis_given is 7", FLOATS(0));
    options.axis_given = 1;
    options.opset = 10;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "QuantizeLinear-10 has no attribute `axis`", FLOATS(0));
    options = (onnx_cast_scaled_options)ONNX_CAST_SCALED_OPTIONS_INIT;
    options.precision = 99;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "99 is not an element type", FLOATS(0));
    options.precision = ONNX_CAST_INT8;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "`precision` is int8", FLOATS(0));
    options.precision = ONNX_CAST_FLOAT;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "neither saturate nor precision",
                onnx_cast_scaled_plan_dequantize(ONNX_CAST_INT8, ONNX_CAST_FLOAT, &options, &plan));
    options.precision = 0;
    options.saturate = 3;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "saturate is 3", FLOATS(0));
    options.saturate = 0;
    options.output_type = ONNX_CAST_INT8;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "`y_zero_point` is uint8", FLOATS(ONNX_CAST_UINT8));
    options.output_type = ONNX_CAST_INT64;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "does not take int64 as quantized elements", FLOATS(0));
    options.output_type = ONNX_CAST_STRING;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "does not take string", FLOATS(0));
    options.output_type = 0;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "does not take double as values",
                QUANTIZE(ONNX_CAST_DOUBLE, ONNX_CAST_FLOAT, 0));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "0 is not an element type", QUANTIZE(0, ONNX_CAST_FLOAT, 0));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "-1 is not an element type", FLOATS(-1));
    options.backend = "abacus";
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "no backend `abacus`", FLOATS(0));
    options.backend = NULL;
    options.size = 8;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "options has the size 8", FLOATS(0));
#undef FLOATS
#undef QUANTIZE
    struct {
        onnx_cast_scaled_options known;
        unsigned char later[24];
    } larger = {ONNX_CAST_SCALED_OPTIONS_INIT, {0}};
    larger.known.size = sizeof larger;
    larger.later[23] = 1;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "lacks",
                onnx_cast_scaled_plan_dequantize(ONNX_CAST_INT8, ONNX_CAST_FLOAT, &larger.known, &plan));
    CHECK(plan == (onnx_cast_scaled_plan *)&failures);
    larger.later[23] = 0;
    CHECK_OK(onnx_cast_scaled_plan_dequantize(ONNX_CAST_INT8, ONNX_CAST_FLOAT, &larger.known, &plan));
    onnx_cast_scaled_plan_free(plan);
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "plan is null",
                onnx_cast_scaled_plan_dequantize(ONNX_CAST_INT8, ONNX_CAST_FLOAT, NULL, NULL));
}

static void run_refused(void) {
    /* The shape of x lies in memory that the function may not write. */
    union {
        unsigned char bytes[64];
        size_t dims[2];
        float floats[6];
    } out;
    unsigned char *bytes = out.bytes;
    const size_t two = 2, four = 4, most[] = {SIZE_MAX, 2}, large[] = {(size_t)1 << (8 * sizeof(size_t) - 2)};
    const size_t empty[] = {0, SIZE_MAX, SIZE_MAX}, no_scales[] = {0};
    const onnx_cast_tensor x = tensor(X, SHAPE, 2), scale = tensor(SCALES, NULL, 0), pair = tensor(SCALES, &two, 1);
    const onnx_cast_tensor zeros = tensor("\0\0\0\0", &two, 1), other = tensor("\0\0\0\0", &four, 1);
    onnx_cast_scaled_options options = ONNX_CAST_SCALED_OPTIONS_INIT;
    options.axis_given = 1;
    memset(bytes, 0x5a, sizeof out);
    CHECK_OK(onnx_cast_scaled_plan_quantize(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT, 0, &options, &plan));
#define RUN(x, scale, zero_point, dst, room) onnx_cast_scaled_plan_run(plan, x, scale, zero_point, dst, room)
#define FAILS(status, words, x, scale, zero_point, dst, room) \
    CHECK_FAILS(status, words, RUN(x, scale, zero_point, dst, room))
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "plan is null",
                onnx_cast_scaled_plan_run(NULL, &x, &scale, NULL, bytes, 64));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "plan is null", onnx_cast_scaled_plan_output_type(NULL, (int32_t *)bytes));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "data_type is null", onnx_cast_scaled_plan_output_type(plan, NULL));
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "x is null", NULL, &scale, NULL, bytes, 64);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "scale is null", &x, NULL, NULL, bytes, 64);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "dst is null", &x, &scale, NULL, NULL, 64);
    onnx_cast_tensor bad = tensor(NULL, SHAPE, 2);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "x->data is null", &bad, &scale, NULL, bytes, 64);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "zero_point->data is null", &x, &scale, &bad, bytes, 64);
    bad = tensor(X, NULL, 1);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "x->shape is null", &bad, &scale, NULL, bytes, 64);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "scale->shape is null", &x, &bad, NULL, bytes, 64);
    bad = tensor(X, SHAPE, SIZE_MAX);
    FAILS(ONNX_CAST_OVERFLOW, "x->shape do not fit in memory", &bad, &scale, NULL, bytes, 64);
    bad = tensor(X, most, 2);
    FAILS(ONNX_CAST_OVERFLOW, "the elements of x do not fit in memory", &bad, &scale, NULL, bytes, 64);
    bad = tensor(X, large, 1);
    FAILS(ONNX_CAST_OVERFLOW, "do not fit in memory", &x, &bad, NULL, bytes, 64);
    /* Sizes: of an older program, and of a newer one, whose fields must be 0. */
    struct {
        onnx_cast_tensor known;
        unsigned char later[16];
    } newer = {tensor(X, SHAPE, 2), {0}};
    bad = tensor(X, SHAPE, 2);
    bad.size = sizeof(onnx_cast_tensor) - 1;
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "x has the size", &bad, &scale, NULL, bytes, 64);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "scale has the size", &x, &bad, NULL, bytes, 64);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "zero_point has the size", &x, &scale, &bad, bytes, 64);
    newer.known.size = sizeof newer;
    newer.later[15] = 1;
    FAILS(ONNX_CAST_UNSUPPORTED, "x has fields that this version of the library lacks", &newer.known, &scale,
          NULL, bytes, 64);
    newer.known.size--;
    CHECK_OK(RUN(&newer.known, &scale, NULL, bytes, 6));
    memset(bytes, 0x5a, sizeof out);
    /* Shapes that do not fit. */
    const onnx_cast_tensor wrong = tensor(SCALES, &four, 1);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "a scale of shape [4] for an input of shape [2, 3]", &x, &wrong, NULL, bytes, 64);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "[4]", &x, &pair, &other, bytes, 64);
    bad = tensor(X, NULL, 0);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "an input without dimensions", &bad, &pair, NULL, bytes, 64);
    /* Memory. */
    FAILS(ONNX_CAST_BUFFER_TOO_SMALL, "room for 5 bytes (want 6)", &x, &scale, NULL, bytes, 5);
    for (size_t i = 0; i < sizeof out; i++) CHECK(bytes[i] == 0x5a);
    memcpy(bytes, X, sizeof X);
    bad = tensor(bytes, SHAPE, 2);
    FAILS(ONNX_CAST_OVERLAP, "dst and x->data overlap", &bad, &scale, NULL, bytes, 6);
    FAILS(ONNX_CAST_OVERLAP, "dst and x->data overlap", &bad, &scale, NULL, bytes + 23, 6);
    CHECK_OK(RUN(&bad, &scale, NULL, bytes + 24, 6));
    CHECK(memcmp(bytes + 24, "\x01\x00\x05\xff\x00\x0e\x5a", 7) == 0);
    bad = tensor(bytes, NULL, 0);
    FAILS(ONNX_CAST_OVERLAP, "dst and scale->data overlap", &x, &bad, NULL, bytes + 3, 6);
    bad = tensor(bytes, &two, 1);
    FAILS(ONNX_CAST_OVERLAP, "dst and zero_point->data overlap", &x, &pair, &bad, bytes + 1, 6);
    out.dims[0] = 2;
    out.dims[1] = 3;
    bad = tensor(X, out.dims, 2);
    FAILS(ONNX_CAST_OVERLAP, "dst and x->shape overlap", &bad, &scale, NULL, bytes + 1, 6);
    CHECK(out.dims[0] == 2 && out.dims[1] == 3);
    /* Nothing at all needs no memory. */
    CHECK_OK(RUN(&x, &pair, &zeros, bytes, 6));
    bad = tensor(NULL, empty, 3);
    const onnx_cast_tensor none = tensor(NULL, no_scales, 1);
    CHECK_OK(RUN(&bad, &none, NULL, NULL, 0));
    onnx_cast_scaled_plan_free(plan);
    /* The zero point of a float type is 0. */
    options.output_type = ONNX_CAST_FLOAT8E5M2;
    CHECK_OK(onnx_cast_scaled_plan_quantize(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT, 0, &options, &plan));
    const onnx_cast_tensor minus_zero = tensor("\x80", NULL, 0), one = tensor("\x3c", NULL, 0);
    CHECK_OK(RUN(&x, &scale, &minus_zero, bytes, 6));
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "zero point", &x, &scale, &one, bytes, 6);
    onnx_cast_scaled_plan_free(plan);
#undef FAILS
#undef RUN
}

/* A tensor large enough for threads, whose result depends neither on them nor on the backend. */
static void large(void) {
    const size_t count = 4000001, shape[] = {count}, blocks[] = {(count + 31) / 32};
    float *src = malloc(count * sizeof *src), *scales = malloc(*blocks * sizeof *scales);
    unsigned char *one = malloc(count), *all = malloc(count);
    onnx_cast_scaled_options options = ONNX_CAST_SCALED_OPTIONS_INIT;
    options.axis_given = 1;
    options.block_size = 32;
    options.output_type = ONNX_CAST_FLOAT8E4M3FN;
    for (size_t i = 0; i < count; i++) src[i] = (float)(i % 100003) / 64.0f - 700.0f;
    for (size_t i = 0; i < *blocks; i++) scales[i] = (float)(i % 7 + 1) / 3.0f;
    const onnx_cast_tensor x = tensor(src, shape, 1), scale = tensor(scales, blocks, 1);
    CHECK_OK(onnx_cast_scaled_plan_quantize(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT, 0, &options, &plan));
    CHECK_OK(onnx_cast_scaled_plan_run(plan, &x, &scale, NULL, all, count));
    onnx_cast_scaled_plan_free(plan);
    options.threads = 1;
    for (size_t i = 0; onnx_cast_backend_name(i) != NULL; i++) {
        options.backend = onnx_cast_backend_name(i);
        CHECK_OK(onnx_cast_scaled_plan_quantize(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT, 0, &options, &plan));
        CHECK_OK(onnx_cast_scaled_plan_run(plan, &x, &scale, NULL, one, count));
        CHECK(memcmp(one, all, count) == 0);
        onnx_cast_scaled_plan_free(plan);
    }
    free(src);
    free(scales);
    free(one);
    free(all);
}

int main(void) {
    CHECK(onnx_cast_has_feature("scaled"));
    per_tensor();
    axes();
    types();
    options_refused();
    run_refused();
    large();
    return done();
}
