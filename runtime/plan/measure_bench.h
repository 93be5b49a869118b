/* SPDX-License-Identifier: Apache-2.0 */
/** What the files that measure exchanges share: ways, their buckets and samples. */
#ifndef WRING_RUNTIME_MEASURE_BENCH_H
#define WRING_RUNTIME_MEASURE_BENCH_H

#include <string.h>

#include "runtime/bucket.h"
#include "runtime/plan/measure_ways.h"
#include "runtime/session/session.h"

#define WRING_MEASURE_BATCH_MAX 16 /* buckets posted at once */
#define WRING_MEASURE_ROUNDS_MAX 40
#define WRING_MEASURE_AGAIN_MAX 40 /* rounds of what is noisy */
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

/** What ranks tell each other after each sample: the slowest one's. */
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

/** Agree with the others on what is measured, register the ways' buckets and connect them.
 *  Collective. Errors: those of a commit. */
enum wring_status wring_measure_prepare(struct wring_measure_bench *bench);

/** The session is as it was before. NULL members are fine. */
void wring_measure_clear(struct wring_measure_bench *bench);

/** Before each exchange as much is written as a last cache holds, or less where a round has no time
 *  for that. Once limit_us is known. */
void wring_measure_fit_cold(struct wring_measure_bench *bench);

/** One sample of each kind: times of the slowest rank, processor time as the mean of all.
 *  @param took_us  out: of all of it, the same on all ranks */
enum wring_status wring_measure_sample(struct wring_measure_bench *bench,
                                       struct wring_measure_way *way, uint32_t size,
                                       double *took_us);

/** Bytes, and codec work, as the buckets count them: the mean of all ranks. */
enum wring_status wring_measure_count(struct wring_measure_bench *bench);

/** Of its samples of a kind, 1 or more. Sorts them. */
double wring_measure_median(struct wring_measure_way *way, enum wring_measure_kind kind,
                            uint32_t size);

/** Whether the codec's other scheme is so much faster, alone and in a backlog, that more samples of
 *  this one would say nothing more; the same on all ranks. Sorts samples. */
bool wring_measure_is_beaten(struct wring_measure_bench *bench, struct wring_measure_way *way,
                             uint32_t size);

/** How many points, and of how many the median is in doubt; none of those that are beaten. What is
 *  noisy, or in doubt in whatever kind, is to be measured again: beaten ones as well. Sorts
 * samples.
 */
struct wring_measure_noise wring_measure_look(struct wring_measure_bench *bench);

/** What further buckets take, as far as backlogs tell. */
void wring_measured_backlogs(struct wring_measure_bench *bench);

/** The same in backlogs longer than any that was measured, by what the profile knows of links, and
 * of how many processors ranks have. */
void wring_measured_for_long(struct wring_measure_bench *bench,
                             const struct wring_profile *profile);

/**
 * What larger buckets take than were measured, where there was no time for all sizes and the link
 * takes most of the largest one's time: its bytes' worth of that for each further element. How
 * backlogs of small ones begin and end is part of what they took, and no part of that.
 * @param fitted  its curves, of which those of solo and busy may go on otherwise
 */
void wring_measured_go_on(struct wring_measure_bench *bench, const struct wring_profile *profile,
                          struct wring_profile_way *fitted);

/** Curves into the profile: each way, and "auto". Sorts samples. Errors: WRING_ERR_NO_MEMORY, those
 *  of fitting. */
enum wring_status wring_measured_put(struct wring_measure_bench *bench,
                                     struct wring_profile *profile);

#endif
