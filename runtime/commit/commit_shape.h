/* SPDX-License-Identifier: Apache-2.0 */
/** What a bucket's exchange looks like, before anything is allocated for it: settled once in a
 * commit and kept in the bucket. */
#ifndef WRING_RUNTIME_COMMIT_SHAPE_H
#define WRING_RUNTIME_COMMIT_SHAPE_H

#include "transport/collective/collective.h"

struct wring_bucket;
struct wring_session;

struct wring_shape {
    enum wring_algorithm algorithm;
    bool raw;
    struct wring_geometry geometry;
    size_t slot_bytes;
    uint32_t window;
    uint32_t send_tasks, reduce_tasks, decode_tasks;
};

/** What a bucket is to transport/collective/algorithm_select.h. @param raw  without its codec */
struct wring_operation wring_shape_operation(const struct wring_bucket *bucket, bool raw);

/** Settle those of all buckets, by what all ranks have agreed on and whether their codecs run. */
void wring_shapes_choose(struct wring_session *session);

/**
 * Have slots of all buckets take no more than WRING_SLOT_BYTES: windows shrink, the widest ones
 * first, down to two slots. Each rank does so by itself, as each tells its own windows.
 * Errors: WRING_ERR_NO_MEMORY, logged with the figure: they do not fit even so.
 */
enum wring_status wring_shapes_fit(struct wring_session *session);

/**
 * The elements whose sums we would encode again, if the codec runs.
 * @param spans  out, [WRING_SLICES_MAX], rising, of the bucket's elements
 * @return how many
 */
uint32_t wring_shape_find_owned(const struct wring_bucket *bucket, struct wring_span *spans);

#endif
