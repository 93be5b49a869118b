/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/sim_job.h"

#include <malloc.h>
#include <stdio.h>

/** Ranks are many, and tell the same story. */
static void drop_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static void rank_main(void *arg, uint32_t rank)
{
    struct sim_job *job = arg;
    char node[32];
    const char *settings[] = {"WRING_PROVIDER=sim",
                              "WRING_PROGRESS=caller",
                              "WRING_SPIN=0",
                              "WRING_BYPASS=never",
                              node,
                              NULL};
    struct wring_session_params params = {
        .bootstrap = wring_sim_bootstrap(job->sim, rank),
        .settings = settings,
        .seed = 1234,
        .log = drop_line,
    };
    struct wring_session *session;

    snprintf(node, sizeof(node), "WRING_NODE=%u", rank);
    if (wring_session_open(&params, &session) != WRING_OK) {
        job->unopened++;
        return;
    }
    if (job->opened_ns < wring_sim_now_ns(job->sim))
        job->opened_ns = wring_sim_now_ns(job->sim);
    job->run(job, session, rank);
    wring_session_close(session);
}

enum wring_status sim_job_run(struct sim_job *job)
{
    uint32_t stuck;

    mallopt(M_MMAP_THRESHOLD, 64 << 10); /* what a rank does not touch of an array is not there */
    enum wring_status status = wring_sim_create(&job->network, &job->sim);
    if (status != WRING_OK)
        return status;
    status = wring_sim_run(job->sim, rank_main, job, &stuck);
    if (status == WRING_ERR_TIMEOUT)
        fprintf(stderr, "rank %u sleeps for ever\n", stuck);
    return status;
}

void sim_job_end(struct sim_job *job)
{
    wring_sim_destroy(job->sim);
    job->sim = NULL;
}

struct wring_sim_params sim_network(uint32_t ranks)
{
    return (struct wring_sim_params){
        .ranks = ranks, .latency_ns = 5000, .message_ns = 500, .bytes_per_ns = 12.5};
}

uint64_t sim_message_ns(const struct wring_sim_params *network, uint64_t bytes)
{
    return network->latency_ns + network->message_ns +
           (uint64_t)((double)bytes / network->bytes_per_ns);
}
