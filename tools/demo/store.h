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
    bool ended; /* so is the file's last line, or there is none */
};

/** What a training's result depends on, as a line says it. @return NULL without memory */
json_t *demo_store_key(const struct demo_results *results, const struct demo_config *config,
                       double rate, uint64_t seed);

/**
 * Read a file, unless there is none yet. Free it with demo_store_close().
 *
 * A run that was stopped may leave a part of a line at the end. It is cut off, with a line on
 * standard error that says so.
 * @param path  "": keep nothing
 * @return false with a line on standard error
 */
bool demo_store_open(struct demo_store *store, const char *path);
void demo_store_close(struct demo_store *store);

/**
 * @param data_hash  of the data's content. An earlier release did not keep it: such a training has
 *                   the key alone
 * @return whether the store has it
 */
bool demo_store_find(const struct demo_store *store, json_t *key, uint64_t data_hash,
                     struct demo_training *out);

/** Add a training at the end of the file, or leave the file as it was. @return false with a line on
 *  standard error */
bool demo_store_add(struct demo_store *store, json_t *key, uint64_t data_hash,
                    const struct demo_training *training);

#endif
