/* SPDX-License-Identifier: Apache-2.0 */
/** The buckets of the tests of the steady state, and their steps. */
#ifndef WRING_TESTS_STEADY_H
#define WRING_TESTS_STEADY_H

#include <stdbool.h>

#include <wring/wring.h>

#define STEADY_BUCKETS 4
#define STEADY_WARM_STEPS 20               /* until all memory has been touched */
#define STEADY_LONG_NS 50000000ull         /* a step in which a rank lost its processor */
#define STEADY_TRY_NS (60ull * 1000000000) /* for a turn of steps that a busy machine lets be */

/** Raw and encoded buckets, flat and chunked, committed. @param out  [STEADY_BUCKETS] */
enum wring_status steady_make(struct wring_session *session, struct wring_bucket **out);

/**
 * Post all buckets, then wait for all, and so on.
 * @param compute_ns  that the caller is busy with something else between posts and waits
 */
enum wring_status steady_run(struct wring_bucket **buckets, int steps, uint64_t compute_ns);

/**
 * Shall there be one more turn? All ranks call it, and hear the same; what it does itself has come
 * to rest when it returns.
 * @param wanted  by this rank
 * @param any     out, wanted by any
 */
enum wring_status steady_ask(struct wring_session *session, struct wring_bucket **buckets,
                             bool wanted, bool *any);

#endif
