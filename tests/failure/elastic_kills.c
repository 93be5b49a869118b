/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that a seed makes up: ranks are killed at random, one, two at once or one more while the
 * others agree, and the rest goes on. elastic_kills COUNT [FIRST_SEED]
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/failure/elastic_job.h"
#include "tests/lib/test.h"

#define COUNT 10 /* without arguments */

static unsigned n_rounds = COUNT;
static uint32_t first_seed = 1;

static uint32_t below(uint32_t *random, uint32_t n)
{
    return wring_test_random(random) % n;
}

/** Not rank `other`. */
static uint32_t pick_rank(uint32_t *random, uint32_t ranks, uint32_t other)
{
    uint32_t rank = below(random, ranks);
    return rank == other ? (rank + 1) % ranks : rank;
}

static void make_deaths(uint32_t *random, uint32_t ranks, struct elastic_plan *plan)
{
    uint32_t how = below(random, 4), who = pick_rank(random, ranks, UINT32_MAX);
    struct elastic_death death = {.step = below(random, plan->steps - 1),
                                  .after_us = below(random, 4000)};

    plan->deaths[who] = death;
    if (how == 0 || ranks < 3)
        return;
    uint32_t another = pick_rank(random, ranks, who);
    if (how == 1)
        plan->deaths[another] = death;
    else if (how == 2)
        plan->deaths[another] = (struct elastic_death){
            .step = death.step, .in_shrink = true, .after_us = below(random, 20000)};
}

static void run_round(uint32_t seed)
{
    static const char *const codecs[] = {NULL,      "int8", "int8+ef", "onebit+ef",
                                         "topk+ef", "bf16", NULL,      "fp16"};
    static const char *const providers[] = {"WRING_PROVIDER=tcp", "WRING_PROVIDER=shm"};
    static const char *const progress[] = {"WRING_PROGRESS=thread", "WRING_PROGRESS=caller"};
    struct elastic_plan *plan = elastic_plan_new();
    uint32_t random = seed * 2654435761u + 1, ranks = 2 + below(&random, 4);
    const char *settings[] = {providers[below(&random, 2)], progress[below(&random, 8) == 0],
                              "WRING_ROLLBACK=on", "WRING_JOIN_TIMEOUT=20s", NULL};
    char name[160];

    plan->steps = 4 + below(&random, 8);
    plan->elems = 1 + below(&random, below(&random, 2) == 0 ? 2000 : 120000);
    plan->codec = codecs[below(&random, 8)];
    plan->input = (enum elastic_input)below(&random, 3);
    plan->out_of_place = below(&random, 2) == 0;
    plan->refills = below(&random, 4) == 0;
    make_deaths(&random, ranks, plan);
    snprintf(name, sizeof(name), "seed %u: %u ranks, %s, %s, codec %s, %u elements", seed, ranks,
             settings[0], settings[1], plan->codec != NULL ? plan->codec : "none",
             (unsigned)plan->elems);
    elastic_check(name, ranks, settings, plan);
}

static void whoever_is_killed_the_others_go_on(void)
{
    int before = count_left_behind();

    for (unsigned i = 0; i < n_rounds; i++) {
        run_round(first_seed + i);
        if (n_rounds > COUNT && (i + 1) % 50 == 0)
            printf("%u jobs\n", i + 1);
        fflush(stdout);
    }
    CHECK(count_left_behind() <= before, "something was left in /dev/shm");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"whoever_is_killed_the_others_go_on", whoever_is_killed_the_others_go_on},
        {NULL, NULL},
    };
    if (argc > 1)
        n_rounds = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = (uint32_t)strtoul(argv[2], NULL, 10);
    return wring_test_main(1, argv, cases);
}
