/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that die, hang or leave. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/failure/failing_job.h"
#include "tests/lib/test.h"

#define END_S 30 /* longer than WRING_PEER_TIMEOUT and what the loaded machine adds */

static const char *const tcp_watchful[] = {"WRING_PROVIDER=tcp", "WRING_HEARTBEAT=100ms",
                                           "WRING_PEER_TIMEOUT=5s", NULL};
static const char *const shm_watchful[] = {"WRING_PROVIDER=shm", "WRING_HEARTBEAT=100ms",
                                           "WRING_PEER_TIMEOUT=5s", NULL};

static void die_in_step_3(struct procs_rank *rank, unsigned step)
{
    if (rank->rank == 1 && step == 3)
        kill(getpid(), SIGKILL);
}

static int run_killed(struct procs_rank *rank, void *arg)
{
    (void)arg;
    return run_sums(rank, 1000000, die_in_step_3);
}

static void killed_rank_is_named(void)
{
    const char *const *both[] = {tcp, shm};
    int before = count_left_behind();
    for (int i = 0; i < 2; i++) {
        start(4, both[i], run_killed);
        CHECK(procs_run(&job, DEADLINE_S), "hangs: %s", both[i][0]);
        CHECK(job.codes[1] == -SIGKILL, "code %d", job.codes[1]);
        check_named(both[i][0], 1);
    }
    CHECK(count_left_behind() <= before, "something was left in /dev/shm");
}

#define MANY 9
#define PIECE 32 /* elements */

/** What goes through other ranks, with each rank as root in turn. */
static enum wring_status call_small(struct wring_group *world, unsigned step, float *in, float *out)
{
    uint32_t root = step / 5 % MANY;

    switch (step % 5) {
    case 0:
        return wring_reduce(world, in, out, PIECE, WRING_F32, WRING_SUM, root, NULL, NULL);
    case 1:
        return wring_gather(world, in, out, PIECE, WRING_F32, root, NULL, NULL);
    case 2:
        return wring_scatter(world, in, out, PIECE, WRING_F32, root, NULL, NULL);
    case 3:
        return wring_allgather(world, in, out, PIECE, WRING_F32, NULL, NULL);
    default:
        return wring_alltoall(world, in, out, PIECE, WRING_F32, NULL, NULL);
    }
}

static int run_small_calls(struct procs_rank *rank, void *arg)
{
    unsigned last = *(const unsigned *)arg;
    float in[MANY * PIECE] = {0}, out[MANY * PIECE];
    struct wring_session *session;
    enum wring_status status = wring_session_open(&rank->params, &session);

    for (unsigned step = 0; status == WRING_OK; step++) {
        if (rank->rank == 5 && step == last)
            kill(getpid(), SIGKILL);
        status = call_small(wring_session_world(session), step, in, out);
    }
    procs_say_end(rank, session, status);
    wring_session_close(session);
    return 3;
}

/** Before a call of each kind. */
static void rank_killed_between_small_calls_is_named(void)
{
    for (unsigned last = 20; last < 25; last++) {
        start(MANY, tcp, run_small_calls);
        job.arg = &last;
        CHECK(procs_run(&job, DEADLINE_S), "hangs: call %u", last);
        for (uint32_t i = 0; i < MANY; i++)
            if (i != 5)
                SAID(i, 3, ", rank 5,");
    }
}

static void stop_in_step_3(struct procs_rank *rank, unsigned step)
{
    if (rank->rank == 2 && step == 3)
        kill(getpid(), SIGSTOP);
}

static int run_stopped(struct procs_rank *rank, void *arg)
{
    (void)arg;
    return run_sums(rank, 1000000, stop_in_step_3);
}

/** The others are gone when it goes on. */
static void wake_later(const struct procs_job *running)
{
    for (uint32_t i = 0; i < 2; i++)
        CHECK(procs_await_end(running, i, END_S), "rank %u waits for the stopped one", i);
    kill(running->pids[2], SIGCONT);
}

static void stopped_rank_is_named(void)
{
    const char *const *both[] = {tcp_watchful, shm_watchful};
    for (int i = 0; i < 2; i++) {
        start(3, both[i], run_stopped);
        job.meddle = wake_later;
        CHECK(procs_run(&job, DEADLINE_S), "hangs: %s", both[i][0]);
        check_named(both[i][0], 2);
        CHECK(strstr(job.texts[2], "end ") != NULL && job.codes[2] == 3,
              "the stopped rank (code %d) said:\n%s", job.codes[2], job.texts[2]);
    }
}

static int run_leaving(struct procs_rank *rank, void *arg)
{
    (void)arg;
    return run_sums(rank, rank->rank == 1 ? 5 : 1000000, NULL);
}

static void rank_that_leaves_early_is_named(void)
{
    const char *const *both[] = {tcp, shm};
    for (int i = 0; i < 2; i++) {
        start(3, both[i], run_leaving);
        CHECK(procs_run(&job, DEADLINE_S), "hangs: %s", both[i][0]);
        CHECK(job.codes[1] == 0, "the leaving rank said:\n%s", job.texts[1]);
        check_named(both[i][0], 1);
    }
}

static const char *const slow_link[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=rate=20mbit", NULL};

/** Each rank closes right after its last wait, while others still receive over slow links. */
static int run_short(struct procs_rank *rank, void *arg)
{
    (void)arg;
    return run_sums(rank, 2, NULL);
}

static void closing_after_the_last_wait_harms_nobody(void)
{
    for (int i = 0; i < 5; i++) {
        start(4, slow_link, run_short);
        CHECK(procs_run(&job, DEADLINE_S), "hangs");
        for (uint32_t r = 0; r < 4; r++)
            CHECK(job.codes[r] == 0, "rank %u (code %d) said:\n%s", r, job.codes[r], job.texts[r]);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"killed_rank_is_named", killed_rank_is_named},
        {"rank_killed_between_small_calls_is_named", rank_killed_between_small_calls_is_named},
        {"stopped_rank_is_named", stopped_rank_is_named},
        {"rank_that_leaves_early_is_named", rank_that_leaves_early_is_named},
        {"closing_after_the_last_wait_harms_nobody", closing_after_the_last_wait_harms_nobody},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
