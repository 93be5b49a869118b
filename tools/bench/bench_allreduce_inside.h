/* SPDX-License-Identifier: Apache-2.0 */
/** What the files of one rank of `wring bench allreduce` have in common. */
#ifndef WRING_TOOLS_BENCH_ALLREDUCE_INSIDE_H
#define WRING_TOOLS_BENCH_ALLREDUCE_INSIDE_H

#include "tools/bench/bench_allreduce.h"
#include "tools/rank_faults.h"

#define WRING_ALLREDUCE_SHIFTS 4096    /* inputs of successive calls: the same numbers, shifted */
#define WRING_ALLREDUCE_PIECE 262144ul /* elements of rank 0's result, compared at a time */

struct wring_allreduce_bench {
    const struct wring_allreduce_params *params;
    struct wring_session *session;
    struct wring_group *world;
    uint32_t rank, ranks;
    float *source;                 /* [max_elems + WRING_ALLREDUCE_SHIFTS] this rank's numbers */
    float *data;                   /* [max_elems] in and out */
    float *piece;                  /* [WRING_ALLREDUCE_PIECE] */
    struct wring_bucket **buckets; /* [n_codecs * n_bytes]; NULL for the immediate call */
    uint64_t max_elems;
    uint64_t round; /* calls so far */
    struct wring_rank_faults faults;
};

/** What a rank tells the others after a case. */
struct wring_allreduce_findings {
    uint64_t wrong;
    uint64_t wire_bytes;
    double error, power;    /* sums of squares; of the first call, but for raw codecs */
    double lost, lost_back; /* the bucket's error, each way */
    char cores[WRING_ALLREDUCE_CORES];
};
_Static_assert(sizeof(struct wring_allreduce_findings) % 8 == 0, "they are exchanged as words");

/** One codec and size. */
struct wring_allreduce_case {
    const char *codec;
    uint64_t elems;
    struct wring_bucket *bucket;
    bool raw;
    uint64_t in_turn, timed; /* calls, in each turn and so far */
    double *times;           /* us [in_turn * turns] of them, of this rank */
    struct wring_allreduce_findings findings;
    struct wring_allreduce_result result;
};

/** How far the numbers of a call's input are shifted. */
static inline uint64_t wring_allreduce_shift(uint64_t round)
{
    return round * 61 % WRING_ALLREDUCE_SHIFTS;
}

/** Check the first call's result. Collective; errors: those of the calls that compare ranks. */
enum wring_status wring_allreduce_verify_first(struct wring_allreduce_bench *bench,
                                               const struct wring_allreduce_case *this,
                                               struct wring_allreduce_findings *findings);

/** Check the last call's result. What is not raw now holds what error feedback put off, so that
 *  the exact sum says nothing. Collective, as above. */
enum wring_status wring_allreduce_verify_last(struct wring_allreduce_bench *bench,
                                              const struct wring_allreduce_case *this,
                                              struct wring_allreduce_findings *findings);

/** A case until its first turn. Collective, like the next two; errors: those of the calls. */
enum wring_status wring_allreduce_begin_case(struct wring_allreduce_bench *bench,
                                             struct wring_allreduce_case *this);

/** A turn; after the last one the result is still there to be checked. */
enum wring_status wring_allreduce_take_turn(struct wring_allreduce_bench *bench,
                                            struct wring_allreduce_case *this);

/** What came of it on all ranks goes into its result. */
enum wring_status wring_allreduce_finish_case(struct wring_allreduce_bench *bench,
                                              struct wring_allreduce_case *this);

#endif
