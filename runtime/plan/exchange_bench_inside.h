/* SPDX-License-Identifier: Apache-2.0 */
/** What the files that measure exchanges share: ways, their buckets and samples. */
#ifndef WRING_RUNTIME_MEASURE_BENCH_H
#define WRING_RUNTIME_MEASURE_BENCH_H

#include <string.h>

#include "runtime/bucket.h"
#include "runtime/plan/exchange_bench.h"
#include "runtime/session/session.h"

#define WRING_MEASURE_BATCH_MAX 16 /* buckets posted at once */
#define WRING_MEASURE_ROUNDS_MAX 40
#define WRING_MEASURE_AGAIN_MAX 40 /* rounds of noisy points */
#define WRING_MEASURE_SAMPLES_MAX \
    (WRING_MEASURE_SIZES * (WRING_MEASURE_ROUNDS_MAX + WRING_MEASURE_AGAIN_MAX))
#define WRING_MEASURE_WAYS_MAX (4 * WRING_MEASURE_CODECS_MAX)
#define WRING_MEASURE_LEAST_US 1e-3          /* no time is none */
#define WRING_MEASURE_OWN_BYTES (2u << 20)   /* what a core's own caches hold */
#define WRING_MEASURE_LAST_BYTES (32u << 20) /* and a last cache */

enum wring_measure_kind {
    WRING_MEASURE_SOLO,
    WRING_MEASURE_BUSY,
    WRING_MEASURE_CPU,
    WRING_MEASURE_KINDS
};

/** A codec in a scheme. */
struct wring_measure_way {
    uint32_t codec; /* which of them */
    enum wring_scheme scheme;
    uint32_t n; /* sizes, those before the bench's first among them */
    struct wring_bucket *buckets[WRING_MEASURE_SIZES][WRING_MEASURE_BATCH_MAX];
    uint32_t batch[WRING_MEASURE_SIZES]; /* how many are posted at once */
    uint32_t samples[WRING_MEASURE_SIZES];
    double us[WRING_MEASURE_KINDS][WRING_MEASURE_SIZES][WRING_MEASURE_SAMPLES_MAX];
    double all_us[WRING_MEASURE_SIZES][WRING_MEASURE_SAMPLES_MAX]; /* of a batch */
    double took_us[WRING_MEASURE_SIZES]; /* a sample of all kinds, the first time */
    double wire_bytes[WRING_MEASURE_SIZES], codec_us[WRING_MEASURE_SIZES]; /* of a bucket */
    bool again[WRING_MEASURE_SIZES];                                       /* noisy, or in doubt */
    bool beaten[WRING_MEASURE_SIZES]; /* its codec's other scheme is far faster */
};

/** Times that ranks tell each other after each sample; the slowest rank's count. */
enum wring_measure_word {
    WRING_MEASURE_WORD_SOLO,
    WRING_MEASURE_WORD_ALL,
    WRING_MEASURE_WORD_ELAPSED,
    WRING_MEASURE_WORDS
};

/** All of them. */
struct wring_measure_bench {
    struct wring_session *session;
    const struct wring_measure_params *params;
    struct wring_bucket *real; /* the session's own buckets, put aside */
    uint32_t n, first, sizes;  /* ways; sizes from, to */
    bool alone;                /* no backlogs */
    struct wring_measure_way ways[WRING_MEASURE_WAYS_MAX];
    struct wring_bucket *asked[WRING_MEASURE_CODECS_MAX][WRING_MEASURE_SIZES]; /* never posted */
    enum wring_scheme auto_is[WRING_MEASURE_CODECS_MAX][WRING_MEASURE_SIZES];
    struct wring_bucket *words_bucket, *mean_bucket;
    double words[WRING_MEASURE_WORDS], mean;
    float *source;  /* of the largest size */
    float *data;    /* of all buckets: those of a size, one after another */
    uint64_t *cold; /* [cold_words] written before each exchange */
    size_t cold_words;
    uint64_t began_ns, budget_ns;          /* the latter is the same on all ranks */
    double elapsed_us, round_us, limit_us; /* likewise; of a round, and what it may take */
};

/** Between all ranks at once? Links and codecs are told by such ways. */
static inline bool wring_measure_is_flat(const struct wring_measure_way *way)
{
    return way->scheme < WRING_SCHEME_HIERARCHICAL;
}

static inline const char *wring_measure_spec(const struct wring_measure_bench *bench,
                                             const struct wring_measure_way *way)
{
    return bench->params->codecs.specs[way->codec];
}

static inline bool wring_measure_is_raw(const struct wring_measure_bench *bench,
                                        const struct wring_measure_way *way)
{
    return strcmp(wring_measure_spec(bench, way), "none") == 0;
}

/** How many of a size are posted at once: as many as come together in a backlog of a model's
 *  tensors, which is more of the small ones; all of a size in 128 MiB. */
uint32_t wring_measure_batch(uint32_t size);

/** The median of a way's samples of a kind, 1 or more. Sorts them. */
double wring_measure_median(struct wring_measure_way *way, enum wring_measure_kind kind,
                            uint32_t size);

/** Curves into the profile: each way, and "auto". Sorts samples. Errors: WRING_ERR_NO_MEMORY, those
 *  of fitting. */
enum wring_status wring_measured_put(struct wring_measure_bench *bench,
                                     struct wring_profile *profile);

#endif
