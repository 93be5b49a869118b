/* SPDX-License-Identifier: Apache-2.0 */
/** One allreduce job over every dimension that must not change a bit, and what it should give. */
#ifndef WRING_TESTS_MATRIX_H
#define WRING_TESTS_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

#include <wring/wring.h>

struct wring_matrix_case {
    uint32_t ranks;
    uint64_t elems;
    const char *codec; /* spec */
    enum wring_scheme scheme;
    enum wring_op op;
    unsigned steps;
    const char *provider;
    const char *chunk;    /* WRING_CHUNK_BYTES */
    const char *cpu;      /* WRING_CPU */
    const char *executor; /* WRING_EXECUTOR */
    const char *progress; /* WRING_PROGRESS */
    bool foreign;         /* data is not from wring_buffer_alloc */
    bool flush;           /* the application has set flush-to-zero */
    uint32_t special;     /* how many elements of rank 1's input are NaN or infinite */
};

/**
 * Run it; all ranks must end with the same bits. @param out [elems] rank 0's result after the
 * last step; @return false when a check failed
 */
bool wring_matrix_run(const struct wring_matrix_case *c, float *out);

/** This rank's part: register, commit, and run all steps on data, [elems]; checks each call. */
enum wring_status wring_matrix_steps(struct wring_session *session,
                                     const struct wring_matrix_case *c, float *data);

/** The input of one rank in one step. */
void wring_matrix_input(const struct wring_matrix_case *c, uint32_t rank, unsigned step,
                        float *data);

/** Check `out` against a double precision sum and the codec's error bound. */
void wring_matrix_check(const struct wring_matrix_case *c, const float *out);

/** For messages. */
const char *wring_matrix_text(const struct wring_matrix_case *c, char *text, int bytes);

#endif
