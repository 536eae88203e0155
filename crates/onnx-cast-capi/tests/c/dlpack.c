/* Are DLPack's tensors taken and given, of any strides, packed and padded, and refused where they should be? The structs
 * are declared here as DLPack's ABI 1 has them, as a program has them from dlpack/dlpack.h. */
#include "check.h"

#include <stdlib.h>

typedef struct {
    void *data;
    struct { int32_t type, id; } device;
    int32_t ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} Tensor;

typedef struct DLManagedTensorVersioned {
    struct { uint32_t major, minor; } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    Tensor tensor;
} Managed;

enum { CPU = 1, CUDA = 2, INT = 0, FLOAT = 2, BFLOAT = 4, FLOAT8E4M3FN = 10, FLOAT4 = 17, COPIED = 2, PADDED = 4 };

static float numbers[6] = {0, 1, 2, 3, 4, 5};
static int64_t shape[2] = {2, 3};

static Managed floats(void) {
    Managed managed = {{1, 0}, NULL, NULL, 0, {numbers, {CPU, 0}, 2, {FLOAT, 32, 1}, shape, NULL, 0}};
    return managed;
}

static void taken_and_given(void) {
    Managed src = floats(), *out = NULL;
    CHECK_OK(onnx_cast_dlpack(&src, ONNX_CAST_BFLOAT16, NULL, &out));
    CHECK(out->version.major == 1 && out->flags == COPIED && out->tensor.byte_offset == 0);
    CHECK(out->tensor.device.type == CPU && out->tensor.device.id == 0);
    CHECK(out->tensor.dtype.code == BFLOAT && out->tensor.dtype.bits == 16 && out->tensor.dtype.lanes == 1);
    CHECK(out->tensor.ndim == 2 && out->tensor.shape[0] == 2 && out->tensor.shape[1] == 3);
    CHECK(out->tensor.strides[0] == 3 && out->tensor.strides[1] == 1);
    CHECK((uintptr_t)out->tensor.data % 256 == 0);
    CHECK(memcmp(out->tensor.data, "\0\0\x80\x3f\x00\x40\x40\x40\x80\x40\xa0\x40", 12) == 0);
    /* What came out goes in. */
    Managed *again = NULL;
    CHECK_OK(onnx_cast_dlpack(out, ONNX_CAST_FLOAT4E2M1, NULL, &again));
    CHECK(again->tensor.dtype.code == FLOAT4 && again->tensor.dtype.bits == 4);
    CHECK(memcmp(again->tensor.data, "\x20\x54\x66", 3) == 0);
    out->deleter(out);
    again->deleter(again);
    /* By a plan; of another operator. */
    onnx_cast_plan *plan;
    CHECK_OK(onnx_cast_plan_bit_cast(ONNX_CAST_FLOAT, ONNX_CAST_INT32, NULL, &plan));
    CHECK_OK(onnx_cast_plan_run_dlpack(plan, &src, &out));
    CHECK(out->tensor.dtype.code == INT && memcmp(out->tensor.data, numbers, sizeof numbers) == 0);
    out->deleter(out);
    onnx_cast_plan_free(plan);
    CHECK_OK(onnx_cast_plan_cast(ONNX_CAST_DOUBLE, ONNX_CAST_INT32, NULL, &plan));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "an input of float", onnx_cast_plan_run_dlpack(plan, &src, &out));
    onnx_cast_plan_free(plan);
}

/* The shape, the strides and the offset in elements, and what is then read of 0 1 2 3 4 5. */
static void strided(int32_t ndim, int64_t *dims, int64_t *strides, int offset, size_t count, const char *want) {
    Managed src = floats(), *out = NULL;
    src.tensor.ndim = ndim;
    src.tensor.shape = dims;
    src.tensor.strides = strides;
    src.tensor.byte_offset = (uint64_t)offset * sizeof *numbers;
    CHECK_OK(onnx_cast_dlpack(&src, ONNX_CAST_UINT8, NULL, &out));
    if (out == NULL) return;
    CHECK(count == 0 ? out->tensor.data == NULL : memcmp(out->tensor.data, want, count) == 0);
    out->deleter(out);
}

static void strides(void) {
    strided(2, shape, (int64_t[]){3, 1}, 0, 6, "\0\1\2\3\4\5");
    strided(2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, 0, 6, "\0\3\1\4\2\5");
    strided(1, (int64_t[]){6}, (int64_t[]){-1}, 5, 6, "\5\4\3\2\1\0");
    strided(1, (int64_t[]){3}, (int64_t[]){2}, 1, 3, "\1\3\5");
    strided(2, (int64_t[]){2, 2}, (int64_t[]){0, 1}, 4, 4, "\4\5\4\5");
    strided(3, (int64_t[]){1, 2, 1}, (int64_t[]){77, 1, -77}, 2, 2, "\2\3");
    strided(0, NULL, NULL, 3, 1, "\3");
    strided(2, (int64_t[]){0, 3}, (int64_t[]){-5, 9}, 0, 0, "");
}

static void narrow(void) {
    unsigned char bytes[6] = {0x21, 0x43, 0x65, 0xf7, 0x0f, 0x01};
    int64_t dims[1] = {6};
    Managed src = floats(), *out = NULL;
    src.tensor = (Tensor){bytes, {CPU, 0}, 1, {INT, 4, 1}, dims, NULL, 0};
    CHECK_OK(onnx_cast_dlpack(&src, ONNX_CAST_INT8, NULL, &out));
    CHECK(memcmp(out->tensor.data, "\1\2\3\4\5\6", 6) == 0);
    out->deleter(out);
    /* One in a byte: the upper bits do not matter. */
    src.flags = PADDED;
    CHECK_OK(onnx_cast_dlpack(&src, ONNX_CAST_INT8, NULL, &out));
    CHECK(memcmp(out->tensor.data, "\1\3\5\7\xff\1", 6) == 0);
    out->deleter(out);
    /* Then with strides too. */
    int64_t back[1] = {-1};
    src.tensor.strides = back;
    src.tensor.byte_offset = 5;
    CHECK_OK(onnx_cast_dlpack(&src, ONNX_CAST_INT8, NULL, &out));
    CHECK(memcmp(out->tensor.data, "\1\xff\7\5\3\1", 6) == 0);
    out->deleter(out);
    src.flags = 0;
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "gaps", onnx_cast_dlpack(&src, ONNX_CAST_INT8, NULL, &out));
    /* Two lanes of 4 bits are whole bytes, and have strides. */
    src.tensor = (Tensor){bytes, {CPU, 0}, 1, {INT, 4, 2}, (int64_t[]){3}, (int64_t[]){-1}, 2};
    CHECK_OK(onnx_cast_dlpack(&src, ONNX_CAST_INT8, NULL, &out));
    CHECK(out->tensor.ndim == 2 && out->tensor.shape[0] == 3 && out->tensor.shape[1] == 2);
    CHECK(memcmp(out->tensor.data, "\5\6\3\4\1\2", 6) == 0);
    out->deleter(out);
}

static void refused(void) {
    Managed src, *out = (Managed *)&failures;
#define FAILS(status, words, change)                                                            \
    do {                                                                                        \
        src = floats();                                                                         \
        change;                                                                                 \
        CHECK_FAILS(status, words, onnx_cast_dlpack(&src, ONNX_CAST_INT8, NULL, &out));         \
        CHECK(out == (Managed *)&failures);                                                     \
    } while (0)
    FAILS(ONNX_CAST_UNSUPPORTED, "DLPack 2.0", src.version.major = 2);
    FAILS(ONNX_CAST_UNSUPPORTED, "device 2", src.tensor.device.type = CUDA);
    FAILS(ONNX_CAST_UNSUPPORTED, "type code 9 of 8 bits", (src.tensor.dtype.code = 9, src.tensor.dtype.bits = 8));
    FAILS(ONNX_CAST_UNSUPPORTED, "type code 2 of 80 bits", src.tensor.dtype.bits = 80);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "-1 dimensions", src.tensor.ndim = -1);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "shape is null", src.tensor.shape = NULL);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "data is null", src.tensor.data = NULL);
    FAILS(ONNX_CAST_INVALID_ARGUMENT, "a dimension of -4", src.tensor.shape = ((int64_t[]){-4, 3}));
    FAILS(ONNX_CAST_OVERFLOW, "does not fit", src.tensor.shape = ((int64_t[]){INT64_MAX, 3}));
    FAILS(ONNX_CAST_OVERFLOW, "do not fit", src.tensor.shape = ((int64_t[]){INT64_MAX / 8, 3}));
    /* A number repeated more often than there is memory for. */
    FAILS(ONNX_CAST_OUT_OF_MEMORY, "no memory for",
          (src.tensor.shape = ((int64_t[]){1, INT64_MAX / 8}), src.tensor.strides = ((int64_t[]){0, 0})));
#undef FAILS
    src = floats();
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "DLPack has no string", onnx_cast_dlpack(&src, ONNX_CAST_STRING, NULL, &out));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "src is null", onnx_cast_dlpack(NULL, ONNX_CAST_INT8, NULL, &out));
    CHECK_FAILS(ONNX_CAST_INVALID_ARGUMENT, "result is null", onnx_cast_dlpack(&src, ONNX_CAST_INT8, NULL, NULL));
}

static void types(void) {
    int32_t type = 0;
    CHECK_OK(onnx_cast_type_of_dlpack(FLOAT8E4M3FN, 8, &type));
    CHECK(type == ONNX_CAST_FLOAT8E4M3FN);
    CHECK_FAILS(ONNX_CAST_UNSUPPORTED, "type code 10 of 16 bits", onnx_cast_type_of_dlpack(FLOAT8E4M3FN, 16, &type));
}

int main(void) {
    CHECK(sizeof(Managed) == 80);
    taken_and_given();
    strides();
    narrow();
    refused();
    types();
    return done();
}
