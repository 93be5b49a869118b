/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/collective/steady.h"

#include <stdio.h>

#include "base/clock.h"

#define WAIT_NS (60 * WRING_NS_PER_S)

static const char *const codecs[STEADY_BUCKETS] = {"none", "none", "onebit:block=128+ef",
                                                   "topk:ratio=0.01+ef"};
static const uint64_t elems[STEADY_BUCKETS] = {100, 40000, 40000, 70000};

enum wring_status steady_make(struct wring_session *session, struct wring_bucket **out)
{
    enum wring_status status = WRING_OK;
    char name[16];
    for (int b = 0; b < STEADY_BUCKETS && status == WRING_OK; b++) {
        snprintf(name, sizeof(name), "bucket%d", b);
        struct wring_bucket_params params = {.name = name, .elems = elems[b], .codec = codecs[b]};
        status = wring_buffer_alloc(session, elems[b] * sizeof(float), &params.data);
        if (status == WRING_OK)
            status = wring_bucket_register(session, &params, &out[b]);
    }
    if (status == WRING_OK)
        status = wring_session_commit(session);
    for (int call = 0; call < 2 && status == WRING_OK; call++) /* what calls need is there, too */
        status = wring_barrier(wring_session_world(session), NULL, NULL);
    return status;
}

static void compute(uint64_t ns)
{
    uint64_t until = wring_now_ns() + ns;
    while (ns > 0 && wring_now_ns() < until) {
    }
}

enum wring_status steady_run(struct wring_bucket **buckets, int steps, uint64_t compute_ns)
{
    enum wring_status status = WRING_OK;
    for (int s = 0; s < steps && status == WRING_OK; s++) {
        for (int b = 0; b < STEADY_BUCKETS && status == WRING_OK; b++)
            status = wring_bucket_post(buckets[b]);
        compute(compute_ns);
        for (int b = 0; b < STEADY_BUCKETS && status == WRING_OK; b++)
            status = wring_bucket_wait(buckets[b], WAIT_NS, NULL);
    }
    return status;
}

enum wring_status steady_ask(struct wring_session *session, struct wring_bucket **buckets,
                             bool wanted, bool *any)
{
    float votes = wanted;
    enum wring_status status = wring_allreduce(wring_session_world(session), &votes, &votes, 1,
                                               WRING_F32, WRING_SUM, NULL, NULL);
    *any = votes > 0;
    return status == WRING_OK ? steady_run(buckets, 1, 0) : status;
}
