/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What cases of CollNet are written with: a rank's communicator, joined once with all others as
 * NCCL does it, and operations that are asked for until they are taken. A call that fails is a
 * failed check that ends the rank.
 */
#ifndef WRING_TESTS_NCCL_COLL_RIG_H
#define WRING_TESTS_NCCL_COLL_RIG_H

#include <wring/types.h>

#include "tests/nccl/rig.h"

#define COLL_DTYPES 12 /* that NCCL has, the last two of 8 bits */
#define COLL_OPS 5     /* sum, prod, max, min, avg */
#define COLL_SUM 0
#define COLL_F32 7

struct coll_rig {
    struct rig rig; /* NCCL takes the messages' table first, always */
    void *ctx, *comm;
    size_t max_bytes;
};

/** Load the plugin, initialise it, join all ranks. */
void coll_begin(struct coll_rig *coll, const struct world_rank *me);
void coll_end(struct coll_rig *coll);

/** The same, where something is done when all listen and none has connected yet. */
void coll_begin_with(struct coll_rig *coll, const struct world_rank *me,
                     void (*when_listening)(const struct world_rank *me, void *arg), void *arg);

/** One more communicator in the same plugin. @param out  out, ended by coll_leave() */
void coll_join(const struct coll_rig *coll, struct coll_rig *out);
void coll_leave(struct coll_rig *coll);

/** The library's type of NCCL's number; -1: it has none. */
int coll_dtype(int dtype);
int coll_op(int op);

void *coll_register(struct coll_rig *coll, void *data, size_t bytes);
void coll_deregister(struct coll_rig *coll, void *region);

/** Ask until the plugin takes it. @return the request */
void *coll_allreduce(struct coll_rig *coll, void *in, void *out, size_t elems, int dtype, int op,
                     void *in_region, void *out_region);

/** What of a rank's block lies in a window. @param in_window, in_block  out: where it begins there
 *  @return its bytes; 0: nothing, and the others mean nothing */
size_t coll_part_of(struct plugin_window window, uint32_t rank, size_t *in_window,
                    size_t *in_block);

/** Ask until the plugin takes it. @param out  where this rank's part of the window goes
 *  @return the request */
void *coll_reduce_scatter(struct coll_rig *coll, void *in, void *out, struct plugin_window window,
                          int dtype, int op, void *in_region, void *out_region);

/** Test until it is done. @return what test said at last */
int coll_finish(struct coll_rig *coll, void *request, const char *what);
void coll_wait(struct coll_rig *coll, void *request, const char *what);

#endif
