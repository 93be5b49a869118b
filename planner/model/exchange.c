/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/model/exchange.h"

#include <math.h>
#include <string.h>

#include "planner/model/candidates.h"
#include <wring/types.h>

const struct wring_profile_codec *wring_way_codec(const struct wring_profile *profile,
                                                  const struct wring_profile_way *way)
{
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        if (strcmp(profile->codecs[i].spec, way->codec) == 0)
            return &profile->codecs[i];
    return NULL;
}

struct wring_way_codes wring_way_codes_of(const struct wring_profile_way *way,
                                          uint32_t ranks_per_node)
{
    enum wring_scheme scheme = wring_scheme_find(way->run_as);
    bool in_nodes = scheme >= WRING_SCHEME_HIERARCHICAL && scheme != WRING_SCHEMES;
    uint32_t places = in_nodes && ranks_per_node > 0 ? ranks_per_node : 1;

    return (struct wring_way_codes){
        .ranks = way->ranks / places,
        .part = 1.0 / places,
        .divisible =
            scheme != WRING_SCHEME_INDIVISIBLE && scheme != WRING_SCHEME_HIERARCHICAL_INDIVISIBLE,
    };
}

double wring_way_encode_us(const struct wring_way_codes *codes,
                           const struct wring_profile_coder *coder, double elems)
{
    return wring_cost_at(&coder->encode.us, codes->part * elems);
}

double wring_way_decode_us(const struct wring_way_codes *codes,
                           const struct wring_profile_coder *coder, double elems)
{
    double others = codes->ranks - 1.0, added = codes->divisible ? others / codes->ranks : others;
    double coded = added * codes->part * elems;
    double us = wring_cost_at(
        wring_profile_decoding(&coder->decode.us, &coder->decode_add.us, true), coded);

    return codes->divisible ? us + wring_cost_at(&coder->decode.us, coded) : us;
}

double wring_way_link_us(const struct wring_profile_way *way, const struct wring_cost *link_us,
                         double elems)
{
    double bytes = wring_cost_at(&way->wire_bytes, elems);
    double us = wring_cost_at(link_us, bytes), least = bytes * link_us->slope;

    return us > least ? us : least;
}

const struct wring_profile_link *wring_way_link(const struct wring_profile *profile, uint32_t nodes,
                                                uint32_t ranks_per_node)
{
    if (nodes > 1 && ranks_per_node > 1)
        return NULL;
    const struct wring_profile_link *link =
        &profile->links[nodes > 1 ? WRING_LEVEL_INTER : WRING_LEVEL_INTRA];
    return link->present ? link : NULL;
}

/* ---- way cost ---- */

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

struct wring_way_cost wring_way_cost_of(const struct wring_profile_way *way,
                                        const struct wring_cost *busy)
{
    return (struct wring_way_cost){*busy, rest_of(&way->solo.us, &way->busy.us)};
}

/** Of one size: in as it was measured, out on the other link. */
struct times {
    double busy_us, rest_us;
};

/** The part of a bucket that its first piece has. */
static double first_piece(const struct wring_profile_way *way, double elems)
{
    double bytes = wring_cost_at(&way->wire_bytes, elems);
    double piece = (double)wring_profile_way_setting(way).chunk_bytes;

    return bytes > piece ? piece / bytes : 1;
}

static struct times relink(const struct wring_profile_way *way, const struct wring_way_cost *cost,
                           const struct wring_cost *link_us, double scale, double elems)
{
    double busy = wring_cost_at(&cost->busy, elems), rest = wring_cost_at(&cost->rest, elems);
    double link = fmin(wring_way_link_us(way, link_us, elems), busy), then = link / scale;
    double cpu = fmin(wring_cost_at(&way->cpu.us, elems), busy), part = first_piece(way, elems);

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
struct wring_way_cost wring_way_cost_relink(const struct wring_profile_way *way,
                                            const struct wring_way_cost *cost,
                                            const struct wring_cost *link_us, double scale)
{
    struct wring_way_cost out = {0};
    struct times times;
    double elems = 1024;

    for (uint32_t i = 0; i < WRING_COST_CORNERS; i++, elems *= 4) {
        times = relink(way, cost, link_us, scale, elems);
        add_corner(&out.busy, elems, times.busy_us);
        add_corner(&out.rest, elems, times.rest_us);
    }
    times = relink(way, cost, link_us, scale, elems);
    end_with(&out.busy, elems, times.busy_us);
    end_with(&out.rest, elems, times.rest_us);
    return out;
}

/* ---- exchange parts ---- */

#define BIT(part) (1u << WRING_PART_##part)

/** What was measured apart. */
struct measured {
    const struct wring_profile_way *way;
    struct wring_way_codes codes;
    const struct wring_profile_codec *codec; /* NULL: nothing is coded, or nobody knows the work */
    const struct wring_profile_link *link;   /* NULL: not known, or memory */
    uint32_t cores;                          /* pinned ones that code; 0: inline */
    double share;                            /* of a processor that a rank has */
};

static struct measured look_up(const struct wring_cost_model *model,
                               const struct wring_profile_way *way)
{
    const struct wring_profile *profile = model->profile;
    double share = profile->computing.core_share;
    struct measured measured = {.way = way,
                                .codes = wring_way_codes_of(way, model->ranks_per_node),
                                .codec = wring_way_codec(profile, way),
                                .link =
                                    wring_way_link(profile, model->nodes, model->ranks_per_node),
                                .cores = model->settled ? model->setting.cores : way->coder_cores,
                                .share = share > 0 ? share : 1};

    if (measured.link != NULL && strcmp(measured.link->provider, "shm") == 0)
        measured.link = NULL;
    return measured;
}

/** What that number of cores codes. @return in all */
static double code(const struct measured *measured, uint32_t cores, double elems, double *us)
{
    const struct wring_profile_coder *coder =
        measured->codec != NULL ? wring_profile_coder(measured->codec, cores) : NULL;

    us[WRING_PART_ENCODE] = coder != NULL ? wring_way_encode_us(&measured->codes, coder, elems) : 0;
    us[WRING_PART_DECODE] = coder != NULL ? wring_way_decode_us(&measured->codes, coder, elems) : 0;
    return us[WRING_PART_ENCODE] + us[WRING_PART_DECODE];
}

/** What was measured one by one does not have to fit: coding has no more than there is. */
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
                         struct wring_exchange_parts *out)
{
    double wait = fmin(out->took_us - busy_us, busy_us / measured->share - busy_us);

    out->us[WRING_PART_CORES] = fmax(wait, 0);
    out->begin_us[WRING_PART_CORES] = begin;
    return begin + out->us[WRING_PART_CORES];
}

/** One thread does it all: encode, the rest, decode. @return the end of its work */
static double lay_inline(const struct measured *measured, double cpu_us,
                         struct wring_exchange_parts *out)
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
                         struct wring_exchange_parts *out)
{
    double inline_us[WRING_EXCHANGE_PARTS], coded = code(measured, 0, elems, inline_us);
    double coding = fit_coding(out->took_us, out->us);

    if (measured->way->coder_cores > 0) /* their time was counted, too */
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

/** The wire begins with what is encoded first, and ends in time. */
static void lay_wire(const struct measured *measured, double cpu_us, double elems,
                     struct wring_exchange_parts *out)
{
    double us =
        measured->link != NULL ? wring_way_link_us(measured->way, &measured->link->us, elems) : 0;
    double at_work = WRING_AT_WORK * out->took_us;

    us = fmin(us, out->took_us);
    out->us[WRING_PART_WIRE] = us;
    out->begin_us[WRING_PART_WIRE] = fmin(out->us[WRING_PART_ENCODE], out->took_us - us);
    if (us >= at_work && cpu_us < at_work && us > out->took_us - out->us[WRING_PART_PEERS])
        out->decides = BIT(WIRE);
}

/** What the ranks' thread is doing nothing in. Where pinned cores decide it lies between their
 * encoding and their decoding. */
static void lay_peers(double end, struct wring_exchange_parts *out)
{
    bool pinned = (out->decides & BIT(ENCODE)) != 0 && (out->decides & BIT(WORK)) == 0;

    out->us[WRING_PART_PEERS] = fmax(out->took_us - end, 0);
    out->begin_us[WRING_PART_PEERS] = pinned ? out->us[WRING_PART_ENCODE] : end;
}

/** Shards are cut into pieces; in one step the whole is. */
static uint64_t count_pieces(const struct measured *measured, uint64_t elems)
{
    const struct wring_setting setting = wring_profile_way_setting(measured->way);
    double each = wring_candidate_piece_elems(measured->codec, setting.chunk_bytes);
    const struct wring_way_codes *codes = &measured->codes;
    double travels = codes->part * (double)elems / (codes->divisible ? codes->ranks : 1);

    return travels > each ? (uint64_t)ceil(travels / each) : 1;
}

bool wring_exchange_parts(const struct wring_cost_model *model, uint32_t option, uint64_t elems,
                          struct wring_exchange_parts *out)
{
    const struct wring_profile_way *way = model->options[option].way;
    double n = (double)elems, took = 0;

    for (uint32_t lane = 0; way != NULL && lane < model->problem.n_lanes; lane++)
        if (strcmp(model->lanes[lane], WRING_LANE_EXCHANGE) == 0)
            took = wring_cost_at(&model->costs[option].each[lane], n);
    if (took <= 0)
        return false;
    const struct measured measured = look_up(model, way);
    double cpu_us = wring_cost_at(&way->cpu.us, n);
    *out = (struct wring_exchange_parts){.took_us = took};
    code(&measured, measured.cores, n, out->us);
    lay_peers(measured.cores > 0 && measured.codec != NULL ? lay_pinned(&measured, cpu_us, n, out)
                                                           : lay_inline(&measured, cpu_us, out),
              out);
    lay_wire(&measured, cpu_us, n, out);
    out->pieces = count_pieces(&measured, elems);
    return true;
}

const char *wring_exchange_part_name(enum wring_exchange_part part)
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
