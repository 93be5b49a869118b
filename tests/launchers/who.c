/* SPDX-License-Identifier: Apache-2.0 */
/* What every rank of a launched job does: join from the environment alone, say who it is, sum
 * exactly, and do so again in a second session of the same process. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <wring/wring.h>

static const struct {
    enum wring_dtype dtype;
    uint64_t elems;
} cases[] = {
    {WRING_F32, 1},     {WRING_F32, 1000}, {WRING_F32, 262144}, {WRING_I32, 1},
    {WRING_I32, 16383}, {WRING_I64, 5},    {WRING_I64, 4096},   {WRING_F64, 777},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static size_t elem_bytes(enum wring_dtype dtype)
{
    return dtype == WRING_F64 || dtype == WRING_I64 ? 8 : 4;
}

/** Small whole numbers, whose sums every type holds exactly. */
static void put(void *data, enum wring_dtype dtype, uint64_t i, int64_t value)
{
    if (dtype == WRING_F32)
        ((float *)data)[i] = (float)value;
    else if (dtype == WRING_F64)
        ((double *)data)[i] = (double)value;
    else if (dtype == WRING_I32)
        ((int32_t *)data)[i] = (int32_t)value;
    else
        ((int64_t *)data)[i] = value;
}

static int64_t get(const void *data, enum wring_dtype dtype, uint64_t i)
{
    if (dtype == WRING_F32)
        return (int64_t)((const float *)data)[i];
    if (dtype == WRING_F64)
        return (int64_t)((const double *)data)[i];
    return dtype == WRING_I32 ? ((const int32_t *)data)[i] : ((const int64_t *)data)[i];
}

static int64_t part(uint32_t rank, uint64_t i)
{
    return (int64_t)((i * 7 + rank * 13) % 1001) - 500;
}

/** One allreduce. @return its sums are exact */
static bool sum(struct wring_session *session, size_t which)
{
    uint32_t rank = wring_session_rank(session), size = wring_session_size(session);
    uint64_t n = cases[which].elems;
    enum wring_dtype dtype = cases[which].dtype;
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket;
    char name[WRING_NAME_MAX];
    void *data;

    if (wring_buffer_alloc(session, n * elem_bytes(dtype), &data) != WRING_OK)
        return false;
    snprintf(name, sizeof(name), "case.%zu", which);
    params.name = name;
    params.data = data;
    params.elems = n;
    params.dtype = dtype;
    params.op = WRING_SUM;
    if (wring_bucket_register(session, &params, &bucket) != WRING_OK ||
        wring_session_commit(session) != WRING_OK)
        return false;
    for (uint64_t i = 0; i < n; i++)
        put(data, dtype, i, part(rank, i));
    if (wring_bucket_post(bucket) != WRING_OK ||
        wring_bucket_wait(bucket, WRING_FOREVER, NULL) != WRING_OK)
        return false;
    for (uint64_t i = 0; i < n; i++) {
        int64_t want = 0;
        for (uint32_t r = 0; r < size; r++)
            want += part(r, i);
        if (get(data, dtype, i) != want)
            return false;
    }
    return true;
}

/** Open, sum each case, close. @return 0, 1 where no session opens, 2 where a sum is wrong */
static int take_part(const char *turn)
{
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_session *session;
    char host[64] = "";
    bool exact = true;

    if (wring_session_open(&params, &session) != WRING_OK)
        return 1;
    for (size_t i = 0; i < CASES && exact; i++)
        exact = sum(session, i);
    exact = wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK && exact;
    gethostname(host, sizeof(host) - 1);
    char line[160];
    int bytes = snprintf(line, sizeof(line), "%s rank %u of %u host %s exact %s\n", turn,
                         wring_session_rank(session), wring_session_size(session), host,
                         exact ? "yes" : "no");
    if (write(STDOUT_FILENO, line, (size_t)bytes) != bytes) /* whole: others write there as well */
        exact = false;
    wring_session_close(session);
    return exact ? 0 : 2;
}

int main(int argc, char **argv)
{
    int status = take_part("first");
    if (status == 0)
        status = take_part("second");
    if (status == 0 && argc > 1 && strcmp(argv[1], "stay") == 0)
        pause(); /* to be killed */
    return status;
}
