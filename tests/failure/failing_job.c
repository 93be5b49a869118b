/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/failure/failing_job.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"

const char *const tcp[] = {"WRING_PROVIDER=tcp", NULL};
const char *const shm[] = {"WRING_PROVIDER=shm", NULL};
const char *const impatient[] = {"WRING_PROVIDER=tcp", "WRING_JOIN_TIMEOUT=8s", NULL};

struct procs_job job;

void start(uint32_t ranks, const char *const *settings, int (*run)(struct procs_rank *, void *))
{
    memset(&job, 0, sizeof(job));
    job.ranks = ranks;
    job.settings = settings;
    job.run = run;
}

/** The shortest of three: a machine that looks away makes a call long now and then, waiting always.
 */
void say_again(struct procs_rank *rank, struct wring_bucket *bucket)
{
    enum wring_status status = WRING_OK;
    uint64_t shortest = WRING_NEVER;
    for (int i = 0; i < 3; i++) {
        uint64_t began = wring_now_ns();
        status = wring_bucket_post(bucket);
        uint64_t took = wring_now_ns() - began;
        shortest = took < shortest ? took : shortest;
    }
    procs_say(rank, "again %s after %s", wring_status_text(status),
              shortest < WRING_NS_PER_S ? "no time" : "a while");
}

int run_sums(struct procs_rank *rank, unsigned steps, void (*each)(struct procs_rank *, unsigned))
{
    struct wring_session *session;
    struct wring_bucket *bucket;
    void *data;
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status != WRING_OK) {
        procs_say(rank, "open %s", wring_status_text(status));
        return 2;
    }
    wring_buffer_alloc(session, ELEMS * sizeof(float), &data);
    struct wring_bucket_params params = {
        .name = "b", .data = data, .elems = ELEMS, .codec = "int8+ef"};
    wring_bucket_register(session, &params, &bucket);
    status = wring_session_commit(session);
    for (unsigned step = 0; step < steps && status == WRING_OK; step++) {
        if (each != NULL)
            each(rank, step);
        status = wring_bucket_post(bucket);
        if (status == WRING_OK)
            status = wring_bucket_wait(bucket, WRING_FOREVER, NULL);
    }
    if (status != WRING_OK) {
        procs_say_end(rank, session, status);
        say_again(rank, bucket);
    }
    wring_session_close(session);
    procs_say(rank, "closed");
    return status == WRING_OK ? 0 : 3;
}

void check_named(const char *case_name, uint32_t culprit)
{
    char want[64];
    snprintf(want, sizeof(want), ", rank %u,", culprit);
    for (uint32_t i = 0; i < job.ranks; i++) {
        if (i == culprit)
            continue;
        CHECK(strstr(job.texts[i], want) != NULL && strstr(job.texts[i], "closed") != NULL &&
                  strstr(job.texts[i], "after no time") != NULL && job.codes[i] == 3,
              "%s: rank %u (code %d) said:\n%s", case_name, i, job.codes[i], job.texts[i]);
    }
}

int run_plain(struct procs_rank *rank, void *arg)
{
    (void)arg;
    return run_sums(rank, 20, NULL);
}

void check_said(uint32_t process, int code, const char *const *wants)
{
    CHECK(job.codes[process] == code, "process %u: code %d, not %d; it said:\n%s", process,
          job.codes[process], code, job.texts[process]);
    for (; *wants != NULL; wants++)
        CHECK(strstr(job.texts[process], *wants) != NULL, "no '%s' in what process %u said:\n%s",
              *wants, process, job.texts[process]);
}

int count_left_behind(void)
{
    int n = 0;
    DIR *dir = opendir("/dev/shm");
    const struct dirent *at;
    while (dir != NULL && (at = readdir(dir)) != NULL)
        n += strstr(at->d_name, "wring") != NULL;
    if (dir != NULL)
        closedir(dir);
    return n;
}

unsigned find_ports(unsigned n)
{
    for (unsigned first = 10000 + (unsigned)getpid() % 2000 * 8; first < 32000; first += n) {
        unsigned i = 0;
        for (; i < n; i++) {
            struct sockaddr_in at = {.sin_family = AF_INET,
                                     .sin_port = htons((uint16_t)(first + i)),
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
            int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            bool is_free = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
            close(fd);
            if (!is_free)
                break;
        }
        if (i == n)
            return first;
    }
    return 0;
}
