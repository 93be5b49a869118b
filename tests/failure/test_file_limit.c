/* SPDX-License-Identifier: Apache-2.0 */
/* A limit on file sizes, as batch systems set it, kills no rank: shared memory counts as a file. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "tests/lib/procs.h"
#include "tests/lib/test.h"

#define DEADLINE_S 100
#define ELEMS 300000

struct limited {
    rlim_t bytes;
    size_t buffer; /* that is asked for, in vain; 0: none */
    bool to_file;  /* lines go to standard error, which is a file */
};

static struct procs_job job;

/** Dispositions and pending signals are the application's: ours leave no trace. */
static bool signals_are_untouched(void)
{
    struct sigaction now;
    sigset_t pending, mask;
    return sigaction(SIGXFSZ, NULL, &now) == 0 && now.sa_handler == SIG_DFL &&
           sigpending(&pending) == 0 && !sigismember(&pending, SIGXFSZ) &&
           sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && !sigismember(&mask, SIGXFSZ);
}

static bool run_sums(struct procs_rank *rank, struct wring_session *session)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket;
    float *data;
    if (wring_buffer_alloc(session, ELEMS * sizeof(float), (void **)&data) != WRING_OK)
        return false;
    params.name = "b";
    params.data = data;
    params.elems = ELEMS;
    for (size_t i = 0; i < ELEMS; i++)
        data[i] = (float)(rank->rank + i % 5);
    if (wring_bucket_register(session, &params, &bucket) != WRING_OK ||
        wring_session_commit(session) != WRING_OK || wring_bucket_post(bucket) != WRING_OK ||
        wring_bucket_wait(bucket, DEADLINE_S * 1000000000ull, NULL) != WRING_OK)
        return false;
    return data[7] == (float)(rank->size * (rank->size - 1) / 2 + 2 * rank->size);
}

static int run_limited(struct procs_rank *rank, void *arg)
{
    const struct limited *limited = arg;
    struct rlimit limit = {limited->bytes, limited->bytes};
    struct wring_session *session;
    void *data;

    if (limited->to_file) {
        int fd = open("/tmp", O_TMPFILE | O_WRONLY, 0600);
        if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
            return 9;
        rank->params.log = NULL;
    }
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 9;
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (!signals_are_untouched())
        return 8;
    if (status != WRING_OK)
        return 2;
    if (limited->buffer > 0 &&
        wring_buffer_alloc(session, limited->buffer, &data) != WRING_ERR_NO_MEMORY)
        return 3;
    if (!run_sums(rank, session))
        return 4;
    wring_session_close(session);
    return signals_are_untouched() ? 0 : 8;
}

static void run(const char *const *settings, struct limited limited, int code, const char *line)
{
    memset(&job, 0, sizeof(job));
    job.ranks = 2;
    job.settings = settings;
    job.run = run_limited;
    job.arg = &limited;
    CHECK(procs_run(&job, DEADLINE_S), "%s: hangs", settings[0]);
    for (uint32_t i = 0; i < job.ranks; i++)
        CHECK(job.codes[i] == code && strstr(job.texts[i], line) != NULL,
              "%s: rank %u (code %d) said:\n%s", settings[0], i, job.codes[i], job.texts[i]);
}

static void small_limits_lead_to_tcp(void)
{
    static const char *const automatic[] = {"WRING_PROVIDER=auto", NULL};
    static const char *const shm[] = {"WRING_PROVIDER=shm", "WRING_JOIN_TIMEOUT=20s", NULL};
    run(automatic, (struct limited){.bytes = 1 << 20}, 0,
        "this rank goes without shm: shared memory counts as a file, and this process may have "
        "none "
        "of more than 1048576 bytes: raise the limit on file sizes (ulimit -f)");
    run(automatic, (struct limited){.bytes = 0}, 0, "this rank goes without shm");
    run(shm, (struct limited){.bytes = 1 << 20}, 2, "provider shm cannot work here: shared memory");
}

static void large_buffers_are_refused(void)
{
    static const char *const shm[] = {"WRING_PROVIDER=shm", NULL};
    run(shm, (struct limited){.bytes = 96 << 20, .buffer = 200 << 20}, 0,
        "File too large: raise the limit on file sizes (ulimit -f), which counts shared memory, "
        "too");
}

static void files_that_are_written_are_errors(void)
{
    char path[] = "/tmp/wring-file-limit-XXXXXX", setting[64];
    const char *const traced[] = {"WRING_PROVIDER=auto", setting, NULL};
    int fd = mkstemp(path);
    REQUIRE(fd >= 0, "no file");
    close(fd);
    snprintf(setting, sizeof(setting), "WRING_TRACE=%s", path);
    run(traced, (struct limited){.bytes = 256}, 0, "cannot be written: File too large");
    unlink(path);
}

static void lines_are_lost_and_nothing_else(void)
{
    static const char *const debug[] = {"WRING_PROVIDER=auto", "WRING_LOG=debug", NULL};
    run(debug, (struct limited){.bytes = 0, .to_file = true}, 0, "");
}

/** Plans and profiles are written so. */
static int write_draft(struct procs_rank *rank, void *arg)
{
    struct rlimit limit = {100, 100};
    struct wring_atomic_file draft;
    char path[64];

    (void)arg;
    snprintf(path, sizeof(path), "/tmp/wring-draft-%d", (int)getpid());
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || !wring_atomic_file_open(&draft, path, 0600))
        return 9;
    for (int i = 0; i < 5000; i++)
        fputs("more than fits", draft.file);
    bool well = ferror(draft.file) == 0;
    bool closed = wring_atomic_file_close(&draft, path, well);
    procs_say(rank, "%s", strerror(errno));
    return closed || access(path, F_OK) == 0 ? 1 : signals_are_untouched() ? 0 : 8;
}

static void drafts_are_errors(void)
{
    memset(&job, 0, sizeof(job));
    job.ranks = 1;
    job.run = write_draft;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    CHECK(job.codes[0] == 0, "code %d: %s", job.codes[0], job.texts[0]);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"small_limits_lead_to_tcp", small_limits_lead_to_tcp},
        {"large_buffers_are_refused", large_buffers_are_refused},
        {"files_that_are_written_are_errors", files_that_are_written_are_errors},
        {"lines_are_lost_and_nothing_else", lines_are_lost_and_nothing_else},
        {"drafts_are_errors", drafts_are_errors},
        {NULL, NULL},
    };
    signal(SIGXFSZ, SIG_DFL); /* who started this may have left it ignored */
    return wring_test_main(argc, argv, cases);
}
