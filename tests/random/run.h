/* SPDX-License-Identifier: Apache-2.0 */
/** One rank's part of a random program, under way: what its operations share. */
#ifndef WRING_TESTS_RANDOM_RUN_H
#define WRING_TESTS_RANDOM_RUN_H

#include "tests/random/program_run.h"

struct run {
    struct wring_session *session;
    const struct program *p;
    const struct results *results;
    uint32_t rank;
    uint64_t random;
    struct wring_group *groups[PROGRAM_GROUPS];
    struct wring_bucket *buckets[PROGRAM_BUCKETS];
    void *data[PROGRAM_BUCKETS];
    void *state;
    size_t state_bytes;
    struct run_memory *kept;
    uint32_t op; /* under way */
    char *why;
};

/** A number below n, another one each time. */
uint32_t run_below(struct run *run, uint32_t n);

/** No wait may take longer. */
uint64_t run_wait_ns(const struct run *run);

/** Note where a call failed, once. @param result  whose; NULL: nobody's. @return the status */
enum wring_status run_note(struct run *run, enum wring_status status, const char *what,
                           const struct program_result *result);

bool run_is_mine(const struct run *run, uint32_t group);
uint32_t run_my_index(const struct run *run, uint32_t group);
struct wring_group *run_group_of(const struct run *run, uint32_t group);

/** @return NULL: there is none */
void *run_get_memory(struct run *run, enum program_memory memory, size_t bytes);

/** Memory from run_get_memory(), while nothing uses it. */
void run_put_memory(struct run *run, enum program_memory memory, void *data);

/** Post all of a phase in any order, and wait for it. */
enum wring_status run_phase(struct run *run, const struct program_phase *phase);

#endif
