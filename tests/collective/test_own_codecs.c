/* SPDX-License-Identifier: Apache-2.0 */
/* Codecs that a program brings: what ranks have to agree on. */
#include <string.h>

#include "tests/lib/lines.h"
#include "tests/lib/ranks.h"
#include "tests/lib/sealed.h"
#include "tests/lib/test.h"
#include <wring/codec.h>

#define RANKS 3
#define RANKS_IN_NODES 4
#define ELEMS 600

static float data[RANKS_IN_NODES][ELEMS];

/** A bucket of the codec, of another shape on the last rank if there is one. */
static enum wring_status commit(struct wring_session *session, uint32_t rank, uint64_t rows)
{
    struct wring_bucket_params params = {.name = "b",
                                         .data = data[rank],
                                         .elems = ELEMS,
                                         .codec = "sealed",
                                         .shape = {rows, rows > 0 ? ELEMS / rows : 0}};
    struct wring_bucket *bucket;

    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    return wring_session_commit(session);
}

static void expect_refusal(struct wring_session *session, uint32_t rank, void *arg)
{
    uint64_t rows = arg == NULL ? 0 : rank == RANKS - 1 ? 20 : 30;
    enum wring_status status = commit(session, rank, rows);
    CHECK(status == WRING_ERR_MISMATCH, "rank %u: %s", rank, wring_status_text(status));
}

/** @param line  what some rank says, and all but for who it is */
static void refuse(struct wring_test_job job, const char *line)
{
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    job.ranks = RANKS;
    job.run = expect_refusal;
    job.codecs = wring_test_sealed;
    job.log = wring_test_lines_take;
    job.log_arg = &lines;
    wring_test_run_ranks(&job);
    CHECK(wring_test_lines_count(&lines, line) > 0, "nobody says '%s'", line);
}

static void versions(void)
{
    static struct wring_codec_ops newer;
    static const struct wring_codec_ops *const others[] = {&newer, NULL};

    newer = *wring_test_sealed[0];
    newer.version = 7;
    refuse((struct wring_test_job){.last_codecs = others}, "codec is sealed (version 0) on rank");
}

static void shapes(void)
{
    static int differ;
    refuse((struct wring_test_job){.arg = &differ}, "shape is 30x20 on rank");
}

static void no_shape(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket_params params = {
        .name = "b", .data = data[rank], .elems = ELEMS, .shape = {7, 7}};
    struct wring_bucket *bucket;
    (void)arg;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_ERR_INVALID, "7 x 7");
    params.shape.rows = 0;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_ERR_INVALID, "0 x 7");
    params.shape.columns = 0;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK, "none");
}

static void wrong_shape(void)
{
    struct wring_test_job job = {.ranks = 1, .run = no_shape};
    wring_test_run_ranks(&job);
}

/** A table that is wrong keeps the session from opening. */
static void wrong_table(void)
{
    struct wring_codec_ops wrong = *wring_test_sealed[0];
    const struct wring_codec_ops *const list[] = {&wrong, NULL};
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    struct wring_session *session = NULL;

    wrong.name = "int8";
    struct wring_session_params params = {.size = 1,
                                          .codecs = list,
                                          .log = wring_test_lines_take,
                                          .log_arg = &lines,
                                          .struct_bytes = sizeof(params)};
    CHECK(wring_session_open(&params, &session) == WRING_ERR_INVALID, "opened");
    CHECK(wring_test_lines_count(&lines, "own codec 'int8': another codec has that name") == 1,
          "line");
}

static void sum_raw(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket_params params = {
        .name = "b", .data = data[rank], .elems = ELEMS, .codec = "sealed"};
    struct wring_bucket *bucket;

    (void)arg;
    for (size_t i = 0; i < ELEMS; i++)
        data[rank][i] = (float)rank;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    CHECK(wring_session_commit(session) == WRING_OK, "commit");
    CHECK(wring_bucket_post(bucket) == WRING_OK, "post");
    CHECK(wring_bucket_wait(bucket, WRING_FOREVER, NULL) == WRING_OK, "wait");
    CHECK(data[rank][0] == 6 && data[rank][ELEMS - 1] == 6, "the sum is %g and %g, not 6",
          (double)data[rank][0], (double)data[rank][ELEMS - 1]);
}

/** Also where no rank votes, since the codec is left out. */
static void votes_go_flat(void)
{
    static const char *const settings[] = {"WRING_SCHEME=hierarchical", "WRING_BYPASS=always",
                                           NULL};
    struct wring_codec_ops votes = *wring_test_sealed[0];
    const struct wring_codec_ops *const list[] = {&votes, NULL};
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    const struct wring_test_job job = {.ranks = RANKS_IN_NODES,
                                       .ranks_per_node = 2,
                                       .settings = settings,
                                       .run = sum_raw,
                                       .codecs = list,
                                       .log = wring_test_lines_take,
                                       .log_arg = &lines};

    votes.flags |= WRING_CODEC_VOTES;
    wring_test_run_ranks(&job);
    CHECK(wring_test_lines_count(&lines, "sealed votes, which nodes cannot do for their ranks") ==
              1,
          "no line says that they do");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"versions", versions},           {"shapes", shapes},
        {"wrong_shape", wrong_shape},     {"wrong_table", wrong_table},
        {"votes_go_flat", votes_go_flat}, {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
