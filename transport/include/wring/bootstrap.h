/* SPDX-License-Identifier: Apache-2.0 */
/**
 * For authors of bootstraps: how the ranks of a job meet before they have connections.
 *
 * One operation, exchange, gives every rank everyone's blob. All ranks call it in the same order,
 * when a session opens, commits and plans; never on the data path. It blocks, so the thread that
 * calls it is never the one that makes progress.
 */
#ifndef WRING_BOOTSTRAP_H
#define WRING_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/log.h>
#include <wring/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the library exports what follows */

#define WRING_BLOB_MAX (64u << 20) /* bytes one rank may contribute */

/** The result of an exchange: blob i spans storage[offsets[i] .. offsets[i + 1]). */
struct wring_blobs {
    uint32_t n;
    size_t *offsets;                            /* [n + 1] */
    uint8_t *storage;                           /* freed with wring_blobs_finish() */
    void (*release)(struct wring_blobs *blobs); /* of memory that ranks of one process share; NULL:
                                                   offsets and storage are of malloc() */
};

/** Free the result of an exchange. */
void wring_blobs_finish(struct wring_blobs *blobs);

struct wring_bootstrap {
    const struct wring_bootstrap_ops *ops; /* first member of every bootstrap's own struct */
    uint32_t rank, size;
    int32_t at_fault; /* after an error of exchange() or check(), or when a session could not open:
                         the rank, -1 if unknown */
};

/** How an exchange that waits can be called off. */
struct wring_cancel {
    bool (*cancelled)(void *arg);
    void *arg;
};

struct wring_bootstrap_ops {
    const char *name;

    /**
     * Contribute a blob, get all of them in rank order.
     * @param cancel  asked every now and then; NULL: nobody can call it off
     * Errors, logged with the rank at fault: WRING_ERR_PEER, WRING_ERR_AUTH, WRING_ERR_FRAME,
     * WRING_ERR_NO_MEMORY; WRING_ERR_CLOSED when called off (not logged).
     */
    enum wring_status (*exchange)(struct wring_bootstrap *bootstrap, const void *blob, size_t bytes,
                                  uint64_t deadline_ns, const struct wring_cancel *cancel,
                                  struct wring_blobs *out);

    /**
     * Between two exchanges: has a rank left for good? Never blocks.
     * @return WRING_OK: none has, or it cannot say; errors as of exchange(), logged with the rank
     */
    enum wring_status (*check)(struct wring_bootstrap *bootstrap);

    /** The local address that reaches the other ranks, as text; "" if it cannot say. Ranks on rank
     *  0's host then take rank 0's address. */
    const char *(*local_address)(struct wring_bootstrap *bootstrap);

    void (*close)(struct wring_bootstrap *bootstrap); /* NULL is fine */
};

/**
 * Make a bootstrap for ranks that are threads of this process.
 * @param ends  out, [size]; rank r takes ends[r] and closes it
 */
enum wring_status wring_bootstrap_local_create(uint32_t size, struct wring_bootstrap **ends);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
