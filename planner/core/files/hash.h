/* SPDX-License-Identifier: Apache-2.0 */
/** Hashes by which the planner's files name each other. Not against forgers. */
#ifndef WRING_PLANNER_HASH_H
#define WRING_PLANNER_HASH_H

#include <stdint.h>

#include "base/bytes.h"
#include "planner/core/cost.h"
#include <wring/status.h>

/** The double's bits, -0 as 0. */
void wring_write_double(struct wring_writer *writer, double number);

void wring_write_cost(struct wring_writer *writer, const struct wring_cost *cost);

/**
 * The first 8 bytes of the SHA-256 of the writer's bytes. Frees the writer's memory.
 * Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_hash(struct wring_writer *writer, uint64_t *out);

#endif
