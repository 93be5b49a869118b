/* SPDX-License-Identifier: Apache-2.0 */
/* The same bits when the ranks are processes that met over TCP: each checks its own result.
 * test_processes [provider=NAME]: all of it on one provider. */
#include "tests/collective/matrix.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/procs.h"
#include "tests/lib/test.h"

#define DEADLINE_S 120

static const struct wring_matrix_case cases_to_run[] = {
    {.ranks = 2, .elems = 100001, .codec = "none", .provider = "tcp", .chunk = "16k"},
    {.ranks = 9, .elems = 65537, .codec = "bf16", .provider = "shm", .chunk = "4k"},
    {.ranks = 5, .elems = 100001, .codec = "int8+ef", .provider = "auto", .chunk = "256k"},
    {.ranks = 4,
     .elems = 529664,
     .codec = "onebit:block=128+ef",
     .provider = "tcp",
     .chunk = "256k",
     .scheme = WRING_SCHEME_INDIVISIBLE},
    {.ranks = 3,
     .elems = 100001,
     .codec = "topk:ratio=0.01+ef",
     .provider = "shm",
     .chunk = "16k",
     .special = 3},
    {.ranks = 1, .elems = 1000, .codec = "int8", .provider = "tcp", .chunk = "16k"},
    {.ranks = 7, .elems = 1, .codec = "none", .provider = "shm", .chunk = "16k"},
};

static const char *only; /* provider; NULL: each case has its own */

static int run_rank(struct procs_rank *rank, void *arg)
{
    const struct wring_matrix_case *c = arg;
    struct wring_session *session;
    void *data;
    rank->params.seed = 1234;
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status == WRING_OK)
        status = wring_buffer_alloc(session, c->elems * sizeof(float), &data);
    if (status == WRING_OK)
        status = wring_matrix_steps(session, c, data, data);
    if (status != WRING_OK) {
        procs_say(rank, "%s", wring_status_text(status));
        return 2;
    }
    wring_matrix_check(c, rank->rank, data);
    wring_session_close(session);
    return wring_test_failures() == 0 ? 0 : 1;
}

static void processes_agree(void)
{
    static struct procs_job job;
    char text[512], provider[64], chunk[64];
    for (size_t i = 0; i < sizeof(cases_to_run) / sizeof(cases_to_run[0]); i++) {
        struct wring_matrix_case c = cases_to_run[i];
        c.provider = only != NULL ? only : c.provider;
        c.op = i % 2 ? WRING_SUM : WRING_AVG;
        c.steps = 4;
        c.cpu = "best";
        c.executor = "inline";
        c.progress = "thread";
        snprintf(provider, sizeof(provider), "WRING_PROVIDER=%s", c.provider);
        snprintf(chunk, sizeof(chunk), "WRING_CHUNK_BYTES=%s", c.chunk);
        const char *settings[] = {provider, chunk, NULL};
        memset(&job, 0, sizeof(job));
        job.ranks = c.ranks;
        job.settings = settings;
        job.run = run_rank;
        job.arg = &c;
        CHECK(procs_run(&job, DEADLINE_S), "hangs: %s", wring_matrix_text(&c, text, sizeof(text)));
        for (uint32_t r = 0; r < c.ranks; r++)
            CHECK(job.codes[r] == 0, "rank %u (code %d) said %s: %s", r, job.codes[r], job.texts[r],
                  wring_matrix_text(&c, text, sizeof(text)));
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"processes_agree", processes_agree},
        {NULL, NULL},
    };
    static const char one[] = "provider=";
    if (argc > 1 && strncmp(argv[1], one, strlen(one)) == 0)
        only = argv[1] + strlen(one);
    return wring_test_main(argc - (only != NULL), argv + (only != NULL), cases);
}
