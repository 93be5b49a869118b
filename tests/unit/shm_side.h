/* SPDX-License-Identifier: Apache-2.0 */
/** One of two ends that a test has of shm, and what it was told. */
#ifndef WRING_TESTS_SHM_SIDE_H
#define WRING_TESTS_SHM_SIDE_H

#include <stdbool.h>

#include "transport/memory.h"
#include "transport/providers/providers.h"

#define OPS (&wring_provider_shm)
#define LIMIT_NS (20 * WRING_NS_PER_S)

struct shm_side {
    struct wring_provider *provider;
    struct wring_conn *conn;
    struct wring_memory memory;
    struct wring_region *region;
    struct wring_remote *remote;
    struct wring_event last;
    char text[256]; /* of the last CLOSED */
    uint8_t data[WRING_SEND_MAX];
    unsigned count[WRING_EVENT_CLOSED + 1];
};

extern char shm_side_log[512]; /* the last line of all ends */

/** A provider, and a region of 1 MiB. @param key  of the job */
bool shm_side_open(struct shm_side *side, uint8_t key);

void shm_side_close(struct shm_side *side);

/** @return events, which are counted */
size_t shm_side_poll(struct shm_side *side);

/** Poll both until a has seen `count` events of the kind; false after a while. b may be NULL. */
bool shm_side_await(struct shm_side *a, struct shm_side *b, enum wring_event_kind kind,
                    unsigned count);

/** The other end's region. */
bool shm_side_import(struct shm_side *to, struct shm_side *from);

/** b begins to connect to a. */
bool shm_side_begin_join(struct shm_side *a, struct shm_side *b);

/** Both are connected. */
bool shm_side_join(struct shm_side *a, struct shm_side *b);

enum wring_status shm_side_put(struct shm_side *side, size_t offset, const char *text,
                               uint32_t imm);

#endif
