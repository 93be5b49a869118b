/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks whose program has closed descriptors 0, 1 or 2, as daemons do. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/failure/failing_job.h"
#include "tests/lib/test.h"

#define COMBINATIONS 8

/** Does one of those closed belong to somebody again? */
static bool is_taken(struct procs_rank *rank, unsigned closed, const char *when)
{
    bool taken = false;
    for (int fd = 0; fd < 3; fd++)
        if ((closed >> fd & 1) != 0 && fcntl(fd, F_GETFD) >= 0) {
            procs_say(rank, "descriptor %d is the library's %s", fd, when);
            taken = true;
        }
    return taken;
}

static enum wring_status use(struct procs_rank *rank, struct wring_session *session,
                             unsigned closed, bool *taken)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket;
    float *data = NULL;
    enum wring_status status = wring_buffer_alloc(session, ELEMS * sizeof(float), (void **)&data);
    params.name = "b";
    params.data = data;
    params.elems = ELEMS;
    if (status == WRING_OK)
        status = wring_bucket_register(session, &params, &bucket);
    if (status == WRING_OK)
        status = wring_session_commit(session);
    *taken |= is_taken(rank, closed, "after the commit");
    for (unsigned step = 0; step < 3 && status == WRING_OK; step++) {
        for (size_t i = 0; i < ELEMS; i++)
            data[i] = (float)(rank->rank + step);
        printf("what the program prints\n");
        fflush(stdout);
        fprintf(stderr, "what the program complains of\n");
        status = wring_bucket_post(bucket);
        if (status == WRING_OK)
            status = wring_bucket_wait(bucket, WRING_FOREVER, NULL);
        for (size_t i = 0; i < ELEMS && status == WRING_OK; i++)
            if (data[i] != (float)(2 * step + 1))
                status = WRING_ERR_FRAME;
    }
    *taken |= is_taken(rank, closed, "after the steps");
    return status;
}

static void close_some(unsigned closed)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++)
        if ((closed >> fd & 1) != 0)
            close(fd);
        else
            dup2(null, fd); /* what ranks print is no part of this test's output */
    close(null);
}

/** Lines of all levels go to standard error, which is closed or not. */
static int run_closed(struct procs_rank *rank, void *arg)
{
    unsigned closed = *(const unsigned *)arg;
    struct wring_session *session;
    bool taken = false;
    close_some(closed);
    rank->params.log = NULL;
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status == WRING_OK) {
        taken = is_taken(rank, closed, "after open");
        status = use(rank, session, closed, &taken);
        wring_session_close(session);
        taken |= is_taken(rank, closed, "after close");
    }
    procs_say(rank, "end %s", wring_status_text(status));
    return status == WRING_OK && !taken ? 0 : 3;
}

static void nothing_of_ours_takes_their_place(void)
{
    static const char *const variants[] = {"WRING_PROVIDER=tcp", "WRING_PROVIDER=shm"};
    char trace[64], setting[96];
    snprintf(trace, sizeof(trace), "/tmp/wring-closed-%d.json", (int)getpid());
    snprintf(setting, sizeof(setting), "WRING_TRACE=%s", trace);
    for (unsigned closed = 0; closed < COMBINATIONS; closed++)
        for (int variant = 0; variant < 2; variant++) {
            const char *settings[] = {variants[variant],       "WRING_LOG=debug",        setting,
                                      "WRING_EXECUTOR=pool:1", "WRING_FAULT=delay=10us", NULL};
            start(2, settings, run_closed);
            job.arg = &closed;
            CHECK(procs_run(&job, DEADLINE_S), "hangs: %s, closed %u", variants[variant], closed);
            for (uint32_t r = 0; r < 2; r++)
                CHECK(job.codes[r] == 0, "%s, closed %u: rank %u (code %d) said:\n%s",
                      variants[variant], closed, r, job.codes[r], job.texts[r]);
        }
    unlink(trace);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"nothing_of_ours_takes_their_place", nothing_of_ours_takes_their_place},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
