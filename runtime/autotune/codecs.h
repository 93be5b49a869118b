/* SPDX-License-Identifier: Apache-2.0 */
/** Codecs that a job which plans for itself may take. */
#ifndef WRING_RUNTIME_AUTOTUNE_CODECS_H
#define WRING_RUNTIME_AUTOTUNE_CODECS_H

#include "runtime/autotune/autotune.h"

/** Codecs that any of the buckets may take beside none, canonical. Errors: INVALID (logged),
 * NO_MEMORY. */
enum wring_status wring_autotune_codecs(const struct wring_session *session,
                                        const struct wring_autotune *autotune,
                                        struct wring_collective_bench_codecs *out);

/** Codecs to the other ranks, or from one. Errors: as reading fails, in->failed. */
void wring_autotune_write_codecs(const struct wring_collective_bench_codecs *codecs,
                                 struct wring_writer *out);
void wring_autotune_read_codecs(struct wring_reader *in, struct wring_collective_bench_codecs *out);

#endif
