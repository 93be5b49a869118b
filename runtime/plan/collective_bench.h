/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What whole collectives take in this session, of whole buckets as the runtime does them: for
 * `wring calibrate`, and for a session that plans for itself.
 *
 * Each codec and scheme has buckets of every size, several of each, that exist only meanwhile. In a
 * turn each size of each has its turn: one bucket alone, then a backlog of its size. Turns go on
 * until the time is over; then sizes whose samples lie far apart have a few more.
 */
#ifndef WRING_RUNTIME_PLAN_COLLECTIVE_BENCH_H
#define WRING_RUNTIME_PLAN_COLLECTIVE_BENCH_H

#include <string.h>

#include "planner/core/files/profile.h"
#include <wring/wring.h>

#define WRING_COLLECTIVE_BENCH_SIZES 8
#define WRING_COLLECTIVE_BENCH_CODECS_MAX 17 /* none, and sixteen beside it */

/** Elements of the sizes that are measured: 1 Ki, 4 Ki, ... 16 Mi. */
static inline uint64_t wring_collective_bench_size(uint32_t i)
{
    return (uint64_t)1024 << 2 * i;
}

/** Specs, no two alike. */
struct wring_collective_bench_codecs {
    uint32_t n;
    char specs[WRING_COLLECTIVE_BENCH_CODECS_MAX][WRING_CODEC_SPEC_MAX];
};

static inline bool wring_collective_bench_has(const struct wring_collective_bench_codecs *codecs,
                                              const char *spec)
{
    bool has = false;

    for (uint32_t i = 0; i < codecs->n; i++)
        has = has || strcmp(codecs->specs[i], spec) == 0;
    return has;
}

struct wring_collective_bench_params {
    struct wring_collective_bench_codecs codecs; /* "none", too, if it is wanted */
    bool every_scheme; /* of none as well, and what "auto" is of each codec: it has the samples of
                          the scheme that it is at each size. Else none as it travels, and of
                          codecs what can be planned with */
    uint32_t cores;    /* that the ranks of a node have together */
    uint32_t ranks_per_node;
    uint32_t first;     /* of the sizes */
    bool larger;        /* what the profile knows of these codecs stays, and what is measured
                           continues it */
    uint64_t max_elems; /* no size but the first two is larger */
    uint64_t budget_ns; /* about */
    uint32_t turns_min; /* at least, however long they take */
    bool flat;          /* no hierarchies */
    bool placed;        /* in memory of wring's own, where sums are put into place */
    void (*tell)(void *arg, uint32_t turn, bool noisy); /* before a turn; NULL: nobody is told */
    void *arg;
};

/** Points that were measured, and those whose doubt is more than WRING_PROFILE_NOISE. */
struct wring_collective_bench_noise {
    uint32_t points, shaky;
};

/** Does it know what the codec takes on a processor? */
bool wring_collective_profile_has_coding(const struct wring_profile *profile, const char *spec);

/** Does the profile lack what is measured of this codec? */
bool wring_collective_profile_lacks(const struct wring_profile *profile, const char *spec,
                                    uint32_t ranks, bool every_scheme);

/**
 * The least time of a turn of a codec's collectives, as the profile has them. It has a size and
 * the next one, with two buckets in each backlog.
 * @param known  out: the elements up to which the profile knows all these collectives; 0: it has
 * none
 */
double wring_collective_profile_turn_us(const struct wring_profile *profile, const char *spec,
                                        uint32_t ranks, uint32_t size, uint64_t *known);

/** How long a turn may take at most, where larger sizes are added to it. */
double wring_collective_bench_limit_us(uint64_t budget_ns);

/** The most elements, out of max_elems, a quarter of it and so on, whose buckets fit into half of
 * the free memory. Local. @param n_codecs  that are measured */
uint64_t wring_collective_bench_fit_memory(uint64_t max_elems, uint32_t n_codecs,
                                           uint32_t ranks_per_node);

/**
 * Measure collectives, and put them into a profile, in place of those of the same name. Times of
 * codecs and links that a model needs are added if the profile lacks them. Its hash is not set.
 * Collective, with the same codecs and schemes on all ranks; the smallest budget and the fewest
 * sizes of any rank count. No bucket of the session may be committed, and none is afterwards. All
 * ranks end with the same numbers, those of the slowest one.
 *
 * Larger sizes are left out where a turn of them would take more than a sixth of the time.
 *
 * @param profile  to be added to; NULL: nobody's, on this rank
 * @param noise    out; NULL: is not asked for
 * Errors: those of a commit and of a bucket's wait, on all ranks.
 */
enum wring_status wring_collective_bench_run(struct wring_session *session,
                                             const struct wring_collective_bench_params *params,
                                             struct wring_profile *profile,
                                             struct wring_collective_bench_noise *noise);

/** What a few turns of a collective took. */
struct wring_collective_bench_glance {
    double elems;
    double least_us, median_us;
};

/**
 * What one raw bucket takes alone, in a few turns of two sizes: do collectives still take what a
 * profile says? As above.
 * @param out  of the larger size
 */
enum wring_status wring_collective_bench_probe(struct wring_session *session,
                                               const struct wring_collective_bench_params *params,
                                               struct wring_collective_bench_glance *out);

#endif
