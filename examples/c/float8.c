/* A whole conversion from float to float8: checked, saturating, and in the caller's memory. */
#include <onnx_cast.h>
#include <stdio.h>

int main(void) {
    const float weights[] = {1.0f, -0.3f, 1000.0f, 0.001f};
    unsigned char small[4];
    if (onnx_cast_cast(ONNX_CAST_FLOAT, weights, 4, ONNX_CAST_FLOAT8E4M3FN, small, sizeof small, NULL) != ONNX_CAST_OK) {
        fprintf(stderr, "float8: %s\n", onnx_cast_last_error());
        return 1;
    }
    for (int i = 0; i < 4; i++) printf("%g -> 0x%02x\n", weights[i], small[i]);
    return 0;
}
