/* SPDX-License-Identifier: Apache-2.0 */
/** What a bucket's collective looks like, before anything is allocated for it: settled once in a
 * commit and kept in the bucket. */
#ifndef WRING_RUNTIME_COMMIT_LAYOUT_H
#define WRING_RUNTIME_COMMIT_LAYOUT_H

#include "transport/collective/collective.h"

struct wring_bucket;
struct wring_session;

struct wring_shape {
    enum wring_algorithm algorithm;
    bool raw;
    struct wring_partition partition;
    size_t slot_bytes;
    uint32_t window;
    uint64_t round_trip_ns; /* to the farthest member, where that widened the window; else 0 */
    double bytes_per_s;     /* that this way is taken to have */
    uint32_t send_tasks, reduce_tasks, decode_tasks;
};

/** Will each member exchange with a few others alone? As far as can be said before they are
 * connected. */
bool wring_shape_has_partners(const struct wring_bucket *bucket);

/**
 * Bytes per second that a way is taken to have: what its interface sends, or twice what it took
 * when it was kept full, if that is less: another time may be better. @param interface_per_s 0: not
 * known
 * @param taken_per_s 0: not measured
 */
double wring_layout_way_rate(uint64_t interface_per_s, uint64_t taken_per_s);

/** Its group's members as its collective numbers them, once its shape is settled: a ring has an
 * order of its own. */
const struct wring_members *wring_shape_members(const struct wring_bucket *bucket);

/** What a bucket is to transport/collective/algorithm_select.h. @param raw  without its codec */
struct wring_operation wring_shape_operation(const struct wring_bucket *bucket, bool raw);

#endif
