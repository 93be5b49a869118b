/* SPDX-License-Identifier: Apache-2.0 */
/** Element types and reductions that collectives know. Values are part of the wire format. */
#ifndef WRING_TYPES_H
#define WRING_TYPES_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the library exports what follows */

enum wring_dtype {
    WRING_F32 = 0, /* IEEE binary32 */
};

enum wring_op {
    WRING_SUM = 0,
    WRING_AVG = 1, /* the sum divided by the number of ranks, once, where it was reduced */
};

/** How an allreduce runs. */
enum wring_scheme {
    WRING_SCHEME_AUTO = 0,    /* by size, codec and number of ranks */
    WRING_SCHEME_DIVISIBLE,   /* shards: alltoall, reduce at the owner, allgather ("direct" raw) */
    WRING_SCHEME_INDIVISIBLE, /* allgather of whole contributions, every rank reduces */
};

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
