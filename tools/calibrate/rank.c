/* SPDX-License-Identifier: Apache-2.0 */
/** One rank of `wring calibrate`: part after part, as rank 0 wants them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "offload/cores.h"
#include "runtime/session/executor.h"
#include "runtime/session/session.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"
#include "tools/launch/launch.h"

/** The node's ranks, and the first rank of each node. @param first  of each rank, on its host */
static void list_levels(struct wring_calibration *job, const uint32_t *first, uint32_t *peers,
                        uint32_t *leaders)
{
    uint32_t nodes = 0, mine = 0, firsts = 0;

    for (uint32_t i = 0; i < job->ranks; i++) {
        if (i == first[job->rank])
            job->me[WRING_LEVEL_INTER] = nodes;
        if (i == job->rank)
            job->me[WRING_LEVEL_INTRA] = mine;
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

static enum wring_status set_up_levels(struct wring_calibration *job, const char **what)
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

/** The texts by which a session is told the tuning of this part. */
struct setting_texts {
    char executor[48], chunk_bytes[48];
    const char *list[3]; /* ended by NULL */
};

/** Rank 0 says it. */
static int check_cores(const struct wring_calibrate_params *params, uint32_t cores, bool says)
{
    struct wring_log log = {.level = WRING_LOG_WARN};
    uint32_t usable;

    if (wring_cores_usable(&log, &usable) != WRING_OK)
        return WRING_EXIT_FAILURE; /* which was said */
    if (cores <= usable)
        return WRING_EXIT_OK;
    if (!says)
        return WRING_EXIT_FAILURE;
    return wring_fail(params->name, "--cores %u: a rank may use %u here", cores, usable);
}

/**
 * The tuning of this part's session, as text for its variables and in numbers.
 * @param out  chunk_bytes 0: the job's pool has cores by their names, which is no number of them
 * @return an exit status: cores that this rank may not use are refused, and said
 */
static int set_tuning(const struct wring_calibrate_params *params, struct setting_texts *texts,
                      struct wring_tuning *out)
{
    const struct wring_tunings_wanted *wanted = &params->tunings;
    struct wring_log log = {.level = WRING_LOG_WARN};
    struct wring_config config;
    struct wring_launched launched;
    uint32_t n = 0;

    *texts = (struct setting_texts){.list = {NULL}};
    if (wring_config_load(&config, &log) != WRING_OK ||
        wring_command_launched(&config, &launched) != WRING_EXIT_OK)
        return WRING_EXIT_FAILURE; /* which was said */
    bool counted = wring_executor_count_cores(config.executor, &out->cores);
    out->chunk_bytes = config.chunk_bytes;
    if (wanted->n_chunks > 0) {
        out->chunk_bytes = wanted->chunk_bytes[params->part % wanted->n_chunks];
        snprintf(texts->chunk_bytes, sizeof(texts->chunk_bytes), "WRING_CHUNK_BYTES=%" PRIu64,
                 out->chunk_bytes);
        texts->list[n++] = texts->chunk_bytes;
    }
    if (wanted->n_cores > 0) {
        uint32_t every = wanted->n_chunks > 0 ? wanted->n_chunks : 1;
        counted = true;
        out->cores = wanted->cores[params->part / every];
        if (out->cores > 0)
            snprintf(texts->executor, sizeof(texts->executor), "WRING_EXECUTOR=pool:%" PRIu32,
                     out->cores);
        else
            snprintf(texts->executor, sizeof(texts->executor), "WRING_EXECUTOR=inline");
        texts->list[n++] = texts->executor;
    }
    if (!counted)
        *out = (struct wring_tuning){0};
    return wanted->n_cores > 0 ? check_cores(params, out->cores, launched.rank == 0)
                               : WRING_EXIT_OK;
}

/** Join the job, find out who shares a node, and meet in groups. @return an exit status; said */
static int calibration_join(struct wring_calibration *job)
{
    struct setting_texts texts;
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    const char *what = "cannot prepare";
    int code = set_tuning(job->params, &texts, &job->tuning);
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
    enum wring_status status = set_up_levels(job, &what);
    if (status != WRING_OK)
        return wring_rank_fail(&job->faults, what, status);
    return WRING_EXIT_OK;
}

static void calibration_leave(struct wring_calibration *job)
{
    for (int level = 0; level < WRING_LEVELS; level++)
        if (job->levels[level] != NULL)
            wring_group_destroy(job->levels[level]);
    wring_session_close(job->session);
}

/* ---- rank ---- */

#define LINKS_SHARE 0.12
#define CODECS_SHARE 0.2
#define COMPUTING_SHARE 0.16

static void say_log_line(void *arg, enum wring_log_level level, const char *module,
                         const char *text)
{
    (void)level;
    (void)module;
    wring_fail(arg, "%s", text);
}

/** In rank 0, before anything is measured. @return an exit status; said */
static int load_gradients(struct wring_calibration *job)
{
    struct wring_log log = {say_log_line, (char *)(uintptr_t)job->params->name, WRING_LOG_WARN};

    if (job->params->gradients == NULL)
        return WRING_EXIT_OK;
    return wring_gradients_load(job->params->gradients, &log, &job->gradients) == WRING_OK
               ? WRING_EXIT_OK
               : WRING_EXIT_FAILURE;
}

/** All ranks learn what rank 0 found missing. @return an exit status */
static int agree_on_wants(struct wring_calibration *job, struct wring_profile **profile)
{
    if (job->rank == 0)
        *profile = wring_calibrate_open(job, &job->wants);
    if (job->rank == 0 && job->wants.code == WRING_EXIT_OK)
        job->wants.code = load_gradients(job);
    enum wring_status status =
        wring_broadcast(job->world, &job->wants, sizeof(job->wants), 0, NULL, NULL);
    if (status != WRING_OK)
        return wring_rank_fail(&job->faults, "cannot agree on what to measure", status);
    return job->wants.code;
}

/** As memory allows: the smallest of all ranks'. */
static enum wring_status agree_on_sizes(struct wring_calibration *job)
{
    job->max_elems = wring_collective_bench_fit_memory(job->params->max_elems, job->wants.codecs.n,
                                                       job->machine.ranks_per_node);
    return wring_allreduce(job->world, &job->max_elems, &job->max_elems, 1, WRING_I64, WRING_MIN,
                           NULL, NULL);
}

/** What each part has measured. */
struct parts {
    struct wring_collective_bench_noise links, codecs, collectives;
};

static bool is_noise(const struct wring_calibration *job,
                     const struct wring_collective_bench_noise *noise)
{
    return noise->shaky > job->params->doubtful_max * noise->points;
}

static int refuse_noise(const struct wring_calibration *job, const char *what,
                        const struct wring_collective_bench_noise *noise)
{
    return wring_fail(job->params->name,
                      "this is noise, no measurement: of %s, at %u of %u points not even the "
                      "median is known to %.0f %%; let the machine rest, give more --seconds, or "
                      "accept it with --doubt 100",
                      what, noise->shaky, noise->points, WRING_PROFILE_NOISE * 100);
}

/** In rank 0: all of it together, then curve by curve. @return an exit status; said */
static int sift_parts(const struct wring_calibration *job, const struct parts *parts,
                      struct wring_profile *profile)
{
    if (is_noise(job, &parts->links))
        return refuse_noise(job, "links", &parts->links);
    if (is_noise(job, &parts->codecs))
        return refuse_noise(job, "copies and codecs", &parts->codecs);
    if (is_noise(job, &parts->collectives))
        return refuse_noise(job, "collectives", &parts->collectives);
    return wring_calibrate_sift(job, profile);
}

/** Rank 0 knows, as only it has codecs. @return an exit status; said */
static int judge_parts(struct wring_calibration *job, const struct parts *parts,
                       struct wring_profile *profile)
{
    int code = job->rank == 0 ? sift_parts(job, parts, profile) : WRING_EXIT_OK;
    bool well = code == WRING_EXIT_OK;
    enum wring_status status = wring_calibration_agree(job, &well);

    if (status != WRING_OK)
        return wring_rank_fail(&job->faults, "cannot agree", status);
    return well ? WRING_EXIT_OK : WRING_EXIT_FAILURE; /* which rank 0 has said */
}

/** @param what  out: the part that failed, for an error line */
static enum wring_status measure_parts(struct wring_calibration *job, struct wring_profile *profile,
                                       struct parts *parts, const char **what)
{
    *what = "cannot agree on sizes";
    enum wring_status status = agree_on_sizes(job);

    if (status == WRING_OK && job->wants.links) {
        *what = "cannot measure links";
        status = wring_calibrate_links(job, LINKS_SHARE, profile, &parts->links);
    }
    if (status == WRING_OK && (job->wants.copies || job->wants.coded.n > 0)) {
        *what = "cannot measure copies and codecs";
        status = wring_calibrate_codecs(job, CODECS_SHARE, profile, &parts->codecs);
    }
    if (status == WRING_OK && job->gradients != NULL && profile->n_codecs > 0) {
        *what = "cannot measure errors on gradients";
        status = wring_calibrate_errors(job, job->gradients, profile);
    }
    if (status == WRING_OK && job->wants.computing) {
        *what = "cannot measure collectives beside computing";
        status = wring_calibrate_computing(job, COMPUTING_SHARE / 2, profile);
    }
    if (status == WRING_OK && job->wants.waking) {
        *what = "cannot measure wake-ups beside computing";
        status = wring_calibrate_waking(job, COMPUTING_SHARE / 2, profile);
    }
    if (status != WRING_OK)
        return status;
    *what = "cannot measure collectives";
    return wring_calibrate_collectives(job, 1 - LINKS_SHARE - CODECS_SHARE - COMPUTING_SHARE,
                                       profile, &parts->collectives);
}

static int measure_profile(struct wring_calibration *job, struct wring_profile *profile)
{
    struct parts parts = {0};
    const char *what;
    enum wring_status status = measure_parts(job, profile, &parts, &what);

    if (job->rank == 0 && isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    if (status != WRING_OK)
        return wring_rank_fail(&job->faults, what, status);
    int code = judge_parts(job, &parts, profile);
    if (code != WRING_EXIT_OK)
        return code;
    return profile == NULL ||
                   (wring_profile_bring_back(profile, &job->tuning, job->aside) == WRING_OK &&
                    wring_profile_rehash(profile) == WRING_OK)
               ? WRING_EXIT_OK
               : wring_fail(job->params->name, "out of memory");
}

int wring_calibrate_rank(const struct wring_calibrate_params *params, struct wring_profile **out)
{
    struct wring_profile_aside aside = {0};
    struct wring_calibration job = {.params = params, .aside = &aside};
    struct wring_profile *profile = NULL;
    int code = calibration_join(&job);

    if (code == WRING_EXIT_OK)
        code = agree_on_wants(&job, &profile);
    if (code == WRING_EXIT_OK)
        code = measure_profile(&job, profile);
    calibration_leave(&job);
    wring_gradients_destroy(job.gradients);
    free(aside.collectives);
    if (code != WRING_EXIT_OK) {
        wring_profile_destroy(profile);
        profile = NULL;
    }
    *out = profile;
    return code;
}
