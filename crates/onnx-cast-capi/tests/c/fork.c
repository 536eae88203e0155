/* Does a child that is forked after a large cast do such casts on threads of its own, and a child of that child? */
#include "check.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 2000000, BLOCKS = COUNT / 32 };

static float src[COUNT];
/* Of a cast, of QuantizeLinear, and of a block format. */
static unsigned char want[3][COUNT], got[3][COUNT];
static onnx_cast_plan *plan;
static onnx_cast_scaled_plan *scaled_plan;

static void cast(unsigned char results[3][COUNT], size_t threads) {
    static const size_t shape[] = {COUNT};
    static const float one = 1.0f;
    static unsigned char scales[BLOCKS];
    onnx_cast_tensor x = ONNX_CAST_TENSOR_INIT, scale = ONNX_CAST_TENSOR_INIT;
    onnx_cast_block_options options = ONNX_CAST_BLOCK_OPTIONS_INIT;
    x.data = src;
    x.shape = shape;
    x.rank = 1;
    scale.data = &one;
    options.threads = threads;
    CHECK_OK(onnx_cast_plan_run(plan, src, COUNT, results[0], COUNT));
    CHECK_OK(onnx_cast_scaled_plan_run(scaled_plan, &x, &scale, NULL, results[1], COUNT));
    CHECK_OK(onnx_cast_block_quantize(ONNX_CAST_MXFP8, ONNX_CAST_FLOAT, &x, results[2], COUNT, scales, BLOCKS, NULL,
                                      &options));
}

static void make_plans(size_t threads) {
    onnx_cast_options options = ONNX_CAST_OPTIONS_INIT;
    onnx_cast_scaled_options scaled_options = ONNX_CAST_SCALED_OPTIONS_INIT;
    options.threads = threads;
    scaled_options.threads = threads;
    CHECK_OK(onnx_cast_plan_cast(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT8E4M3FN, &options, &plan));
    CHECK_OK(onnx_cast_scaled_plan_quantize(ONNX_CAST_FLOAT, ONNX_CAST_FLOAT, 0, &scaled_options, &scaled_plan));
}

static void free_plans(void) {
    onnx_cast_plan_free(plan);
    onnx_cast_scaled_plan_free(scaled_plan);
}

/* The threads of this process, where the system lists them; else the number that is asked about. */
static int threads_or(int unknown) {
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    if (tasks == NULL) return unknown;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* A child that casts, and has a child that does, and so on. */
static void child(int depth) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        /* One that waits for threads that do not exist ends by a signal. */
        alarm(120);
        failures = 0;
        CHECK(threads_or(1) == 1);
        memset(got, 0, sizeof got);
        cast(got, 0);
        CHECK(memcmp(got, want, sizeof got) == 0);
        CHECK(threads_or(4) >= 4);
        if (depth > 1) child(depth - 1);
        free_plans();
        _exit(done());
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(status == 0);
}

int main(void) {
    /* Also on a machine with a single processor. */
    CHECK(setenv("RAYON_NUM_THREADS", "4", 1) == 0);
    for (int i = 0; i < COUNT; i++) src[i] = (float)(i % 100003) / 64.0f - 700.0f;
    make_plans(1);
    cast(want, 1);
    free_plans();
    make_plans(0);
    /* Before there are threads, and after. */
    child(1);
    CHECK(threads_or(1) == 1);
    cast(got, 0);
    CHECK(memcmp(got, want, sizeof got) == 0);
    CHECK(threads_or(4) >= 4);
    child(3);
    /* The threads of the parent work as before. */
    memset(got, 0, sizeof got);
    cast(got, 0);
    CHECK(memcmp(got, want, sizeof got) == 0);
    free_plans();
    return done();
}
