/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that never come, or are not what they say. */
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
        CHECK(strstr(job.texts[i], "rank 3 did not join") != NULL && job.codes[i] == 2,
              "rank %u (code %d) said:\n%s", i, job.codes[i], job.texts[i]);
}

static int run_wrong_key(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->rank == 1)
        rank->params.key = "another key";
    return exchange(rank, 20, NULL);
}

static void wrong_key_is_refused(void)
{
    start(3, impatient, run_wrong_key);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    CHECK(strstr(job.texts[1], "WRING_KEY") != NULL && job.codes[1] == 2, "rank 1 said:\n%s",
          job.texts[1]);
    for (uint32_t i = 0; i < 3; i += 2)
        CHECK(strstr(job.texts[i], "rank 1 did not join") != NULL && job.codes[i] == 2,
              "rank %u said:\n%s", i, job.texts[i]);
}

static int run_same_rank(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->index == 2)
        rank->params.rank = 1;
    return exchange(rank, 20, NULL);
}

static void rank_given_twice_is_named(void)
{
    start(3, impatient, run_same_rank);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    CHECK(strstr(job.texts[0], "two processes joined as rank 1") != NULL, "rank 0 said:\n%s",
          job.texts[0]);
}

static int run_wrong_size(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->rank == 1)
        rank->params.size = 5;
    return exchange(rank, 20, NULL);
}

static void wrong_size_is_named(void)
{
    start(3, impatient, run_wrong_size);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    CHECK(strstr(job.texts[0], "says that the job has 5 ranks") != NULL, "rank 0 said:\n%s",
          job.texts[0]);
}

static int run_no_key(struct procs_rank *rank, void *arg)
{
    (void)arg;
    rank->params.key = NULL;
    rank->params.root = "192.0.2.1:5555"; /* documentation's; nobody is asked */
    if (rank->params.root_fd > 0)
        close(rank->params.root_fd);
    rank->params.root_fd = 0;
    return exchange(rank, 1, NULL);
}

static void no_key_means_loopback_only(void)
{
    start(2, impatient, run_no_key);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < 2; i++)
        CHECK(strstr(job.texts[i], "WRING_KEY") != NULL && job.codes[i] == 2, "rank %u said:\n%s",
              i, job.texts[i]);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"missing_rank_is_named", missing_rank_is_named},
        {"wrong_key_is_refused", wrong_key_is_refused},
        {"rank_given_twice_is_named", rank_given_twice_is_named},
        {"wrong_size_is_named", wrong_size_is_named},
        {"no_key_means_loopback_only", no_key_means_loopback_only},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
