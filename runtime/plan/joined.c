/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/joined.h"
#include "runtime/session/session.h"

#include <inttypes.h>
#include <stdio.h>

#define WRING_MODULE "bucket"

/** Its elements in the carrier. */
static void *part_of(const struct wring_bucket *bucket)
{
    return (uint8_t *)bucket->joined->carrier->data +
           bucket->joined_at * wring_dtype_bytes(bucket->dtype);
}

static void set_status(struct wring_bucket *bucket, enum wring_status status)
{
    atomic_store_explicit(&bucket->collective.status, status, memory_order_release);
}

static enum wring_status status_of(const struct wring_bucket *bucket)
{
    return (enum wring_status)atomic_load_explicit(&bucket->collective.status,
                                                   memory_order_acquire);
}

enum wring_status wring_joined_post(struct wring_bucket *bucket)
{
    struct wring_joined *joined = bucket->joined;

    if (status_of(bucket) == WRING_ERR_AGAIN)
        return WRING_ERR_BUSY;
    if (!joined->in_place && bucket->elems > 0)
        memcpy(part_of(bucket), bucket->data, wring_bucket_bytes(bucket));
    bucket->joined_step = joined->step + 1;
    set_status(bucket, WRING_ERR_AGAIN);
    if (++joined->posted < joined->n)
        return WRING_OK;
    joined->posted = 0;
    joined->step++;
    joined->refused = wring_bucket_post_inside(joined->carrier);
    return joined->refused;
}

enum wring_status wring_joined_take(struct wring_bucket *bucket)
{
    const struct wring_joined *joined = bucket->joined;
    enum wring_status status =
        joined->refused != WRING_OK ? joined->refused : status_of(joined->carrier);

    if (status == WRING_OK && !joined->in_place && bucket->elems > 0)
        memcpy(bucket->data, part_of(bucket), wring_bucket_bytes(bucket));
    set_status(bucket, status);
    return status;
}

enum wring_status wring_joined_test(struct wring_bucket *bucket)
{
    if (status_of(bucket) != WRING_ERR_AGAIN)
        return status_of(bucket);
    enum wring_status failed = wring_session_check(bucket->session);
    if (failed != WRING_OK)
        return failed;
    if (!wring_joined_sent(bucket) ||
        wring_bucket_test_inside(bucket->joined->carrier) == WRING_ERR_AGAIN)
        return WRING_ERR_AGAIN;
    return wring_joined_take(bucket);
}

/** One of those that a bucket waits for. */
static const struct wring_bucket *find_missing(const struct wring_bucket *bucket)
{
    const struct wring_joined *joined = bucket->joined;
    uint32_t i = 0;

    while (i + 1 < joined->n && status_of(joined->members[i]) == WRING_ERR_AGAIN &&
           !wring_joined_sent(joined->members[i]))
        i++;
    return joined->members[i];
}

enum wring_status wring_joined_wait(struct wring_bucket *bucket, uint64_t timeout_ns)
{
    if (status_of(bucket) != WRING_ERR_AGAIN)
        return status_of(bucket);
    enum wring_status failed = wring_session_check(bucket->session);
    if (failed != WRING_OK)
        return failed;
    if (!wring_joined_sent(bucket)) {
        wring_error(&bucket->session->log,
                    "bucket '%s' is waited for, and travels with '%s', which is not posted yet: "
                    "post both before waiting, or plan without merging them",
                    bucket->name, find_missing(bucket)->name);
        return WRING_ERR_INVALID;
    }
    enum wring_status status = wring_bucket_wait_inside(bucket->joined->carrier, timeout_ns);
    return wring_bucket_under_way(bucket->joined->carrier) ? status : wring_joined_take(bucket);
}
