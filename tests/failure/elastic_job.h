/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Jobs whose ranks die, and whose others go on: every sum is compared with that of the ranks that
 * are left, and their bits with each other's.
 */
#ifndef WRING_TESTS_ELASTIC_JOB_H
#define WRING_TESTS_ELASTIC_JOB_H

#include <stdatomic.h>

#include "tests/failure/failing_job.h"

#define ELASTIC_LIVES UINT32_MAX

enum elastic_input {
    ELASTIC_VARIED,
    ELASTIC_CONSTANT,
    ELASTIC_ZERO
};

/** When a rank kills itself: so long after it has posted a step, or has called shrink for the
 *  first time (in_shrink), or after all others have posted the step (awaited): then it does not
 *  post. */
struct elastic_death {
    uint32_t step; /* ELASTIC_LIVES: never */
    bool in_shrink, awaited;
    uint32_t after_us;
};

/** In memory that the ranks share with the test. */
struct elastic_plan {
    const char *codec; /* NULL: none */
    uint64_t elems;
    enum elastic_input input;
    bool out_of_place, refills; /* refills: fills the bucket again before a step is repeated */
    uint32_t steps;
    uint32_t ends_with;   /* > 0: steps are made until there are so many ranks */
    atomic_uint settled;  /* ranks that have ended so */
    atomic_bool released; /* they close their sessions */
    atomic_uint begun;    /* ranks that have made a step */
    atomic_ullong posts;  /* of all ranks */
    bool grows;           /* ranks let newcomers in before each step */
    uint32_t newcomers;   /* that come once somebody has died, or at once if nobody does */
    uint16_t door_port;   /* where they knock */
    struct elastic_death deaths[PROCS_MAX];
    atomic_ullong died_ns; /* the last death */
    atomic_ullong error_ns[PROCS_MAX], shrunk_ns[PROCS_MAX], summed_ns[PROCS_MAX]; /* after that */
    atomic_ullong step_ns[PROCS_MAX]; /* how long the last step took */
};

/** @return a plan in which nobody dies; all jobs of the program share one. */
struct elastic_plan *elastic_plan_new(void);

/** A procs_job's run: its arg is a plan. Exit codes: 0 all steps were right; 2 it could not open;
 *  4 it did not go on; 5 a sum was wrong;
 *  6 it left descriptors open. */
int elastic_run(struct procs_rank *rank, void *arg);

/** Run a job with that plan, and check that each rank that lives has done all steps. Newcomers are
 *  processes behind those of the ranks. */
void elastic_check(const char *name, uint32_t ranks, const char *const *settings,
                   struct elastic_plan *plan);

#endif
