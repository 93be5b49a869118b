/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A network that a task trains: float32 tensors whose gradients are exchanged in buckets, and the
 * weights that they change. What its layers are is the task's.
 */
#ifndef WRING_TOOLS_DEMO_NETWORK_H
#define WRING_TOOLS_DEMO_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/demo/blas.h"

#define DEMO_TENSORS_MAX 10
#define DEMO_BUCKETS_MAX 8
#define DEMO_BUCKET_TENSORS 6

struct demo_task;

/** A tensor, by its index in the order in which backward completes gradients. */
struct demo_tensor {
    const char *name;
    uint64_t rows, columns; /* 1 row: a vector */
};

/** Tensors side by side in memory, as a framework would fuse them. */
struct demo_bucket {
    const char *name;
    bool compressed; /* biases are not: they are small, and every element counts */
    uint32_t n;
    uint32_t tensors[DEMO_BUCKET_TENSORS]; /* in the order of completion */
};

struct demo_network {
    const struct demo_task *task;
    const struct demo_blas *blas; /* borrowed */
    uint32_t batch;               /* samples of a step */
    uint32_t hidden;              /* units of a hidden layer */
    struct demo_tensor tensors[DEMO_TENSORS_MAX];
    float *weights[DEMO_TENSORS_MAX];
    float *gradients[DEMO_TENSORS_MAX]; /* borrowed: they are what is exchanged */
    void *layers;                       /* the task's: a batch and activations */
};

/**
 * Make a task's network, its weights drawn from the seed. Gradients are the caller's to set.
 * @return -1 without memory
 */
int demo_network_init(struct demo_network *network, const struct demo_task *task,
                      const struct demo_blas *blas, uint32_t batch, uint32_t hidden, uint64_t seed);

void demo_network_finish(struct demo_network *network);

/** Elements of a tensor; of all of a bucket's; of all. */
uint64_t demo_network_elems(const struct demo_network *network, uint32_t tensor);
uint64_t demo_network_bucket_elems(const struct demo_network *network,
                                   const struct demo_bucket *bucket);
uint64_t demo_network_parameters(const struct demo_network *network);

/** FNV-1a over all weights: equal hashes mean equal bits, nearly surely. */
uint64_t demo_network_hash(const struct demo_network *network);

/* For tasks. */

/** Zeros, aligned to 64 bytes. NULL without memory. */
float *demo_zeros(uint64_t n);

/** Draw uniform in ±limit. */
void demo_fill_uniform(float *data, uint64_t n, double limit, uint64_t key);

#endif
