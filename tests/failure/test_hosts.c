/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on two hosts, which are network namespaces, and a cable that can be pulled. */
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/failure/failing_job.h"
#include "tests/failure/namespaces.h"
#include "tests/lib/test.h"

#define RANKS 4      /* 0 and 1 on host 0, 2 and 3 on host 1 */
#define STEPS_MIN 20 /* with a cable all the time */
#define CUT_AT 10
#define STEPS_AFTER 100 /* when the cable is back */
#define STILL_NS (3 * WRING_NS_PER_S / 2)
#define PATIENCE_NS (30 * WRING_NS_PER_S)
#define COUNT 50000

static struct hosts hosts;
static const char *root;
static uint64_t cut_ns;

/** What a job's processes and we see. */
struct shared {
    atomic_uint step;   /* that rank 0 is in */
    atomic_uint last;   /* of all */
    atomic_bool enough; /* after STEPS_MIN, of course */
};

static struct shared *shared;

static const char *const watchful[] = {"WRING_HEARTBEAT=100ms", "WRING_PEER_TIMEOUT=5s", NULL};
static const char *const patient[] = {"WRING_HEARTBEAT=100ms", "WRING_PEER_TIMEOUT=25s", NULL};
static const char *const in_nodes[] = {"WRING_HEARTBEAT=100ms", "WRING_PEER_TIMEOUT=5s",
                                       "WRING_SCHEME=hierarchical", NULL};
static const char *const over_tcp[] = {"WRING_PROVIDER=tcp", NULL};

static float value(uint32_t rank, unsigned step, size_t i)
{
    return (float)(rank + 1) * (float)(1 + (step + i) % 13);
}

static void fill(float *data, uint32_t rank, unsigned step)
{
    for (size_t i = 0; i < COUNT; i++)
        data[i] = value(rank, step, i);
}

/** Small whole numbers: their sum is exact. */
static size_t count_wrong(const float *data, unsigned step)
{
    size_t wrong = 0;
    for (size_t i = 0; i < COUNT; i++) {
        float want = 0;
        for (uint32_t rank = 0; rank < RANKS; rank++)
            want += value(rank, step, i);
        wrong += data[i] != want;
    }
    return wrong;
}

/** Rank 0 says which step is the last one, early enough: in the step before, which all share. */
static bool goes_on(const struct procs_rank *rank, unsigned step)
{
    if (rank->index == 0) {
        bool ends = step >= STEPS_MIN && atomic_load(&shared->enough);
        atomic_store(&shared->step, step);
        if (ends && atomic_load(&shared->last) == UINT_MAX)
            atomic_store(&shared->last, step + 1);
    }
    return step <= atomic_load(&shared->last);
}

static enum wring_status step_once(struct procs_rank *rank, struct wring_bucket *bucket,
                                   float *data, unsigned step)
{
    fill(data, rank->rank, step);
    enum wring_status status = wring_bucket_post(bucket);
    if (status == WRING_OK)
        status = wring_bucket_wait(bucket, WRING_FOREVER, NULL);
    if (status == WRING_OK && count_wrong(data, step) > 0)
        procs_say(rank, "step %u: %zu wrong", step, count_wrong(data, step));
    return status;
}

/** In the session that has failed: who, and does anything still block? */
static void say_failure(struct procs_rank *rank, struct wring_session *session,
                        struct wring_bucket *bucket, enum wring_status status)
{
    procs_say_end(rank, session, status);
    say_again(rank, bucket);
}

static void say_scheme(struct procs_rank *rank, struct wring_bucket *bucket)
{
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    if (wring_bucket_stats(bucket, &stats) == WRING_OK)
        procs_say(rank, "went %s over %s", stats.scheme, stats.provider);
}

static int run_there(struct procs_rank *rank, int host)
{
    struct wring_session *session;
    struct wring_bucket *bucket;
    void *data;

    if (rank->params.root_fd > 0)
        close(rank->params.root_fd); /* on the loopback of another host */
    rank->params.root_fd = 0;
    rank->params.root = root;
    if (!hosts_enter(&hosts, host)) {
        procs_say(rank, "cannot enter host %d", host);
        return 9;
    }
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status != WRING_OK) {
        procs_say(rank, "open %s", wring_status_text(status));
        return 2;
    }
    wring_buffer_alloc(session, COUNT * sizeof(float), &data);
    struct wring_bucket_params params = {.name = "b", .data = data, .elems = COUNT};
    wring_bucket_register(session, &params, &bucket);
    status = wring_session_commit(session);
    for (unsigned step = 0; status == WRING_OK && goes_on(rank, step); step++)
        status = step_once(rank, bucket, data, step);
    if (status != WRING_OK)
        say_failure(rank, session, bucket, status);
    else
        say_scheme(rank, bucket);
    wring_session_close(session);
    procs_say(rank, "closed");
    return status == WRING_OK ? 0 : 3;
}

static int run_on_two_hosts(struct procs_rank *rank, void *arg)
{
    (void)arg;
    return run_there(rank, rank->index / 2);
}

/** The job is in the middle of it; false where it never gets there. */
static bool await_step(unsigned step)
{
    uint64_t limit = wring_deadline_in(PATIENCE_NS);
    while (atomic_load(&shared->step) < step && wring_now_ns() < limit)
        usleep(10000);
    return atomic_load(&shared->step) >= step;
}

/** What was under way has come; then nothing happens for a while. False where it goes on. */
static bool stands_still(void)
{
    uint64_t since = wring_now_ns(), limit = wring_deadline_in(PATIENCE_NS / 3);
    unsigned step = atomic_load(&shared->step);
    while (wring_now_ns() < limit && wring_now_ns() - since < STILL_NS) {
        usleep(10000);
        if (atomic_load(&shared->step) != step) {
            step = atomic_load(&shared->step);
            since = wring_now_ns();
        }
    }
    return wring_now_ns() - since >= STILL_NS;
}

/** @param enough  false: it goes on until somebody says so */
static void begin(int family, const char *at, const char *const *settings,
                  int (*run)(struct procs_rank *, void *), bool enough)
{
    char reason[256];
    bool made = hosts_make(&hosts, family, reason, sizeof(reason));
    CHECK(made, "%s", reason);
    atomic_store(&shared->step, 0);
    atomic_store(&shared->last, UINT_MAX);
    atomic_store(&shared->enough, enough);
    root = at;
    start(RANKS, settings, run);
}

static void check_all_right(const char *name)
{
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK(job.codes[i] == 0 && strstr(job.texts[i], "wrong") == NULL,
              "%s: rank %u (code %d) said:\n%s", name, i, job.codes[i], job.texts[i]);
}

static void pull(const struct procs_job *running)
{
    (void)running;
    CHECK(await_step(CUT_AT), "the job does not begin");
    CHECK(hosts_plug(&hosts, false), "the cable cannot be pulled");
    cut_ns = wring_now_ns();
}

static void cut_link_is_named_on_both_sides(void)
{
    begin(4, "10.77.0.1:5555", watchful, run_on_two_hosts, false);
    job.meddle = pull;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    uint64_t took_ns = wring_now_ns() - cut_ns;
    CHECK(took_ns < 20 * WRING_NS_PER_S, "noticed after %.1f s only", (double)took_ns / 1e9);
    for (uint32_t i = 0; i < RANKS; i++) {
        const char *far[] = {i < 2 ? "peer lost, rank 2, rank 2 gave no sign of life"
                                   : "peer lost, rank 0, rank 0 gave no sign of life",
                             i < 2 ? "peer lost, rank 3, rank 3 gave no sign of life"
                                   : "peer lost, rank 1, rank 1 gave no sign of life"};
        SAID(i, 3, "cut off", "after no time", "closed");
        CHECK(strstr(job.texts[i], far[0]) != NULL || strstr(job.texts[i], far[1]) != NULL,
              "rank %u names nobody on the other side:\n%s", i, job.texts[i]);
    }
    hosts_unmake(&hosts);
}

static void hosts_add_up_within_themselves_first(void)
{
    begin(4, "10.77.0.1:5555", in_nodes, run_on_two_hosts, true);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    check_all_right("hierarchically");
    for (uint32_t i = 0; i < RANKS; i++)
        SAID(i, 0, "went hierarchical-", "over shm,tcp");
    hosts_unmake(&hosts);
}

static void pull_and_plug_in_again(const struct procs_job *running)
{
    pull(running);
    CHECK(stands_still(), "it goes on without the cable");
    CHECK(hosts_plug(&hosts, true), "the cable cannot be plugged in");
    CHECK(await_step(atomic_load(&shared->step) + STEPS_AFTER), "it does not go on with the cable");
    atomic_store(&shared->enough, true);
}

static void link_that_returns_in_time_harms_nothing(void)
{
    begin(4, "10.77.0.1:5555", patient, run_on_two_hosts, false);
    job.meddle = pull_and_plug_in_again;
    CHECK(procs_run(&job, 2 * DEADLINE_S), "hangs");
    check_all_right("cut for two seconds");
    hosts_unmake(&hosts);
}

static void ipv6_alone_is_enough(void)
{
    begin(6, "[fd00:77::1]:5555", over_tcp, run_on_two_hosts, true);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    check_all_right("IPv6 alone");
    hosts_unmake(&hosts);
}

/** Rank 0 knows its own host by a loopback address only, as many systems do; others know better. */
static int run_with_names(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (!hosts_name(rank->index == 0 ? "127.0.0.1 localhost\n127.0.1.1 head\n"
                                     : "127.0.0.1 localhost\n10.77.0.1 head\n")) {
        procs_say(rank, "cannot give names");
        return 9;
    }
    return run_there(rank, rank->index > 0);
}

static void root_may_know_its_name_as_loopback(void)
{
    begin(4, "head:5555", over_tcp, run_with_names, true);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    check_all_right("a name of the root");
    hosts_unmake(&hosts);
}

/** A name with two addresses, of which the first cannot be used on this host. */
static int run_with_two_addresses(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (!hosts_name("127.0.0.1 localhost\n::1 localhost\n")) {
        procs_say(rank, "cannot give names");
        return 9;
    }
    return run_there(rank, 1);
}

static void address_that_is_not_here_is_passed_over(void)
{
    begin(6, "localhost:5555", over_tcp, run_with_two_addresses, true);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    check_all_right("localhost without 127.0.0.1");
    hosts_unmake(&hosts);
}

/** Ranks 0 and 1 meet at an address that only their own host knows; others by another one. */
static void check_three_interfaces(int family, const char *list)
{
    static const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_LOG=info",
                                           "WRING_JOIN_TIMEOUT=20s", NULL};
    begin(family, list, settings, run_on_two_hosts, true);
    CHECK(hosts_add_interfaces(&hosts, family), "cannot add interfaces");
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    check_all_right(list);
    for (uint32_t i = 0; i < RANKS; i++) {
        char want[64];
        snprintf(want, sizeof(want), family == 6 ? "listening on [%s]:" : "listening on %s:",
                 family == 6 ? HOST_V6(i / 2) : HOST_V4(i / 2));
        SAID(i, 0, want);
    }
    hosts_unmake(&hosts);
}

static void interface_that_reaches_the_others_is_used(void)
{
    check_three_interfaces(4, "172.31.0.1:5555,10.98.0.1:5555,10.77.0.1:5555");
    check_three_interfaces(6, "[fd00:31::1]:5555,[fd00:98::1]:5555,[fd00:77::1]:5555");
}

/** A host's own name, which it knows as loopback, and other hosts by an address. */
static int run_with_names_everywhere(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (!hosts_name(rank->index < 2 ? "127.0.0.1 localhost\n127.0.1.1 head\n"
                                    : "127.0.0.1 localhost\n10.77.0.1 head\n")) {
        procs_say(rank, "cannot give names");
        return 9;
    }
    return run_there(rank, rank->index / 2);
}

static void ranks_beside_the_root_are_reached_as_it_is(void)
{
    begin(4, "head:5555", over_tcp, run_with_names_everywhere, true);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    check_all_right("a name that is loopback here");
    hosts_unmake(&hosts);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"cut_link_is_named_on_both_sides", cut_link_is_named_on_both_sides},
        {"hosts_add_up_within_themselves_first", hosts_add_up_within_themselves_first},
        {"link_that_returns_in_time_harms_nothing", link_that_returns_in_time_harms_nothing},
        {"ipv6_alone_is_enough", ipv6_alone_is_enough},
        {"root_may_know_its_name_as_loopback", root_may_know_its_name_as_loopback},
        {"address_that_is_not_here_is_passed_over", address_that_is_not_here_is_passed_over},
        {"interface_that_reaches_the_others_is_used", interface_that_reaches_the_others_is_used},
        {"ranks_beside_the_root_are_reached_as_it_is", ranks_beside_the_root_are_reached_as_it_is},
        {NULL, NULL},
    };
    char reason[256];
    for (int family = 4; family <= 6; family += 2) {
        if (!hosts_make(&hosts, family, reason, sizeof(reason)))
            wring_test_skip("%s", reason);
        hosts_unmake(&hosts);
    }
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : wring_test_main(argc, argv, cases);
}
