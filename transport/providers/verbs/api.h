/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The two ways to talk to a device's queues: ibv_wr_* with extended completion queues, and the
 * older calls.
 */
#ifndef WRING_VERBS_API_H
#define WRING_VERBS_API_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct verbs_path;
struct verbs_rail;

#define VERBS_BATCH 16 /* requests posted under one doorbell, at most */

/** A completion, however its queue was read. */
struct verbs_completion {
    uint64_t id; /* as posted: see verbs/port.c */
    enum ibv_wc_status status;
    uint32_t vendor_error;
    uint32_t bytes, imm; /* of receives; imm in our byte order */
    bool has_imm;        /* a receive that a put used up */
};

/** One of the two ways to talk to a device's queues. */
struct verbs_api {
    const char *name;

    /** Make rail->cq of that many entries. @return false and errno */
    bool (*make_cq)(struct verbs_rail *rail, uint32_t entries);

    /** Make path->qp. @param init the queues and the room @return false and errno */
    bool (*make_qp)(struct verbs_path *path, struct ibv_qp_init_attr *init);

    /** Post the next n <= VERBS_BATCH requests of a path, one doorbell. @return errno */
    int (*post)(struct verbs_path *path, uint32_t n);

    /** Take completions. @return how many of out[max], max <= VERBS_BATCH; -1: the queue failed */
    int (*take)(struct verbs_rail *rail, struct verbs_completion *out, int max);
};

extern const struct verbs_api wring_verbs_api_new, wring_verbs_api_classic;

#endif
