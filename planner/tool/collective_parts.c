/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/tool/collective_parts.h"

#include <math.h>
#include <string.h>

#include "planner/core/model/candidates.h"
#include "planner/core/model/measured_collective.h"
#include <wring/types.h>

#define BIT(part) (1u << WRING_PART_##part)

/** What was measured apart. */
struct measured {
    const struct wring_measured_collective *collective;
    struct wring_measured_codes codes;
    const struct wring_profile_codec *codec; /* NULL: nothing is coded, or nobody knows the work */
    const struct wring_profile_link *link;   /* NULL: not known, or memory */
    uint32_t cores;                          /* pinned ones that code; 0: inline */
    double share;                            /* of a processor that a rank has */
};

static struct measured look_up_measured(const struct wring_cost_model *model,
                                        const struct wring_measured_collective *collective)
{
    const struct wring_profile *profile = model->profile;
    double share = profile->computing.core_share;
    struct measured measured = {
        .collective = collective,
        .codes = wring_measured_codes_of(collective, model->ranks_per_node),
        .codec = wring_measured_codec(profile, collective),
        .link = wring_measured_link(profile, model->nodes, model->ranks_per_node),
        .cores = model->settled ? model->tuning.cores : collective->coder_cores,
        .share = share > 0 ? share : 1};

    if (measured.link != NULL && strcmp(measured.link->provider, "shm") == 0)
        measured.link = NULL;
    return measured;
}

/** What that number of cores codes. @return in all */
static double time_coding(const struct measured *measured, uint32_t cores, double elems, double *us)
{
    const struct wring_profile_coder *coder =
        measured->codec != NULL ? wring_profile_coder(measured->codec, cores) : NULL;

    us[WRING_PART_ENCODE] =
        coder != NULL ? wring_measured_encode_us(&measured->codes, coder, elems) : 0;
    us[WRING_PART_DECODE] =
        coder != NULL ? wring_measured_decode_us(&measured->codes, coder, elems) : 0;
    return us[WRING_PART_ENCODE] + us[WRING_PART_DECODE];
}

/** Coding was measured apart and may not fit: cut it to most_us. @return us of coding */
static double fit_coding(double most_us, double *us)
{
    double coding = us[WRING_PART_ENCODE] + us[WRING_PART_DECODE];

    if (coding <= most_us)
        return coding;
    us[WRING_PART_ENCODE] *= most_us / coding;
    us[WRING_PART_DECODE] *= most_us / coding;
    return most_us;
}

/** Parts of the thread that makes progress, from `begin` on. @return its end */
static double lay_thread(const struct measured *measured, double busy_us, double begin,
                         struct wring_collective_parts *out)
{
    double wait = fmin(out->took_us - busy_us, busy_us / measured->share - busy_us);

    out->us[WRING_PART_CORES] = fmax(wait, 0);
    out->begin_us[WRING_PART_CORES] = begin;
    return begin + out->us[WRING_PART_CORES];
}

/** One thread does it all: encode, the rest, decode. @return the end of its work */
static double lay_inline(const struct measured *measured, double cpu_us,
                         struct wring_collective_parts *out)
{
    double busy = fmin(cpu_us, out->took_us), coding = fit_coding(busy, out->us);

    out->us[WRING_PART_WORK] = busy - coding;
    out->begin_us[WRING_PART_WORK] = out->us[WRING_PART_ENCODE];
    out->begin_us[WRING_PART_DECODE] = busy - out->us[WRING_PART_DECODE];
    out->decides = BIT(ENCODE) | BIT(DECODE) | BIT(WORK) | BIT(CORES) | BIT(PEERS);
    return lay_thread(measured, busy, busy, out);
}

/** Others code meanwhile. `out` has what that takes. @return what the busier of both takes */
static double lay_pinned(const struct measured *measured, double cpu_us, double elems,
                         struct wring_collective_parts *out)
{
    double inline_us[WRING_COLLECTIVE_PARTS], coded = time_coding(measured, 0, elems, inline_us);
    double coding = fit_coding(out->took_us, out->us);

    if (measured->collective->coder_cores > 0) /* their time was counted, too */
        coded = coding * measured->cores;
    out->us[WRING_PART_WORK] = fmin(fmax(cpu_us - coded, 0), out->took_us);
    out->begin_us[WRING_PART_DECODE] = out->took_us - out->us[WRING_PART_DECODE];
    double end = lay_thread(measured, out->us[WRING_PART_WORK], out->us[WRING_PART_WORK], out);
    if (coding < end) {
        out->decides = BIT(WORK) | BIT(CORES) | BIT(PEERS);
        return end;
    }
    out->decides = BIT(ENCODE) | BIT(DECODE) | BIT(PEERS);
    return coding;
}

/** The wire begins after the encoding, or earlier if it would not end in time. */
static void lay_wire(const struct measured *measured, double cpu_us, double elems,
                     struct wring_collective_parts *out)
{
    double us = measured->link != NULL
                    ? wring_measured_link_us(measured->collective, &measured->link->us, elems)
                    : 0;
    double at_work = WRING_AT_WORK * out->took_us;

    us = fmin(us, out->took_us);
    out->us[WRING_PART_WIRE] = us;
    out->begin_us[WRING_PART_WIRE] = fmin(out->us[WRING_PART_ENCODE], out->took_us - us);
    if (us >= at_work && cpu_us < at_work && us > out->took_us - out->us[WRING_PART_PEERS])
        out->decides = BIT(WIRE);
}

/** The time in which the ranks' thread does nothing. If pinned cores decide, it lies between their
 * encoding and their decoding. */
static void lay_peers(double end, struct wring_collective_parts *out)
{
    bool scaling = (out->decides & BIT(ENCODE)) != 0 && (out->decides & BIT(WORK)) == 0;

    out->us[WRING_PART_PEERS] = fmax(out->took_us - end, 0);
    out->begin_us[WRING_PART_PEERS] = scaling ? out->us[WRING_PART_ENCODE] : end;
}

/** Shards are cut into pieces; in one step the whole is. */
static uint64_t count_pieces(const struct measured *measured, double elems)
{
    const struct wring_tuning tuning = wring_profile_collective_tuning(measured->collective);
    double each = wring_candidate_piece_elems(measured->codec, tuning.chunk_bytes, sizeof(float));
    const struct wring_measured_codes *codes = &measured->codes;
    double travels = codes->part * elems / (codes->divisible ? codes->ranks : 1);

    return travels > each ? (uint64_t)ceil(travels / each) : 1;
}

bool wring_collective_parts(const struct wring_cost_model *model, uint32_t option, uint64_t elems,
                            struct wring_collective_parts *out)
{
    const struct wring_measured_collective *collective = model->options[option].collective;
    double n = (double)elems, took = 0;

    for (uint32_t lane = 0; collective != NULL && lane < model->problem.n_lanes; lane++)
        if (strcmp(model->lanes[lane], WRING_LANE_COLLECTIVE) == 0)
            took = wring_cost_at(&model->costs[option].each[lane], n);
    if (took <= 0)
        return false;
    n *= wring_cost_model_width(model->options[option].dtype, collective->codec);
    const struct measured measured = look_up_measured(model, collective);
    double cpu_us = wring_cost_at(&collective->cpu.us, n);
    *out = (struct wring_collective_parts){.took_us = took};
    time_coding(&measured, measured.cores, n, out->us);
    lay_peers(measured.cores > 0 && measured.codec != NULL ? lay_pinned(&measured, cpu_us, n, out)
                                                           : lay_inline(&measured, cpu_us, out),
              out);
    lay_wire(&measured, cpu_us, n, out);
    out->pieces = count_pieces(&measured, n);
    return true;
}

const char *wring_collective_part_name(enum wring_collective_part part)
{
    switch (part) {
    case WRING_PART_ENCODE:
        return "encode";
    case WRING_PART_WIRE:
        return "wire";
    case WRING_PART_DECODE:
        return "decode and add";
    case WRING_PART_WORK:
        return "rest of the work";
    case WRING_PART_CORES:
        return "waits for a core";
    case WRING_PART_PEERS:
        return "waits for link, peers";
    }
    return "";
}
