/* What a call through the C interface costs: 16 elements by a plan, by a function for one call, and with options, and
 * QuantizeLinear of 16 by a plan, in nanoseconds, the lowest of many short runs. An argument says how many (default
 * 20000). */
#define _POSIX_C_SOURCE 200809L
#include "onnx_cast.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COUNT = 16, CALLS = 50 };

static double nanoseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Runs an expression often, and keeps its time where that is the lowest. */
#define MEASURE(best, call)                                       \
    do {                                                          \
        double start_ = nanoseconds();                            \
        for (int i_ = 0; i_ < CALLS; i_++) failed |= (call);      \
        double one_ = (nanoseconds() - start_) / CALLS;           \
        if (one_ < (best)) (best) = one_;                         \
    } while (0)

int main(int count, char **arguments) {
    static const int32_t pairs[][2] = {
        {ONNX_CAST_FLOAT, ONNX_CAST_FLOAT16},      {ONNX_CAST_FLOAT16, ONNX_CAST_FLOAT},
        {ONNX_CAST_FLOAT, ONNX_CAST_BFLOAT16},     {ONNX_CAST_FLOAT, ONNX_CAST_FLOAT8E4M3FN},
        {ONNX_CAST_FLOAT, ONNX_CAST_FLOAT4E2M1},   {ONNX_CAST_INT64, ONNX_CAST_INT32},
    };
    long rounds = count > 1 ? atol(arguments[1]) : 20000;
    double src[COUNT];
    unsigned char dst[8 * COUNT];
    onnx_cast_options options = ONNX_CAST_OPTIONS_INIT;
    options.opset = 25;
    options.saturate = ONNX_CAST_SATURATE_TRUE;
    options.threads = 1;
    for (int i = 0; i < COUNT; i++) src[i] = i - 7.5;
    int failed = 0;
    for (size_t pair = 0; pair < sizeof pairs / sizeof *pairs; pair++) {
        int32_t from = pairs[pair][0], to = pairs[pair][1];
        double plan_time = 1e9, call_time = 1e9, options_time = 1e9;
        onnx_cast_plan *plan;
        if (onnx_cast_plan_cast(from, to, NULL, &plan) != ONNX_CAST_OK) return 1;
        for (long round = 0; round < rounds; round++) {
            MEASURE(plan_time, onnx_cast_plan_run(plan, src, COUNT, dst, sizeof dst));
            MEASURE(call_time, onnx_cast_cast(from, src, COUNT, to, dst, sizeof dst, NULL));
            MEASURE(options_time, onnx_cast_cast(from, src, COUNT, to, dst, sizeof dst, &options));
        }
        onnx_cast_plan_free(plan);
        printf("%s -> %s: plan %.1f, call %.1f, with options %.1f\n", onnx_cast_type_name(from), onnx_cast_type_name(to),
               plan_time, call_time, options_time);
    }
    float scale = 0.5f;
    size_t shape[] = {COUNT};
    double scaled_time = 1e9;
    onnx_cast_tensor x = ONNX_CAST_TENSOR_INIT, scales = ONNX_CAST_TENSOR_INIT;
    onnx_cast_scaled_plan *scaled;
    x.data = src;
    x.shape = shape;
    x.rank = 1;
    scales.data = &scale;
    if (onnx_cast_scaled_plan_quantize(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT, 0, NULL, &scaled) != ONNX_CAST_OK) return 1;
    for (long round = 0; round < rounds; round++) {
        MEASURE(scaled_time, onnx_cast_scaled_plan_run(scaled, &x, &scales, NULL, dst, sizeof dst));
    }
    onnx_cast_scaled_plan_free(scaled);
    printf("QuantizeLinear, float -> uint8: plan %.1f\n", scaled_time);
    return failed;
}
