/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/model/measured_collective.h"

#include <math.h>
#include <string.h>

#include "planner/core/model/candidates.h"
#include <wring/types.h>

const struct wring_profile_codec *wring_measured_codec(
    const struct wring_profile *profile, const struct wring_measured_collective *collective)
{
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        if (strcmp(profile->codecs[i].spec, collective->codec) == 0)
            return &profile->codecs[i];
    return NULL;
}

struct wring_measured_codes wring_measured_codes_of(
    const struct wring_measured_collective *collective, uint32_t ranks_per_node)
{
    enum wring_scheme scheme = wring_scheme_find(collective->run_as);
    bool in_nodes =
        scheme >= WRING_SCHEME_HIERARCHICAL && scheme <= WRING_SCHEME_HIERARCHICAL_INDIVISIBLE;
    uint32_t per_node = in_nodes && ranks_per_node > 0 ? ranks_per_node : 1;

    return (struct wring_measured_codes){
        .ranks = collective->ranks / per_node,
        .part = 1.0 / per_node,
        .divisible =
            scheme != WRING_SCHEME_INDIVISIBLE && scheme != WRING_SCHEME_HIERARCHICAL_INDIVISIBLE,
    };
}

double wring_measured_encode_us(const struct wring_measured_codes *codes,
                                const struct wring_profile_coder *coder, double elems)
{
    return wring_cost_at(&coder->encode.us, codes->part * elems);
}

double wring_measured_decode_us(const struct wring_measured_codes *codes,
                                const struct wring_profile_coder *coder, double elems)
{
    double others = codes->ranks - 1.0, added = codes->divisible ? others / codes->ranks : others;
    double coded = added * codes->part * elems;

    if (coder->sum.us.n > 0) /* codes add up, and no more than their sum is decoded */
        return wring_cost_at(&coder->sum.us, coded) +
               wring_cost_at(&coder->decode.us, codes->part * elems);
    double us = wring_cost_at(
        wring_profile_decoding(&coder->decode.us, &coder->decode_add.us, true), coded);

    return codes->divisible ? us + wring_cost_at(&coder->decode.us, coded) : us;
}

double wring_measured_link_us(const struct wring_measured_collective *collective,
                              const struct wring_cost *link_us, double elems)
{
    double bytes = wring_cost_at(&collective->wire_bytes, elems);
    double us = wring_cost_at(link_us, bytes), least = bytes * link_us->slope;

    return us > least ? us : least;
}

const struct wring_profile_link *wring_measured_link(const struct wring_profile *profile,
                                                     uint32_t nodes, uint32_t ranks_per_node)
{
    if (nodes > 1 && ranks_per_node > 1)
        return NULL;
    const struct wring_profile_link *link =
        &profile->links[nodes > 1 ? WRING_LEVEL_INTER : WRING_LEVEL_INTRA];
    return link->present ? link : NULL;
}

/* ---- collective cost ---- */

/** a − b where that is positive, and never falling. Both at the corners of a. */
static struct wring_cost subtract_cost(const struct wring_cost *a, const struct wring_cost *b)
{
    struct wring_cost rest = *a;
    double least = 0;

    for (uint32_t i = 0; i < a->n; i++) {
        double over = a->corners[i].y - wring_cost_at(b, a->corners[i].x);
        least = over > least ? over : least;
        rest.corners[i].y = least;
    }
    rest.slope = a->slope > b->slope ? a->slope - b->slope : 0;
    return rest;
}

/** As it was measured, except for a further bucket. @param busy  the time of that */
static struct wring_measured_cost measured_cost_of(
    const struct wring_measured_collective *collective, const struct wring_cost *busy)
{
    return (struct wring_measured_cost){*busy,
                                        subtract_cost(&collective->solo.us, &collective->busy.us)};
}

/** Of one size: in as it was measured, out on the other link. */
struct times {
    double busy_us, rest_us;
};

/** The part of a bucket that its first piece has. */
static double first_piece(const struct wring_measured_collective *collective, double elems)
{
    double bytes = wring_cost_at(&collective->wire_bytes, elems);
    double piece = (double)wring_profile_collective_tuning(collective).chunk_bytes;

    return bytes > piece ? piece / bytes : 1;
}

static struct times relinked_times(const struct wring_measured_collective *collective,
                                   const struct wring_measured_cost *cost,
                                   const struct wring_cost *link_us, double scale, double elems)
{
    double busy = wring_cost_at(&cost->busy, elems), rest = wring_cost_at(&cost->rest, elems);
    double link = fmin(wring_measured_link_us(collective, link_us, elems), busy),
           then = link / scale;
    double cpu = fmin(wring_cost_at(&collective->cpu.us, elems), busy),
           part = first_piece(collective, elems);

    return (struct times){
        .busy_us = busy + fmax(then, cpu) - fmax(link, cpu),
        .rest_us = fmax(0, rest + part * (fmin(then, cpu) - fmin(link, cpu))),
    };
}

/** A point more, never below the one before. */
static void add_corner(struct wring_cost *cost, double x, double y)
{
    double least = cost->n > 0 ? cost->corners[cost->n - 1].y : 0;

    cost->corners[cost->n].x = x;
    cost->corners[cost->n++].y = fmax(y, least);
}

static void set_end_slope(struct wring_cost *cost, double x, double y)
{
    double least = cost->corners[cost->n - 1].y;

    cost->slope = fmax(0, y - least) / (x - cost->corners[cost->n - 1].x);
}

/**
 * The same if the one link that all its bytes pass is s times as fast. W is a further bucket's
 * time, L its bytes' time on the link and P its processor time, each no more than W. Then it takes
 *
 *     W' = max(L/s, P) + W − max(L, P)
 *
 * since the link and the processor go on beside each other, and the rest of W stays. A single
 * bucket's time changes by as much. Its first piece passes the faster of both by itself. With l and
 * p for that piece's times, it takes min(l/s, p) instead of min(l, p) there.
 *
 * By the sizes that calibration takes, 1 Ki, 4 Ki ... 16 Mi elements.
 *
 * @param link_us  of the link as it was measured, by bytes
 * @param scale    s, of bandwidth; latencies stay
 */
static struct wring_measured_cost measured_cost_relink(
    const struct wring_measured_collective *collective, const struct wring_measured_cost *cost,
    const struct wring_cost *link_us, double scale)
{
    struct wring_measured_cost out = {0};
    struct times times;
    double elems = 1024;

    for (uint32_t i = 0; i < WRING_COST_CORNERS; i++, elems *= 4) {
        times = relinked_times(collective, cost, link_us, scale, elems);
        add_corner(&out.busy, elems, times.busy_us);
        add_corner(&out.rest, elems, times.rest_us);
    }
    times = relinked_times(collective, cost, link_us, scale, elems);
    set_end_slope(&out.busy, elems, times.busy_us);
    set_end_slope(&out.rest, elems, times.rest_us);
    return out;
}

/* ---- core scaling ---- */

/** Processors of a node, as many as the profile has seen at work together; 1 at least. */
static uint32_t scaling_processors(const struct wring_profile *profile)
{
    uint32_t most = 1;

    for (uint32_t i = 0; i < profile->n_collectives; i++)
        most = profile->collectives[i].cores > most ? profile->collectives[i].cores : most;
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        for (uint32_t j = 0; j < profile->codecs[i].n_coders; j++) {
            uint32_t cores = profile->codecs[i].coders[j].cores;
            most = cores > most ? cores : most;
        }
    return most;
}

/** Threads that code on a node: pinned ones, or else the one of each rank. */
static double count_coding_threads(const struct wring_core_scaling *scaling)
{
    uint32_t each = scaling->tuning->cores > 0 ? scaling->tuning->cores : 1;
    return (double)scaling->ranks_per_node * each;
}

bool wring_core_scaling_fits(const struct wring_core_scaling *scaling)
{
    return scaling->tuning->cores == 0 ||
           count_coding_threads(scaling) <= scaling_processors(scaling->profile);
}

bool wring_core_scaling_knows(const struct wring_core_scaling *scaling,
                              const struct wring_profile_codec *codec)
{
    return scaling->tuning != NULL && codec != NULL &&
           wring_profile_coder(codec, scaling->tuning->cores) != NULL;
}

void wring_core_scaling_code(const struct wring_core_scaling *scaling,
                             struct wring_profile_codec *codec)
{
    struct wring_profile_coding *coding = &codec->at[WRING_SITE_CPU];
    double share;

    if (scaling->tuning == NULL || (codec->n_coders == 0 && scaling->tuning->cores == 0))
        return;
    const struct wring_profile_coder *coder = wring_profile_coder(codec, scaling->tuning->cores);
    coding->present = coding->present && coder != NULL;
    if (!coding->present)
        return;
    share = count_coding_threads(scaling) / scaling_processors(scaling->profile);
    share = share > 1 ? share : 1;
    coding->encode_us = wring_cost_scale(&coder->encode.us, share, 1);
    coding->decode_us = wring_cost_scale(&coder->decode.us, share, 1);
    coding->decode_add_us = wring_cost_scale(&coder->decode_add.us, share, 1);
    coding->sum_us = wring_cost_scale(&coder->sum.us, share, 1);
}

/* ---- whole collectives ---- */

/** What of a collective is known apart from the others. */
struct parts {
    const struct wring_measured_collective *collective;
    const struct wring_profile_coder *from, *to;
    const struct wring_cost *link_us;
};

static double code_us(const struct parts *parts, const struct wring_profile_coder *coder,
                      double elems)
{
    const struct wring_measured_codes codes =
        wring_measured_codes_of(parts->collective, 1); /* of one link */
    return wring_measured_encode_us(&codes, coder, elems) +
           wring_measured_decode_us(&codes, coder, elems);
}

static double moved_us(const struct parts *parts, double elems)
{
    double busy = wring_cost_at(&parts->collective->busy.us, elems);
    double cpu = wring_cost_at(&parts->collective->cpu.us, elems);
    double rest = cpu - code_us(parts, parts->from, elems),
           link = wring_measured_link_us(parts->collective, parts->link_us, elems);
    double coded = code_us(parts, parts->to, elems);
    double least = rest > link ? rest : link;

    if (least > busy || cpu < WRING_AT_WORK * busy)
        least = busy;
    return coded > least ? coded : least;
}

/** By the sizes that calibration takes, 1 Ki, 4 Ki ... 16 Mi elements; never falling. */
static struct wring_cost move_codec(const struct parts *parts)
{
    struct wring_cost moved = {.n = WRING_COST_CORNERS};
    double elems = 1024, least = 0;

    for (uint32_t i = 0; i < moved.n; i++, elems *= 4) {
        double us = moved_us(parts, elems);
        least = us > least ? us : least;
        moved.corners[i].x = elems;
        moved.corners[i].y = least;
    }
    double slope = (moved_us(parts, elems) - least) / (elems - elems / 4);
    moved.slope = slope > 0 ? slope : 0;
    return moved;
}

/** A core for each rank's progress, for its codecs' threads, and for its computing. */
static bool has_room(const struct wring_core_scaling *scaling,
                     const struct wring_measured_collective *collective)
{
    uint32_t beside = scaling->computing == WRING_COMPUTING_PROCESSOR ? 2 : 1;
    double each = (double)beside + scaling->tuning->cores;

    return scaling->profile->nodes == scaling->nodes &&
           scaling->profile->ranks_per_node == scaling->ranks_per_node &&
           scaling->ranks_per_node * each <= collective->cores;
}

static const struct wring_profile_link *one_link(const struct wring_core_scaling *scaling)
{
    return wring_measured_link(scaling->profile, scaling->nodes, scaling->ranks_per_node);
}

/** Move the codec work of a collective that was measured inline. @return false: nobody knows */
static bool move_collective(const struct wring_core_scaling *scaling,
                            const struct wring_measured_collective *collective,
                            struct wring_cost *busy)
{
    const struct wring_profile_codec *codec = wring_measured_codec(scaling->profile, collective);
    const struct wring_profile_link *link = one_link(scaling);
    struct parts parts = {.collective = collective};

    if (strcmp(collective->codec, "none") == 0) {
        *busy = collective->busy.us;
        return true;
    }
    if (codec == NULL || link == NULL || !has_room(scaling, collective))
        return false;
    parts.from = wring_profile_coder(codec, 0);
    parts.to = wring_profile_coder(codec, scaling->tuning->cores);
    parts.link_us = &link->us;
    if (parts.from == NULL || parts.to == NULL)
        return false;
    *busy = move_codec(&parts);
    return true;
}

/** Are links between nodes others than the profile's? Not where there are none. */
static bool links_differ(const struct wring_core_scaling *scaling)
{
    return scaling->nodes > 1 && scaling->link_scale != 0 && scaling->link_scale != 1;
}

bool wring_core_scaling_is_of(const struct wring_core_scaling *scaling,
                              const struct wring_measured_collective *collective)
{
    return collective->ranks == scaling->nodes * scaling->ranks_per_node &&
           scaling->ranks_per_node == scaling->profile->ranks_per_node &&
           (!links_differ(scaling) || one_link(scaling) != NULL);
}

/** As it was measured on such a cluster. @param tuning  NULL: any */
static const struct wring_measured_collective *find_collective(
    const struct wring_core_scaling *scaling, const char *codec, const char *run_as,
    const struct wring_tuning *tuning)
{
    uint32_t ranks = scaling->nodes * scaling->ranks_per_node;
    const struct wring_measured_collective *collective =
        tuning == NULL
            ? wring_profile_find_collective(scaling->profile, codec, run_as, ranks)
            : wring_profile_collective_at(scaling->profile, codec, run_as, ranks, tuning);

    return collective != NULL && wring_core_scaling_is_of(scaling, collective) ? collective : NULL;
}

/** That tuning's, measured or moved. @param busy  out */
static const struct wring_measured_collective *settle_collective(
    const struct wring_core_scaling *scaling, const char *codec, const char *run_as,
    struct wring_cost *busy)
{
    const struct wring_measured_collective *collective =
        find_collective(scaling, codec, run_as, scaling->tuning);

    if (collective != NULL) {
        *busy = collective->busy.us;
        return collective;
    }
    if (scaling->tuning == NULL || scaling->tuning->cores == 0)
        return NULL;
    struct wring_tuning is_inline = {.chunk_bytes = scaling->tuning->chunk_bytes};
    collective = find_collective(scaling, codec, run_as, &is_inline);
    return collective != NULL && move_collective(scaling, collective, busy) ? collective : NULL;
}

const struct wring_measured_collective *wring_core_scaling_collective(
    const struct wring_core_scaling *scaling, const char *codec, const char *run_as,
    struct wring_measured_cost *cost)
{
    struct wring_cost busy;
    const struct wring_measured_collective *collective =
        settle_collective(scaling, codec, run_as, &busy);

    if (collective == NULL)
        return NULL;
    *cost = measured_cost_of(collective, &busy);
    if (links_differ(scaling))
        *cost = measured_cost_relink(collective, cost, &one_link(scaling)->us, scaling->link_scale);
    return collective;
}

/* ---- shared cores ---- */

/** Of progress, what the cores that code have to do. */
static double coders_progress_share(const struct wring_core_scaling *scaling)
{
    double processors = scaling_processors(scaling->profile), ranks = scaling->ranks_per_node;
    uint32_t cores = scaling->tuning != NULL ? scaling->tuning->cores : 0;

    if (cores == 0)
        return fmax(1, ranks / processors);
    return fmin(1, fmax(0, (ranks * (cores + 1.0) - processors) / ranks));
}

bool wring_core_scaling_progress(const struct wring_core_scaling *scaling,
                                 struct wring_cost *us_by_bytes)
{
    const struct wring_profile *profile = scaling->profile;
    double ranks = (double)profile->nodes * profile->ranks_per_node;
    const struct wring_measured_collective *collective =
        ranks > 1 ? wring_profile_find_collective(profile, "none", "auto", (uint32_t)ranks) : NULL;
    double share = coders_progress_share(scaling);

    if (collective == NULL || share <= 0)
        return false;
    /* 2 (n - 1) / n of a bucket pass a rank's link */
    *us_by_bytes =
        wring_cost_scale(&collective->cpu.us, share, ranks / (2 * (ranks - 1) * sizeof(float)));
    return true;
}

double wring_core_scaling_spin_lost(const struct wring_core_scaling *scaling)
{
    const struct wring_profile *profile = scaling->profile;
    double processors = scaling_processors(profile), ranks = scaling->ranks_per_node;
    double lost = 1 - fmin(1, processors / (2 * ranks)) / fmin(1, processors / ranks);

    if (scaling->ranks_per_node >= profile->ranks_per_node)
        lost = fmax(lost, profile->computing.spin_lost);
    return lost;
}
