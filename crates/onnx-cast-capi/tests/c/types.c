/* Do the version, the features and the facts of the types say what they should, and are sizes right? */
#include "check.h"

static onnx_cast_type_facts facts_of(int32_t type) {
    onnx_cast_type_facts facts;
    memset(&facts, 0x5a, sizeof facts);
    facts.size = sizeof facts;
    CHECK_OK(onnx_cast_type_get_facts(type, &facts));
    return facts;
}

/* The largest number of a type. There may be gaps before it. */
static int32_t last_type(void) {
    int32_t last = 0;
    for (int32_t number = 1; number < 256; number++) {
        if (onnx_cast_type_name(number) != NULL) last = number;
    }
    return last;
}

static void versions(void) {
    CHECK(onnx_cast_abi_version() == ONNX_CAST_ABI_VERSION);
    CHECK(onnx_cast_version()[0] == '0' && onnx_cast_version()[1] == '.');
    /* The major number of the ABI is 0 as long as that of the library is. */
    CHECK(ONNX_CAST_ABI_VERSION >> 16 == 0 && ONNX_CAST_ABI_VERSION > 0);
    CHECK(onnx_cast_has_feature("strings") == 1);
    CHECK(onnx_cast_has_feature("dlpack") == 1);
    CHECK(onnx_cast_has_feature("threads") == 1);
    CHECK(onnx_cast_has_feature("portable") == 1);
    CHECK(onnx_cast_has_feature("teleportation") == 0);
    CHECK(onnx_cast_has_feature(NULL) == 0);
    size_t backends = 0;
    while (onnx_cast_backend_name(backends) != NULL) {
        CHECK(onnx_cast_has_feature(onnx_cast_backend_name(backends)) == 1);
        backends++;
    }
    CHECK(backends >= 1 && strcmp(onnx_cast_backend_name(backends - 1), "portable") == 0);
}

static void facts(void) {
    onnx_cast_type_facts fp8 = facts_of(ONNX_CAST_FLOAT8E4M3FN);
    CHECK(fp8.size == sizeof fp8 && strcmp(fp8.name, "float8e4m3fn") == 0);
    CHECK(fp8.bits == 8 && fp8.kind == ONNX_CAST_KIND_FLOAT);
    CHECK(fp8.cast_since == 19 && fp8.cast_like_since == 19 && fp8.bit_cast_since == 26);
    CHECK(fp8.exponent_bits == 4 && fp8.significand_bits == 3 && fp8.bias == 7);
    CHECK(fp8.has_sign && fp8.has_negative_zero && !fp8.has_infinity && fp8.has_nan);
    onnx_cast_type_facts scale = facts_of(ONNX_CAST_FLOAT8E8M0);
    CHECK(!scale.has_sign && !scale.has_negative_zero && !scale.has_infinity && scale.has_nan);
    onnx_cast_type_facts text = facts_of(ONNX_CAST_STRING);
    CHECK(text.bits == 0 && text.kind == ONNX_CAST_KIND_STRING && text.bit_cast_since == 0 && !text.has_sign);
    CHECK(facts_of(ONNX_CAST_INT4).kind == ONNX_CAST_KIND_INT);
    CHECK(facts_of(ONNX_CAST_UINT2).kind == ONNX_CAST_KIND_UINT);
    CHECK(facts_of(ONNX_CAST_BOOL).kind == ONNX_CAST_KIND_BOOL);
    onnx_cast_type_facts pair = facts_of(ONNX_CAST_COMPLEX128);
    CHECK(pair.kind == ONNX_CAST_KIND_COMPLEX && pair.bits == 128 && pair.cast_since == 0);

    /* A program of a later version has more fields, which this library clears. */
    struct {
        onnx_cast_type_facts known;
        unsigned char later[16];
    } larger;
    memset(&larger, 0x5a, sizeof larger);
    larger.known.size = sizeof larger;
    CHECK_OK(onnx_cast_type_get_facts(ONNX_CAST_INT8, &larger.known));
    CHECK(larger.known.bits == 8 && larger.known.size == sizeof larger && larger.later[0] == 0 && larger.later[15] == 0);

    fp8.size = 8;
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "facts has the size 8", onnx_cast_type_get_facts(ONNX_CAST_INT8, &fp8));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "facts is null", onnx_cast_type_get_facts(ONNX_CAST_INT8, NULL));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "is not an element type", onnx_cast_type_get_facts(last_type() + 1, &scale));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "99 is not an element type", onnx_cast_type_get_facts(99, &scale));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "0 is not an element type", onnx_cast_type_get_facts(0, &scale));
}

static void names(void) {
    int32_t type = -1;
    for (int32_t number = 1; number <= last_type(); number++) {
        if (onnx_cast_type_name(number) == NULL) continue;
        CHECK_OK(onnx_cast_type_by_name(onnx_cast_type_name(number), &type));
        CHECK(type == number);
        CHECK(facts_of(number).name == onnx_cast_type_name(number));
    }
    CHECK_OK(onnx_cast_type_by_name("BF16", &type));
    CHECK(type == ONNX_CAST_BFLOAT16);
    CHECK(onnx_cast_type_name(0) == NULL && onnx_cast_type_name(last_type() + 1) == NULL && onnx_cast_type_name(-1) == NULL);
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "`fp5` is not an element type (did you mean `fp4`?)",
                onnx_cast_type_by_name("fp5", &type));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "name is null", onnx_cast_type_by_name(NULL, &type));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "data_type is null", onnx_cast_type_by_name("float", NULL));
    CHECK(type == ONNX_CAST_BFLOAT16);
}

static void sizes(void) {
    size_t bytes = 99;
    CHECK_OK(onnx_cast_byte_size(ONNX_CAST_DOUBLE, 5, &bytes));
    CHECK(bytes == 40);
    CHECK_OK(onnx_cast_byte_size(ONNX_CAST_FLOAT6E2M3, 5, &bytes));
    CHECK(bytes == 4);
    CHECK_OK(onnx_cast_byte_size(ONNX_CAST_UINT2, 5, &bytes));
    CHECK(bytes == 2);
    CHECK_OK(onnx_cast_byte_size(ONNX_CAST_INT4, 0, &bytes));
    CHECK(bytes == 0);
    CHECK_OK(onnx_cast_byte_size(ONNX_CAST_UINT4, SIZE_MAX - 1, &bytes));
    CHECK(bytes == SIZE_MAX / 2);
    bytes = 7;
    CHECK_FAILS(ONNX_CAST_OVERFLOW, "do not fit", onnx_cast_byte_size(ONNX_CAST_FLOAT, SIZE_MAX / 4 + 1, &bytes));
    CHECK_FAILS(ONNX_CAST_OVERFLOW, "do not fit", onnx_cast_byte_size(ONNX_CAST_UINT8, SIZE_MAX, &bytes));
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "string", onnx_cast_byte_size(ONNX_CAST_STRING, 1, &bytes));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "bytes is null", onnx_cast_byte_size(ONNX_CAST_FLOAT, 1, NULL));
    CHECK(bytes == 7);
}

int main(void) {
    CHECK(strcmp(onnx_cast_last_error(), "") == 0);
    versions();
    facts();
    names();
    sizes();
    return done();
}
