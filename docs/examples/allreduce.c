/* SPDX-License-Identifier: Apache-2.0 */
#include <wring/wring.h>

int main(void)
{
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT; /* from the launcher */
    struct wring_session *session;
    struct wring_bucket *bucket;
    void *grad;
    const uint64_t n = 1 << 20;

    if (wring_session_open(&params, &session) != WRING_OK) /* the reason has been logged */
        return 1;
    wring_buffer_alloc(session, n * sizeof(float), &grad);
    wring_bucket_register(session,
                          &(struct wring_bucket_params){.name = "layer3.weight",
                                                        .data = grad,
                                                        .elems = n,
                                                        .op = WRING_AVG,
                                                        .codec = "onebit:block=128+ef"},
                          &bucket);
    wring_session_commit(session); /* all ranks agree, or the log names who differs */
    for (int step = 0; step < 100; step++) {
        /* fill grad, */ wring_bucket_post(bucket); /* compute something else, */
        if (wring_bucket_wait(bucket, WRING_FOREVER, NULL) != WRING_OK)
            return 1; /* a rank is gone: the log says which and why */
    }
    wring_session_close(session);
    return 0;
}
