/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Trainings that are finished, in a file of JSON lines, so that a long series of them can be
 * stopped and taken up again. Each line says all that its result depends on.
 */
#ifndef WRING_TOOLS_DEMO_STORE_H
#define WRING_TOOLS_DEMO_STORE_H

#include <jansson.h>

#include "tools/demo/demo.h"

struct demo_store {
    const char *path; /* "": nothing is kept */
    json_t *lines;
};

/** What a training's result depends on, as a line says it. @return NULL without memory */
json_t *demo_store_key(const struct demo_results *results, const struct demo_config *config,
                       double rate, uint64_t seed);

/**
 * Read a file, unless there is none yet. Free it with demo_store_close().
 * @param path  "": keep nothing
 * @return false with a line on standard error
 */
bool demo_store_open(struct demo_store *store, const char *path);
void demo_store_close(struct demo_store *store);

/** @return whether the store has it */
bool demo_store_find(const struct demo_store *store, json_t *key, struct demo_training *out);

/** Add a training at the end of the file. @return false with a line on standard error */
bool demo_store_add(struct demo_store *store, json_t *key, const struct demo_training *training);

#endif
