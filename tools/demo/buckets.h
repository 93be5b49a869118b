/* SPDX-License-Identifier: Apache-2.0 */
/** Which tensors of the model travel together, as a framework would fuse them. */
#ifndef WRING_TOOLS_DEMO_BUCKETS_H
#define WRING_TOOLS_DEMO_BUCKETS_H

#include "tools/demo/demo.h"
#include "tools/demo/model.h"

#define DEMO_BUCKET_TENSORS 3

/** Tensors side by side in memory, in the order in which backward completes them. */
struct demo_bucket {
    const char *name;
    bool compressed; /* biases are not: they are small, and every element counts */
    uint32_t n;
    enum demo_tensor tensors[DEMO_BUCKET_TENSORS];
};

/** In the order in which backward completes them. */
extern const struct demo_bucket demo_buckets[DEMO_BUCKETS];

/** The bucket that is complete once this tensor is, or -1. */
int demo_bucket_completed_by(enum demo_tensor tensor);

uint64_t demo_bucket_elems(const struct demo_bucket *bucket, const struct demo_model *model);

/** Point the gradients of the bucket's tensors into data, [demo_bucket_elems()]. */
void demo_bucket_place(const struct demo_bucket *bucket, struct demo_model *model, float *data);

#endif
