/* SPDX-License-Identifier: Apache-2.0 */
/** The text that the demo trains on: read, rid of duplicates, split by whole files. */
#ifndef WRING_DEMO_CORPUS_H
#define WRING_DEMO_CORPUS_H

#include <stdint.h>

struct demo_corpus {
    uint8_t *train, *held_out;
    uint64_t train_bytes, held_out_bytes;
    uint64_t files, dropped; /* kept; dropped because another has the same content */
};

/**
 * Read the files, or where there are none the documentation that every Debian system has.
 * All ranks get the same corpus for the same seed. Prints why not on standard error.
 */
int demo_corpus_load(const char *const *paths, uint32_t n, uint64_t seed, struct demo_corpus *out);
void demo_corpus_free(struct demo_corpus *corpus);

#endif
