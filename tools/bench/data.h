/* SPDX-License-Identifier: Apache-2.0 */
/** The numbers that `wring bench codec` codes: made up, or recorded in a training. */
#ifndef WRING_TOOLS_BENCH_DATA_H
#define WRING_TOOLS_BENCH_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include <wring/types.h>

struct wring_gradients;

struct wring_bench_data {
    const char *name;                         /* as it was asked for */
    float (*make)(uint32_t rank, uint64_t i); /* number i of a rank; NULL: they are recorded */
    struct wring_gradients *gradients;        /* NULL: they are made up */
};

/** What is taken unless something else is asked for. */
extern const struct wring_bench_data wring_bench_data_bell;

/**
 * Find out what is meant, and read it if it is a file. Close it with wring_bench_data_close().
 *
 * @param name  borrowed: "bell", "normal", "laplace", "recorded" (the gradients that wring ships),
 *              or the path of a file of gradients (docs/planner-files.md)
 * @return an exit status; a failure is said
 */
int wring_bench_data_open(struct wring_bench_data *data, const char *name);

/** Data that was not opened, all zeros, is fine. */
void wring_bench_data_close(struct wring_bench_data *data);

/** Of how many ranks there are numbers: at most UINT32_MAX. */
uint32_t wring_bench_data_ranks(const struct wring_bench_data *data);

/**
 * Fill with a rank's numbers: of recorded ones all steps and tensors one after another, and again
 * from the first on where they do not suffice.
 * @param out   [elems]
 * @param rank  any: beyond the recorded ones it is the first again
 */
void wring_bench_data_fill(const struct wring_bench_data *data, uint32_t rank, float *out,
                           uint64_t elems);

/**
 * The same, rounded to a type.
 * @param dtype  f32, f16 or bf16
 * @param out    [elems] of it
 * @return false: there is no memory
 */
bool wring_bench_data_fill_as(const struct wring_bench_data *data, uint32_t rank,
                              enum wring_dtype dtype, void *out, uint64_t elems);

/** Element i of a run of f32, f16 or bf16. */
float wring_bench_number(enum wring_dtype dtype, const void *run, uint64_t i);

#endif
