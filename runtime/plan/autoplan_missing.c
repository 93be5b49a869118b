/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/autoplan_missing.h"

static void add(struct wring_measure_codecs *codecs, const char *spec)
{
    memcpy(codecs->specs[codecs->n++], spec, WRING_CODEC_SPEC_MAX);
}

/** The largest size that is measured of buckets with so many elements. */
static uint32_t size_of(uint64_t elems)
{
    uint32_t size = 0;

    while (size + 1 < WRING_MEASURE_SIZES && wring_measure_size(size + 1) <= elems)
        size++;
    return size;
}

/** Whole codecs that the profile has nothing of. */
static void find_unknown(const struct wring_autoplan *autoplan,
                         const struct wring_measure_codecs *codecs,
                         struct wring_measure_codecs *out)
{
    const struct wring_profile *profile = autoplan->profile;
    uint32_t ranks = autoplan->session->size;
    bool all = profile == NULL || wring_measure_lacks(profile, "none", ranks, false);

    if (all)
        add(out, (const char[WRING_CODEC_SPEC_MAX]){"none"});
    for (uint32_t i = 0; i < codecs->n; i++)
        if (all || wring_measure_lacks(profile, codecs->specs[i], ranks, false))
            add(out, codecs->specs[i]);
}

/** A codec that is known up to a size below the wanted one goes on the list. */
static void look_at_sizes(const struct wring_autoplan *autoplan, const char *spec, uint32_t wanted,
                          struct wring_autoplan_missing *out)
{
    uint64_t known;

    if (wring_measure_has(&out->codecs, spec))
        return;
    wring_measure_round_us(autoplan->profile, spec, autoplan->session->size, 0, &known);
    uint32_t last = size_of(known);
    if (last >= wanted)
        return;
    out->first = out->larger.n == 0 || last < out->first ? last : out->first;
    add(&out->larger, spec);
}

/** Is a round of what is listed short enough? */
static bool is_affordable(const struct wring_autoplan *autoplan,
                          const struct wring_measure_params *params,
                          const struct wring_autoplan_missing *missing)
{
    double us = 0;
    uint64_t unused;

    for (uint32_t i = 0; i < missing->larger.n; i++)
        us += wring_measure_round_us(autoplan->profile, missing->larger.specs[i],
                                     autoplan->session->size, missing->first, &unused);
    return us <= wring_measure_limit_us(params->budget_ns);
}

void wring_autoplan_find_missing(const struct wring_autoplan *autoplan,
                                 const struct wring_measure_codecs *codecs,
                                 const struct wring_measure_params *params,
                                 struct wring_autoplan_missing *out)
{
    uint32_t wanted = size_of(params->max_elems);

    out->codecs.n = out->larger.n = out->first = 0;
    find_unknown(autoplan, codecs, &out->codecs);
    if (autoplan->profile == NULL)
        return;
    look_at_sizes(autoplan, (const char[WRING_CODEC_SPEC_MAX]){"none"}, wanted, out);
    for (uint32_t i = 0; i < codecs->n; i++)
        look_at_sizes(autoplan, codecs->specs[i], wanted, out);
    if (!is_affordable(autoplan, params, out))
        out->larger.n = 0;
}

/* ---- between ranks ---- */

void wring_autoplan_write_codecs(const struct wring_measure_codecs *codecs,
                                 struct wring_writer *out)
{
    wring_write_u32(out, codecs->n);
    for (uint32_t i = 0; i < codecs->n; i++)
        wring_write_sized(out, codecs->specs[i], strlen(codecs->specs[i]));
}

void wring_autoplan_read_codecs(struct wring_reader *in, struct wring_measure_codecs *out)
{
    out->n = wring_read_u32(in);
    if (out->n > WRING_MEASURE_CODECS_MAX) {
        in->failed = true;
        out->n = 0;
    }
    for (uint32_t i = 0; i < out->n; i++)
        wring_read_text(in, out->specs[i], WRING_CODEC_SPEC_MAX);
}

void wring_autoplan_write_missing(const struct wring_autoplan_missing *missing,
                                  struct wring_writer *out)
{
    wring_autoplan_write_codecs(&missing->codecs, out);
    wring_autoplan_write_codecs(&missing->larger, out);
    wring_write_u32(out, missing->first);
}

void wring_autoplan_read_missing(struct wring_reader *in, struct wring_autoplan_missing *out)
{
    wring_autoplan_read_codecs(in, &out->codecs);
    wring_autoplan_read_codecs(in, &out->larger);
    out->first = wring_read_u32(in);
    if (out->first + 1 >= WRING_MEASURE_SIZES)
        in->failed = true;
}
