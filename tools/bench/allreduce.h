/* SPDX-License-Identifier: Apache-2.0 */
/** Between the command line of `wring bench allreduce` and the measurement in each rank. */
#ifndef WRING_TOOLS_BENCH_ALLREDUCE_H
#define WRING_TOOLS_BENCH_ALLREDUCE_H

#include "base/json.h"
#include "tools/bench/bench.h"
#include "tools/rank_faults.h"
#include <wring/codec.h>
#include <wring/wring.h>

#define WRING_BENCH_TURNS_MAX 64

struct wring_allreduce_params {
    const char *name;     /* of the command, before messages */
    const char *provider; /* NULL: as configured */
    uint32_t ranks;       /* 0: not said */
    char *codecs[WRING_BENCH_LIST_MAX];
    size_t n_codecs;
    uint64_t bytes[WRING_BENCH_LIST_MAX];
    size_t n_bytes;
    enum wring_op op;
    enum wring_scheme scheme;
    const char *bypass;  /* a value of WRING_BYPASS */
    uint32_t iterations; /* 0: as many as fit into seconds */
    double seconds;      /* per codec and size */
    uint32_t turns;      /* the codecs of a size take so many turns; 1: one after the other */
    bool foreign;        /* malloc'ed memory through the immediate call */
    bool json;
};

#define WRING_ALLREDUCE_CORES 48 /* bytes of a list of cores */

/** What one codec and size gave; the same on every rank. */
struct wring_allreduce_result {
    const char *codec;
    uint64_t bytes, iterations;
    struct wring_spread time_us; /* of each call's slowest rank */
    uint32_t turns;
    double turn_us[WRING_BENCH_TURNS_MAX]; /* [turns] their medians, in the order they were taken */
    double wire_bytes;                     /* per call, mean over the ranks */
    uint64_t wrong;                        /* elements, over all ranks */
    double nmse;                           /* of the first call, the worst rank's */

    /* what the buckets' stats say; nothing with immediate calls */
    bool has_stats;
    char scheme[32];
    char ran[WRING_CODEC_SPEC_MAX]; /* the codec that did: "none" where it was left out */
    double with_us, without_us;     /* as predicted; 0: nothing was */
    double error, error_back;       /* the worst rank's; NAN: not measured */
    char cores[WRING_PATTERN_RANKS_MAX][WRING_ALLREDUCE_CORES]; /* [ranks] */
};

/** Called in rank 0 for each result. */
typedef void (*wring_allreduce_report_fn)(void *arg, uint32_t ranks,
                                          const struct wring_allreduce_result *result);

/** Be one rank of the measurement. @return an exit status; failures are said */
int wring_allreduce_rank(const struct wring_allreduce_params *params,
                         wring_allreduce_report_fn report, void *arg);

/* What the files of one rank of `wring bench allreduce` have in common. */

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
    uint64_t calls; /* calls so far */
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
static inline uint64_t wring_allreduce_shift(uint64_t calls)
{
    return calls * 61 % WRING_ALLREDUCE_SHIFTS;
}

#endif
