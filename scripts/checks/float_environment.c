/* Sets the floating-point control register before a program begins: preloaded by float_environment.py. Threads begin
   with the setting of the thread that starts them. */
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void set(void) {
    const char *name = getenv("ONNX_CAST_FLOAT_ENVIRONMENT");
    if (!name) return;
    const char *names[] = {"flush", "down", "up", "zero"};
    for (unsigned i = 0; i < 4; i++) {
        if (strcmp(name, names[i])) continue;
#if defined(__x86_64__)
        /* MXCSR: flush to zero and denormals are zero, or the rounding mode in bits 13 and 14. */
        unsigned value = 0x1f80 | (i == 0 ? 0x8040 : i << 13);
        __asm__ volatile("ldmxcsr %0" : : "m"(value));
#elif defined(__aarch64__)
        /* FPCR: FZ and FZ16, or the rounding mode in bits 22 and 23, where up is before down. */
        const unsigned long values[] = {1ul << 24 | 1ul << 19, 2ul << 22, 1ul << 22, 3ul << 22};
        unsigned long value = values[i];
        __asm__ volatile("msr fpcr, %0" : : "r"(value));
#endif
        return;
    }
    abort();
}
