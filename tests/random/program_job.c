/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/random/program_job.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/procs.h"
#include "tests/lib/test.h"
#include "tests/random/program_run.h"
#include <wring/bootstrap.h>

#define PROCESSES_DEADLINE_S 150 /* longer than any wait in a rank */
#define SEED 1234

static void log_nothing(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static void log_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)level;
    fprintf(stderr, "rank %u: %s: %s\n", *(const uint32_t *)arg, module, text);
}

/** Is it how a rank may end where something breaks? */
static bool is_allowed(const struct program *p, enum wring_status status)
{
    return status == WRING_OK || (p->faults && status != WRING_ERR_TIMEOUT);
}

/* ---- threads ---- */

struct rank_thread {
    const struct program *p;
    const struct results *results;
    struct wring_bootstrap *bootstrap;
    pthread_t thread;
    uint32_t rank;
    bool verbose;
};

static void *rank_main(void *arg)
{
    struct rank_thread *self = arg;
    const char *settings[PROGRAM_SETTINGS + 2];
    char node[32], why[RUN_TEXT] = "open";
    struct wring_session *session = NULL;
    struct run_memory *kept = NULL;
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;

    run_settings(self->p, self->rank, node, settings);
    params.bootstrap = self->bootstrap;
    params.settings = settings;
    params.seed = SEED;
    params.log = self->verbose ? log_line : log_nothing;
    params.log_arg = &self->rank;
    enum wring_status status = wring_session_open(&params, &session);
    if (status == WRING_OK)
        status = run_program(session, self->results, why, &kept);
    CHECK(is_allowed(self->p, status), "rank %u: %s: %s", self->rank, wring_status_text(status),
          why);
    wring_session_close(session);
    run_free(kept);
    return NULL;
}

static void run_threads(const struct program *p, const struct results *results, bool verbose)
{
    struct wring_bootstrap *ends[PROGRAM_RANKS];
    struct rank_thread threads[PROGRAM_RANKS];

    REQUIRE(wring_bootstrap_local_create(p->ranks, ends) == WRING_OK, "bootstrap");
    for (uint32_t i = 0; i < p->ranks; i++) {
        threads[i] = (struct rank_thread){p, results, ends[i], 0, i, verbose};
        pthread_create(&threads[i].thread, NULL, rank_main, &threads[i]);
    }
    for (uint32_t i = 0; i < p->ranks; i++)
        pthread_join(threads[i].thread, NULL);
    for (uint32_t i = 0; i < p->ranks; i++)
        ends[i]->ops->close(ends[i]);
}

/* ---- processes ---- */

struct shared_job {
    const struct program *p;
    const struct results *results;
};

static int process_main(struct procs_rank *rank, void *arg)
{
    const struct shared_job *job = arg;
    const char *settings[PROGRAM_SETTINGS + 2];
    char node[32], why[RUN_TEXT] = "open";
    struct wring_session *session = NULL;
    struct run_memory *kept = NULL;

    run_settings(job->p, rank->rank, node, settings);
    rank->params.settings = settings;
    rank->params.seed = SEED;
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status == WRING_OK)
        status = run_program(session, job->results, why, &kept);
    if (status != WRING_OK)
        procs_say(rank, "%s: %s", wring_status_text(status), why);
    wring_session_close(session);
    run_free(kept);
    return is_allowed(job->p, status) ? 0 : 1;
}

static void run_processes(const struct program *p, const struct results *results, bool verbose)
{
    struct shared_job shared = {p, results};
    struct procs_job *job = calloc(1, sizeof(*job));

    job->ranks = p->ranks;
    job->arg = &shared;
    job->run = process_main;
    CHECK(procs_run(job, PROCESSES_DEADLINE_S), "a rank is not through in time");
    for (uint32_t i = 0; i < p->ranks; i++) {
        bool dies = p->killed == (int32_t)i && job->codes[i] == -SIGKILL;
        CHECK(job->codes[i] == 0 || dies, "rank %u ended with %d, and said:\n%s", i, job->codes[i],
              job->texts[i]);
        if (verbose)
            fprintf(stderr, "rank %u ended with %d, and said:\n%s", i, job->codes[i],
                    job->texts[i]);
    }
    free(job);
}

void job_run(const struct program *p, struct results *results, bool verbose)
{
    if (p->processes)
        run_processes(p, results, verbose);
    else
        run_threads(p, results, verbose);
}
