/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/ranks.h"

#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include <wring/bootstrap.h>

#define RANKS_MAX 256
#define SETTINGS_MAX 16

struct rank_thread {
    const struct wring_test_job *job;
    uint32_t rank;
    struct wring_bootstrap *bootstrap;
    pthread_t thread;
};

/** What a codec gives is to be tested, not whether it gains time here; a job may say otherwise. */
static void fill_settings(const struct wring_test_job *job, const char *node, const char *site,
                          const char **settings)
{
    size_t n = 0;
    settings[n++] = "WRING_BYPASS=never";
    if (job->ranks_per_node > 0)
        settings[n++] = node;
    if (job->ranks_per_site > 0)
        settings[n++] = site;
    for (const char *const *at = job->settings; at != NULL && *at != NULL; at++)
        if (n < SETTINGS_MAX)
            settings[n++] = *at;
        else
            CHECK(n < SETTINGS_MAX, "%s is left out", *at);
    settings[n] = NULL;
}

static void *rank_main(void *arg)
{
    const struct rank_thread *self = arg;
    const char *settings[SETTINGS_MAX + 1];
    uint32_t per_node = self->job->ranks_per_node > 0 ? self->job->ranks_per_node : 1;
    bool last = self->rank == self->job->ranks - 1;
    uint32_t per_site = self->job->ranks_per_site > 0 ? self->job->ranks_per_site : 1;
    char node[32], site[32];
    struct wring_session *session = NULL;
    struct wring_session_params params = {
        .bootstrap = self->bootstrap,
        .settings = settings,
        .seed = WRING_TEST_SEED,
        .log = self->job->log,
        .log_arg = self->job->log_arg,
        .codecs =
            last && self->job->last_codecs != NULL ? self->job->last_codecs : self->job->codecs,
    };
    snprintf(node, sizeof(node), "WRING_NODE=%u", self->rank / per_node);
    snprintf(site, sizeof(site), "WRING_SITE=%u", self->rank / per_site);
    fill_settings(self->job, node, site, settings);
    enum wring_status status = wring_session_open(&params, &session);
    CHECK(status == WRING_OK, "rank %u: open: %s", self->rank, wring_status_text(status));
    if (status == WRING_OK)
        self->job->run(session, self->rank, self->job->arg);
    wring_session_close(session);
    return NULL;
}

void wring_test_run_ranks(const struct wring_test_job *job)
{
    struct wring_bootstrap *ends[RANKS_MAX];
    struct rank_thread threads[RANKS_MAX];

    REQUIRE(job->ranks <= RANKS_MAX, "%u ranks", job->ranks);
    REQUIRE(wring_bootstrap_local_create(job->ranks, ends) == WRING_OK, "bootstrap");
    for (uint32_t i = 0; i < job->ranks; i++) {
        threads[i] = (struct rank_thread){job, i, ends[i], 0};
        pthread_create(&threads[i].thread, NULL, rank_main, &threads[i]);
    }
    for (uint32_t i = 0; i < job->ranks; i++)
        pthread_join(threads[i].thread, NULL);
    for (uint32_t i = 0; i < job->ranks; i++)
        ends[i]->ops->close(ends[i]);
}

enum wring_status wring_test_abort(struct wring_group *group, uint64_t timeout_ns)
{
    uint64_t until_ns = wring_deadline_in(timeout_ns);
    enum wring_status status;

    while ((status = wring_group_abort(group)) == WRING_ERR_BUSY && wring_now_ns() < until_ns)
        sched_yield();
    return status;
}
