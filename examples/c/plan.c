/* A plan: an operator resolved once, as a runtime does when it loads a model, and run for every tensor. */
#include <onnx_cast.h>
#include <stdio.h>

int main(void) {
    onnx_cast_options options = ONNX_CAST_OPTIONS_INIT;
    options.opset = 24;
    options.round_mode = ONNX_CAST_ROUND_DOWN;
    onnx_cast_plan *plan;
    if (onnx_cast_plan_cast(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT8E8M0, &options, &plan) != ONNX_CAST_OK) {
        fprintf(stderr, "plan: %s\n", onnx_cast_last_error());
        return 1;
    }
    int failed = 0;
    for (float first = 1.0f; first < 100.0f && !failed; first *= 10.0f) {
        const float scales[] = {first, first * 1.5f, first * 3.0f};
        unsigned char powers[3];
        failed = onnx_cast_plan_run(plan, scales, 3, powers, sizeof powers) != ONNX_CAST_OK;
        printf("%g %g %g -> 2^%d 2^%d 2^%d\n", scales[0], scales[1], scales[2], powers[0] - 127, powers[1] - 127,
               powers[2] - 127);
    }
    onnx_cast_plan_free(plan);
    return failed;
}
