/* SPDX-License-Identifier: Apache-2.0 */
/** What a bucket's exchange looks like, before anything is allocated for it. */
#ifndef WRING_RUNTIME_COMMIT_SHAPE_H
#define WRING_RUNTIME_COMMIT_SHAPE_H

#include "runtime/bucket.h"
#include "runtime/group/group.h"
#include "runtime/session/session.h"

struct wring_shape {
    const struct wring_collective_ops *ops;
    bool raw;
    bool keep;     /* sharded: owners keep the sums */
    bool placed;   /* sums, of an exchange what each contributes, go straight into the data */
    bool direct;   /* and sums are made of what lies in everyone's data */
    bool mapped;   /* past the engine, over boards */
    bool scatters; /* a channel to one member */
    bool gathers;  /* one to all */
    struct wring_geometry geometry;
    size_t slot_bytes;
    uint32_t window;
    uint32_t send_tasks, reduce_tasks, decode_tasks;
};

/** As it was settled by all ranks, and whether its codec runs. */
struct wring_shape wring_shape_choose(const struct wring_bucket *bucket);

/**
 * The elements whose sums we would encode again, if the codec runs.
 * @param spans  out, [WRING_SLICES_MAX], rising, of the bucket's elements
 * @return how many
 */
uint32_t wring_shape_find_owned(const struct wring_bucket *bucket, struct wring_span *spans);

#endif
