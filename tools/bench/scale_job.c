/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of `wring bench scale`: sessions as a program opens them. */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/bench/scale.h"
#include "tools/commands.h"
#include <wring/wring.h>

#define SAMPLES 1024 /* elements of each sum that are compared */
#define ARRAY_BYTES (64 << 10)
#define DIES_AFTER_NS WRING_NS_PER_MS

#define PIECE_BYTES ((double)(256 << 10)) /* WRING_CHUNK_BYTES */
#define FOLDED 8                          /* members that exchange all with all */
#define DOUBLING_BYTES (32 << 10)
#define HALVING_BYTES (4 << 20)

struct run {
    struct wring_scale_job *job;
    struct wring_sim *sim;
    float *sums;  /* [SAMPLES], of the size that is under way */
    void *shared; /* the data of all ranks, where they need none of their own */
    uint64_t begin_ns[WRING_SCALE_SIZES_MAX][WRING_SCALE_STEPS_MAX],
        end_ns[WRING_SCALE_SIZES_MAX][WRING_SCALE_STEPS_MAX];
    uint64_t died_ns, heard_ns;
    uint32_t ended, done;
    struct wring_scale_size *expected; /* whose sums those are */
};

/** Ranks are many, and tell the same story. */
static void drop_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

/*
 * ---- what is expected ----
 *
 * Costs by the textbook, with a latency, a cost of each message and a rate. Nothing here asks the
 * code that it is compared with.
 */

/** One after the other out of a port, in pieces; and then the last of them travels. */
static double exchange_ns(const struct wring_sim_params *network, double bytes, double times)
{
    double pieces = bytes > PIECE_BYTES ? ceil(bytes / PIECE_BYTES) : 1;
    return (double)network->latency_ns +
           times * (pieces * (double)network->message_ns + bytes / network->bytes_per_ns);
}

/** Each message but the last is answered by a credit, which goes out ahead of the next one. */
static double credits_ns(const struct wring_sim_params *network, double exchanges)
{
    return (exchanges - 1) * (double)network->message_ns;
}

/** Members beyond a power of two send all they have to one of the others, and get the result. */
static double fold_ns(const struct wring_sim_params *network, double bytes, uint32_t levels)
{
    return network->ranks > 1u << levels
               ? 2 * (exchange_ns(network, bytes, 1) + (double)network->message_ns)
               : 0;
}

/** What an allreduce takes; NAN: its algorithm is not modelled. */
static double predict_us(const struct wring_sim_params *network, uint64_t total)
{
    double bytes = (double)total, ns = 0;
    uint32_t levels = 31 - (uint32_t)__builtin_clz(network->ranks), n = network->ranks;

    if (n == 1)
        return 0;
    if (n <= FOLDED && total <= DOUBLING_BYTES)
        return exchange_ns(network, bytes, n - 1) / 1e3;
    if (n <= FOLDED)
        return 2 * exchange_ns(network, bytes / n, n - 1) / 1e3;
    if (total > HALVING_BYTES)
        return NAN;
    for (uint32_t level = 0; level < levels; level++)
        ns += total <= DOUBLING_BYTES ? exchange_ns(network, bytes, 1)
                                      : 2 * exchange_ns(network, bytes / (double)(2u << level), 1);
    ns += credits_ns(network, total <= DOUBLING_BYTES ? levels : 2 * levels);
    return (ns + fold_ns(network, bytes, levels)) / 1e3;
}

/* ---- sums ---- */

/** Some number in (-1, 1), whose sums round. */
static float contribution(uint32_t rank, uint64_t element)
{
    uint64_t x = (rank + 1) * 0x9E3779B97F4A7C15u ^ (element + 1) * 0xC2B2AE3D27D4EB4Fu;
    x = (x ^ x >> 31) * 0xD6E8FEB86659FD93u;
    return (float)(int32_t)(x >> 32) * 0x1p-31f;
}

/** By the order of FORMAT.md, "Reductions". @param terms  [ranks], overwritten */
static float sum_in_order(float *terms, uint32_t ranks)
{
    uint32_t leaves = 1;

    if (ranks <= 8) {
        for (uint32_t i = 1; i < ranks; i++)
            terms[0] += terms[i];
        return terms[0];
    }
    while (leaves * 2 <= ranks)
        leaves *= 2;
    for (uint32_t i = leaves; i < ranks; i++)
        terms[i - leaves] += terms[i];
    for (uint32_t apart = 1; apart < leaves; apart *= 2)
        for (uint32_t i = 0; i < leaves; i += 2 * apart)
            terms[i] += terms[i + apart];
    return terms[0];
}

static uint64_t sample_at(uint64_t elems, uint64_t i)
{
    return elems <= SAMPLES ? i : i * (elems - 1) / (SAMPLES - 1);
}

static uint64_t count_samples(uint64_t elems)
{
    return elems < SAMPLES ? elems : SAMPLES;
}

/** @return false: no memory */
static bool compute_sums(struct run *run, uint64_t elems)
{
    uint32_t ranks = run->job->network.ranks;
    float *terms = malloc(ranks * sizeof(*terms));

    if (terms == NULL)
        return false;
    for (uint64_t i = 0; i < count_samples(elems); i++) {
        for (uint32_t rank = 0; rank < ranks; rank++)
            terms[rank] = contribution(rank, sample_at(elems, i));
        run->sums[i] = sum_in_order(terms, ranks);
    }
    free(terms);
    return true;
}

static bool are_sums(const struct run *run, const float *data, uint64_t elems)
{
    for (uint64_t i = 0; i < count_samples(elems); i++)
        if (memcmp(&data[sample_at(elems, i)], &run->sums[i], sizeof(float)) != 0)
            return false;
    return true;
}

/* ---- ranks ---- */

static void keep_most_sent(struct wring_scale_size *size, const struct wring_sim_counts *before,
                           const struct wring_sim_counts *after)
{
    uint64_t puts = after->puts - before->puts, messages = after->messages - before->messages;
    uint64_t bytes = after->put_bytes - before->put_bytes;

    size->puts = puts > size->puts ? puts : size->puts;
    size->messages = messages > size->messages ? messages : size->messages;
    size->sent_bytes = bytes > size->sent_bytes ? bytes : size->sent_bytes;
}

/** One sum. All begin at about the same time: after a barrier. */
static enum wring_status run_step(struct run *run, struct wring_group *world, uint32_t s,
                                  unsigned step, float *data, uint64_t elems)
{
    uint32_t rank = wring_sim_rank(run->sim);
    struct wring_scale_size *size = &run->job->sizes[s];
    bool checks = !run->job->network.empty;

    for (uint64_t i = 0; i < elems && checks; i++)
        data[i] = contribution(rank, i);
    enum wring_status status = wring_barrier(world, NULL, NULL);
    struct wring_sim_counts before = wring_sim_sent(run->sim, rank);
    uint64_t begin_ns = wring_sim_now_ns(run->sim);
    if (run->begin_ns[s][step] < begin_ns)
        run->begin_ns[s][step] = begin_ns;
    if (status == WRING_OK)
        status = wring_allreduce(world, data, data, elems, WRING_F32, WRING_SUM, NULL, NULL);
    struct wring_sim_counts after = wring_sim_sent(run->sim, rank);
    if (step == run->job->steps - 1)
        keep_most_sent(size, &before, &after);
    if (run->end_ns[s][step] < wring_sim_now_ns(run->sim))
        run->end_ns[s][step] = wring_sim_now_ns(run->sim);
    if (status == WRING_OK && checks && (step == 0 || step == run->job->steps - 1))
        size->wrong += !are_sums(run, data, elems);
    return status;
}

static enum wring_status run_size(struct run *run, struct wring_group *world, uint32_t s)
{
    struct wring_scale_size *size = &run->job->sizes[s];
    uint64_t elems = size->bytes / sizeof(float);
    float *data = run->shared != NULL ? run->shared : malloc(size->bytes);
    enum wring_status status = data != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;

    if (run->expected != size && !run->job->network.empty && status == WRING_OK)
        status = compute_sums(run, elems) ? WRING_OK : WRING_ERR_NO_MEMORY;
    run->expected = size;
    for (unsigned step = 0; step < run->job->steps && status == WRING_OK; step++)
        status = run_step(run, world, s, step, data, elems);
    if (status == WRING_OK) /* the first rank to go on computes the next size's sums */
        status = wring_barrier(world, NULL, NULL);
    if (data != run->shared)
        free(data);
    return status;
}

/** The victim dies in the middle of a step, as the others wait for it. */
static void die_or_hear(struct run *run, struct wring_session *session)
{
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    uint32_t victim = run->job->network.ranks / 2;
    float one = 1;

    if (wring_sim_rank(run->sim) == victim) {
        wring_sim_sleep_until(run->sim, wring_sim_now_ns(run->sim) + DIES_AFTER_NS);
        run->died_ns = wring_sim_now_ns(run->sim);
        wring_sim_kill(run->sim, victim);
        return;
    }
    enum wring_status status = wring_allreduce(wring_session_world(session), &one, &one, 1,
                                               WRING_F32, WRING_SUM, NULL, NULL);
    wring_session_error(session, &detail);
    run->job->deaf += status != WRING_ERR_PEER || detail.rank != (int32_t)victim;
    if (run->heard_ns < wring_sim_now_ns(run->sim))
        run->heard_ns = wring_sim_now_ns(run->sim);
}

static double resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file != NULL && fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/** The last rank to be done, before any closes. */
static void note_costs(struct run *run)
{
    struct wring_scale_job *job = run->job;

    if (++run->ended < job->network.ranks)
        return;
    job->memory_bytes += resident_bytes();
    for (uint32_t i = 0; i < job->network.ranks; i++) {
        uint64_t all =
            wring_sim_sent(run->sim, i).connections + wring_sim_received(run->sim, i).connections;
        job->connections = all > job->connections ? all : job->connections;
    }
}

static void rank_main(void *arg, uint32_t rank)
{
    struct run *run = arg;
    struct wring_scale_job *job = run->job;
    const char *const settings[] = {"WRING_PROVIDER=sim", "WRING_PROGRESS=caller", "WRING_SPIN=0",
                                    "WRING_BYPASS=never", NULL};
    const struct wring_session_params params = {
        .bootstrap = wring_sim_bootstrap(run->sim, rank),
        .settings = settings,
        .log = rank > 0 || job->death ? drop_line : NULL,
    };
    struct wring_session *session;

    if (wring_session_open(&params, &session) != WRING_OK) {
        job->unopened++;
        wring_sim_stop(run->sim);
    }
    double open_us = (double)(wring_sim_now_ns(run->sim) - WRING_NS_PER_S) / 1e3;
    job->open_us = open_us > job->open_us ? open_us : job->open_us;
    enum wring_status status = WRING_OK;
    for (uint32_t s = 0; s < job->n_sizes && status == WRING_OK; s++)
        status = run_size(run, wring_session_world(session), s);
    job->failed += status != WRING_OK;
    note_costs(run);
    if (job->death && status == WRING_OK && job->network.ranks > 1)
        die_or_hear(run, session);
    /* nobody closes: what that costs is not what is asked */
    if (++run->done == job->network.ranks - (job->death && job->network.ranks > 1))
        wring_sim_stop(run->sim);
    wring_sim_sleep_until(run->sim, WRING_NEVER);
}

/* ---- the job ---- */

static uint64_t largest_size(const struct wring_scale_job *job)
{
    uint64_t most = 1;
    for (uint32_t i = 0; i < job->n_sizes; i++)
        most = job->sizes[i].bytes > most ? job->sizes[i].bytes : most;
    return most;
}

static void take_results(const struct run *run)
{
    struct wring_scale_job *job = run->job;
    uint32_t last = job->steps - 1;

    for (uint32_t s = 0; s < job->n_sizes; s++) {
        const uint64_t *begin = run->begin_ns[s], *end = run->end_ns[s];
        job->sizes[s].first_us = (double)(end[0] - begin[0]) / 1e3;
        job->sizes[s].us = (double)(end[last] - begin[last]) / 1e3;
        job->sizes[s].predicted_us = predict_us(&job->network, job->sizes[s].bytes);
    }
    job->death_us = (double)(run->heard_ns - run->died_ns) / 1e3;
}

static bool run_ranks(struct run *run, const char *command)
{
    struct wring_scale_job *job = run->job;
    uint32_t stuck = 0;
    double resident = resident_bytes();
    enum wring_status status = wring_sim_create(&job->network, &run->sim);

    if (status != WRING_OK) {
        wring_fail(command, "%u ranks: %s", job->network.ranks, wring_status_text(status));
        return false;
    }
    job->memory_bytes = -resident;
    status = wring_sim_run(run->sim, rank_main, run, &stuck);
    job->memory_bytes /= job->network.ranks;
    if (status == WRING_OK)
        take_results(run);
    else
        wring_fail(command, "%u ranks: rank %u waits for ever", job->network.ranks, stuck);
    wring_sim_destroy(run->sim);
    return status == WRING_OK;
}

bool wring_scale_run(struct wring_scale_job *job, const char *command)
{
    struct run run = {.job = job, .sums = malloc(SAMPLES * sizeof(float))};
    uint64_t began_ns = wring_clock_ns(CLOCK_PROCESS_CPUTIME_ID);

    mallopt(M_MMAP_THRESHOLD, ARRAY_BYTES); /* what nobody touches of an array takes no memory */
    mallopt(M_MMAP_MAX, 1 << 30);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    if (job->network.empty)
        run.shared = malloc(largest_size(job));
    bool well = run.sums != NULL && (run.shared != NULL) == job->network.empty;
    if (well)
        well = run_ranks(&run, command);
    else
        wring_fail(command, "no memory");
    job->cpu_s = (double)(wring_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - began_ns) / 1e9;
    free(run.shared);
    free(run.sums);
    return well;
}
