/* Do the operators give ONNX's results into the caller's memory, obey the options, and refuse what they should? */
#include "check.h"

#include <stdlib.h>

static const float FLOATS[] = {1.0f, -0.3f, 1000.0f, 0.1f, -2.5f};
enum { COUNT = sizeof FLOATS / sizeof *FLOATS };

static void cast(void) {
    unsigned char out[8];
    memset(out, 0x5a, sizeof out);
    CHECK_OK(onnx_cast_cast(ONNX_CAST_FLOAT, FLOATS, COUNT, ONNX_CAST_FLOAT8E4M3FN, out, sizeof out, NULL));
    CHECK(memcmp(out, "\x38\xaa\x7e\x1d\xc2\x5a\x5a\x5a", 8) == 0);
    /* Packed: two to a byte, the padding 0, and nothing behind. */
    memset(out, 0x5a, sizeof out);
    CHECK_OK(onnx_cast_cast(ONNX_CAST_FLOAT, FLOATS, COUNT, ONNX_CAST_FLOAT4E2M1, out, 3, NULL));
    CHECK(memcmp(out, "\x92\x07\x0c\x5a", 4) == 0);
    /* Of any alignment. */
    unsigned char bytes[1 + sizeof FLOATS], halves[1 + 2 * COUNT];
    memcpy(bytes + 1, FLOATS, sizeof FLOATS);
    CHECK_OK(onnx_cast_cast(ONNX_CAST_FLOAT, bytes + 1, COUNT, ONNX_CAST_FLOAT16, halves + 1, 2 * COUNT, NULL));
    CHECK(memcmp(halves + 1, "\x00\x3c\xcd\xb4\xd0\x63\x66\x2e\x00\xc1", 2 * COUNT) == 0);
    /* Nothing at all needs no memory. */
    CHECK_OK(onnx_cast_cast(ONNX_CAST_FLOAT, NULL, 0, ONNX_CAST_INT8, NULL, 0, NULL));
}

static void options(void) {
    unsigned char out[COUNT];
    onnx_cast_options options = ONNX_CAST_OPTIONS_INIT;
    const float large[] = {1000.0f, 3.0f, -1000.0f, 0.0f, 1.0f};
#define CAST(to) onnx_cast_cast(ONNX_CAST_FLOAT, large, COUNT, to, out, sizeof out, &options)
    CHECK_OK(CAST(ONNX_CAST_FLOAT8E4M3FN));
    CHECK(memcmp(out, "\x7e\x44\xfe\x00\x38", COUNT) == 0);
    options.saturate = ONNX_CAST_SATURATE_FALSE;
    CHECK_OK(CAST(ONNX_CAST_FLOAT8E4M3FN));
    CHECK(memcmp(out, "\x7f\x44\xff\x00\x38", COUNT) == 0);
    options.saturate = ONNX_CAST_SATURATE_TRUE;
    options.round_mode = ONNX_CAST_ROUND_DOWN;
    CHECK_OK(CAST(ONNX_CAST_FLOAT8E8M0));
    CHECK(memcmp(out, "\x88\x80\x00\x00\x7f", COUNT) == 0);
    options.round_mode = ONNX_CAST_ROUND_NEAREST;
    CHECK_OK(CAST(ONNX_CAST_FLOAT8E8M0));
    CHECK(memcmp(out, "\x89\x81\x00\x00\x7f", COUNT) == 0);
    options.round_mode = 4;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "round_mode is 4", CAST(ONNX_CAST_INT8));
    options.round_mode = ONNX_CAST_ROUND_UP;
    options.saturate = -1;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "saturate is -1", CAST(ONNX_CAST_INT8));
    options.saturate = ONNX_CAST_SATURATE_DEFAULT;
    options.opset = 23;
    CHECK_OK(CAST(ONNX_CAST_INT8)); /* The default is accepted at every opset. */
    options.round_mode = ONNX_CAST_ROUND_DOWN;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "no attribute `round_mode`", CAST(ONNX_CAST_INT8));
    options.round_mode = ONNX_CAST_ROUND_DEFAULT;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "Cast-23 does not take float8e8m0", CAST(ONNX_CAST_FLOAT8E8M0));
    options.opset = 29;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "opset 29", CAST(ONNX_CAST_INT8));
    options.opset = -5;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "opset -5", CAST(ONNX_CAST_INT8));
    options.opset = 0;
    options.threads = 1;
    for (size_t i = 0; onnx_cast_backend_name(i) != NULL; i++) {
        options.backend = onnx_cast_backend_name(i);
        memset(out, 0, sizeof out);
        CHECK_OK(CAST(ONNX_CAST_FLOAT8E4M3FN));
        CHECK(memcmp(out, "\x7e\x44\xfe\x00\x38", COUNT) == 0);
    }
    options.backend = "abacus";
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "no backend `abacus`", CAST(ONNX_CAST_INT8));
    options.backend = NULL;
    options.size = 8;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "options has the size 8", CAST(ONNX_CAST_INT8));
#undef CAST
    /* A program of a later version has more fields: zeros mean defaults, anything else is more than is known here. */
    struct {
        onnx_cast_options known;
        unsigned char later[24];
    } larger = {ONNX_CAST_OPTIONS_INIT, {0}};
    larger.known.size = sizeof larger;
    CHECK_OK(onnx_cast_cast(ONNX_CAST_FLOAT, FLOATS, COUNT, ONNX_CAST_INT8, out, sizeof out, &larger.known));
    larger.later[23] = 1;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "lacks",
                onnx_cast_cast(ONNX_CAST_FLOAT, FLOATS, COUNT, ONNX_CAST_INT8, out, sizeof out, &larger.known));
}

static void other_operators(void) {
    unsigned char out[4 * COUNT];
    onnx_cast_options options = ONNX_CAST_OPTIONS_INIT;
    CHECK_OK(onnx_cast_cast_like(ONNX_CAST_FLOAT, FLOATS, COUNT, ONNX_CAST_BFLOAT16, out, sizeof out, NULL));
    CHECK(memcmp(out, "\x80\x3f\x9a\xbe\x7a\x44\xcd\x3d\x20\xc0", 2 * COUNT) == 0);
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "no version of CastLike does",
                onnx_cast_cast_like(ONNX_CAST_FLOAT, FLOATS, COUNT, ONNX_CAST_FLOAT6E2M3, out, sizeof out, NULL));
    options.opset = 14;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "CastLike",
                onnx_cast_cast_like(ONNX_CAST_FLOAT, FLOATS, COUNT, ONNX_CAST_INT8, out, sizeof out, &options));
    CHECK_OK(onnx_cast_bit_cast(ONNX_CAST_FLOAT, FLOATS, COUNT, ONNX_CAST_UINT32, out, sizeof out, NULL));
    CHECK(memcmp(out, FLOATS, sizeof FLOATS) == 0);
    CHECK_OK(onnx_cast_bit_cast(ONNX_CAST_UINT8, "\x02", 1, ONNX_CAST_BOOL, out, 1, NULL));
    CHECK(out[0] == 2);
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "widths differ",
                onnx_cast_bit_cast(ONNX_CAST_FLOAT, FLOATS, COUNT, ONNX_CAST_INT8, out, sizeof out, NULL));
    options.opset = 0;
    options.saturate = ONNX_CAST_SATURATE_TRUE;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "neither saturate nor round_mode",
                onnx_cast_bit_cast(ONNX_CAST_FLOAT, FLOATS, COUNT, ONNX_CAST_INT32, out, sizeof out, &options));
}

static void refused(void) {
    unsigned char out[4 * COUNT], *bytes = out;
    memset(out, 0x5a, sizeof out);
#define CAST(src, count, dst, room) onnx_cast_cast(ONNX_CAST_FLOAT, src, count, ONNX_CAST_INT16, dst, room, NULL)
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "src is null", CAST(NULL, 1, out, 2));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "dst is null", CAST(FLOATS, 1, NULL, 2));
    CHECK_FAILS(ONNX_CAST_BUFFER_TOO_SMALL, "room for 9 bytes (want 10)", CAST(FLOATS, COUNT, out, 9));
    CHECK_FAILS(ONNX_CAST_OVERLAP, "dst and src overlap", CAST(out, COUNT, out, sizeof out));
    CHECK_FAILS(ONNX_CAST_OVERLAP, "dst and src overlap", CAST(out, 3, bytes + 11, 6));
    CHECK_FAILS(ONNX_CAST_OVERLAP, "dst and src overlap", CAST(bytes + 5, 3, out, 6));
    CHECK_FAILS(ONNX_CAST_OVERFLOW, "do not fit in memory", CAST(FLOATS, SIZE_MAX / 2, out, SIZE_MAX));
#undef CAST
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "-3 is not an element type",
                onnx_cast_cast(-3, FLOATS, COUNT, ONNX_CAST_INT8, out, sizeof out, NULL));
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "onnx_cast_from_strings",
                onnx_cast_cast(ONNX_CAST_STRING, FLOATS, COUNT, ONNX_CAST_INT8, out, sizeof out, NULL));
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "onnx_cast_to_strings",
                onnx_cast_cast(ONNX_CAST_FLOAT, FLOATS, COUNT, ONNX_CAST_STRING, out, sizeof out, NULL));
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "Cast-28 does not take complex64",
                onnx_cast_cast(ONNX_CAST_COMPLEX64, FLOATS, 2, ONNX_CAST_INT8, out, sizeof out, NULL));
    for (size_t i = 0; i < sizeof out; i++) CHECK(out[i] == 0x5a);
    /* What only touches is apart. */
    memcpy(out, FLOATS, 12);
    CHECK_OK(onnx_cast_cast(ONNX_CAST_FLOAT, out, 3, ONNX_CAST_INT16, bytes + 12, 6, NULL));
    CHECK(memcmp(out + 12, "\x01\x00\x00\x00\xe8\x03", 6) == 0);
}

/* A tensor large enough for threads and for the stores past the caches, whose result must not depend on either. */
static void large(void) {
    size_t count = 9000001;
    float *src = malloc(count * sizeof *src);
    unsigned char *one = malloc(count), *all = malloc(count);
    onnx_cast_options options = ONNX_CAST_OPTIONS_INIT;
    options.threads = 1;
    for (size_t i = 0; i < count; i++) src[i] = (float)(i % 100003) / 64.0f - 700.0f;
    CHECK_OK(onnx_cast_cast(ONNX_CAST_FLOAT, src, count, ONNX_CAST_FLOAT8E5M2, one, count, &options));
    CHECK_OK(onnx_cast_cast(ONNX_CAST_FLOAT, src, count, ONNX_CAST_FLOAT8E5M2, all, count, NULL));
    CHECK(memcmp(one, all, count) == 0);
    free(src);
    free(one);
    free(all);
}

static void plans(void) {
    onnx_cast_plan *plan = NULL;
    unsigned char out[4 * COUNT];
    CHECK_OK(onnx_cast_plan_cast(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT8E4M3FN, NULL, &plan));
    for (int i = 0; i < 3; i++) CHECK_OK(onnx_cast_plan_run(plan, FLOATS, COUNT, out, sizeof out));
    CHECK(memcmp(out, "\x38\xaa\x7e\x1d\xc2", COUNT) == 0);
    CHECK_FAILS(ONNX_CAST_BUFFER_TOO_SMALL, "want 5", onnx_cast_plan_run(plan, FLOATS, COUNT, out, 4));
    CHECK_FAILS(ONNX_CAST_OVERLAP, "overlap", onnx_cast_plan_run(plan, out, COUNT, out, COUNT));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "plan is null", onnx_cast_plan_run(NULL, FLOATS, COUNT, out, COUNT));
    onnx_cast_plan_free(plan);
    onnx_cast_plan_free(NULL);
    CHECK_OK(onnx_cast_plan_cast_like(ONNX_CAST_INT64, ONNX_CAST_INT4, NULL, &plan));
    const int64_t integers[] = {7, -8, 8};
    CHECK_OK(onnx_cast_plan_run(plan, integers, 3, out, sizeof out));
    CHECK(memcmp(out, "\x87\x08", 2) == 0);
    onnx_cast_plan_free(plan);
    CHECK_OK(onnx_cast_plan_bit_cast(ONNX_CAST_FLOAT4E2M1, ONNX_CAST_UINT4, NULL, &plan));
    CHECK_OK(onnx_cast_plan_run(plan, "\x21\xf3", 3, out, sizeof out));
    CHECK(memcmp(out, "\x21\x03", 2) == 0);
    onnx_cast_plan_free(plan);
    plan = (onnx_cast_plan *)&failures;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "widths differ",
                onnx_cast_plan_bit_cast(ONNX_CAST_FLOAT, ONNX_CAST_INT8, NULL, &plan));
    CHECK(plan == (onnx_cast_plan *)&failures);
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "plan is null",
                onnx_cast_plan_cast(ONNX_CAST_FLOAT, ONNX_CAST_INT8, NULL, NULL));
}

int main(void) {
    cast();
    options();
    other_operators();
    refused();
    large();
    plans();
    return done();
}
