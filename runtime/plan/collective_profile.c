/* SPDX-License-Identifier: Apache-2.0 */
/* Between measured collectives and a profile: what it lacks, and its entries from the samples. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/codec.h"
#include "compress/solo.h"
#include "planner/core/fit.h"
#include "runtime/plan/collective_bench_inside.h"

double wring_collective_bench_median(struct wring_collective_bench_case *collective,
                                     enum wring_collective_bench_kind kind, uint32_t size)
{
    struct wring_fit_point point = {0, collective->us[kind][size], collective->samples[size]};
    return wring_fit_look(&point).median;
}

bool wring_collective_profile_has_coding(const struct wring_profile *profile, const char *spec)
{
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        if (strcmp(profile->codecs[i].spec, spec) == 0)
            return profile->codecs[i].at[WRING_SITE_CPU].present;
    return false;
}

bool wring_collective_profile_lacks(const struct wring_profile *profile, const char *spec,
                                    uint32_t ranks, bool every_scheme)
{
    bool raw = strcmp(spec, "none") == 0;

    if (!raw && !wring_collective_profile_has_coding(profile, spec))
        return true;
    if (raw || every_scheme)
        return wring_profile_find_collective(profile, spec, "auto", ranks) == NULL;
    return wring_profile_find_collective(profile, spec, "divisible", ranks) == NULL &&
           wring_profile_find_collective(profile, spec, "indivisible", ranks) == NULL;
}

double wring_collective_profile_turn_us(const struct wring_profile *profile, const char *spec,
                                        uint32_t ranks, uint32_t size, uint64_t *known)
{
    double us = 0;

    *known = 0;
    for (uint32_t i = 0; i < profile->n_collectives; i++) {
        const struct wring_measured_collective *collective = &profile->collectives[i];
        if (strcmp(collective->codec, spec) != 0 || collective->ranks != ranks)
            continue;
        *known = *known == 0 || collective->max_elems < *known ? collective->max_elems : *known;
        for (uint32_t s = size; s < size + 2; s++) {
            double elems = (double)wring_collective_bench_size(s);
            us += 2 * wring_cost_at(&collective->solo.us, elems) +
                  wring_cost_at(&collective->busy.us, elems);
        }
    }
    return us;
}

/* ---- measured backlog ---- */

/* The time of a further bucket, from the samples of backlogs: none is long enough to show it. */

#define MANY 16               /* pieces */
#define SHARED 0.75           /* of a processor: a rank that has less shares it */
#define LONG_BYTES (16 << 20) /* that no credit for bursts is enough for */
#define LINKS_SHARE 0.75      /* of a bucket's time: from there on the link decides it */

/** A byte's time on a link that is used for long. It is that of the link's own measurement, or of a
 * backlog of the largest raw buckets if that was less. */
static double sustained_us(struct wring_collective_bench *bench,
                           const struct wring_profile_link *link)
{
    double least_us = link->us.slope;

    for (uint32_t w = 0; w < bench->n; w++) {
        struct wring_collective_bench_case *collective = &bench->collectives[w];
        uint32_t last = collective->n - 1;
        if (!wring_collective_bench_is_raw(bench, collective) ||
            collective->batch[last] * collective->wire_bytes[last] < LONG_BYTES)
            continue;
        struct wring_fit_point all = {0, collective->all_us[last], collective->samples[last]};
        least_us = fmin(least_us, wring_fit_look(&all).median / collective->batch[last] /
                                      collective->wire_bytes[last]);
    }
    return least_us;
}

/** The link that all bytes pass: that of one rank per node. NULL: there is none */
static const struct wring_profile_link *find_slowest_link(const struct wring_profile *profile)
{
    const struct wring_profile_link *link = &profile->links[WRING_LEVEL_INTER];

    return profile->ranks_per_node == 1 && link->present ? link : NULL;
}

/**
 * A link may let through more at first than it sustains: queues are empty, and credit for bursts is
 * left. In a long backlog a bucket takes at least the time of its bytes on the link, as measured
 * with the largest buckets.
 */
static void raise_to_link_time(struct wring_collective_bench *bench,
                               const struct wring_profile *profile)
{
    const struct wring_profile_link *link = find_slowest_link(profile);

    if (link == NULL)
        return;
    double byte_us = sustained_us(bench, link);
    for (uint32_t w = 0; w < bench->n; w++)
        for (uint32_t size = bench->first; size < bench->collectives[w].n; size++) {
            struct wring_collective_bench_case *collective = &bench->collectives[w];
            double least_us = byte_us * collective->wire_bytes[size];
            double *busy_us = collective->us[WRING_COLLECTIVE_BENCH_BUSY][size];
            for (uint32_t i = 0; i < collective->samples[size]; i++)
                busy_us[i] = fmax(busy_us[i], least_us);
        }
}

/**
 * Ranks that share a processor take turns, and each one's clock starts with its first turn. So all
 * of them together take longer than any rank sees, by as much in a short backlog as in a long one.
 * A further bucket takes at least its processor time over a rank's share of the processor.
 */
static void raise_to_core_share(struct wring_collective_bench *bench, double share,
                                struct wring_collective_bench_case *collective)
{
    if (share <= 0 || share > SHARED)
        return;
    for (uint32_t size = bench->first; size < collective->n; size++) {
        double *busy_us = collective->us[WRING_COLLECTIVE_BENCH_BUSY][size];
        if (wring_collective_bench_size(size) * sizeof(float) < bench->session->config.chunk_bytes)
            continue; /* mostly what waiting takes */
        for (uint32_t i = 0; i < collective->samples[size]; i++)
            busy_us[i] =
                fmax(busy_us[i], collective->us[WRING_COLLECTIVE_BENCH_CPU][size][i] / share);
    }
}

/**
 * A backlog of k takes k times what a further bucket does, and once what fills and empties the
 * chain of its pieces. The latter is the same for all buckets of many pieces, so that of the
 * smallest ones is taken off the larger ones' backlogs: less is in doubt then than between a
 * backlog and a single bucket, of which there are few samples, and the largest size is what larger
 * ones are told by.
 */
static void take_off_chain_time(struct wring_collective_bench *bench,
                                struct wring_collective_bench_case *collective)
{
    uint64_t pieces = 0;
    double once_us = 0;

    for (uint32_t size = bench->first; size < collective->n; size++) {
        bool many = pieces >= MANY;
        pieces =
            wring_collective_bench_size(size) * sizeof(float) / bench->session->config.chunk_bytes;
        if (pieces < MANY || collective->batch[size] < 2)
            continue;
        if (!many) {
            once_us = fmax(
                0,
                wring_collective_bench_median(collective, WRING_COLLECTIVE_BENCH_SOLO, size) -
                    wring_collective_bench_median(collective, WRING_COLLECTIVE_BENCH_BUSY, size));
            continue;
        }
        for (uint32_t i = 0; i < collective->samples[size]; i++)
            collective->us[WRING_COLLECTIVE_BENCH_BUSY][size][i] =
                fmax(collective->all_us[size][i] - once_us, WRING_COLLECTIVE_BENCH_LEAST_US) /
                collective->batch[size];
    }
}

/**
 * Extrapolate to buckets larger than those measured, if there was no time for all sizes and the
 * link takes most of the largest one's time. Each further element takes its bytes' time on the
 * link. The times of small buckets include how their backlogs begin and end, which this leaves out.
 * @param fitted  in and out: its curves of solo and busy get that slope
 */
static void extrapolate_by_link(struct wring_collective_bench *bench,
                                const struct wring_profile *profile,
                                struct wring_measured_collective *fitted)
{
    const struct wring_profile_link *link = find_slowest_link(profile);

    if (link == NULL ||
        fitted->max_elems >= wring_collective_bench_size(WRING_COLLECTIVE_BENCH_SIZES - 1))
        return;
    double byte_us = sustained_us(bench, link), largest = (double)fitted->max_elems;
    double link_us = byte_us * wring_cost_at(&fitted->wire_bytes, largest);
    if (link_us < LINKS_SHARE * wring_cost_at(&fitted->busy.us, largest))
        return;
    fitted->solo.us.slope = fitted->busy.us.slope = byte_us * fitted->wire_bytes.slope;
}

/** What further buckets take, as far as backlogs tell. */
static void correct_backlogs(struct wring_collective_bench *bench)
{
    for (uint32_t w = 0; w < bench->n; w++)
        take_off_chain_time(bench, &bench->collectives[w]);
}

/** The same in backlogs longer than any measured one, by the profile's link and by each rank's
 * share of a processor. */
static void correct_long_backlogs(struct wring_collective_bench *bench,
                                  const struct wring_profile *profile)
{
    raise_to_link_time(bench, profile);
    if (!profile->computing.present)
        return;
    for (uint32_t w = 0; w < bench->n; w++)
        raise_to_core_share(bench, profile->computing.core_share, &bench->collectives[w]);
}

/* ---- measured profile ---- */

/* From the samples of whole collectives to a profile. */

/* ---- links ---- */

/** Bytes of a raw bucket that pass a link one way, those included that peers read in place. */
static double raw_bytes(const struct wring_collective_bench *bench,
                        const struct wring_collective_bench_case *raw, uint32_t size)
{
    double ranks = bench->session->size;
    double least =
        2 * (ranks - 1) / ranks * (double)wring_collective_bench_size(size) * sizeof(float);

    return fmax(raw->wire_bytes[size], least);
}

/** Add links that the profile lacks, as far as raw collectives tell. */
static void add_links(const struct wring_collective_bench *bench,
                      struct wring_collective_bench_case *raw, struct wring_profile *profile)
{
    uint32_t last = raw->n - 1;

    for (int level = 0; level < WRING_LEVELS; level++) {
        struct wring_profile_link *link = &profile->links[level];
        bool there = level == WRING_LEVEL_INTER ? profile->nodes > 1 : profile->ranks_per_node > 1;
        if (!there || link->present)
            continue;
        link->present = true;
        link->latency_us =
            wring_collective_bench_median(raw, WRING_COLLECTIVE_BENCH_SOLO, bench->first);
        link->us = wring_cost_line(
            0, wring_collective_bench_median(raw, WRING_COLLECTIVE_BENCH_BUSY, last) /
                   raw_bytes(bench, raw, last));
    }
}

/* ---- collectives ---- */

/** Whose samples are those of a collective's codec in a scheme, at a size. */
static struct wring_collective_bench_case *pick_collective(
    struct wring_collective_bench *bench, struct wring_collective_bench_case *collective,
    enum wring_scheme scheme, uint32_t size)
{
    if (scheme == collective->scheme)
        return collective;
    for (uint32_t w = 0; w < bench->n; w++)
        if (bench->collectives[w].codec == collective->codec &&
            bench->collectives[w].scheme == bench->auto_is[collective->codec][size])
            return &bench->collectives[w];
    return collective;
}

/** A curve through one number for each size, 0 where it is missing. */
static enum wring_status fit_numbers(const struct wring_collective_bench *bench, double *numbers,
                                     uint32_t end, struct wring_cost *out)
{
    struct wring_fit_point points[WRING_COLLECTIVE_BENCH_SIZES];
    struct wring_profile_curve curve;
    uint32_t n = 0;

    for (uint32_t size = bench->first; size < end; size++)
        if (numbers[size] > 0)
            points[n++] = (struct wring_fit_point){(double)wring_collective_bench_size(size),
                                                   &numbers[size], 1};
    if (n == 0) { /* peers read where it lies */
        *out = (struct wring_cost){.n = 0};
        return WRING_OK;
    }
    enum wring_status status = wring_fit_curve(points, n, WRING_FIT_MEDIAN, &curve);
    if (status == WRING_OK)
        *out = curve.us;
    return status;
}

/** @return the collective that is there already and stays, for smaller buckets; NULL: all is new */
static struct wring_measured_collective *find_kept(
    const struct wring_collective_bench *bench,
    const struct wring_collective_bench_case *collective, enum wring_scheme scheme,
    struct wring_profile *profile)
{
    for (uint32_t i = 0; i < profile->n_collectives && bench->params->larger; i++) {
        struct wring_measured_collective *kept = &profile->collectives[i];
        if (strcmp(kept->codec, wring_collective_bench_spec(bench, collective)) == 0 &&
            strcmp(kept->run_as, wring_scheme_name(scheme)) == 0 &&
            kept->ranks == bench->session->size &&
            kept->max_elems >= wring_collective_bench_size(bench->first))
            return kept;
    }
    return NULL;
}

static enum wring_status put_new_case(struct wring_collective_bench *bench,
                                      const struct wring_collective_bench_case *collective,
                                      enum wring_scheme scheme,
                                      const struct wring_measured_collective *fitted,
                                      struct wring_profile *profile)
{
    struct wring_measured_collective *out = wring_profile_put_collective(
        profile, wring_collective_bench_spec(bench, collective), wring_scheme_name(scheme),
        bench->session->size, bench->params->cores);

    if (out == NULL)
        return WRING_ERR_NO_MEMORY;
    out->solo = fitted->solo;
    out->busy = fitted->busy;
    out->cpu = fitted->cpu;
    out->wire_bytes = fitted->wire_bytes;
    out->max_elems = fitted->max_elems;
    return WRING_OK;
}

/** Curves of the sizes that were measured. @param fitted  out, without a name */
static enum wring_status fit_case(struct wring_collective_bench *bench,
                                  struct wring_collective_bench_case *collective,
                                  enum wring_scheme scheme,
                                  struct wring_measured_collective *fitted)
{
    struct wring_fit_point points[WRING_COLLECTIVE_BENCH_SIZES];
    double bytes[WRING_COLLECTIVE_BENCH_SIZES];
    enum wring_status status = WRING_OK;
    uint32_t end = bench->first;

    *fitted = (struct wring_measured_collective){.max_elems = 0};
    while (end < bench->sizes && end < pick_collective(bench, collective, scheme, end)->n) {
        bytes[end] = pick_collective(bench, collective, scheme, end)->wire_bytes[end];
        end++;
    }
    struct wring_profile_curve *curves[] = {&fitted->solo, &fitted->busy, &fitted->cpu};
    for (int kind = 0; kind < WRING_COLLECTIVE_BENCH_KINDS && status == WRING_OK; kind++) {
        for (uint32_t size = bench->first; size < end; size++) {
            struct wring_collective_bench_case *from =
                pick_collective(bench, collective, scheme, size);
            points[size - bench->first] =
                (struct wring_fit_point){(double)wring_collective_bench_size(size),
                                         from->us[kind][size], from->samples[size]};
        }
        status = wring_fit_curve(points, end - bench->first, WRING_FIT_MEAN, curves[kind]);
    }
    fitted->max_elems = wring_collective_bench_size(end - 1);
    return status == WRING_OK ? fit_numbers(bench, bytes, end, &fitted->wire_bytes) : status;
}

static enum wring_status put_case(struct wring_collective_bench *bench,
                                  struct wring_collective_bench_case *collective,
                                  enum wring_scheme scheme, struct wring_profile *profile)
{
    struct wring_measured_collective *kept = find_kept(bench, collective, scheme, profile), fitted;
    enum wring_status status = fit_case(bench, collective, scheme, &fitted);
    uint32_t common = 0;

    if (status != WRING_OK)
        return status;
    extrapolate_by_link(bench, profile, &fitted);
    if (kept == NULL)
        return put_new_case(bench, collective, scheme, &fitted, profile);
    while (wring_collective_bench_size(bench->first + common) <=
           (kept->max_elems < fitted.max_elems ? kept->max_elems : fitted.max_elems))
        common++;
    wring_profile_extend_collective(kept, &fitted, common);
    return WRING_OK;
}

/* ---- codecs ---- */

#define MANY_ELEMS (1u << 20) /* at which the bytes of an element are taken */

/** The bytes of a code or sum, by those of one element and of MANY_ELEMS. */
static struct wring_cost bytes_line(size_t one, size_t many)
{
    return wring_cost_line((double)one, (double)many / MANY_ELEMS);
}

/** Of codes, and of their sums where these are wider. */
static enum wring_status put_bytes(const struct wring_codec *codec, struct wring_profile_codec *out)
{
    size_t one = wring_codec_bound(codec, 1), many = wring_codec_bound(codec, MANY_ELEMS);
    size_t sum_of_one = one, sum_of_many = many;
    enum wring_status status = WRING_OK;

    out->wire_bytes = bytes_line(one, many);
    if (wring_codec_adds_codes(codec))
        status = wring_solo_sum_bytes(codec, 1, &sum_of_one);
    if (status == WRING_OK && wring_codec_adds_codes(codec))
        status = wring_solo_sum_bytes(codec, MANY_ELEMS, &sum_of_many);
    if (status == WRING_OK && sum_of_many != many)
        out->traits.way_back.bytes = bytes_line(sum_of_one, sum_of_many);
    return status;
}

/** Encoding and decoding are counted together here: half of it each. Both are in the collective
 * already.
 */
static enum wring_status put_codec(const struct wring_collective_bench *bench,
                                   struct wring_collective_bench_case *collective,
                                   struct wring_profile *profile)
{
    const char *spec = wring_collective_bench_spec(bench, collective);
    struct wring_profile_codec *out = wring_profile_put_codec(profile, spec);
    struct wring_codec *codec;
    struct wring_cost both;

    if (out == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status =
        wring_codec_create(spec, NULL, bench->session->codecs, NULL, 0, &codec);
    if (status != WRING_OK)
        return status;
    out->feedback = (wring_codec_info(codec)->flags & WRING_CODEC_FEEDBACK) != 0;
    status = put_bytes(codec, out);
    wring_codec_destroy(codec);
    if (status == WRING_OK)
        status = fit_numbers(bench, collective->codec_us, collective->n, &both);
    if (status != WRING_OK)
        return status;
    struct wring_profile_coding *coding = &out->at[WRING_SITE_CPU];
    coding->present = true;
    coding->encode_us = coding->decode_us = wring_cost_scale(&both, 0.5, 1);
    return WRING_OK;
}

enum wring_status wring_collective_profile_put(struct wring_collective_bench *bench,
                                               struct wring_profile *profile)
{
    enum wring_status status = WRING_OK;

    correct_backlogs(bench);
    for (uint32_t w = 0; w < bench->n; w++)
        if (wring_collective_bench_is_raw(bench, &bench->collectives[w]) &&
            wring_collective_bench_is_flat(&bench->collectives[w]))
            add_links(bench, &bench->collectives[w], profile);
    correct_long_backlogs(bench, profile);
    for (uint32_t w = 0; w < bench->n && status == WRING_OK; w++) {
        struct wring_collective_bench_case *collective = &bench->collectives[w];
        bool first = w == 0 || bench->collectives[w - 1].codec != collective->codec;
        bool last = w + 1 == bench->n || bench->collectives[w + 1].codec != collective->codec ||
                    !wring_collective_bench_is_flat(&bench->collectives[w + 1]);
        if (first && bench->params->every_scheme)
            status = put_case(bench, collective, WRING_SCHEME_AUTO, profile);
        if (status == WRING_OK)
            status = put_case(bench, collective, collective->scheme, profile);
        if (status == WRING_OK && last && wring_collective_bench_is_flat(collective) &&
            !wring_collective_bench_is_raw(bench, collective) &&
            !wring_collective_profile_has_coding(profile,
                                                 wring_collective_bench_spec(bench, collective)))
            status = put_codec(bench, collective, profile);
    }
    return status;
}
