/* SPDX-License-Identifier: Apache-2.0 */
/* What the examples share: error handling, random data, a clock. */
#ifndef MAGICUBE_EXAMPLE_H
#define MAGICUBE_EXAMPLE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "magicube/magicube.h"

/* Ends the program with the library's message if a call fails. */
#define CHECK(call)                                                    \
    do {                                                               \
        const magicubeStatus_t status_ = (call);                       \
        if (status_ != MAGICUBE_STATUS_SUCCESS) {                      \
            fprintf(stderr, "%s: %s\n", magicubeGetErrorName(status_), \
                    magicubeGetLastErrorMessage());                    \
            exit(1);                                                   \
        }                                                              \
    } while (0)

/* Memory of the handle's device; here the CPU, so that the program may also read it. */
static inline void* allocate(size_t bytes) {
    void* pointer = NULL;
    CHECK(magicubeMalloc(MAGICUBE_DEVICE_CPU, 0, bytes, &pointer));
    return pointer;
}

static inline void release(void* pointer) {
    CHECK(magicubeFree(MAGICUBE_DEVICE_CPU, 0, pointer));
}

/* xorshift64*: the same numbers on every machine. */
static inline uint64_t next_random(uint64_t* state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717ULL;
}

/* Uniform in [-1, 1). */
static inline float random_float(uint64_t* state) {
    return (float)(next_random(state) >> 40) / (float)(1 << 23) - 1.0f;
}

static inline int8_t random_int8(uint64_t* state) {
    return (int8_t)((int)(next_random(state) >> 56) - 128);
}

static inline double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
