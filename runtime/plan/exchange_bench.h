/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What whole exchanges take in this session, of whole buckets as the runtime does them: for
 * `wring calibrate`, and for a session that plans for itself.
 *
 * Each codec and scheme has buckets of every size, several of each, that exist only meanwhile. In a
 * round each size of each has its turn: one bucket alone, then a backlog of its size. Rounds go on
 * until the time is over; then sizes whose samples lie far apart have a few more.
 */
#ifndef WRING_RUNTIME_PLAN_EXCHANGE_BENCH_H
#define WRING_RUNTIME_PLAN_EXCHANGE_BENCH_H

#include <string.h>

#include "planner/core/files/profile.h"
#include <wring/wring.h>

#define WRING_MEASURE_SIZES 8
#define WRING_MEASURE_CODECS_MAX 17 /* none, and sixteen beside it */

/** Elements of the sizes that are measured: 1 Ki, 4 Ki, ... 16 Mi. */
static inline uint64_t wring_measure_size(uint32_t i)
{
    return (uint64_t)1024 << 2 * i;
}

/** Specs, no two alike. */
struct wring_measure_codecs {
    uint32_t n;
    char specs[WRING_MEASURE_CODECS_MAX][WRING_CODEC_SPEC_MAX];
};

static inline bool wring_measure_has(const struct wring_measure_codecs *codecs, const char *spec)
{
    bool has = false;

    for (uint32_t i = 0; i < codecs->n; i++)
        has = has || strcmp(codecs->specs[i], spec) == 0;
    return has;
}

struct wring_measure_params {
    struct wring_measure_codecs codecs; /* "none", too, if it is wanted */
    bool every_scheme; /* of none as well, and what "auto" is of each codec: it has the samples of
                          the scheme that it is at each size. Else none as it travels, and of
                          codecs what can be planned with */
    uint32_t cores;    /* that the ranks of a node have together */
    uint32_t ranks_per_node;
    uint32_t first;      /* of the sizes */
    bool larger;         /* what the profile knows of these codecs stays, and what is measured
                            continues it */
    uint64_t max_elems;  /* no size but the first two is larger */
    uint64_t budget_ns;  /* about */
    uint32_t rounds_min; /* at least, however long they take */
    bool flat;           /* no hierarchies */
    bool placed;         /* in memory of wring's own, where sums are put into place */
    void (*tell)(void *arg, uint32_t round, bool noisy); /* before a round; NULL: nobody is told */
    void *arg;
};

/** Points that were measured, and those whose doubt is more than WRING_PROFILE_NOISE. */
struct wring_measure_noise {
    uint32_t points, shaky;
};

/** Does it know what the codec takes on a processor? */
bool wring_measure_has_coding(const struct wring_profile *profile, const char *spec);

/** Does the profile lack what is measured of this codec? */
bool wring_measure_lacks(const struct wring_profile *profile, const char *spec, uint32_t ranks,
                         bool every_scheme);

/**
 * The least time of a round of a codec's ways, as the profile has them. It has a size and the next
 * one, with two buckets in each backlog.
 * @param known  out: the elements up to which the profile knows all these ways; 0: it has none
 */
double wring_measure_round_us(const struct wring_profile *profile, const char *spec, uint32_t ranks,
                              uint32_t size, uint64_t *known);

/** How long a round may take at most, where larger sizes are added to it. */
double wring_measure_limit_us(uint64_t budget_ns);

/** The most elements, out of max_elems, a quarter of it and so on, whose buckets fit into half of
 * the free memory. Local. @param n_codecs  that are measured */
uint64_t wring_measure_fit_memory(uint64_t max_elems, uint32_t n_codecs, uint32_t ranks_per_node);

/**
 * Measure ways, and put them into a profile, in place of those of the same name. Times of codecs
 * and links that a model needs are added if the profile lacks them. Its hash is not set.
 * Collective, with the same codecs and schemes on all ranks; the smallest budget and the fewest
 * sizes of any rank count. No bucket of the session may be committed, and none is afterwards. All
 * ranks end with the same numbers, those of the slowest one.
 *
 * Larger sizes are left out where a round of them would take more than a sixth of the time.
 *
 * @param profile  to be added to; NULL: nobody's, on this rank
 * @param noise    out; NULL: is not asked for
 * Errors: those of a commit and of a bucket's wait, on all ranks.
 */
enum wring_status wring_measure_ways(struct wring_session *session,
                                     const struct wring_measure_params *params,
                                     struct wring_profile *profile,
                                     struct wring_measure_noise *noise);

/** What a few rounds of an exchange took. */
struct wring_measure_glance {
    double elems;
    double least_us, median_us;
};

/**
 * What one raw bucket takes alone, in a few rounds of two sizes: do exchanges still take what a
 * profile says? As above.
 * @param out  of the larger size
 */
enum wring_status wring_measure_probe(struct wring_session *session,
                                      const struct wring_measure_params *params,
                                      struct wring_measure_glance *out);

/* What the files that measure exchanges share: ways, their buckets and samples. */

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
