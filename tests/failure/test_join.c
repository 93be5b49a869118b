/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that never come, or end while others join. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/failure/failing_job.h"
#include "tests/lib/test.h"

static void missing_rank_is_named(void)
{
    start(4, impatient, run_plain);
    job.processes = 3;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < 3; i++)
        SAID(i, 2, "rank 3 did not join in time", "3 of 4 are here", "open peer lost");
}

static void missing_ranks_are_all_named(void)
{
    start(5, impatient, run_plain);
    job.processes = 2;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < 2; i++)
        SAID(i, 2, "ranks 2, 3, 4 did not join in time", "2 of 5 are here");
}

#define JOBS 5

static useconds_t kill_after_us;
static uint32_t victim;

/** What a job's processes and we see. */
struct shared {
    atomic_bool has_joined; /* the victim; of rank 0: everybody */
    atomic_bool is_gone;    /* the victim */
};

static struct shared *shared;

/** The root's log, which tells who has joined. */
static void log_joining(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    char want[32];
    snprintf(want, sizeof(want), "rank %u joined", victim);
    if (strstr(text, victim == 0 ? "joined from 127.0.0.1, 4 of 4" : want) != NULL)
        atomic_store(&shared->has_joined, true);
    if (level <= WRING_LOG_WARN)
        procs_say(arg, "log %s: %s", module, text);
}

static bool await(atomic_bool *flag)
{
    for (int i = 0; i < 20000 && !atomic_load(flag); i++)
        usleep(1000);
    return atomic_load(flag);
}

static void kill_the_victim(const struct procs_job *running)
{
    CHECK(await(&shared->has_joined), "rank %u does not join", victim);
    usleep(kill_after_us);
    kill(running->pids[victim], SIGKILL);
}

static int run_for_long(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->index == 0)
        rank->params.log = log_joining;
    return run_sums(rank, 1000000, NULL);
}

/** Is that said of a cause? The account of where each rank is (module where) has other ranks, too,
 *  that had heard of the cause and were gone when it was drawn up. */
static bool is_blamed(const char *text, const char *blame)
{
    static const char account[] = "log where: ";
    for (const char *at = text; (at = strstr(at, blame)) != NULL; at++) {
        const char *line = at;
        while (line != text && line[-1] != '\n')
            line--;
        if (strncmp(line, account, sizeof(account) - 1) != 0)
            return true;
    }
    return false;
}

/** The victim is named and nobody else, and nobody waited for it in vain. */
static void check_blamed(uint32_t rank, const char *provider)
{
    static const char *const causes[] = {"no connection to rank %u ", "rank %u is lost",
                                         "rank %u ended", "rank %u did not", "to rank %u:"};
    const char *text = job.texts[rank];
    char named[16];

    snprintf(named, sizeof(named), "rank %u", victim);
    CHECK(job.codes[rank] >= 2 && strstr(text, named) != NULL && strstr(text, " in time") == NULL,
          "%s, killed rank %u after %u us; rank %u (code %d) said:\n%s", provider, victim,
          kill_after_us, rank, job.codes[rank], text);
    for (uint32_t other = 0; other < 4; other++)
        for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]) && other != victim; i++) {
            char blame[48], *at = blame;
            for (const char *from = causes[i]; *from != '\0'; from++)
                if (from[0] == '%' && from[1] == 'u')
                    *at++ = (char)('0' + other), from++;
                else
                    *at++ = *from;
            *at = '\0';
            CHECK(!is_blamed(text, blame),
                  "%s, killed rank %u after %u us; rank %u blames another:\n%s", provider, victim,
                  kill_after_us, rank, text);
        }
}

/** A job of four whose victim is to be killed a while after it has joined. */
static void start_with_victim(uint32_t rank, useconds_t after_us, const char *const *settings,
                              int (*run)(struct procs_rank *, void *))
{
    start(4, settings, run);
    victim = rank;
    kill_after_us = after_us;
    atomic_store(&shared->has_joined, false);
    atomic_store(&shared->is_gone, false);
    job.meddle = kill_the_victim;
}

static void kill_one(uint32_t rank, useconds_t after_us, const char *const *settings)
{
    start_with_victim(rank, after_us, settings, run_for_long);
    CHECK(procs_run(&job, DEADLINE_S), "%s, killed after %u us: hangs", settings[0], after_us);
    for (uint32_t r = 0; r < 4; r++)
        if (r != victim)
            check_blamed(r, settings[0]);
}

static const char *const tcp_loud[] = {"WRING_PROVIDER=tcp", "WRING_LOG=debug", NULL};
static const char *const shm_loud[] = {"WRING_PROVIDER=shm", "WRING_LOG=debug", NULL};

/** Rank 2 is late, but must hear of it as well. */
static int run_dying(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->rank == 0)
        rank->params.log = log_joining;
    if (rank->rank == 2 && !await(&shared->is_gone))
        return 9;
    if (rank->rank == 2)
        rank->settings[3] = "WRING_JOIN_TIMEOUT=8s"; /* behind the job's; of rank 0, a minute */
    if (rank->rank == 3)
        pause(); /* never comes */
    return run_sums(rank, 20, NULL);
}

static void kill_one_before_the_next_comes(const struct procs_job *running)
{
    kill_the_victim(running);
    CHECK(procs_await_end(running, victim, DEADLINE_S / 2), "it cannot be killed");
    atomic_store(&shared->is_gone, true);
    for (uint32_t i = 0; i < 3; i += 2)
        CHECK(procs_await_end(running, i, DEADLINE_S / 2), "rank %u waits on", i);
    kill(running->pids[3], SIGKILL);
}

/** Rank 1 joins, contributes to the first exchange and is gone before rank 2 comes. */
static void rank_that_dies_while_others_join_is_named(void)
{
    bool late = true; /* rank 2, for whom rank 0 stays three seconds */

    for (int i = 0; i < JOBS && late; i++) {
        start_with_victim(1, 200000, tcp_loud, run_dying);
        job.meddle = kill_one_before_the_next_comes;
        CHECK(procs_run(&job, DEADLINE_S), "hangs");
        late = strstr(job.texts[2], "could not reach rank 0 at") != NULL;
    }
    CHECK(job.codes[1] == -SIGKILL, "code %d", job.codes[1]);
    for (uint32_t i = 0; i < 3; i += 2)
        SAID(i, 2, "rank 1 ended while the others were joining", "open peer lost");
}

/** Whatever the job was doing: meeting, connecting, making its group, committing, exchanging. */
static void rank_killed_at_any_moment_is_named(void)
{
    for (unsigned i = 0; i < 48; i++)
        kill_one(1 + i % 3, i / 2 * 500, i % 2 == 0 ? tcp_loud : shm_loud);
}

static void root_killed_at_any_moment_is_named(void)
{
    for (unsigned i = 0; i < 24; i++)
        kill_one(0, 1000 + i / 2 * 1000, i % 2 == 0 ? tcp_loud : shm_loud);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"missing_rank_is_named", missing_rank_is_named},
        {"missing_ranks_are_all_named", missing_ranks_are_all_named},
        {"rank_that_dies_while_others_join_is_named", rank_that_dies_while_others_join_is_named},
        {"rank_killed_at_any_moment_is_named", rank_killed_at_any_moment_is_named},
        {"root_killed_at_any_moment_is_named", root_killed_at_any_moment_is_named},
        {NULL, NULL},
    };
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : wring_test_main(argc, argv, cases);
}
