/* SPDX-License-Identifier: Apache-2.0 */
/** A rank of `wring calibrate` in its job: who shares a node with whom, and what all agree on. */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "planner/files/machine.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"

#define HOST_BYTES 128
#define CPU_WORDS (sizeof(cpu_set_t) / sizeof(uint64_t))

/** Who a rank is, in whole words. */
struct place {
    char host[HOST_BYTES];
    uint64_t cpus[CPU_WORDS]; /* that it may use */
};

enum wring_status wring_calibration_slowest(struct wring_calibration *job, double *times,
                                            uint64_t n)
{
    return wring_allreduce(job->world, times, n, WRING_F64, WRING_MAX, NULL, NULL);
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

/** How many ranks of `places` have our host. @param first  out: the first of them */
static uint32_t count_alike(const struct place *places, uint32_t n, uint32_t rank, uint32_t *first)
{
    uint32_t count = 0;

    *first = rank;
    for (uint32_t i = n; i-- > 0;)
        if (strcmp(places[i].host, places[rank].host) == 0) {
            *first = i;
            count++;
        }
    return count;
}

static uint32_t count_cores(const struct place *places, uint32_t n, uint32_t rank)
{
    uint32_t cores = 0;

    for (uint32_t w = 0; w < CPU_WORDS; w++) {
        uint64_t word = 0;
        for (uint32_t i = 0; i < n; i++)
            if (strcmp(places[i].host, places[rank].host) == 0)
                word |= places[i].cpus[w];
        cores += (uint32_t)__builtin_popcountll(word);
    }
    return cores;
}

/** The node's ranks, and the first rank of each node. @return false: nodes differ in size */
static bool list_levels(struct wring_calibration *job, const struct place *places, uint32_t *peers,
                        uint32_t *leaders)
{
    uint32_t first, mine = 0;

    job->ranks_per_node = count_alike(places, job->ranks, job->rank, &first);
    for (uint32_t i = 0; i < job->ranks; i++) {
        uint32_t his_first;
        if (count_alike(places, job->ranks, i, &his_first) != job->ranks_per_node)
            return false;
        if (i == first)
            job->place[WRING_LEVEL_INTER] = job->nodes;
        if (i == job->rank)
            job->place[WRING_LEVEL_INTRA] = mine;
        if (his_first == i)
            leaders[job->nodes++] = i;
        if (his_first == first)
            peers[mine++] = i;
    }
    job->cores = count_cores(places, job->ranks, 0);
    job->level_ranks[WRING_LEVEL_INTRA] = job->ranks_per_node;
    job->level_ranks[WRING_LEVEL_INTER] = job->nodes;
    return true;
}

static enum wring_status make_groups(struct wring_calibration *job, const uint32_t *peers,
                                     const uint32_t *leaders)
{
    enum wring_status status = WRING_OK;
    bool leads = false;

    for (uint32_t i = 0; i < job->nodes; i++)
        leads = leads || leaders[i] == job->rank;
    if (job->ranks_per_node > 1)
        status = wring_group_create(job->session, peers, job->ranks_per_node,
                                    &job->levels[WRING_LEVEL_INTRA]);
    if (status == WRING_OK && job->nodes > 1)
        status = wring_group_create(job->session, leaders, leads ? job->nodes : 0,
                                    leads ? &job->levels[WRING_LEVEL_INTER] : NULL);
    return status;
}

/** Ask a bucket of all ranks how they reach each other. */
static enum wring_status find_provider(struct wring_calibration *job)
{
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct wring_bucket *bucket;
    float number = 0;
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;

    params.name = "calibrate.who";
    params.data = &number;
    params.elems = 1;
    enum wring_status status = wring_bucket_register(job->session, &params, &bucket);
    if (status == WRING_OK)
        status = wring_session_commit(job->session);
    if (status == WRING_OK)
        status = wring_bucket_stats(bucket, &stats);
    if (status != WRING_OK)
        return status;
    snprintf(job->provider, sizeof(job->provider), "%.31s", stats.provider);
    status = wring_bucket_drop(bucket);
    return status == WRING_OK ? wring_session_commit(job->session) : status;
}

static enum wring_status find_places(struct wring_calibration *job, struct place *places,
                                     const char **what)
{
    struct place own = {0};
    cpu_set_t cpus;

    *what = "cannot tell the nodes apart";
    if (!wring_host_identity(own.host, sizeof(own.host)) ||
        sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
        return WRING_ERR_SYSTEM;
    memcpy(own.cpus, &cpus, sizeof(own.cpus));
    enum wring_status status =
        wring_allgather(job->world, &own, places, sizeof(own) / 8, WRING_I64, NULL, NULL);
    for (uint32_t i = 0; i < job->ranks; i++)
        places[i].host[HOST_BYTES - 1] = '\0';
    return status;
}

static enum wring_status find_nodes(struct wring_calibration *job, const char **what)
{
    struct place *places = calloc(job->ranks, sizeof(*places));
    uint32_t *peers = calloc(2 * (size_t)job->ranks, sizeof(*peers)), *leaders = peers + job->ranks;
    enum wring_status status = WRING_ERR_NO_MEMORY;

    if (places != NULL && peers != NULL)
        status = find_places(job, places, what);
    if (status == WRING_OK && !list_levels(job, places, peers, leaders)) {
        status = WRING_ERR_MISMATCH;
        *what = "nodes have different numbers of ranks; a profile needs equal ones";
    }
    if (status == WRING_OK)
        status = make_groups(job, peers, leaders);
    if (status == WRING_OK)
        status = find_provider(job);
    free(places);
    free(peers);
    return status;
}

static void describe(struct wring_calibration *job)
{
    struct wring_machine_params params = {
        .version = WRING_VERSION,
        .provider = job->provider,
        .nodes = job->nodes,
        .ranks_per_node = job->ranks_per_node,
        .cores = job->cores,
    };
    wring_machine_describe(&params, job->machine, sizeof(job->machine));
}

int wring_calibration_join(struct wring_calibration *job)
{
    struct wring_calibrate_setting_texts texts;
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    const char *what = "cannot prepare";
    int code = wring_calibrate_set(job->params, &texts, &job->setting);
    const char *settings[] = {"WRING_BYPASS=never", "WRING_PLAN=", texts.list[0], texts.list[1],
                              NULL};

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
    describe(job);
    return WRING_EXIT_OK;
}

void wring_calibration_leave(struct wring_calibration *job)
{
    for (int level = 0; level < WRING_LEVELS; level++)
        if (job->levels[level] != NULL)
            wring_group_destroy(job->levels[level]);
    wring_session_close(job->session);
}
