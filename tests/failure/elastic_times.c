/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long it takes until the others go on: elastic_times PROVIDER ELEMENTS CODEC [WRING_X=VALUE]
 * kills each of four ranks in turn while the others wait for it in a step, and prints times after
 * the death.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/failure/elastic_job.h"
#include "tests/lib/test.h"

#define RANKS 4

static char provider[64] = "WRING_PROVIDER=tcp";
static const char *further, *codec;
static uint64_t elems = 1 << 20;

static double largest_ms(const atomic_ullong *times)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < RANKS; i++)
        largest = atomic_load(&times[i]) > largest ? atomic_load(&times[i]) : largest;
    return (double)largest / 1e6;
}

static void the_others_go_on(void)
{
    for (uint32_t who = 0; who < RANKS; who++) {
        struct elastic_plan *plan = elastic_plan_new();
        const char *settings[] = {provider, "WRING_ROLLBACK=on", further, NULL};
        char name[32];

        plan->elems = elems;
        plan->codec = codec;
        plan->out_of_place = true;
        plan->input = ELASTIC_CONSTANT;
        plan->steps = 3;
        plan->deaths[who] = (struct elastic_death){.step = 1, .awaited = true, .after_us = 500};
        snprintf(name, sizeof(name), "rank %u killed", who);
        elastic_check(name, RANKS, settings, plan);
        printf("%s: error %.1f ms, new session %.1f ms, right sum %.1f ms; a step took %.1f ms\n",
               name, largest_ms(plan->error_ns), largest_ms(plan->shrunk_ns),
               largest_ms(plan->summed_ns), largest_ms(plan->step_ns));
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"the_others_go_on", the_others_go_on},
        {NULL, NULL},
    };
    if (argc > 1)
        snprintf(provider, sizeof(provider), "WRING_PROVIDER=%s", argv[1]);
    if (argc > 2)
        elems = strtoull(argv[2], NULL, 10);
    if (argc > 3 && strcmp(argv[3], "none") != 0)
        codec = argv[3];
    if (argc > 4)
        further = argv[4];
    return wring_test_main(1, argv, cases);
}
