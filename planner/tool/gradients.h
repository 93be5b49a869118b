/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Recorded gradients: what a training really gave its codecs, a bounded sample of each tensor over
 * some steps. docs/planner-files.md has the bytes ("wring-gradients").
 */
#ifndef WRING_FILES_GRADIENTS_H
#define WRING_FILES_GRADIENTS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/log.h"
#include "planner/core/files/profile.h"
#include <wring/status.h>
#include <wring/types.h>

#define WRING_GRADIENTS_MAGIC "wring-gradients\n"
#define WRING_GRADIENTS_MAGIC_BYTES (sizeof(WRING_GRADIENTS_MAGIC) - 1)
#define WRING_GRADIENTS_VERSION 1       /* of one rank */
#define WRING_GRADIENTS_VERSION_RANKS 2 /* of several */
#define WRING_GRADIENTS_RANKS_MAX 1024
#define WRING_GRADIENTS_SOURCE_MAX 4096        /* of a source */
#define WRING_GRADIENTS_VALUES_MAX (64u << 20) /* of all tensors, steps and ranks together */
#define WRING_GRADIENTS_SAMPLE_MAX 65536 /* of a tensor, as wring_gradients_sample() takes them */

struct wring_gradients_tensor {
    char *name;     /* unique in the file */
    uint64_t elems; /* of the whole tensor; at least `n` */
    uint32_t n;     /* values that were kept of it in each step, 1 or more */
    uint64_t begin; /* of these in the values of a step */
};

struct wring_gradients {
    char *source;                         /* where they come from, in words; "" where nobody said */
    uint32_t n_tensors, n_steps, n_ranks; /* ranks: 1 or more, of the same steps */
    struct wring_gradients_tensor *tensors; /* [n_tensors], in backward order */
    uint64_t *steps; /* [n_steps] their numbers in the training, rising; error feedback goes on from
                        one to the next where there is none between them */
    uint64_t per_step; /* values of all tensors of a rank */
    float *values;     /* [n_ranks × n_steps × per_step] rank by rank, step by step, tensor by
                          tensor; all finite */
    uint64_t hash;     /* of all but the source */
};

/** How many values wring_gradients_sample() keeps of a tensor. */
uint32_t wring_gradients_sampled(uint64_t elems);

/**
 * The values that are kept of a gradient: all of them, or sixteen runs of 4096, the first at its
 * beginning, the last at its end, the others evenly between. Runs, since codecs take neighbours
 * together.
 *
 * @param gradient  in, [elems]
 * @param out       [wring_gradients_sampled(elems)]
 */
void wring_gradients_sample(const float *gradient, uint64_t elems, float *out);

/** The values of a tensor in a step of a rank, [tensors[tensor].n]; borrowed. */
static inline const float *wring_gradients_at(const struct wring_gradients *gradients,
                                              uint32_t rank, uint32_t step, uint32_t tensor)
{
    uint64_t before = (uint64_t)rank * gradients->n_steps + step;
    return gradients->values + before * gradients->per_step + gradients->tensors[tensor].begin;
}

/** How many values there are, of all ranks. */
static inline uint64_t wring_gradients_count(const struct wring_gradients *gradients)
{
    return (uint64_t)gradients->n_ranks * gradients->n_steps * gradients->per_step;
}

/**
 * Read and check a file. Free what it gives with wring_gradients_destroy().
 *
 * Errors: WRING_ERR_INVALID (one log line: file, field, reason), WRING_ERR_SYSTEM (cannot read),
 * WRING_ERR_VERSION, WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_gradients_load(const char *path, const struct wring_log *log,
                                       struct wring_gradients **out);

/**
 * Write gradients, which need no hash for it, as wring_gradients_load() reads them back.
 * Errors: WRING_ERR_SYSTEM (cannot write), WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_gradients_save(const struct wring_gradients *gradients, FILE *file);

/** NULL is fine. */
void wring_gradients_destroy(struct wring_gradients *gradients);

#endif
