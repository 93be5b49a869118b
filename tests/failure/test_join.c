/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that never come, or end while others join. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
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

/** Rank 1 joins, contributes to the first exchange and is gone before rank 2 comes. */
static int run_dying(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->rank == 1 && fork() == 0) {
        usleep(300000);
        kill(getppid(), SIGKILL);
        _exit(0);
    }
    if (rank->rank == 2)
        usleep(800000); /* late, but it must hear of it as well */
    if (rank->rank == 3)
        pause(); /* never comes */
    return exchange(rank, 20, NULL);
}

static void end_the_sleeper(const struct procs_job *running)
{
    sleep(3);
    kill(running->pids[3], SIGKILL);
}

static void rank_that_dies_while_others_join_is_named(void)
{
    start(4, tcp, run_dying); /* WRING_JOIN_TIMEOUT is a minute */
    job.meddle = end_the_sleeper;
    CHECK(procs_run(&job, DEADLINE_S / 2), "noticed only at the deadline");
    CHECK(job.codes[1] == -SIGKILL, "code %d", job.codes[1]);
    for (uint32_t i = 0; i < 3; i += 2)
        SAID(i, 2, "rank 1 ended while the others were joining", "open peer lost");
}

static int run_for_long(struct procs_rank *rank, void *arg)
{
    (void)arg;
    return exchange(rank, 1000000, NULL);
}

static useconds_t kill_after_us;
static uint32_t victim;

static void kill_the_victim(const struct procs_job *running)
{
    usleep(kill_after_us);
    kill(running->pids[victim], SIGKILL);
}

/** A rank is named, and nobody had to wait for it in vain, unless it had never joined. */
static void check_blamed(uint32_t rank, const char *provider)
{
    char named[16];
    snprintf(named, sizeof(named), "rank %u", victim);
    const char *text = job.texts[rank];
    const char *in_vain = strstr(text, " in time");
    CHECK(job.codes[rank] >= 2 && strstr(text, named) != NULL &&
              (in_vain == NULL || strstr(text, "did not join in time") != NULL),
          "%s, killed rank %u after %u us; rank %u (code %d) said:\n%s", provider, victim,
          kill_after_us, rank, job.codes[rank], text);
    for (uint32_t other = 0; other < 4; other++) {
        char lost[3][48];
        snprintf(lost[0], sizeof(lost[0]), "no connection to rank %u ", other);
        snprintf(lost[1], sizeof(lost[1]), "rank %u is lost", other);
        snprintf(lost[2], sizeof(lost[2]), "rank %u ended", other);
        for (int i = 0; i < 3 && other != victim; i++)
            CHECK(strstr(text, lost[i]) == NULL,
                  "%s, killed rank %u after %u us; rank %u blames another:\n%s", provider, victim,
                  kill_after_us, rank, text);
    }
}

static const char *const tcp_soon[] = {"WRING_PROVIDER=tcp", "WRING_JOIN_TIMEOUT=5s", NULL};
static const char *const shm_soon[] = {"WRING_PROVIDER=shm", "WRING_JOIN_TIMEOUT=5s", NULL};

/** Whatever the job was doing: meeting, connecting, making its group, committing, exchanging. */
static void rank_killed_at_any_moment_is_named(void)
{
    for (unsigned i = 0; i < 40; i++) {
        const char *const *settings = i % 2 == 0 ? tcp_soon : shm_soon;
        start(4, settings, run_for_long);
        victim = 1 + i % 3;
        kill_after_us = (2 + i) * 1000; /* earlier it has not joined, and is waited for */
        job.meddle = kill_the_victim;
        CHECK(procs_run(&job, DEADLINE_S), "%s, killed after %u us: hangs", settings[0],
              kill_after_us);
        for (uint32_t r = 0; r < 4; r++)
            if (r != victim)
                check_blamed(r, settings[0]);
    }
}

/** The port may still be open when the root is gone, as it was made by others. */
static void root_killed_at_any_moment_is_named(void)
{
    for (unsigned i = 0; i < 20; i++) {
        const char *const *settings = i % 2 == 0 ? tcp_soon : shm_soon;
        start(4, settings, run_for_long);
        victim = 0;
        kill_after_us = (2 + 2 * i) * 1000;
        job.meddle = kill_the_victim;
        CHECK(procs_run(&job, DEADLINE_S), "%s, killed after %u us: hangs", settings[0],
              kill_after_us);
        for (uint32_t r = 1; r < 4; r++)
            check_blamed(r, settings[0]);
    }
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
    return wring_test_main(argc, argv, cases);
}
