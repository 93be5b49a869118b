/* SPDX-License-Identifier: Apache-2.0 */
/* Codecs "in>out" where they are asked for: buckets of each scheme, and immediate calls. */
#include <string.h>

#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include <wring/wring.h>

#define N 5000

static void register_indivisible(struct wring_session *session, uint32_t rank, void *arg)
{
    static const char *const codecs[] = {"onebit+ef>int8", "signsgd"};
    static float data[2][N];
    (void)arg;

    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
        struct wring_bucket *bucket = NULL;
        struct wring_bucket_params params = {.name = "b",
                                             .data = data[rank],
                                             .elems = N,
                                             .codec = codecs[i],
                                             .scheme = WRING_SCHEME_INDIVISIBLE};
        CHECK(wring_bucket_register(session, &params, &bucket) == WRING_ERR_INVALID &&
                  bucket == NULL,
              "a scheme without a way back takes %s", codecs[i]);
    }
}

static void needs_a_way_back(void)
{
    struct wring_test_job job = {.ranks = 1, .run = register_indivisible};
    wring_test_run_ranks(&job);
}

/** Integers up to 6: bf16 carries them and their sums exactly, onebit would not. */
static void sum_at_once(struct wring_session *session, uint32_t rank, void *arg)
{
    static float data[3][N];
    struct wring_group *world = wring_session_world(session);
    uint32_t ranks = *(const uint32_t *)arg;
    float *x = data[rank];

    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 2 + (int)rank);
    enum wring_status status = wring_allreduce(world, x, x, N, WRING_F32, WRING_SUM,
                                               &(struct wring_call){.codec = "bf16>none"}, NULL);
    CHECK(status == WRING_OK, "%s", wring_status_text(status));
    for (int i = 0; i < N; i++) {
        float want = (float)(i % 2) * (float)ranks + (float)(ranks * (ranks - 1) / 2);
        REQUIRE(x[i] == want, "%u ranks: element %d is %g, not %g", ranks, i, x[i], want);
    }
    status = wring_allreduce(world, x, x, N, WRING_F32, WRING_SUM,
                             &(struct wring_call){.codec = "bf16+ef>none"}, NULL);
    CHECK(status == WRING_ERR_UNSUPPORTED, "an immediate call keeps a residual");
}

/** The way back is taken by two ranks too, though one codec would then not need it. */
static void back_codec_counts(struct wring_session *session, uint32_t rank, void *arg)
{
    static float data[3][N];
    uint32_t ranks = *(const uint32_t *)arg;
    float *x = data[rank];

    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 2) + 1; /* ranks, or 2 ranks, in turn: their mean is 1.5 ranks */
    enum wring_status status =
        wring_allreduce(wring_session_world(session), x, x, 1024, WRING_F32, WRING_SUM,
                        &(struct wring_call){.codec = "none>onebit"}, NULL);
    CHECK(status == WRING_OK, "%s", wring_status_text(status));
    for (int i = 0; i < 1024; i++)
        REQUIRE(x[i] == 1.5f * (float)ranks, "%u ranks: element %d is %g", ranks, i, x[i]);
}

static void immediate(void)
{
    for (uint32_t ranks = 2; ranks <= 3; ranks++) {
        struct wring_test_job job = {.ranks = ranks, .arg = &ranks, .run = sum_at_once};
        wring_test_run_ranks(&job);
        job.run = back_codec_counts;
        wring_test_run_ranks(&job);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"needs_a_way_back", needs_a_way_back},
        {"immediate", immediate},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
