/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How threads wait: all figures of it, and the rule in one place.
 *
 * A wait goes through four stages, and each is longer than the one before:
 *
 *     look    at the boards of a shm_flags step, without a lock, an engine or a clock
 *             (collective/shm_flags.c, runtime/progress/progress.c)
 *     drive   the engine, spinning, and giving the core away where ranks share cores
 *             (runtime/progress/caller.c)
 *     nap     a fixed while, only where ranks that share the core work through much data
 *     sleep   until a provider, the executor, a post or a deadline ends it
 *             (runtime/progress/sleep.c)
 *
 * WRING_SPIN is how long the second stage spins. Where ranks are more than cores ("crowded"), each
 * look that finds nothing gives the core away, and the stages are bounded by counts and by the
 * clock instead, since a rank that spins keeps the one that it waits for from running.
 *
 * Which posts are begun in the posting thread is decided in runtime/progress/progress.c: those of
 * one hop's size (WRING_FLAT_BYTES), because to hand them to another thread takes longer.
 */
#ifndef WRING_TRANSPORT_WAIT_POLICY_H
#define WRING_TRANSPORT_WAIT_POLICY_H

#include <stdint.h>

struct wring_wait_policy {
    /* looking at boards */
    unsigned tests_alone;   /* tests of a shm_flags step before the engine is to look after it */
    unsigned look_ns;       /* one look takes so long: WRING_SPIN in looks */
    unsigned looks_max;     /* before the engine looks, and judges who is silent */
    unsigned looks_crowded; /* likewise, crowded: each gives the core away */
    uint64_t crowded_ns;    /* and after so long in any case: others may keep the core */
    unsigned looks_beside;  /* at ranks on other cores, before ours is given away: as long as a line
                               and a late rank take, not half of a hand-over */
    unsigned looks_summed;  /* at shards that somebody sums already: as long as one takes */
    unsigned compared_every; /* times that the core was given away, cores are compared: some hundred
                                microseconds */
    unsigned
        uneven_for; /* comparisons in a row before somebody moves: the scheduler may see to it */

    /* driving the engine, in multiples of WRING_SPIN */
    unsigned caller_spins;  /* of a caller, which has nothing else to do, giving the core away */
    unsigned crowded_spins; /* crowded: most of that time others have run */
    uint64_t beside_ns;     /* crowded: a core is handed over and back in about that time */
    uint64_t nap_ns;        /* of steps that take milliseconds */

    /* the progress thread and callers */
    uint64_t park_ns;   /* the thread stands back for so long after a caller has driven */
    unsigned visits;    /* tests within that time that make a caller one that drives */
    uint64_t prompt_ns; /* so soon after its post comes a caller that works on nothing */
    uint64_t aside_min_ns, aside_max_ns; /* between two calls of the program's aside function */
    uint64_t pause_ns;                   /* between looks at another thread that is to act */

    /* the engine */
    uint64_t check_ns;     /* nothing moves for so long: why? */
    uint64_t jobs_tell_ns; /* jobs are waited for so long: which executor has them? */
    uint64_t jobs_look_ns; /* between looks after that */
};

static const struct wring_wait_policy wring_wait_policy = {
    .tests_alone = 64,
    .look_ns = 20,
    .looks_max = 1000,
    .looks_crowded = 200,
    .crowded_ns = 1000000,
    .looks_beside = 10,
    .looks_summed = 100,
    .compared_every = 64,
    .uneven_for = 3,

    .caller_spins = 5,
    .crowded_spins = 50,
    .beside_ns = 4000,
    .nap_ns = 100000,

    .park_ns = 1000000,
    .visits = 32,
    .prompt_ns = 20000,
    .aside_min_ns = 50000,
    .aside_max_ns = 1000000,
    .pause_ns = 50000,

    .check_ns = 20000,
    .jobs_tell_ns = 1000000000,
    .jobs_look_ns = 1000000,
};

#endif
