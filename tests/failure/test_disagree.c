/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that disagree on what they exchange. */
#include <stdio.h>
#include <string.h>

#include "tests/failure/failing_job.h"
#include "tests/lib/test.h"

/** One thing that rank 1 does otherwise, and what all ranks must be told. */
struct disagreement {
    const char *what;
    struct wring_bucket_params params; /* what is 0 is as on the others */
    const char *setting;
    uint64_t seed;
    uint32_t group; /* ranks in the bucket's group; 0: all */
    const char *line;
};

static const struct disagreement disagreements[] = {
    {.what = "elems",
     .params.elems = ELEMS - 1,
     .line = "bucket 'b': elems is 200000 on rank 0 and 199999 on rank 1; register it alike on all "
             "ranks"},
    {.what = "type",
     .params.dtype = WRING_I32,
     .params.codec = "none",
     .line = "bucket 'b': type is f32 on rank 0 and i32 on rank 1 (and 1 more differs); "},
    {.what = "op",
     .params.op = WRING_AVG,
     .line = "bucket 'b': op is sum on rank 0 and avg on rank 1; "},
    {.what = "codec",
     .params.codec = "int8",
     .line = "bucket 'b': codec is bf16 on rank 0 and int8 on rank 1; "},
    {.what = "scheme",
     .params.scheme = WRING_SCHEME_DIVISIBLE,
     .line = "bucket 'b': scheme is auto on rank 0 and divisible on rank 1; "},
    {.what = "seed",
     .seed = 7,
     .line =
         "bucket 'b': seed is 0 on rank 0 and 7 on rank 1; open the session with the same seed"},
    {.what = "chunk bytes",
     .setting = "WRING_CHUNK_BYTES=128k",
     .line = "bucket 'b': WRING_CHUNK_BYTES is 262144 on rank 0 and 131072 on rank 1; set it alike "
             "on all ranks"},
    {.what = "flat bytes",
     .setting = "WRING_FLAT_BYTES=4k",
     .line = "bucket 'b': WRING_FLAT_BYTES is 8192 on rank 0 and 4096 on rank 1; set it alike"},
    {.what = "window",
     .setting = "WRING_WINDOW=8",
     .line = "bucket 'b': WRING_WINDOW is 4 on rank 0 and 8 on rank 1; set it alike"},
    {.what = "group",
     .group = 2,
     .line = "bucket 'b': its group is {0, 1, 2} on rank 0 and {0, 1} on rank 1; "},
    {.what = "name", .params.name = "c", .line = "rank 0 has bucket 'b', rank 1 has not"},
    {.what = "two things",
     .params.op = WRING_AVG,
     .setting = "WRING_WINDOW=8",
     .line = "bucket 'b': op is sum on rank 0 and avg on rank 1 (and 1 more differs); "},
};

static struct wring_bucket_params params_of(const struct disagreement *odd, void *data)
{
    struct wring_bucket_params params = {
        .name = "b", .data = data, .elems = ELEMS, .codec = "bf16"};
    if (odd == NULL)
        return params;
    if (odd->params.name != NULL)
        params.name = odd->params.name;
    if (odd->params.elems != 0)
        params.elems = odd->params.elems;
    if (odd->params.codec != NULL)
        params.codec = odd->params.codec;
    params.dtype = odd->params.dtype;
    params.op = odd->params.op;
    params.scheme = odd->params.scheme;
    return params;
}

static int run_disagreeing(struct procs_rank *rank, void *arg)
{
    const struct disagreement *odd = arg;
    static const uint32_t ranks[] = {0, 1, 2};
    struct wring_session *session;
    struct wring_bucket *bucket;
    struct wring_group *group = NULL;
    void *data;

    if (rank->rank == 1 && odd->setting != NULL)
        rank->settings[2] = odd->setting; /* after the provider */
    rank->params.seed = rank->rank == 1 ? odd->seed : 0;
    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    if (rank->rank < odd->group &&
        wring_group_create(wring_session_world(session), ranks, odd->group, 0, WRING_FOREVER,
                           &group) != WRING_OK)
        return 2;
    wring_buffer_alloc(session, ELEMS * sizeof(float), &data);
    struct wring_bucket_params params = params_of(rank->rank == 1 ? odd : NULL, data);
    params.group = rank->rank == 1 ? group : NULL;
    if (wring_bucket_register(session, &params, &bucket) != WRING_OK)
        return 2;
    enum wring_status status = wring_session_commit(session);
    procs_say(rank, "commit %s", wring_status_text(status));
    procs_say(rank, "post %s", wring_status_text(wring_bucket_post(bucket)));
    wring_session_close(session);
    return status == WRING_ERR_MISMATCH ? 3 : 4;
}

/** An immediate call needs no commit, in which settings would have been compared. */
static int run_call(struct procs_rank *rank, void *arg)
{
    static float data[20000];
    struct wring_session *session;

    if (rank->rank == 1)
        rank->settings[2] = arg; /* after the provider */
    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    enum wring_status status = wring_allreduce(wring_session_world(session), data, data, 20000,
                                               WRING_F32, WRING_SUM, NULL, NULL);
    if (status == WRING_OK)
        status = wring_barrier(wring_session_world(session), NULL, NULL);
    procs_say(rank, "allreduce %s", wring_status_text(status));
    wring_session_close(session);
    return status == WRING_ERR_MISMATCH ? 3 : 4;
}

static void settings_of_calls(void)
{
    static const char *const settings[][2] = {
        {"WRING_CHUNK_BYTES=16k", "WRING_CHUNK_BYTES is 16384 on rank 1 and 262144 on rank 0"},
        {"WRING_FLAT_BYTES=60k", "WRING_FLAT_BYTES is 8192 on rank 0 and 61440 on rank 1"},
        {"WRING_WINDOW=2", "WRING_WINDOW is 2 on rank 1 and 4 on rank 0"},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        start(3, tcp, run_call);
        job.arg = (void *)settings[i][0];
        CHECK(procs_run(&job, DEADLINE_S), "%s: hangs", settings[i][0]);
        for (uint32_t rank = 0; rank < 3; rank++) {
            SAID(rank, 3, settings[i][1]);
            SAID(rank, 3, "; immediate calls need it alike");
        }
    }
}

static void disagreement_names_field_values_and_ranks(void)
{
    for (size_t i = 0; i < sizeof(disagreements) / sizeof(disagreements[0]); i++) {
        start(3, tcp, run_disagreeing);
        job.arg = (void *)&disagreements[i];
        CHECK(procs_run(&job, DEADLINE_S), "%s: hangs", disagreements[i].what);
        for (uint32_t r = 0; r < 3; r++)
            SAID(r, 3, disagreements[i].line);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"settings_of_calls", settings_of_calls},
        {"disagreement_names_field_values_and_ranks", disagreement_names_field_values_and_ranks},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
