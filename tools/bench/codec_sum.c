/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The error of a sum, for `wring bench codec`: its ranks are threads, each with a session of its
 * own. They sum one bucket, as the ranks of a job do.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"
#include "compress/kernels/reduce.h"
#include "tools/bench/codec.h"
#include "tools/commands.h"
#include <wring/bootstrap.h>
#include <wring/wring.h>

#define SEED 1                        /* of codecs, as where they are timed */
#define SUM_ELEMS (UINT64_C(1) << 20) /* of a rank, at most */

struct rank {
    const struct wring_codec_sums *sums;
    const char *spec, *tier;
    struct wring_bootstrap *bootstrap;
    uint32_t rank;
    pthread_t thread;
    enum wring_status status;
};

/** All ranks tell the same story. */
static void drop_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

/** The others meet nobody any more. */
static void leave(struct rank *rank)
{
    if (rank->bootstrap != NULL)
        rank->bootstrap->ops->close(rank->bootstrap);
    rank->bootstrap = NULL;
}

static const float *input_of(const struct wring_codec_sums *sums, uint32_t rank)
{
    return sums->inputs + rank * sums->elems;
}

static size_t result_bytes(const struct wring_codec_sums *sums)
{
    return sums->elems * wring_dtype_bytes(sums->dtype);
}

static void *result_of(const struct wring_codec_sums *sums, uint32_t rank)
{
    return (char *)sums->results + rank * result_bytes(sums);
}

/** Exactly, as they are numbers of the type. */
static void copy_input(const struct wring_codec_sums *sums, uint32_t rank)
{
    if (sums->dtype == WRING_F32)
        memcpy(result_of(sums, rank), input_of(sums, rank), result_bytes(sums));
    else
        wring_reduce_tiers[0].kernels->narrow[sums->dtype](result_of(sums, rank),
                                                           input_of(sums, rank), sums->elems, 1);
}

static enum wring_status sum_bucket(const struct rank *self, struct wring_session *session)
{
    const struct wring_codec_sums *sums = self->sums;
    struct wring_bucket *bucket;
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;

    params.name = "sum";
    params.data = result_of(sums, self->rank);
    params.elems = sums->elems;
    params.dtype = sums->dtype;
    params.op = WRING_SUM;
    params.codec = self->spec;
    params.shape.rows = wring_codec_matrix_rows(sums->elems);
    params.shape.columns = sums->elems / params.shape.rows;
    copy_input(sums, self->rank);
    enum wring_status status = wring_bucket_register(session, &params, &bucket);
    if (status == WRING_OK)
        status = wring_session_commit(session);
    if (status == WRING_OK)
        status = wring_bucket_post(bucket);
    if (status == WRING_OK)
        status = wring_bucket_wait(bucket, WRING_FOREVER, NULL);
    if (status == WRING_OK) /* nobody leaves while others wait for its part */
        status = wring_barrier(wring_session_world(session), NULL, NULL);
    return status;
}

/** What the environment says is for jobs, but for WRING_SCHEME. */
static void *rank_main(void *arg)
{
    struct rank *self = arg;
    struct wring_session *session;
    char cpu[32];
    const char *const settings[] = {"WRING_PROVIDER=shm",
                                    "WRING_BYPASS=never",
                                    "WRING_EXECUTOR=inline",
                                    "WRING_PROGRESS=caller",
                                    "WRING_SPIN=0", /* more ranks than cores */
                                    "WRING_PLAN=",
                                    "WRING_RECORD=",
                                    "WRING_TRACE=",
                                    "WRING_FAULT=",
                                    cpu,
                                    NULL};
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;

    snprintf(cpu, sizeof(cpu), "WRING_CPU=%s", self->tier);
    params.bootstrap = self->bootstrap;
    params.settings = settings;
    params.seed = SEED;
    params.log = self->rank > 0 ? drop_line : NULL;
    self->status = wring_session_open(&params, &session);
    if (self->status != WRING_OK) {
        leave(self);
        return NULL;
    }
    self->status = sum_bucket(self, session);
    wring_session_close(session);
    return NULL;
}

/** @return the first rank's error, or why not all could be started; said */
static enum wring_status run_ranks(const struct wring_codec_sums *sums, struct rank *ranks)
{
    enum wring_status status = WRING_OK;
    uint32_t started = 0;

    errno = 0;
    while (started < sums->ranks && errno == 0) {
        errno = wring_thread_create(&ranks[started].thread, rank_main, &ranks[started]);
        started += errno == 0;
    }
    if (started < sums->ranks) {
        wring_fail(sums->name, "thread %u of %u cannot start: %s", started + 1, sums->ranks,
                   WRING_REFUSED("pthread_create"));
        status = WRING_ERR_SYSTEM;
        leave(&ranks[started]);
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(ranks[i].thread, NULL);
        if (status == WRING_OK)
            status = ranks[i].status;
    }
    return status;
}

static enum wring_status sum_all(const struct wring_codec_sums *sums, const char *spec,
                                 const char *tier)
{
    struct rank ranks[WRING_CODEC_SUM_RANKS_MAX];
    struct wring_bootstrap *ends[WRING_CODEC_SUM_RANKS_MAX];
    enum wring_status status = wring_bootstrap_local_create(sums->ranks, ends);

    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; i < sums->ranks; i++)
        ranks[i] = (struct rank){
            .sums = sums, .spec = spec, .tier = tier, .bootstrap = ends[i], .rank = i};
    status = run_ranks(sums, ranks);
    for (uint32_t i = 0; i < sums->ranks; i++)
        leave(&ranks[i]);
    return status;
}

/** All ranks have the bits of the first one? */
static bool agree(const struct wring_codec_sums *sums)
{
    uint32_t rank = 1;

    while (rank < sums->ranks &&
           memcmp(sums->results, result_of(sums, rank), result_bytes(sums)) == 0)
        rank++;
    return rank == sums->ranks;
}

static double sum_nmse(const struct wring_codec_sums *sums)
{
    double error = 0, power = 0;

    for (uint64_t i = 0; i < sums->elems; i++) {
        double exact = 0;
        for (uint32_t rank = 0; rank < sums->ranks; rank++)
            exact += (double)input_of(sums, rank)[i];
        double lost = exact - (double)wring_bench_number(sums->dtype, sums->results, i);
        error += lost * lost;
        power += exact * exact;
    }
    return power > 0 ? error / power : error;
}

uint64_t wring_codec_sums_elems(const struct wring_codec_bench *bench)
{
    return bench->elems < SUM_ELEMS ? bench->elems : SUM_ELEMS;
}

/** A rank's numbers, as the type has them. */
static void round_input(const struct wring_codec_sums *sums, const struct wring_bench_data *data,
                        uint32_t rank)
{
    float *input = sums->inputs + rank * sums->elems;

    wring_bench_data_fill(data, rank, input, sums->elems);
    if (sums->dtype == WRING_F32)
        return;
    copy_input(sums, rank);
    wring_reduce_tiers[0].kernels->widen[sums->dtype](input, result_of(sums, rank), sums->elems);
}

int wring_codec_sums_init(struct wring_codec_sums *sums, const struct wring_codec_bench *bench)
{
    uint64_t elems = wring_codec_sums_elems(bench);

    *sums = (struct wring_codec_sums){
        .name = bench->name, .ranks = bench->ranks, .elems = elems, .dtype = bench->dtype};
    if (bench->ranks < 2)
        return WRING_EXIT_OK;
    sums->inputs = calloc(bench->ranks * elems, sizeof(float));
    sums->results = calloc(bench->ranks, result_bytes(sums));
    if (sums->inputs == NULL || sums->results == NULL) {
        wring_codec_sums_finish(sums);
        return wring_fail(bench->name, "out of memory");
    }
    for (uint32_t rank = 0; rank < bench->ranks; rank++)
        round_input(sums, bench->data, rank);
    return WRING_EXIT_OK;
}

void wring_codec_sums_finish(struct wring_codec_sums *sums)
{
    free(sums->inputs);
    free(sums->results);
    sums->inputs = NULL;
    sums->results = NULL;
}

int wring_codec_sums_measure(const struct wring_codec_sums *sums, const char *spec,
                             const char *tier, double *nmse)
{
    *nmse = NAN;
    if (sums->ranks < 2)
        return WRING_EXIT_OK;
    enum wring_status status = sum_all(sums, spec, tier);
    if (status != WRING_OK)
        return wring_fail(sums->name, "%s: sum of %u ranks: %s", spec, sums->ranks,
                          wring_status_text(status));
    if (!agree(sums))
        return wring_fail(sums->name, "%s: %u ranks came to different sums", spec, sums->ranks);
    *nmse = sum_nmse(sums);
    return WRING_EXIT_OK;
}
