/* Checks for the tests in C: each that fails is printed, and `done` says whether any has. */
#ifndef CHECK_H
#define CHECK_H

#include "onnx_cast.h"

#include <stdio.h>
#include <string.h>

static int failures;

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            failures++;                                                           \
        }                                                                         \
    } while (0)

/* That a call gives a status and, where it is a failure, a text with these words. */
#define CHECK_FAILS(want, words, call)                                                                  \
    do {                                                                                                \
        int got_ = (call);                                                                              \
        if (got_ != (want) || strstr(onnx_cast_last_error(), (words)) == NULL) {                        \
            fprintf(stderr, "%s:%d: %s gave %d (want %d), \"%s\" (want \"%s\")\n", __FILE__, __LINE__,  \
                    #call, got_, (int)(want), onnx_cast_last_error(), (words));                         \
            failures++;                                                                                 \
        }                                                                                               \
    } while (0)

#define CHECK_OK(call)                                                                       \
    do {                                                                                     \
        int got_ = (call);                                                                   \
        if (got_ != ONNX_CAST_OK) {                                                          \
            fprintf(stderr, "%s:%d: %s gave %d, \"%s\"\n", __FILE__, __LINE__, #call, got_,  \
                    onnx_cast_last_error());                                                 \
            failures++;                                                                      \
        }                                                                                    \
    } while (0)

static inline int done(void) { return failures ? 1 : 0; }

#endif
