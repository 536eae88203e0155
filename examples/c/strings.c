/* Numbers to strings: one call to learn the size, one to fill the memory. */
#include <onnx_cast.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    const double numbers[] = {0.1, -2.0, 1e-7, 1e15};
    uint64_t offsets[5];
    onnx_cast_string_buffer out = ONNX_CAST_STRING_BUFFER_INIT;
    out.offsets = offsets;
    if (onnx_cast_to_strings(ONNX_CAST_DOUBLE, numbers, 4, &out, NULL) != ONNX_CAST_OK) return 1;
    out.room = out.needed;
    out.bytes = malloc(out.room);
    if (out.bytes == NULL || onnx_cast_to_strings(ONNX_CAST_DOUBLE, numbers, 4, &out, NULL) != ONNX_CAST_OK) {
        fprintf(stderr, "strings: %s\n", onnx_cast_last_error());
        free(out.bytes);
        return 1;
    }
    for (int i = 0; i < 4; i++) printf("%.*s\n", (int)(offsets[i + 1] - offsets[i]), out.bytes + offsets[i]);
    free(out.bytes);
    return 0;
}
