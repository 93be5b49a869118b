/* SPDX-License-Identifier: Apache-2.0 */
/** What the files that measure collectives share: collectives, their buckets and samples. */
#ifndef WRING_RUNTIME_PLAN_COLLECTIVE_BENCH_INSIDE_H
#define WRING_RUNTIME_PLAN_COLLECTIVE_BENCH_INSIDE_H

#include <string.h>

#include "runtime/bucket.h"
#include "runtime/plan/collective_bench.h"
#include "runtime/session/session.h"

#define WRING_COLLECTIVE_BENCH_BATCH_MAX 16 /* buckets posted at once */
#define WRING_COLLECTIVE_BENCH_TURNS_MAX 40
#define WRING_COLLECTIVE_BENCH_AGAIN_MAX 40 /* turns of noisy points */
#define WRING_COLLECTIVE_BENCH_SAMPLES_MAX \
    (WRING_COLLECTIVE_BENCH_SIZES *        \
     (WRING_COLLECTIVE_BENCH_TURNS_MAX + WRING_COLLECTIVE_BENCH_AGAIN_MAX))
#define WRING_COLLECTIVE_BENCH_CASES_MAX (4 * WRING_COLLECTIVE_BENCH_CODECS_MAX)
#define WRING_COLLECTIVE_BENCH_LEAST_US 1e-3          /* no time is none */
#define WRING_COLLECTIVE_BENCH_OWN_BYTES (2u << 20)   /* what a core's own caches hold */
#define WRING_COLLECTIVE_BENCH_LAST_BYTES (32u << 20) /* and a last cache */

enum wring_collective_bench_kind {
    WRING_COLLECTIVE_BENCH_SOLO,
    WRING_COLLECTIVE_BENCH_BUSY,
    WRING_COLLECTIVE_BENCH_CPU,
    WRING_COLLECTIVE_BENCH_KINDS
};

/** A codec in a scheme. */
struct wring_collective_bench_case {
    uint32_t codec; /* which of them */
    enum wring_scheme scheme;
    uint32_t n; /* sizes, those before the bench's first among them */
    struct wring_bucket *buckets[WRING_COLLECTIVE_BENCH_SIZES][WRING_COLLECTIVE_BENCH_BATCH_MAX];
    uint32_t batch[WRING_COLLECTIVE_BENCH_SIZES]; /* how many are posted at once */
    uint32_t samples[WRING_COLLECTIVE_BENCH_SIZES];
    double us[WRING_COLLECTIVE_BENCH_KINDS][WRING_COLLECTIVE_BENCH_SIZES]
             [WRING_COLLECTIVE_BENCH_SAMPLES_MAX];
    double all_us[WRING_COLLECTIVE_BENCH_SIZES]
                 [WRING_COLLECTIVE_BENCH_SAMPLES_MAX]; /* of a batch */
    double took_us[WRING_COLLECTIVE_BENCH_SIZES];      /* a sample of all kinds, the first time */
    double wire_bytes[WRING_COLLECTIVE_BENCH_SIZES],
        codec_us[WRING_COLLECTIVE_BENCH_SIZES]; /* of a bucket */
    bool again[WRING_COLLECTIVE_BENCH_SIZES];   /* noisy, or in doubt */
    bool beaten[WRING_COLLECTIVE_BENCH_SIZES];  /* its codec's other scheme is far faster */
};

/** Times that ranks tell each other after each sample; the slowest rank's count. */
enum wring_collective_bench_word {
    WRING_COLLECTIVE_BENCH_WORD_SOLO,
    WRING_COLLECTIVE_BENCH_WORD_ALL,
    WRING_COLLECTIVE_BENCH_WORD_ELAPSED,
    WRING_COLLECTIVE_BENCH_WORDS
};

/** All of them. */
struct wring_collective_bench {
    struct wring_session *session;
    const struct wring_collective_bench_params *params;
    struct wring_bucket *real; /* the session's own buckets, put aside */
    uint32_t n, first, sizes;  /* collectives; sizes from, to */
    bool alone;                /* no backlogs */
    struct wring_collective_bench_case collectives[WRING_COLLECTIVE_BENCH_CASES_MAX];
    struct wring_bucket
        *asked[WRING_COLLECTIVE_BENCH_CODECS_MAX][WRING_COLLECTIVE_BENCH_SIZES]; /* never posted */
    enum wring_scheme auto_is[WRING_COLLECTIVE_BENCH_CODECS_MAX][WRING_COLLECTIVE_BENCH_SIZES];
    struct wring_bucket *words_bucket, *mean_bucket;
    double words[WRING_COLLECTIVE_BENCH_WORDS], mean;
    float *source;  /* of the largest size */
    float *data;    /* of all buckets: those of a size, one after another */
    uint64_t *cold; /* [cold_words] written before each collective */
    size_t cold_words;
    uint64_t began_ns, budget_ns;         /* the latter is the same on all ranks */
    double elapsed_us, turn_us, limit_us; /* likewise; of a turn, and what it may take */
};

/** Between all ranks at once? Links and codecs are told by such collectives. */
static inline bool wring_collective_bench_is_flat(
    const struct wring_collective_bench_case *collective)
{
    return collective->scheme < WRING_SCHEME_HIERARCHICAL;
}

static inline const char *wring_collective_bench_spec(
    const struct wring_collective_bench *bench,
    const struct wring_collective_bench_case *collective)
{
    return bench->params->codecs.specs[collective->codec];
}

static inline bool wring_collective_bench_is_raw(
    const struct wring_collective_bench *bench,
    const struct wring_collective_bench_case *collective)
{
    return strcmp(wring_collective_bench_spec(bench, collective), "none") == 0;
}

/** How many of a size are posted at once: as many as come together in a backlog of a model's
 *  tensors, which is more of the small ones; all of a size in 128 MiB. */
uint32_t wring_collective_bench_batch(uint32_t size);

/** The median of a collective's samples of a kind, 1 or more. Sorts them. */
double wring_collective_bench_median(struct wring_collective_bench_case *collective,
                                     enum wring_collective_bench_kind kind, uint32_t size);

/** Curves into the profile: each collective, and "auto". Sorts samples. Errors:
 * WRING_ERR_NO_MEMORY, those of fitting. */
enum wring_status wring_collective_profile_put(struct wring_collective_bench *bench,
                                               struct wring_profile *profile);

#endif
