/* Do the macros set the size of their structs, and every other field to 0? Compiled as every version of C and C++ that
 * the header is for, in some of which a macro must list every field to give no warning. */
#include "check.h"

/* A static struct takes a constant, which each macro has to be. */
static onnx_cast_options options = ONNX_CAST_OPTIONS_INIT;
static onnx_cast_scaled_options scaled_options = ONNX_CAST_SCALED_OPTIONS_INIT;
static onnx_cast_block_options block_options = ONNX_CAST_BLOCK_OPTIONS_INIT;
static onnx_cast_tensor tensor = ONNX_CAST_TENSOR_INIT;
static onnx_cast_strings strings = ONNX_CAST_STRINGS_INIT;
static onnx_cast_string_buffer buffer = ONNX_CAST_STRING_BUFFER_INIT;
static onnx_cast_type_facts facts = ONNX_CAST_TYPE_FACTS_INIT;

/* That a struct begins with its size, and is 0 but for that. */
#define CHECK_INIT(name)                                                                 \
    do {                                                                                 \
        static const unsigned char zeros_[sizeof(name)] = {0};                           \
        CHECK(name.size == sizeof(name) && (const void *)&name.size == &name);           \
        name.size = 0;                                                                   \
        CHECK(memcmp(&name, zeros_, sizeof(name)) == 0);                                 \
    } while (0)

int main(void) {
    CHECK_INIT(options);
    CHECK_INIT(scaled_options);
    CHECK_INIT(block_options);
    CHECK_INIT(tensor);
    CHECK_INIT(strings);
    CHECK_INIT(buffer);
    CHECK_INIT(facts);
    /* And where the structs are local. */
    onnx_cast_options local_options = ONNX_CAST_OPTIONS_INIT;
    onnx_cast_tensor local_tensor = ONNX_CAST_TENSOR_INIT;
    onnx_cast_strings local_strings = ONNX_CAST_STRINGS_INIT;
    onnx_cast_string_buffer local_buffer = ONNX_CAST_STRING_BUFFER_INIT;
    CHECK(local_options.size == sizeof local_options && local_tensor.size == sizeof local_tensor);
    CHECK(local_strings.size == sizeof local_strings && local_buffer.size == sizeof local_buffer);
    return done();
}
