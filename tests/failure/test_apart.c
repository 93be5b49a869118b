/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on one host that can share no memory, as they are of different users or in different
 * namespaces, talk over what leads to other hosts. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/failure/namespaces.h"
#include "tests/lib/procs.h"
#include "tests/lib/test.h"

#define DEADLINE_S 120
#define RANKS 4
#define ELEMS 60000
#define STEPS 4
#define NOBODY 65534

enum apart {
    TOGETHER,
    OTHER_USER,       /* rank 1 */
    OTHER_NAMESPACES, /* rank 1: of users, of IPC and of mounts */
    OTHER_NETWORK,    /* rank 1, on a cable of its own */
};

struct story {
    enum apart apart;
};

static struct hosts hosts; /* of OTHER_NETWORK */

static struct procs_job job;

/** @return false where the system does not let us */
static bool go_apart(enum apart how, uint32_t rank)
{
    if (how == OTHER_NETWORK)
        return hosts_enter(&hosts, rank == 1 ? 1 : 0);
    if (rank != 1 || how == TOGETHER)
        return true;
    if (how == OTHER_NAMESPACES)
        return unshare(CLONE_NEWUSER | CLONE_NEWIPC | CLONE_NEWNS) == 0;
    return setgid(NOBODY) == 0 && setuid(NOBODY) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
}

static uint64_t hash_of(const float *data, uint64_t hash)
{
    for (size_t i = 0; i < ELEMS; i++) {
        uint32_t bits;
        memcpy(&bits, &data[i], sizeof(bits));
        hash = (hash ^ bits) * 0x100000001b3u;
    }
    return hash;
}

static int run_steps(struct procs_rank *rank, void *arg)
{
    const struct story *story = arg;
    struct wring_session *session;
    struct wring_bucket *buckets[3];
    float *data[3];
    static const char *const codecs[3] = {"none", "int8+ef", "topk:ratio=0.1+ef"};
    uint64_t hash = 0xcbf29ce484222325u;

    if (!go_apart(story->apart, rank->rank)) {
        procs_say(rank, "cannot be apart: %s%s", strerror(errno),
                  errno == EINVAL ? ": a user namespace wants a process of one thread, which none "
                                    "under a sanitizer may be"
                                  : "");
        return 77;
    }
    if (story->apart == OTHER_NETWORK) {
        if (rank->params.root_fd > 0)
            close(rank->params.root_fd); /* of a network that none of us is in */
        rank->params.root_fd = 0;
        rank->params.root = "10.77.0.1:5555"; /* HOST_V4(0) */
    }
    rank->params.seed = 11;
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status != WRING_OK) {
        procs_say(rank, "open %s", wring_status_text(status));
        return 2;
    }
    for (int b = 0; b < 3; b++) {
        char name[8];
        snprintf(name, sizeof(name), "b%d", b);
        if (wring_buffer_alloc(session, ELEMS * sizeof(float), (void **)&data[b]) != WRING_OK)
            return 3;
        struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
        params.name = name;
        params.data = data[b];
        params.elems = ELEMS;
        params.codec = codecs[b];
        if (wring_bucket_register(session, &params, &buckets[b]) != WRING_OK)
            return 3;
    }
    if (wring_session_commit(session) != WRING_OK)
        return 4;
    uint32_t state = 1 + rank->rank;
    for (int step = 0; step < STEPS; step++)
        for (int b = 0; b < 3; b++) {
            for (size_t i = 0; i < ELEMS; i++)
                data[b][i] = wring_test_random_float(&state);
            if (wring_bucket_post(buckets[b]) != WRING_OK ||
                wring_bucket_wait(buckets[b], DEADLINE_S * 1000000000ull, NULL) != WRING_OK)
                return 5;
            hash = hash_of(data[b], hash);
        }
    float one = 0.1f * (float)(1 + rank->rank);
    if (wring_allreduce(wring_session_world(session), &one, &one, 1, WRING_F32, WRING_SUM, NULL,
                        NULL) != WRING_OK)
        return 6;
    procs_say(rank, "hash %016llx %a", (unsigned long long)hash, (double)one);
    wring_session_close(session);
    return 0;
}

static void run(enum apart apart, const char *const *settings)
{
    struct story story = {apart};
    memset(&job, 0, sizeof(job));
    job.ranks = RANKS;
    job.settings = settings;
    job.run = run_steps;
    job.arg = &story;
    CHECK(procs_run(&job, DEADLINE_S), "%s: hangs", settings[0]);
    for (uint32_t i = 0; i < RANKS; i++)
        if (job.codes[i] == 77)
            wring_test_skip("rank %u %s", i, job.texts[i]);
}

static const char *line_of(uint32_t rank, const char *begin)
{
    const char *at = strstr(job.texts[rank], begin);
    return at != NULL ? at : "";
}

static unsigned count(const char *what)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < RANKS; i++)
        for (const char *at = job.texts[i]; (at = strstr(at, what)) != NULL; at++)
            n++;
    return n;
}

/** All ranks come to the bits that they have where all of them share memory. */
static void check_same(const char *bits, const char *what)
{
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK(job.codes[i] == 0 && strncmp(line_of(i, "hash "), bits, strlen(bits)) == 0,
              "%s: rank %u (code %d) said, not %s:\n%s", what, i, job.codes[i], bits, job.texts[i]);
}

static void together(char *bits, size_t bytes)
{
    static const char *const shm[] = {"WRING_PROVIDER=shm", NULL};
    run(TOGETHER, shm);
    snprintf(bits, bytes, "%.50s", line_of(0, "hash "));
    bits[strcspn(bits, "\n")] = '\0';
    CHECK(bits[0] != '\0', "no result:\n%s", job.texts[0]);
    check_same(bits, "together");
}

static const char *const automatic[] = {"WRING_PROVIDER=auto", "WRING_NODE=here", NULL};
static const char *const both[] = {"WRING_PROVIDER=shm,tcp", NULL};

static void users_talk_over_tcp(void)
{
    char bits[64];
    if (geteuid() != 0)
        wring_test_skip("needs root, to become another user");
    together(bits, sizeof(bits));
    for (int i = 0; i < 2; i++) {
        run(OTHER_USER, i == 0 ? automatic : both);
        check_same(bits, "another user");
        /* rank 1 to rank 0, and ranks 2 and 3 to it */
        CHECK(count("are on one host and cannot use shm: process") == 3 &&
                  strstr(job.texts[1], "ranks 0 and 1 are on one host") != NULL &&
                  strstr(job.texts[1], "is of user 0, this one of user 65534; they use tcp") !=
                      NULL &&
                  strstr(job.texts[2], "ranks 1 and 2 are on one host") != NULL &&
                  strstr(job.texts[3], "is of user 65534, this one of user 0") != NULL,
              "%u lines:\n%s\n%s\n%s", count("cannot use shm"), job.texts[1], job.texts[2],
              job.texts[3]);
    }
}

/** Containers of one host with a network each: they count as one host by its name alone. */
static void networks_talk_over_tcp(void)
{
    char bits[64], reason[256];
    together(bits, sizeof(bits));
    if (!hosts_make(&hosts, 4, reason, sizeof(reason)))
        wring_test_skip("%s", reason);
    run(OTHER_NETWORK, automatic);
    hosts_unmake(&hosts);
    check_same(bits, "another network");
    CHECK(count("are on one host and cannot use shm: ") == 3 &&
              strstr(job.texts[1], "ranks 0 and 1 are on one host") != NULL &&
              strstr(job.texts[2], "ranks 1 and 2 are on one host") != NULL &&
              strstr(job.texts[3], "; they use tcp, which is slower. Run them as one user in one "
                                   "namespace, or give them different WRING_NODE") != NULL,
          "%u lines:\n%s\n%s\n%s", count("cannot use shm"), job.texts[1], job.texts[2],
          job.texts[3]);
}

static void shm_alone_says_why(void)
{
    static const char *const shm[] = {"WRING_PROVIDER=shm", "WRING_JOIN_TIMEOUT=20s", NULL};
    if (geteuid() != 0)
        wring_test_skip("needs root, to become another user");
    run(OTHER_USER, shm);
    /* either of two ranks may be the first one to dial the other, and say so */
    CHECK(job.codes[1] == 2 && strstr(job.texts[1], " over shm: process") &&
              (strstr(job.texts[1], "is of user 0, this one of user 65534; there is no other ") ||
               strstr(job.texts[1], "is of user 65534, this one of user 0; there is no other ")) &&
              strstr(job.texts[1], "provider that both have: see WRING_PROVIDER") != NULL,
          "rank 1 (code %d) said:\n%s", job.codes[1], job.texts[1]);
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK(job.codes[i] == 2, "rank %u (code %d) said:\n%s", i, job.codes[i], job.texts[i]);
}

static void namespaces_do_not_matter(void)
{
    char bits[64];
    together(bits, sizeof(bits));
    run(OTHER_NAMESPACES, automatic);
    check_same(bits, "other namespaces");
    run(OTHER_NAMESPACES, both);
    check_same(bits, "other namespaces");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"users_talk_over_tcp", users_talk_over_tcp},
        {"shm_alone_says_why", shm_alone_says_why},
        {"namespaces_do_not_matter", namespaces_do_not_matter},
        {"networks_talk_over_tcp", networks_talk_over_tcp},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
