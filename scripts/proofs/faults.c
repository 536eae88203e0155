/* Faults of files for scripts/proofs/faults.py, loaded before the C library: calls that read and write are cut short or interrupted at
   random, which the system may do at any time, or one of them fails. FAULTS is the seed of the former, READ_FAILS or
   WRITE_FAILS the number of the call that fails, with an error of the device or a full disk. How many there were goes to the
   file that COUNTED names. Standard streams are left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_ulong reads, writes, state;
static unsigned long read_fails, write_fails;
static int at_random;

static unsigned long number(const char *name) {
    const char *text = getenv(name);
    return text ? strtoul(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void begin(void) {
    at_random = getenv("FAULTS") != NULL;
    state = number("FAULTS");
    read_fails = number("READ_FAILS");
    write_fails = number("WRITE_FAILS");
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("COUNTED");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%lu %lu\n", (unsigned long)reads, (unsigned long)writes);
        fclose(file);
    }
}

static uint64_t drawn(void) {
    uint64_t z = atomic_fetch_add(&state, 0x9e3779b97f4a7c15u) + 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Whether a call goes on, and with how many bytes. */
static int goes_on(int file, size_t *len, atomic_ulong *calls, unsigned long fails, int error) {
    if (file <= 2) return 1;
    unsigned long nth = atomic_fetch_add(calls, 1) + 1;
    if (nth == fails) {
        errno = error;
        return 0;
    }
    if (at_random && drawn() % 4 == 0) {
        errno = EINTR;
        return 0;
    }
    if (at_random && *len > 1 && drawn() % 2 == 0) *len = 1 + drawn() % *len;
    return 1;
}

#define FAULTY(result, name, kind, error, parameters, arguments)                                     \
    result name parameters {                                                                         \
        static result (*next) parameters;                                                            \
        if (!next) next = (result (*) parameters)dlsym(RTLD_NEXT, #name);                            \
        return goes_on(file, &len, &kind##s, kind##_fails, error) ? next arguments : -1;             \
    }

FAULTY(ssize_t, read, read, EIO, (int file, void *bytes, size_t len), (file, bytes, len))
FAULTY(ssize_t, pread64, read, EIO, (int file, void *bytes, size_t len, off64_t at), (file, bytes, len, at))
FAULTY(ssize_t, write, write, ENOSPC, (int file, const void *bytes, size_t len), (file, bytes, len))
FAULTY(ssize_t, pwrite64, write, ENOSPC, (int file, const void *bytes, size_t len, off64_t at), (file, bytes, len, at))
