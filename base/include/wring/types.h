/* SPDX-License-Identifier: Apache-2.0 */
/** Element types, reductions and names that collectives know. Values are part of the wire format.
 */
#ifndef WRING_TYPES_H
#define WRING_TYPES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the library exports what follows */

/**
 * Bytes of a bucket's or a tensor's name, its NUL included: a name has 1 to 512 bytes, in calls,
 * traces, plans, saved states and between ranks.
 */
#define WRING_NAME_MAX 513

enum wring_dtype {
    WRING_F32 = 0,  /* IEEE binary32 */
    WRING_F64 = 1,  /* IEEE binary64 */
    WRING_F16 = 2,  /* IEEE binary16 */
    WRING_BF16 = 3, /* the upper half of a binary32 */
    WRING_I32 = 4,  /* two's complement, like all signed types */
    WRING_I64 = 5,
    WRING_I8 = 6,
    WRING_I16 = 7,
    WRING_U8 = 8,
    WRING_U16 = 9,
    WRING_U32 = 10,
    WRING_U64 = 11,
    WRING_BOOL = 12,       /* a byte: 0 is false, all else true; reductions give 0 or 1 */
    WRING_BYTE = 13,       /* eight bits without a meaning */
    WRING_COMPLEX64 = 14,  /* two f32, the real part first, aligned to 4 bytes */
    WRING_COMPLEX128 = 15, /* two f64, likewise, aligned to 8 bytes */
};
#define WRING_DTYPES 16

/**
 * How contributions become one. The number of members alone decides the order; provider, chunk,
 * executor and arrival never do. Up to 8 members: a left fold by rank. More than 8: a binary tree
 * over the member index. Let p be the largest power of two that is not more than n. Member p + i is
 * first added to member i; then at level l the block with bit l clear takes the one with bit l set.
 * Hierarchical schemes do so within nodes, and then between them. They run only where a bucket, a
 * plan file or WRING_SCHEME names them.
 * compress/FORMAT.md, "Reductions", has examples and the rounding: 16-bit floats are summed and
 * multiplied in float32 and round once, integers wrap.
 *
 *                     f32 f64 f16 bf16   i8 to u64   bool   byte   complex
 *     sum, avg, prod         x               x                        x
 *     min, max               x               x         x
 *     band, bor, bxor                        x         x      x
 *     land, lor                              x         x
 *     premul_sum             x                                        x
 *
 * Calls refuse all other pairs: WRING_ERR_INVALID.
 */
enum wring_op {
    WRING_SUM = 0,
    WRING_AVG = 1, /* the sum divided by the number of ranks, once, after the last addition;
                      integers are cut off towards zero */
    WRING_MIN = 2, /* NaN if any contribution is NaN; of +0 and -0 the one further left in that
                      order, which is the lowest rank's with up to 8 members */
    WRING_MAX = 3,
    WRING_PROD = 4,
    WRING_BAND = 5, /* bit by bit; of bool, those of truth values */
    WRING_BOR = 6,
    WRING_BXOR = 7,
    WRING_LAND = 8,        /* 1 where all contributions are other than 0, else 0 */
    WRING_LOR = 9,         /* 1 where any is, else 0 */
    WRING_PREMUL_SUM = 10, /* each contribution times its member's factor, rounded to the type, then
                              the sum of these */
};
#define WRING_OPS 11

/** How an allreduce runs. */
enum wring_scheme {
    WRING_SCHEME_AUTO = 0,    /* by size, codec and number of ranks */
    WRING_SCHEME_DIVISIBLE,   /* shards: alltoall, reduce at the owner, allgather; raw: "direct" */
    WRING_SCHEME_INDIVISIBLE, /* allgather of whole contributions, every rank reduces */

    /* raw sums within each node (WRING_NODE), the rest of the name between nodes (auto if none).
       It needs two nodes or more of equally many ranks, two or more; else only the rest runs */
    WRING_SCHEME_HIERARCHICAL,
    WRING_SCHEME_HIERARCHICAL_DIVISIBLE,
    WRING_SCHEME_HIERARCHICAL_INDIVISIBLE,

    /* Raw buckets of 1024 elements or more of each member: partial sums go around a ring, on which
       members on one host, and hosts at one site (WRING_SITE), stand side by side. Each member
       sends to the next one alone. The order is the ring's own: FORMAT.md, "Reductions". Smaller
       ones go as "auto", and as default of buckets that have a codec so do these */
    WRING_SCHEME_RING,
};
#define WRING_SCHEMES 7

/** Bytes of one element; 0 for an unknown type. Threads: safe. */
size_t wring_dtype_bytes(enum wring_dtype dtype);

/** The alignment of a type in bytes: its parts' size for complex types, else its own size; 0 for an
 * unknown type. Threads: safe. */
size_t wring_dtype_align(enum wring_dtype dtype);

/** Can that operation reduce that type? 1 or 0. Threads: safe. */
int wring_op_takes(enum wring_op op, enum wring_dtype dtype);

/** "f32", "bf16", …; a static string, "?" for an unknown type. Threads: safe. */
const char *wring_dtype_name(enum wring_dtype dtype);

/** "sum", "avg", "premul_sum", …; a static string, "?" for an unknown operation. Threads: safe. */
const char *wring_op_name(enum wring_op op);

/** "auto", "hierarchical-divisible", …; a static string, "?" for an unknown scheme. Threads: safe.
 */
const char *wring_scheme_name(enum wring_scheme scheme);

/** The scheme of that name; WRING_SCHEMES if there is none. Threads: safe. */
enum wring_scheme wring_scheme_find(const char *name);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
