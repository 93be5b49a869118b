/* SPDX-License-Identifier: Apache-2.0 */
/** What ranks ended with, item by item, in memory that processes share. */
#ifndef WRING_TESTS_RANDOM_RESULTS_H
#define WRING_TESTS_RANDOM_RESULTS_H

#include "tests/random/program.h"

#define RESULTS_ITEMS 1024

struct results_item {
    bool done[PROGRAM_RANKS]; /* with WRING_OK */
    bool raw[PROGRAM_RANKS];  /* a bucket's codec was left out */
    bool gone[PROGRAM_RANKS]; /* the group is aborted */
};

struct results {
    const struct program *p;
    struct results_item *items; /* [RESULTS_ITEMS] */
    uint8_t *data;              /* [p->result_bytes] */
};

/** @return false: there is no memory */
bool results_open(struct results *results, const struct program *p);
void results_close(struct results *results);

static inline uint8_t *results_at(const struct results *results,
                                  const struct program_result *result, uint32_t rank)
{
    return results->data + result->at + result->stride * rank;
}

#endif
