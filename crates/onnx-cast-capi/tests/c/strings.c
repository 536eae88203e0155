/* Do strings become numbers and numbers strings, by one call and by two, and are bad ones refused? */
#include "check.h"

#include <stdlib.h>

static const double NUMBERS[] = {1.0, -0.25, 1e8};
static const char TEXTS[] = "1-0.25100000000";
static const uint64_t OFFSETS[] = {0, 1, 6, 15};

static void printing(void) {
    uint64_t offsets[4] = {9, 9, 9, 9};
    char bytes[16];
    onnx_cast_string_buffer out = ONNX_CAST_STRING_BUFFER_INIT;
    out.needed = 99;
    /* How much? */
    CHECK_OK(onnx_cast_to_strings(ONNX_CAST_DOUBLE, NUMBERS, 3, &out, NULL));
    CHECK(out.needed == 15);
    out.offsets = offsets;
    CHECK_OK(onnx_cast_to_strings(ONNX_CAST_DOUBLE, NUMBERS, 3, &out, NULL));
    CHECK(memcmp(offsets, OFFSETS, sizeof OFFSETS) == 0);
    /* Too little. */
    memset(bytes, '.', sizeof bytes);
    out.bytes = bytes;
    out.room = 14;
    out.needed = 0;
    CHECK_FAILS(ONNX_CAST_BUFFER_TOO_SMALL, "room for 14 bytes (want 15)",
                onnx_cast_to_strings(ONNX_CAST_DOUBLE, NUMBERS, 3, &out, NULL));
    CHECK(out.needed == 15 && bytes[14] == '.');
    /* Enough. */
    out.room = 15;
    CHECK_OK(onnx_cast_to_strings(ONNX_CAST_DOUBLE, NUMBERS, 3, &out, NULL));
    CHECK(memcmp(bytes, TEXTS, 15) == 0 && bytes[15] == '.');
    /* None. */
    CHECK_OK(onnx_cast_to_strings(ONNX_CAST_DOUBLE, NULL, 0, &out, NULL));
    CHECK(out.needed == 0 && offsets[0] == 0);

    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "out is null",
                onnx_cast_to_strings(ONNX_CAST_DOUBLE, NUMBERS, 3, NULL, NULL));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "src is null", onnx_cast_to_strings(ONNX_CAST_DOUBLE, NULL, 3, &out, NULL));
    out.bytes = (char *)NUMBERS;
    CHECK_FAILS(ONNX_CAST_OVERLAP, "out->bytes and src overlap",
                onnx_cast_to_strings(ONNX_CAST_DOUBLE, NUMBERS, 3, &out, NULL));
    out.bytes = (char *)offsets;
    CHECK_FAILS(ONNX_CAST_OVERLAP, "out->bytes and out->offsets overlap",
                onnx_cast_to_strings(ONNX_CAST_DOUBLE, NUMBERS, 3, &out, NULL));
    out.bytes = NULL;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "out->bytes is null",
                onnx_cast_to_strings(ONNX_CAST_DOUBLE, NUMBERS, 3, &out, NULL));
    CHECK_FAILS(ONNX_CAST_OVERFLOW, "do not fit",
                onnx_cast_to_strings(ONNX_CAST_UINT2, NUMBERS, SIZE_MAX, &out, NULL));
}

/* More than are printed at once, of a type whose elements cross bytes. */
static void many(void) {
    enum { MANY = 10007 };
    int64_t *numbers = malloc(MANY * sizeof *numbers);
    unsigned char *packed = malloc(MANY);
    for (int i = 0; i < MANY; i++) numbers[i] = i % 7;
    CHECK_OK(onnx_cast_cast(ONNX_CAST_INT64, numbers, MANY, ONNX_CAST_FLOAT6E3M2, packed, MANY, NULL));
    uint64_t *offsets = malloc((MANY + 1) * sizeof *offsets);
    char *bytes = malloc(MANY);
    onnx_cast_string_buffer out = {sizeof out, offsets, bytes, MANY, 0};
    CHECK_OK(onnx_cast_to_strings(ONNX_CAST_FLOAT6E3M2, packed, MANY, &out, NULL));
    CHECK(out.needed == MANY);
    for (int i = 0; i < MANY; i++) CHECK(offsets[i] == (uint64_t)i && bytes[i] == '0' + i % 7);
    memset(numbers, 0, MANY * sizeof *numbers);
    onnx_cast_strings texts = {sizeof texts, offsets, MANY, bytes, MANY};
    CHECK_OK(onnx_cast_from_strings(&texts, ONNX_CAST_INT64, numbers, MANY * sizeof *numbers, NULL));
    for (int i = 0; i < MANY; i++) CHECK(numbers[i] == i % 7);
    free(numbers);
    free(packed);
    free(offsets);
    free(bytes);
}

static void parsing(void) {
    onnx_cast_strings src = {sizeof src, OFFSETS, 3, TEXTS, 15};
    unsigned char out[12];
    memset(out, 0x5a, sizeof out);
    CHECK_OK(onnx_cast_from_strings(&src, ONNX_CAST_FLOAT8E5M2, out, sizeof out, NULL));
    CHECK(memcmp(out, "\x3c\xb4\x7b\x5a", 4) == 0);
    onnx_cast_strings none = {sizeof none, OFFSETS, 0, NULL, 0};
    CHECK_OK(onnx_cast_from_strings(&none, ONNX_CAST_FLOAT, NULL, 0, NULL));
    CHECK_FAILS(ONNX_CAST_NOT_A_NUMBER, "element 2: \"100000000\" is out of range",
                onnx_cast_from_strings(&src, ONNX_CAST_INT8, out, sizeof out, NULL));
    onnx_cast_strings word = {sizeof word, OFFSETS, 2, "xtrue!", 6};
    CHECK_FAILS(ONNX_CAST_NOT_A_NUMBER, "element 0: \"x\" is not a number",
                onnx_cast_from_strings(&word, ONNX_CAST_FLOAT, out, sizeof out, NULL));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "src is null",
                onnx_cast_from_strings(NULL, ONNX_CAST_FLOAT, out, sizeof out, NULL));
    src.byte_count = 14;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "src->offsets[3] is 15 (offsets start at 0, rise, and end with",
                onnx_cast_from_strings(&src, ONNX_CAST_FLOAT, out, sizeof out, NULL));
    src.offsets = NULL;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "src->offsets is null",
                onnx_cast_from_strings(&src, ONNX_CAST_FLOAT, out, sizeof out, NULL));
    src.offsets = (const uint64_t *)(const void *)(TEXTS + (((uintptr_t)TEXTS & 1) ? 0 : 1));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "src->offsets is not aligned",
                onnx_cast_from_strings(&src, ONNX_CAST_FLOAT, out, sizeof out, NULL));
    uint64_t shared[4];
    memcpy(shared, OFFSETS, sizeof shared);
    src = (onnx_cast_strings){sizeof src, shared, 3, TEXTS, 15};
    CHECK_FAILS(ONNX_CAST_OVERLAP, "dst and src->offsets overlap",
                onnx_cast_from_strings(&src, ONNX_CAST_FLOAT, shared, sizeof shared, NULL));
}

static void copying(void) {
    onnx_cast_strings src = {sizeof src, OFFSETS, 3, TEXTS, 15};
    uint64_t offsets[4];
    char bytes[15];
    onnx_cast_string_buffer out = {sizeof out, offsets, bytes, sizeof bytes, 0};
    CHECK_OK(onnx_cast_strings_to_strings(&src, &out, NULL));
    CHECK(out.needed == 15 && memcmp(bytes, TEXTS, 15) == 0 && memcmp(offsets, OFFSETS, sizeof offsets) == 0);
    onnx_cast_options options = ONNX_CAST_OPTIONS_INIT;
    options.opset = 6;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "Cast-6 does not take string",
                onnx_cast_strings_to_strings(&src, &out, &options));
}

static void plans(void) {
    onnx_cast_plan *print, *parse, *copy;
    char bytes[15];
    float out[3];
    onnx_cast_string_buffer text = {sizeof text, NULL, bytes, sizeof bytes, 0};
    onnx_cast_strings src = {sizeof src, OFFSETS, 3, TEXTS, 15};
    CHECK_OK(onnx_cast_plan_cast_like(ONNX_CAST_DOUBLE, ONNX_CAST_STRING, NULL, &print));
    CHECK_OK(onnx_cast_plan_cast(ONNX_CAST_STRING, ONNX_CAST_FLOAT, NULL, &parse));
    CHECK_OK(onnx_cast_plan_cast(ONNX_CAST_STRING, ONNX_CAST_STRING, NULL, &copy));
    CHECK_OK(onnx_cast_plan_run_to_strings(print, NUMBERS, 3, &text));
    CHECK(text.needed == 15 && memcmp(bytes, TEXTS, 15) == 0);
    CHECK_OK(onnx_cast_plan_run_from_strings(parse, &src, out, sizeof out));
    CHECK(out[0] == 1.0f && out[1] == -0.25f && out[2] == 1e8f);
    CHECK_OK(onnx_cast_plan_run_strings_to_strings(copy, &src, &text));
    /* Each with a plan for something else. */
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "gives no strings", onnx_cast_plan_run_to_strings(parse, NUMBERS, 3, &text));
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "string", onnx_cast_plan_run_to_strings(copy, NUMBERS, 3, &text));
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "string", onnx_cast_plan_run_from_strings(print, &src, out, sizeof out));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "not of strings", onnx_cast_plan_run_strings_to_strings(parse, &src, &text));
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "string", onnx_cast_plan_run(parse, NUMBERS, 3, out, sizeof out));
    onnx_cast_plan_free(print);
    onnx_cast_plan_free(parse);
    onnx_cast_plan_free(copy);
}

/* Structs of an older program, and of a newer one, whose fields must be 0. */
static void of_other_sizes(void) {
    struct {
        onnx_cast_strings known;
        unsigned char later[8];
    } newer_src = {ONNX_CAST_STRINGS_INIT, {0}};
    struct {
        onnx_cast_string_buffer known;
        unsigned char later[8];
    } newer_out = {ONNX_CAST_STRING_BUFFER_INIT, {0}};
    onnx_cast_strings *src = &newer_src.known;
    onnx_cast_string_buffer *out = &newer_out.known;
    float numbers[3];
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "src->offsets is null", onnx_cast_strings_to_strings(src, out, NULL));
    src->offsets = OFFSETS;
    src->count = 3;
    src->bytes = TEXTS;
    src->byte_count = 15;
    CHECK_OK(onnx_cast_strings_to_strings(src, out, NULL));
    CHECK(out->needed == 15);
    out->needed = 99;
    src->size--;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "src has the size", onnx_cast_strings_to_strings(src, out, NULL));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "src has the size",
                onnx_cast_from_strings(src, ONNX_CAST_FLOAT, numbers, sizeof numbers, NULL));
    src->size = sizeof newer_src;
    out->size = 0;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "out has the size 0", onnx_cast_strings_to_strings(src, out, NULL));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "out has the size 0",
                onnx_cast_to_strings(ONNX_CAST_DOUBLE, NUMBERS, 3, out, NULL));
    out->size = sizeof newer_out;
    newer_out.later[0] = 1;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "out has fields that this version of the library lacks",
                onnx_cast_strings_to_strings(src, out, NULL));
    newer_out.later[0] = 0;
    newer_src.later[7] = 1;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "src has fields that this version of the library lacks",
                onnx_cast_strings_to_strings(src, out, NULL));
    CHECK(out->needed == 99);
    newer_src.later[7] = 0;
    CHECK_OK(onnx_cast_strings_to_strings(src, out, NULL));
    CHECK(out->needed == 15 && out->size == sizeof newer_out);
}

int main(void) {
    printing();
    many();
    parsing();
    copying();
    plans();
    of_other_sizes();
    return done();
}
