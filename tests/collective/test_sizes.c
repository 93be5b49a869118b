/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that were built with another release, whose structs have fewer fields or more. Guarded
 * memory ends where theirs does: not a byte beyond is read or written.
 */
#include <stddef.h>
#include <string.h>

#include "tests/lib/test.h"
#include <wring/wring.h>

#define MORE 24 /* bytes of fields that this release lacks */

static char line[512]; /* the last one logged */

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module;
    snprintf(line, sizeof(line), "%s", text);
}

/** A copy of a struct, of another size, with nothing behind it. */
static void *cut_or_extend(const void *whole, size_t known, size_t bytes)
{
    unsigned char *copy = wring_test_guarded(bytes);
    memset(copy, 0, bytes);
    memcpy(copy, whole, bytes < known ? bytes : known);
    memcpy(copy, &bytes, sizeof(bytes));
    return copy;
}

static enum wring_status open_with(const struct wring_session_params *params)
{
    struct wring_session *session;
    enum wring_status status = wring_session_open(params, &session);
    if (status == WRING_OK)
        wring_session_close(session);
    return status;
}

static void params_of_any_size(void)
{
    static const char *const wrong[] = {"WRING_SPIN=-1", NULL};
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    const size_t known = sizeof(params);
    params.size = 1;
    params.log = keep_line;
    params.settings = wrong;

    CHECK(open_with(&params) == WRING_ERR_INVALID && strstr(line, "WRING_SPIN"), "%s", line);
    const size_t before = offsetof(struct wring_session_params, settings);
    CHECK(open_with(cut_or_extend(&params, known, before)) == WRING_OK,
          "one that knows of no settings: %s", line);
    CHECK(open_with(cut_or_extend(&params, known, known)) == WRING_ERR_INVALID, "all of it");
    params.settings = NULL;

    unsigned char *newer = cut_or_extend(&params, known, known + MORE);
    CHECK(open_with((void *)newer) == WRING_OK, "fields that we lack are not used: %s", line);
    newer[known + MORE - 1] = 1;
    CHECK(open_with((void *)newer) == WRING_ERR_INVALID && strstr(line, "later wring"),
          "one of them is: %s", line);

    params.struct_bytes = 0;
    CHECK(open_with(&params) == WRING_OK, "a literal without a size");
    params.settings = wrong;
    CHECK(open_with(&params) == WRING_ERR_INVALID, "all fields of the first release count");
    params.struct_bytes = 3;
    CHECK(open_with(&params) == WRING_ERR_INVALID, "less than the size itself");
    params.struct_bytes = SIZE_MAX;
    line[0] = '\0';
    params.settings = NULL;
    CHECK(open_with(&params) == WRING_ERR_INVALID, "no size at all");
    wring_test_free_guarded();
}

static void buckets_of_any_size(void)
{
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_session *session;
    struct wring_bucket *bucket;
    float data[4] = {0};
    params.size = 1;
    params.log = keep_line;
    REQUIRE(wring_session_open(&params, &session) == WRING_OK, "%s", line);

    struct wring_bucket_params whole = WRING_BUCKET_PARAMS_INIT;
    const size_t known = sizeof(whole), before = offsetof(struct wring_bucket_params, codec);
    whole.name = "a";
    whole.data = data;
    whole.elems = 4;
    whole.codec = "no such codec";
    CHECK(wring_bucket_register(session, &whole, &bucket) == WRING_ERR_INVALID, "the codec counts");
    CHECK(wring_bucket_register(session, cut_or_extend(&whole, known, before), &bucket) == WRING_OK,
          "one that knows of no codecs: %s", line);
    whole.codec = NULL;
    whole.name = "b";
    unsigned char *newer = cut_or_extend(&whole, known, known + MORE);
    newer[known] = 1;
    CHECK(wring_bucket_register(session, (void *)newer, &bucket) == WRING_ERR_INVALID &&
              strstr(line, "wring_bucket_params"),
          "a field that we lack: %s", line);
    wring_session_close(session);
    wring_test_free_guarded();
}

static void outputs_of_any_size(void)
{
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_session *session;
    params.size = 1;
    REQUIRE(wring_session_open(&params, &session) == WRING_OK, "a job of one");
    for (int i = 0; i < 3; i++)
        wring_barrier(wring_session_world(session), NULL, NULL);

    const size_t known = sizeof(struct wring_session_stats);
    for (size_t bytes = sizeof(size_t); bytes <= known + MORE; bytes += sizeof(size_t)) {
        struct wring_session_stats empty = {0}, seen = {0};
        void *theirs = cut_or_extend(&empty, known, bytes);
        CHECK(wring_session_stats(session, theirs) == WRING_OK, "%zu bytes", bytes);
        memcpy(&seen, theirs, bytes < known ? bytes : known);
        CHECK(seen.struct_bytes == (bytes < known ? bytes : known), "%zu bytes: says %zu", bytes,
              seen.struct_bytes);
        bool knows_steps = bytes > offsetof(struct wring_session_stats, steps);
        CHECK(seen.steps == (knows_steps ? 3 : 0), "%zu bytes: %llu steps", bytes,
              (unsigned long long)seen.steps);
    }
    struct wring_session_stats unset = {.struct_bytes = 5, .steps = 77};
    CHECK(wring_session_stats(session, &unset) == WRING_ERR_INVALID && unset.steps == 77,
          "no size: nothing is written");
    wring_session_close(session);
    wring_test_free_guarded();
}

/** Options of calls, and results of requests. */
static void calls_of_any_size(void)
{
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_call how = WRING_CALL_INIT;
    struct wring_request *request;
    struct wring_session *session;
    float x = 1;
    params.size = 1;
    params.log = keep_line;
    REQUIRE(wring_session_open(&params, &session) == WRING_OK, "a job of one");
    struct wring_group *world = wring_session_world(session);

    how.struct_bytes = 3;
    CHECK(wring_allreduce(world, &x, &x, 1, WRING_F32, WRING_SUM, &how, &request) ==
                  WRING_ERR_INVALID &&
              strstr(line, "struct wring_call"),
          "no size: %s", line);
    how.struct_bytes = 0;
    REQUIRE(wring_allreduce(world, &x, &x, 1, WRING_F32, WRING_SUM, &how, &request) == WRING_OK,
            "a literal without a size");
    struct wring_result unset = {.struct_bytes = 5, .bytes = 77};
    CHECK(wring_request_wait(request, WRING_FOREVER, &unset) == WRING_ERR_INVALID &&
              wring_request_test(request, &unset) == WRING_ERR_INVALID && unset.bytes == 77,
          "no size: nothing is written, and the request is left");
    struct wring_result result = WRING_RESULT_INIT;
    CHECK(wring_request_wait(request, WRING_FOREVER, &result) == WRING_OK && result.rank == -1 &&
              result.status == WRING_OK && result.bytes == sizeof(x),
          "%llu bytes", (unsigned long long)result.bytes);
    wring_session_close(session);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"params_of_any_size", params_of_any_size},
        {"buckets_of_any_size", buckets_of_any_size},
        {"outputs_of_any_size", outputs_of_any_size},
        {"calls_of_any_size", calls_of_any_size},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
