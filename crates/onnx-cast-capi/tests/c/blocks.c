/* Do the block formats give elements, scales and values in the caller's memory, and refuse what does not fit? */
#include "check.h"

#include <math.h>

enum { ROWS = 2, COLUMNS = 40, COUNT = ROWS * COLUMNS };

static const size_t SHAPE[] = {ROWS, COLUMNS};
static float x_data[COUNT];
static onnx_cast_tensor x = {sizeof(onnx_cast_tensor), x_data, SHAPE, 2};

static void sizes(void) {
    static const size_t elements[] = {0, 80, 80, 60, 60, 40, 80, 40}, scales[] = {0, 4, 4, 4, 4, 4, 4, 6};
    const size_t most[] = {SIZE_MAX, 2}, large[] = {SIZE_MAX}, empty[] = {SIZE_MAX, 0, 2};
    size_t bytes = 77, count = 77;
    for (int format = ONNX_CAST_MXFP8; format <= ONNX_CAST_NVFP4; format++) {
        CHECK_OK(onnx_cast_block_sizes(format, SHAPE, 2, &bytes, &count));
        CHECK(bytes == elements[format] && count == scales[format]);
    }
    CHECK_OK(onnx_cast_block_sizes(ONNX_CAST_MXFP8, NULL, 0, &bytes, &count));
    CHECK(bytes == 1 && count == 1);
    CHECK_OK(onnx_cast_block_sizes(ONNX_CAST_MXFP8, empty, 3, &bytes, &count));
    CHECK(bytes == 0 && count == 0);
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "8 is not a block format", onnx_cast_block_sizes(8, SHAPE, 2, &bytes, &count));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "shape is null", onnx_cast_block_sizes(1, NULL, 2, &bytes, &count));
    CHECK_FAILS(ONNX_CAST_OVERFLOW, "do not fit in memory", onnx_cast_block_sizes(1, most, 2, &bytes, &count));
    CHECK_FAILS(ONNX_CAST_OVERFLOW, "do not fit in memory", onnx_cast_block_sizes(1, large, 1, &bytes, &count));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "scales is null", onnx_cast_block_sizes(1, SHAPE, 2, &bytes, NULL));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "element_bytes is null", onnx_cast_block_sizes(1, SHAPE, 2, NULL, &count));
    CHECK(bytes == 0 && count == 0);
}

static void mxfp4(void) {
    unsigned char elements[48], scales[8];
    float back[COUNT];
    const onnx_cast_tensor quantized = {sizeof quantized, elements, SHAPE, 2};
    onnx_cast_block_options options = ONNX_CAST_BLOCK_OPTIONS_INIT;
    for (int i = 0; i < COUNT; i++) x_data[i] = (float)(i % COLUMNS);
    memset(elements, 0x5a, sizeof elements);
    memset(scales, 0x5a, sizeof scales);
    float global = 0;
    CHECK_OK(onnx_cast_block_quantize(ONNX_CAST_MXFP4, ONNX_CAST_FLOAT, &x, elements, sizeof elements, scales,
                                      sizeof scales, &global, NULL));
    /* 31 is the greatest of the first block, 39 of the second, which is short: scales of 4 and 8. */
    CHECK(memcmp(scales, "\x81\x82\x81\x82\x5a\x5a\x5a\x5a", 8) == 0);
    CHECK(elements[40] == 0x5a && global == 1);
    CHECK_OK(onnx_cast_block_dequantize(ONNX_CAST_MXFP4, &quantized, scales, 1, ONNX_CAST_FLOAT, back, sizeof back,
                                        NULL));
    CHECK(back[0] == 0 && back[4] == 4 && back[6] == 6 && back[31] == 24 && back[32] == 32 && back[39] == 32);
    CHECK(memcmp(back, back + COLUMNS, sizeof back / 2) == 0);
    /* The rule: ceil(log2(31 / 6)) is 3, one more than the floor. */
    options.rule = ONNX_CAST_RULE_RCEIL;
    CHECK_OK(onnx_cast_block_quantize(ONNX_CAST_MXFP4, ONNX_CAST_FLOAT, &x, elements, 40, scales, 4, NULL, &options));
    CHECK(memcmp(scales, "\x82\x82\x82\x82\x5a", 5) == 0);
    /* A block with NaN. */
    x_data[3] = NAN;
    CHECK_OK(onnx_cast_block_quantize(ONNX_CAST_MXFP4, ONNX_CAST_FLOAT, &x, elements, 40, scales, 4, NULL, NULL));
    CHECK(scales[0] == 0xff && scales[1] == 0x82 && elements[10] == 0);
    x_data[3] = 3;
}

static void nvfp4(void) {
    unsigned char elements[40], scales[6];
    float back[COUNT], global = 0;
    uint16_t halves[COUNT];
    const onnx_cast_tensor quantized = {sizeof quantized, elements, SHAPE, 2};
    onnx_cast_block_options options = ONNX_CAST_BLOCK_OPTIONS_INIT;
    for (int i = 0; i < COUNT; i++) x_data[i] = 2688.0f;
    for (int recipe = ONNX_CAST_RECIPE_MODELOPT; recipe <= ONNX_CAST_RECIPE_COMPRESSED_TENSORS; recipe++) {
        options.recipe = recipe;
        CHECK_OK(onnx_cast_block_quantize(ONNX_CAST_NVFP4, ONNX_CAST_FLOAT, &x, elements, 40, scales, 6, &global,
                                          &options));
        CHECK(global == 1 && scales[5] == 0x7e && elements[39] == 0x77);
        CHECK_OK(onnx_cast_block_dequantize(ONNX_CAST_NVFP4, &quantized, scales, 2, ONNX_CAST_FLOAT, back, sizeof back,
                                            &options));
        /* A divisor, or a factor. */
        CHECK(back[COUNT - 1] == (recipe == ONNX_CAST_RECIPE_COMPRESSED_TENSORS ? 1344.0f : 5376.0f));
    }
    CHECK_OK(onnx_cast_block_dequantize(ONNX_CAST_NVFP4, &quantized, scales, 1, ONNX_CAST_BFLOAT16, halves,
                                        sizeof halves, NULL));
    CHECK(halves[COUNT - 1] == 0x4528);
}

static void refused(void) {
    union {
        unsigned char bytes[COUNT * sizeof(float)];
        float floats[COUNT];
    } out;
    unsigned char elements[80], scales[6] = {0};
    float global = 5;
    onnx_cast_tensor bad = {sizeof bad, NULL, SHAPE, 2}, inside = {sizeof inside, out.bytes, SHAPE, 2};
    const onnx_cast_tensor quantized = {sizeof quantized, elements, SHAPE, 2};
    onnx_cast_block_options options = ONNX_CAST_BLOCK_OPTIONS_INIT;
    memset(elements, 0x5a, sizeof elements);
    memset(&out, 0, sizeof out);
#define QUANTIZE(from, x, elements, room, scales, scale_room, global) \
    onnx_cast_block_quantize(ONNX_CAST_NVFP4, from, x, elements, room, scales, scale_room, global, &options)
#define FAILS(status, words, x, elements, room, scales, scale_room, global) \
    CHECK_FAILS(status, words, QUANTIZE(ONNX_CAST_FLOAT, x, elements, room, scales, scale_room, global))
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "x is null", NULL, elements, 40, scales, 6, &global);
    bad.size--;
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "x has the size", &bad, elements, 40, scales, 6, &global);
    bad.size++;
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "x->data is null", &bad, elements, 40, scales, 6, &global);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "elements is null", &x, NULL, 40, scales, 6, &global);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "scales is null", &x, elements, 40, NULL, 6, &global);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "global_scale is null", &x, elements, 40, scales, 6, NULL);
    FAILS(ONNX_CAST_BUFFER_TOO_SMALL, "elements has room for 39 bytes (want 40)", &x, elements, 39, scales, 6, &global);
    FAILS(ONNX_CAST_BUFFER_TOO_SMALL, "scales has room for 5 bytes (want 6)", &x, elements, 40, scales, 5, &global);
    FAILS(ONNX_CAST_OVERLAP, "elements and x->data overlap", &inside, out.bytes + 9, 40, scales, 6, &global);
    FAILS(ONNX_CAST_OVERLAP, "scales and x->data overlap", &inside, elements, 40, out.bytes, 6, &global);
    FAILS(ONNX_CAST_OVERLAP, "elements and scales overlap", &x, elements, 40, elements + 39, 6, &global);
    FAILS(ONNX_CAST_OVERLAP, "global_scale and x->data overlap", &inside, elements, 40, scales, 6, out.floats);
    FAILS(ONNX_CAST_OVERLAP, "elements and global_scale overlap", &x, out.bytes, 40, scales, 6, out.floats);
    FAILS(ONNX_CAST_OVERLAP, "scales and global_scale overlap", &x, elements, 40, out.bytes, 6, out.floats);
    const size_t few = COUNT / 2;
    const onnx_cast_tensor doubles = {sizeof doubles, out.bytes, &few, 1};
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "values of double (want float, float16 or bfloat16)",
                QUANTIZE(ONNX_CAST_DOUBLE, &doubles, elements, 40, scales, 6, &global));
    options.rule = 4;
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "rule is 4", &x, elements, 40, scales, 6, &global);
    options.rule = 0;
    options.recipe = -1;
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "recipe is -1", &x, elements, 40, scales, 6, &global);
    options.recipe = 0;
    options.rule = ONNX_CAST_RULE_EVEN;
    FAILS(ONNX_CAST_UNSUPPORTED, "a scale rule is for MX", &x, elements, 40, scales, 6, &global);
    options.rule = 0;
    options.recipe = ONNX_CAST_RECIPE_TORCHAO;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "a recipe is for nvfp4: mxfp4 has a scale rule",
                onnx_cast_block_quantize(ONNX_CAST_MXFP4, ONNX_CAST_FLOAT, &x, elements, 40, scales, 4, NULL, &options));
    options.recipe = 0;
    options.size = 1;
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "options has the size 1", &x, elements, 40, scales, 6, &global);
    for (size_t i = 0; i < sizeof elements; i++) CHECK(elements[i] == 0x5a);
    CHECK(global == 5);
#undef FAILS
#undef QUANTIZE
#define DEQUANTIZE(format, elements, scales, to, dst, room) \
    onnx_cast_block_dequantize(format, elements, scales, 1, to, dst, room, NULL)
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "0 is not a block format",
                DEQUANTIZE(0, &quantized, scales, ONNX_CAST_FLOAT, out.bytes, sizeof out));
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "values of int8 (want float, float16 or bfloat16)",
                DEQUANTIZE(ONNX_CAST_MXFP4, &quantized, scales, ONNX_CAST_INT8, out.bytes, sizeof out));
    bad.size = 0;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "elements has the size 0",
                DEQUANTIZE(ONNX_CAST_MXFP4, &bad, scales, ONNX_CAST_FLOAT, out.bytes, sizeof out));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "scales is null",
                DEQUANTIZE(ONNX_CAST_MXFP4, &quantized, NULL, ONNX_CAST_FLOAT, out.bytes, sizeof out));
    CHECK_FAILS(ONNX_CAST_BUFFER_TOO_SMALL, "dst has room for 319 bytes (want 320)",
                DEQUANTIZE(ONNX_CAST_MXFP4, &quantized, scales, ONNX_CAST_FLOAT, out.bytes, 319));
    CHECK_FAILS(ONNX_CAST_OVERLAP, "dst and elements->data overlap",
                DEQUANTIZE(ONNX_CAST_MXFP4, &inside, scales, ONNX_CAST_FLOAT, out.bytes, sizeof out));
    CHECK_FAILS(ONNX_CAST_OVERLAP, "dst and scales overlap",
                DEQUANTIZE(ONNX_CAST_MXFP4, &quantized, out.bytes + 100, ONNX_CAST_FLOAT, out.bytes, sizeof out));
#undef DEQUANTIZE
}

int main(void) {
    CHECK(onnx_cast_has_feature("blocks"));
    sizes();
    mxfp4();
    nvfp4();
    refused();
    return done();
}
