/* SPDX-License-Identifier: Apache-2.0 */
/** A rank of `wring calibrate` in its job: who shares a node with whom, and what all agree on. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "runtime/session/session.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"

enum wring_status wring_calibration_slowest(struct wring_calibration *job, double *times,
                                            uint64_t n)
{
    return wring_allreduce(job->world, times, times, n, WRING_F64, WRING_MAX, NULL, NULL);
}

enum wring_status wring_calibration_agree(struct wring_calibration *job, bool *more)
{
    uint64_t word = *more;
    enum wring_status status = wring_broadcast(job->world, &word, sizeof(word), 0, NULL, NULL);

    *more = word != 0;
    return status;
}

void wring_calibration_tell(const struct wring_calibration *job, const char *format, ...)
{
    va_list args;

    if (job->rank != 0 || !isatty(STDERR_FILENO))
        return;
    fputc('\r', stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("\033[K", stderr);
}

/** The node's ranks, and the first rank of each node. @param first  of each rank, on its host */
static void list_levels(struct wring_calibration *job, const uint32_t *first, uint32_t *peers,
                        uint32_t *leaders)
{
    uint32_t nodes = 0, mine = 0, firsts = 0;

    for (uint32_t i = 0; i < job->ranks; i++) {
        if (i == first[job->rank])
            job->place[WRING_LEVEL_INTER] = nodes;
        if (i == job->rank)
            job->place[WRING_LEVEL_INTRA] = mine;
        if (first[i] == i)
            leaders[nodes++] = i;
        if (first[i] == 0 && firsts < 2)
            job->pairs[WRING_LEVEL_INTRA][firsts++] = i;
        if (first[i] == first[job->rank])
            peers[mine++] = i;
    }
    job->pairs[WRING_LEVEL_INTER][1] = nodes > 1 ? leaders[1] : 0;
    job->level_ranks[WRING_LEVEL_INTRA] = job->machine.ranks_per_node;
    job->level_ranks[WRING_LEVEL_INTER] = job->machine.nodes;
}

static enum wring_status make_groups(struct wring_calibration *job, const uint32_t *peers,
                                     const uint32_t *leaders)
{
    struct wring_group *world = wring_session_world(job->session);
    enum wring_status status = WRING_OK;
    bool leads = false;

    for (uint32_t i = 0; i < job->machine.nodes; i++)
        leads = leads || leaders[i] == job->rank;
    if (job->machine.ranks_per_node > 1)
        status = wring_group_create(world, peers, job->machine.ranks_per_node, WRING_LEVEL_INTRA,
                                    WRING_FOREVER, &job->levels[WRING_LEVEL_INTRA]);
    if (status == WRING_OK && job->machine.nodes > 1 && leads)
        status = wring_group_create(world, leaders, job->machine.nodes, WRING_LEVEL_INTER,
                                    WRING_FOREVER, &job->levels[WRING_LEVEL_INTER]);
    return status;
}

static enum wring_status find_nodes(struct wring_calibration *job, const char **what)
{
    uint32_t n = job->ranks, *first = calloc(3 * (size_t)n, sizeof(*first));
    enum wring_status status =
        wring_session_agree(job->session, first != NULL ? WRING_OK : WRING_ERR_NO_MEMORY, "");

    if (status == WRING_OK)
        status = wring_job_machine_find(job->session, &job->machine, first);
    if (status == WRING_OK && !job->machine.even) {
        status = WRING_ERR_MISMATCH;
        *what = "nodes cannot be told apart or have different numbers of ranks; a profile needs "
                "equal ones";
    }
    if (status == WRING_OK) {
        list_levels(job, first, first + n, first + 2 * (size_t)n);
        status = make_groups(job, first + n, first + 2 * (size_t)n);
    }
    free(first);
    return status;
}

int wring_calibration_join(struct wring_calibration *job)
{
    struct wring_calibrate_setting_texts texts;
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    const char *what = "cannot prepare";
    int code = wring_calibrate_set(job->params, &texts, &job->setting);
    const char *settings[] = {"WRING_BYPASS=never", "WRING_PLAN=", "WRING_SCHEME=auto",
                              texts.list[0],        texts.list[1], NULL};

    if (code != WRING_EXIT_OK)
        return code;
    params.provider = job->params->provider;
    params.settings = settings;
    job->faults.command = job->params->name;
    job->begin_ns = wring_now_ns();
    code = wring_rank_open(&job->faults, &params, job->params->ranks);
    job->session = job->faults.session;
    if (code != WRING_EXIT_OK)
        return code;
    job->world = wring_session_world(job->session);
    job->rank = wring_session_rank(job->session);
    job->ranks = wring_session_size(job->session);
    if (job->ranks < 2)
        return wring_fail(job->params->name, "needs two ranks at least, as one has no links");
    enum wring_status status = find_nodes(job, &what);
    if (status != WRING_OK)
        return wring_rank_fail(&job->faults, what, status);
    return WRING_EXIT_OK;
}

enum wring_status wring_calibration_provider(struct wring_calibration *job,
                                             struct wring_group *group, char *text, size_t bytes)
{
    float data = 0;
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket = NULL;
    enum wring_status status = WRING_OK;

    params.name = "calibrate.link";
    params.data = &data;
    params.elems = 1;
    params.group = group;
    if (group != NULL)
        status = wring_bucket_register(job->session, &params, &bucket);
    if (status == WRING_OK)
        status = wring_session_commit(job->session);
    if (status == WRING_OK && bucket != NULL)
        status = wring_bucket_stats(bucket, &stats);
    if (status == WRING_OK && bucket != NULL) {
        snprintf(text, bytes, "%.31s", stats.provider);
        status = wring_bucket_drop(bucket);
    }
    return status == WRING_OK ? wring_session_commit(job->session) : status;
}

void wring_calibration_leave(struct wring_calibration *job)
{
    for (int level = 0; level < WRING_LEVELS; level++)
        if (job->levels[level] != NULL)
            wring_group_destroy(job->levels[level]);
    wring_session_close(job->session);
}
