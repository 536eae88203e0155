/* May every function be called from many threads at once, with one plan, and is each thread's text its own? */
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 2000, COUNT = 100 };

static onnx_cast_plan *plan;
static float numbers[COUNT];
static unsigned char want[COUNT];

static void *work(void *argument) {
    int me = (int)(intptr_t)argument, wrong = 0;
    unsigned char out[COUNT];
    char words[32];
    snprintf(words, sizeof words, "room for %d byte%s", me, me == 1 ? "" : "s");
    for (int i = 0; i < ROUNDS; i++) {
        memset(out, 0, sizeof out);
        wrong += onnx_cast_plan_run(plan, numbers, COUNT, out, sizeof out) != ONNX_CAST_OK;
        wrong += memcmp(out, want, sizeof out) != 0;
        wrong += onnx_cast_plan_run(plan, numbers, COUNT, out, (size_t)me) != ONNX_CAST_BUFFER_TOO_SMALL;
        wrong += strstr(onnx_cast_last_error(), words) == NULL;
        onnx_cast_plan *own;
        wrong += onnx_cast_plan_cast(ONNX_CAST_INT8, ONNX_CAST_FLOAT, NULL, &own) != ONNX_CAST_OK;
        onnx_cast_plan_free(own);
    }
    return (void *)(intptr_t)wrong;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < COUNT; i++) numbers[i] = (float)i * 1.7f - 50.0f;
    CHECK_OK(onnx_cast_plan_cast(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT8E4M3FNUZ, NULL, &plan));
    CHECK_OK(onnx_cast_plan_run(plan, numbers, COUNT, want, sizeof want));
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        CHECK(pthread_join(threads[i], &wrong) == 0);
        CHECK(wrong == NULL);
    }
    onnx_cast_plan_free(plan);
    return done();
}
