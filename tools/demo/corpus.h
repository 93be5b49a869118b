/* SPDX-License-Identifier: Apache-2.0 */
/** The text that the demo trains on: read, rid of duplicates, split. */
#ifndef WRING_DEMO_CORPUS_H
#define WRING_DEMO_CORPUS_H

#include <stdint.h>

struct demo_corpus {
    uint8_t *train, *held_out;
    uint64_t train_bytes, held_out_bytes;
    uint64_t files, dropped; /* kept; dropped because another has the same content */
};

/**
 * Read the user's files, or where there are none the documentation that every Debian system has.
 *
 * The system's files are held out as wholes, the user's by pieces of 4 KiB; files and pieces with
 * the same content count once. The same for the same seed on every rank.
 *
 * @param paths  [n] the user's files
 * @param ranks  that will share the training part equally: each must get enough to sample from
 * @return 0, or -1 after a line on standard error
 */
int demo_corpus_load(const char *const *paths, uint32_t n, uint64_t seed, uint32_t ranks,
                     struct demo_corpus *out);

/** Of both parts' bytes. */
uint64_t demo_corpus_hash(const struct demo_corpus *corpus);

void demo_corpus_free(struct demo_corpus *corpus);

#endif
