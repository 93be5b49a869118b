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
    bool in_nodes = scheme >= WRING_SCHEME_HIERARCHICAL && scheme != WRING_SCHEMES;
    uint32_t places = in_nodes && ranks_per_node > 0 ? ranks_per_node : 1;

    return (struct wring_measured_codes){
        .ranks = collective->ranks / places,
        .part = 1.0 / places,
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
static struct wring_cost rest_of(const struct wring_cost *a, const struct wring_cost *b)
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

struct wring_measured_cost wring_measured_cost_of(
    const struct wring_measured_collective *collective, const struct wring_cost *busy)
{
    return (struct wring_measured_cost){*busy, rest_of(&collective->solo.us, &collective->busy.us)};
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

static struct times relink(const struct wring_measured_collective *collective,
                           const struct wring_measured_cost *cost, const struct wring_cost *link_us,
                           double scale, double elems)
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

static void end_with(struct wring_cost *cost, double x, double y)
{
    double least = cost->corners[cost->n - 1].y;

    cost->slope = fmax(0, y - least) / (x - cost->corners[cost->n - 1].x);
}

/** By the sizes that calibration takes, 1 Ki, 4 Ki ... 16 Mi elements. */
struct wring_measured_cost wring_measured_cost_relink(
    const struct wring_measured_collective *collective, const struct wring_measured_cost *cost,
    const struct wring_cost *link_us, double scale)
{
    struct wring_measured_cost out = {0};
    struct times times;
    double elems = 1024;

    for (uint32_t i = 0; i < WRING_COST_CORNERS; i++, elems *= 4) {
        times = relink(collective, cost, link_us, scale, elems);
        add_corner(&out.busy, elems, times.busy_us);
        add_corner(&out.rest, elems, times.rest_us);
    }
    times = relink(collective, cost, link_us, scale, elems);
    end_with(&out.busy, elems, times.busy_us);
    end_with(&out.rest, elems, times.rest_us);
    return out;
}
