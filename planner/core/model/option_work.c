/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A tensor of E elements walks through its steps. Each rank that is at work holds `codes` pieces
 * (one, if raw) of x E elements each, of a part f of the tensor. Codes are neither added nor shrunk
 * until a rank decodes them: then f of the tensor is there, once.
 */
#include "planner/core/model/option_work.h"

#include <string.h>

static double count_nodes(const struct wring_walk *walk)
{
    return walk->params->nodes;
}

static double ranks_per_node(const struct wring_walk *walk)
{
    return walk->params->ranks_per_node;
}

static double ranks_of(const struct wring_walk *walk, enum wring_phase phase)
{
    if (phase == WRING_PHASE_FLAT)
        return count_nodes(walk) * ranks_per_node(walk);
    return phase == WRING_PHASE_INTER ? count_nodes(walk) : ranks_per_node(walk);
}

/** The data that pass a link: `pieces` codes of `part` of the tensor each. */
struct passing {
    double pieces, part;
};

static struct passing through_rank(const struct wring_walk *walk, const struct wring_step *step)
{
    double n = ranks_of(walk, step->phase), codes = walk->codes, x = walk->x;

    switch (step->routine) {
    case WRING_ROUTINE_ALLREDUCE:
        return (struct passing){2 * (n - 1) * codes, x / n};
    case WRING_ROUTINE_REDUCE_SCATTER:
    case WRING_ROUTINE_ALLTOALL:
        return (struct passing){(n - 1) * codes, x / n};
    case WRING_ROUTINE_ALLGATHER:
    case WRING_ROUTINE_GATHER:
        return (struct passing){(n - 1) * codes, x};
    case WRING_ROUTINE_REDUCE:
    case WRING_ROUTINE_BROADCAST:
        break;
    }
    return (struct passing){codes, x};
}

static struct passing through_node(const struct wring_walk *walk, const struct wring_step *step)
{
    double n = ranks_of(walk, step->phase), k = ranks_per_node(walk);
    struct passing passing = through_rank(walk, step);

    if (step->phase == WRING_PHASE_INTER)
        passing.pieces *= walk->active;
    else if (step->routine == WRING_ROUTINE_ALLTOALL)
        passing.pieces = k * (n - k) * walk->codes;
    else if (step->routine == WRING_ROUTINE_GATHER)
        passing.pieces = (n - k) * walk->codes;
    return passing;
}

#define TYPICAL_ELEMS 1048576.0 /* of a tensor: at which lengths of codes are compared */

/** The code of a sum. If it grows, it has the elements of all contributions, and ends at a length.
 */
static struct wring_cost sum_bytes(const struct wring_walk *walk, uint32_t contributions)
{
    const struct wring_profile_way_back *back = &walk->codec->traits.way_back;

    if (back->most_bytes.n == 0)
        return back->bytes;
    struct wring_cost grown = wring_cost_scale(&back->bytes, contributions, 1);
    return wring_cost_at(&grown, TYPICAL_ELEMS) < wring_cost_at(&back->most_bytes, TYPICAL_ELEMS)
               ? grown
               : back->most_bytes;
}

static uint32_t elem_bytes(const struct wring_work_params *params)
{
    return params->elem_bytes != 0 ? params->elem_bytes : sizeof(float);
}

/** An allreduce of codes sends these to their owners, and as many sums back: the mean of both. */
static struct wring_cost code_bytes(const struct wring_walk *walk, const struct wring_step *step)
{
    if (walk->summed > 0)
        return sum_bytes(walk, walk->summed);
    if (!walk->other_back || step->routine != WRING_ROUTINE_ALLREDUCE)
        return wring_cost_scale(&walk->codec->wire_bytes,
                                walk->params->width > 0 ? walk->params->width : 1, 1);
    struct wring_cost back = sum_bytes(walk, walk->contributions);
    struct wring_cost both = wring_cost_add(&walk->codec->wire_bytes, &back);
    return wring_cost_scale(&both, 0.5, 1);
}

static struct wring_cost piece_bytes(const struct wring_walk *walk, const struct wring_step *step)
{
    bool intra = step->phase == WRING_PHASE_INTRA_IN || step->phase == WRING_PHASE_INTRA_OUT;

    if (step->coded)
        return code_bytes(walk, step);
    return wring_cost_line(0, intra && walk->half_intra ? 2 : elem_bytes(walk->params));
}

/** Everything is done after it. */
static bool is_alone(const struct wring_walk *walk, const struct wring_step *step)
{
    if (step->phase == WRING_PHASE_INTRA_OUT || walk->second[step->phase])
        return false;
    return step->routine == WRING_ROUTINE_ALLREDUCE || step->routine == WRING_ROUTINE_ALLGATHER;
}

/** The time of a step on a link, by bytes, and its latency. */
struct price {
    const struct wring_cost *us;
    double latency_us;
};

/**
 * The price of a step as it was measured by itself, if it was. A step that ends in one rank is made
 * of puts: it is no collective of the library. Else it takes the time of an allgather, and each of
 * two steps half of a pair's latency.
 */
static struct price price_of(const struct wring_profile_link *link, enum wring_routine routine,
                             bool alone)
{
    const struct wring_profile_routine *measured =
        wring_profile_routine(link, wring_routine_name(routine));
    const struct wring_profile_put *put = &link->put;

    if (measured != NULL)
        return (struct price){&measured->us, measured->latency_us};
    if (put->latency.us.n > 0 &&
        (routine == WRING_ROUTINE_REDUCE || routine == WRING_ROUTINE_GATHER))
        return (struct price){&put->each.us, wring_cost_at(&put->latency.us, 0)};
    return (struct price){&link->us, alone ? link->latency_us : link->latency_us / 2};
}

/** @param share  of the step's work that this worker has */
static void pay_worker_share(struct wring_walk *walk, const struct wring_step *step,
                             enum wring_worker worker, double share)
{
    bool inter = worker == WRING_WORKER_INTER;
    const struct wring_profile_link *link =
        &walk->params->profile->links[inter ? WRING_LEVEL_INTER : WRING_LEVEL_INTRA];
    struct passing passing = inter ? through_node(walk, step) : through_rank(walk, step);
    const struct price price = price_of(link, step->routine, is_alone(walk, step));
    double scale = inter ? walk->params->link_scale : 1;
    double twice = step->coded && walk->both_levels ? 2 : 1;
    struct wring_cost piece = piece_bytes(walk, step);
    struct wring_cost bytes = wring_cost_scale(&piece, share * passing.pieces, passing.part);
    struct wring_cost us = wring_cost_of(price.us, &bytes);

    wring_walk_add(walk, worker, wring_cost_scale(&us, 1 / scale, 1));
    walk->work->latency_us[worker] += share * twice * price.latency_us;
}

/** In the node on its way to others, then back: a first step and a second, or half and half. */
static void pay_flat(struct wring_walk *walk, const struct wring_step *step)
{
    double in = step->routine == WRING_ROUTINE_ALLGATHER ? 0 : walk->second[step->phase] ? 0 : 1;

    if (step->routine == WRING_ROUTINE_ALLREDUCE)
        in = 0.5;
    if (count_nodes(walk) == 1)
        in = 1; /* no other path but the node's link, and no lane but that */
    if (in > 0)
        pay_worker_share(walk, step, WRING_WORKER_INTRA_IN, in);
    if (in < 1)
        pay_worker_share(walk, step, WRING_WORKER_INTRA_OUT, 1 - in);
}

static void pay_comm(struct wring_walk *walk, const struct wring_step *step)
{
    bool flat = step->phase == WRING_PHASE_FLAT;

    if (step->phase == WRING_PHASE_INTRA_IN)
        pay_worker_share(walk, step, WRING_WORKER_INTRA_IN, 1);
    if (flat && ranks_per_node(walk) > 1)
        pay_flat(walk, step);
    if (step->phase == WRING_PHASE_INTER || (flat && count_nodes(walk) > 1))
        pay_worker_share(walk, step, WRING_WORKER_INTER, 1);
    if (step->phase == WRING_PHASE_INTRA_OUT)
        pay_worker_share(walk, step, WRING_WORKER_INTRA_OUT, 1);
}

/** Does the step itself add up what it carries? */
static bool sums_as_it_goes(enum wring_routine routine)
{
    return routine == WRING_ROUTINE_ALLREDUCE || routine == WRING_ROUTINE_REDUCE_SCATTER ||
           routine == WRING_ROUTINE_REDUCE;
}

/** Pay for the sums of raw data: n − 1 pieces, if the profile knows their time. Those of 16-bit
 *  elements, which are made in float32, are taken to last as long as sums of float32. */
static void pay_sums(struct wring_walk *walk, const struct wring_step *step)
{
    const struct wring_profile *profile = walk->params->profile;
    double n = ranks_of(walk, step->phase);
    bool whole = step->routine == WRING_ROUTINE_REDUCE;

    if (!sums_as_it_goes(step->routine))
        return;
    for (uint32_t i = 0; i < profile->n_codecs; i++) {
        const struct wring_profile_codec *codec = &profile->codecs[i];
        const struct wring_profile_coding *adding = &codec->at[WRING_SITE_CPU];
        if (strcmp(codec->spec, "none") == 0 && adding->present)
            wring_walk_add(walk, WRING_WORKER_CPU_DECODE,
                           wring_cost_scale(wring_profile_decoding(&adding->decode_us,
                                                                   &adding->decode_add_us, true),
                                            n - 1, walk->active * walk->x / (whole ? 1 : n)));
    }
}

static enum wring_worker coder_of(enum wring_site site, bool encode)
{
    switch (site) {
    case WRING_SITE_DEVICE:
        return encode ? WRING_WORKER_DEVICE_ENCODE : WRING_WORKER_DEVICE_DECODE;
    case WRING_SITE_CPU:
        return encode ? WRING_WORKER_CPU_ENCODE : WRING_WORKER_CPU_DECODE;
    case WRING_SITE_NODE:
        return WRING_WORKER_NODE;
    }
    return WRING_WORKER_NODE;
}

/** On a device a rank codes what is its own, elsewhere a node what is of all its ranks, unless each
 *  of them has cores for that. */
static double coders_share(const struct wring_walk *walk, enum wring_site site)
{
    if (site == WRING_SITE_CPU && walk->params->own_cores)
        return 1;
    return site == WRING_SITE_DEVICE ? 1 : walk->active;
}

/** Whoever encoded the codes adds them as they are, n − 1 to one, before the sum travels on. */
static void pay_code_sums(struct wring_walk *walk, const struct wring_step *step)
{
    const struct wring_profile_coding *coding = &walk->codec->at[walk->site];
    double n = ranks_of(walk, step->phase);
    double part = step->routine == WRING_ROUTINE_REDUCE ? 1 : 1 / n;

    if (!sums_as_it_goes(step->routine) || walk->whole != WRING_KNOWN_NONE)
        return;
    wring_walk_add(walk, coder_of(walk->site, false),
                   wring_cost_scale(wring_profile_summing(coding, walk->site),
                                    (n - 1) * walk->codes,
                                    coders_share(walk, walk->site) * walk->x * part));
}

/** What every rank at work holds afterwards. */
static void update_held_data(struct wring_walk *walk, const struct wring_step *step)
{
    double n = ranks_of(walk, step->phase);
    bool second = walk->second[step->phase] || step->phase == WRING_PHASE_INTRA_OUT;

    switch (step->routine) {
    case WRING_ROUTINE_ALLREDUCE:
        break;
    case WRING_ROUTINE_REDUCE_SCATTER:
        walk->x /= n;
        walk->f /= n;
        break;
    case WRING_ROUTINE_ALLTOALL:
        walk->x /= n;
        walk->f /= n;
        walk->codes *= n;
        break;
    case WRING_ROUTINE_ALLGATHER:
        walk->f *= second ? n : 1;
        walk->x *= step->coded ? 1 : n;
        walk->codes *= step->coded ? n : 1;
        break;
    case WRING_ROUTINE_REDUCE:
        break;
    case WRING_ROUTINE_GATHER:
        walk->codes *= n;
        break;
    case WRING_ROUTINE_BROADCAST:
        break;
    }
    walk->second[step->phase] = true;
}

/** One root of a node instead of all its ranks, or all of them again. */
static void count_active(struct wring_walk *walk, const struct wring_step *step)
{
    if (step->phase == WRING_PHASE_INTER)
        return;
    if (step->routine == WRING_ROUTINE_REDUCE || step->routine == WRING_ROUTINE_GATHER)
        walk->active = 1;
    else if (step->routine == WRING_ROUTINE_BROADCAST)
        walk->active = ranks_per_node(walk);
}

/** The progressing thread moves the bytes that pass a rank's link. */
static void pay_progress(struct wring_walk *walk, const struct wring_step *step)
{
    struct passing passing = through_rank(walk, step);
    struct wring_cost piece = piece_bytes(walk, step);
    struct wring_cost bytes = wring_cost_scale(&piece, passing.pieces, passing.part);

    wring_walk_add(walk, WRING_WORKER_PROGRESS, wring_cost_of(&walk->params->progress_us, &bytes));
}

/** A step of communication: what it takes, and what every rank at work holds afterwards. */
static void walk_communicate(struct wring_walk *walk, const struct wring_step *step)
{
    if (ranks_of(walk, step->phase) > 1) {
        pay_comm(walk, step);
        if (walk->params->progress_us.n > 0)
            pay_progress(walk, step);
        else if (!step->coded)
            pay_sums(walk, step);
        if (step->coded)
            pay_code_sums(walk, step);
        if (walk->other_back && step->coded && sums_as_it_goes(step->routine))
            walk->summed = walk->contributions;
    }
    update_held_data(walk, step);
    count_active(walk, step);
}

/* ---- work ---- */

/** A link's part of a codec's rounds among n ranks: small allreduces, one after another. */
static void pay_rounds_on(struct wring_walk *walk, enum wring_worker worker, double n,
                          double active)
{
    bool inter = worker == WRING_WORKER_INTER;
    const struct wring_profile_traits *traits = &walk->codec->traits;
    const struct wring_profile_link *link =
        &walk->params->profile->links[inter ? WRING_LEVEL_INTER : WRING_LEVEL_INTRA];
    const struct price price = price_of(link, WRING_ROUTINE_ALLREDUCE, true);
    struct wring_cost bytes =
        wring_cost_scale(&traits->round_bytes, active * 2 * (n - 1) / n, walk->x);
    struct wring_cost us = wring_cost_of(price.us, &bytes);

    wring_walk_add(walk, worker,
                   wring_cost_scale(&us, inter ? 1 / walk->params->link_scale : 1, 1));
    walk->work->latency_us[worker] += traits->rounds * price.latency_us;
}

/** Rounds are among the ranks that exchange codes afterwards; between all ranks they pass both
 *  links. */
static void pay_rounds(struct wring_walk *walk, enum wring_phase phase)
{
    double n = ranks_of(walk, phase);
    bool flat = phase == WRING_PHASE_FLAT;

    if (walk->codec->traits.rounds == 0 || n <= 1)
        return;
    if (phase == WRING_PHASE_INTRA_IN || (flat && ranks_per_node(walk) > 1))
        pay_rounds_on(walk, WRING_WORKER_INTRA_IN, n, 1);
    if (phase == WRING_PHASE_INTER || (flat && count_nodes(walk) > 1))
        pay_rounds_on(walk, WRING_WORKER_INTER, n, flat ? 1 : walk->active);
}

/** Reading and writing residual and state, by elements, where the times leave them out. */
static struct wring_cost state_us(const struct wring_walk *walk,
                                  const struct wring_profile_coding *coding)
{
    struct wring_cost bytes = wring_cost_line(0, 2 * walk->codec->traits.state_bytes);

    return wring_cost_of(&coding->state_us, &bytes);
}

static struct wring_cost encode_us(const struct wring_walk *walk, enum wring_site site)
{
    const struct wring_profile_coding *coding = &walk->codec->at[site];
    const struct wring_cost *back_us = &walk->codec->traits.way_back.encode_us;

    if (walk->summed > 0) /* by another codec, which keeps nothing */
        return site != WRING_SITE_DEVICE && back_us->n > 0 ? *back_us : coding->encode_us;
    struct wring_cost state = state_us(walk, coding);
    return wring_cost_add(&coding->encode_us, &state);
}

static void pay_encode(struct wring_walk *walk, const struct wring_step *step)
{
    bool back = step->phase == WRING_PHASE_INTRA_OUT || walk->second[step->phase];

    walk->codec = back ? walk->params->out : walk->params->in;
    walk->site = step->site;
    walk->summed = back && walk->other_back ? walk->contributions : 0;
    if (!back) {
        /* between nodes these are what nodes have summed up */
        walk->contributions = (uint32_t)ranks_of(
            walk, step->phase == WRING_PHASE_INTER ? WRING_PHASE_INTER : WRING_PHASE_FLAT);
        pay_rounds(walk, step->phase);
    }
    if (walk->whole != WRING_KNOWN_NONE)
        return;
    struct wring_cost us = encode_us(walk, step->site);
    wring_walk_add(walk, coder_of(step->site, true),
                   wring_cost_scale(&us, 1, coders_share(walk, step->site) * walk->x));
}

/** Codes of the same part of the tensor are added up; others have a place each. */
static bool are_codes_summed(const struct wring_walk *walk)
{
    return walk->codes * walk->x > walk->f * (1 + 1e-9);
}

/** The time of decoding a code: of a sum that may be wider, or one that is added or not. */
static const struct wring_cost *decode_us(const struct wring_walk *walk, enum wring_site site,
                                          bool sum, bool adds)
{
    const struct wring_profile_coding *coding = &walk->codec->at[site];
    const struct wring_cost *back_us = &walk->codec->traits.way_back.decode_us;

    if (sum && site != WRING_SITE_DEVICE && back_us->n > 0)
        return back_us;
    return wring_profile_decoding(&coding->decode_us, &coding->decode_add_us, adds);
}

static void pay_decode(struct wring_walk *walk, const struct wring_step *step)
{
    enum wring_worker coder = coder_of(step->site, false);
    double elems = coders_share(walk, step->site) * walk->x, n = walk->codes;
    bool adds = are_codes_summed(walk), sum = walk->summed > 0;

    if (adds && walk->whole == WRING_KNOWN_NONE && walk->codec->at[step->site].sum_us.n > 0) {
        /* add codes of the same elements, then decode their sum */
        double sums = walk->f / walk->x;
        const struct wring_cost *sum_us = &walk->codec->at[step->site].sum_us;
        wring_walk_add(walk, coder, wring_cost_scale(sum_us, n - sums, elems));
        n = sums, adds = false, sum = true;
    }
    if (walk->whole == WRING_KNOWN_NONE)
        wring_walk_add(walk, coder,
                       wring_cost_scale(decode_us(walk, step->site, sum, adds), n, elems));
    walk->codes = 1;
    walk->x = walk->f;
}

/**
 * Espresso's artifact has times of its own options as a whole: one encoding and one decoding. On
 * the device they are of the part of a tensor that the phase inside the node leaves to a rank. On
 * the node's other coders they are of the whole tensor.
 */
static void code_as_whole(struct wring_walk *walk, enum wring_site site)
{
    const struct wring_profile_codec *codec = walk->params->in;
    const struct wring_profile_coding *coding =
        walk->whole == WRING_KNOWN_TWO_LEVEL ? &codec->two_level[site] : &codec->at[site];
    double part = site == WRING_SITE_DEVICE ? 1.0 / walk->params->ranks_per_node : 1;

    walk->codec = codec;
    struct wring_cost state = state_us(walk, coding);
    struct wring_cost us = wring_cost_add(&coding->encode_us, &state);
    wring_walk_add(walk, coder_of(site, true), wring_cost_scale(&us, 1, part));
    wring_walk_add(walk, coder_of(site, false), wring_cost_scale(&coding->decode_us, 1, part));
}

static enum wring_site first_site(const struct wring_option *option)
{
    for (uint32_t i = 0; i < option->n; i++)
        if (option->steps[i].kind != WRING_STEP_COMM)
            return option->steps[i].site;
    return WRING_SITE_DEVICE;
}

static enum wring_known_option known_as_whole(const struct wring_work_params *params,
                                              const struct wring_option *option)
{
    enum wring_known_option known = wring_option_known(option, params->ranks_per_node == 1);
    enum wring_site site = first_site(option);

    if (params->profile->chunked || params->in != params->out || known == WRING_KNOWN_NONE ||
        known == WRING_KNOWN_RAW)
        return WRING_KNOWN_NONE;
    if (params->in->at[site].decode_add_us.n > 0)
        return WRING_KNOWN_NONE; /* its steps were measured one by one */
    if (known == WRING_KNOWN_TWO_LEVEL && !params->in->two_level[site].present)
        return WRING_KNOWN_NONE;
    return known;
}

/** Do codes travel between nodes, or else inside them? */
static bool codes_travel(const struct wring_option *option, bool inter)
{
    for (uint32_t i = 0; i < option->n; i++)
        if (option->steps[i].coded && option->steps[i].phase != WRING_PHASE_FLAT &&
            (option->steps[i].phase == WRING_PHASE_INTER) == inter)
            return true;
    return false;
}

static void take_step(struct wring_walk *walk, const struct wring_step *step)
{
    switch (step->kind) {
    case WRING_STEP_COMM:
        walk_communicate(walk, step);
        break;
    case WRING_STEP_ENCODE:
        pay_encode(walk, step);
        break;
    case WRING_STEP_DECODE:
        pay_decode(walk, step);
        break;
    }
}

struct wring_cost wring_work_copy(const struct wring_profile *profile, uint32_t elem_bytes)
{
    return wring_cost_scale(&profile->copy_us, 1, elem_bytes);
}

void wring_option_work(const struct wring_work_params *params, const struct wring_option *option,
                       struct wring_work *out)
{
    struct wring_walk walk = {.params = params,
                              .option = option,
                              .work = out,
                              .x = 1,
                              .f = 1,
                              .codes = 1,
                              .active = params->ranks_per_node,
                              .contributions = UINT32_MAX};

    memset(out, 0, sizeof(*out));
    walk.other_back = params->in != NULL && strcmp(params->in->spec, params->out->spec) == 0 &&
                      params->in->traits.way_back.bytes.n > 0;
    walk.whole = known_as_whole(params, option);
    walk.half_intra = !params->profile->chunked && codes_travel(option, true);
    walk.both_levels = !wring_option_sums_codes(option) && codes_travel(option, true) &&
                       codes_travel(option, false);
    for (uint32_t i = 0; i < option->n; i++)
        take_step(&walk, &option->steps[i]);
    if (walk.whole != WRING_KNOWN_NONE)
        code_as_whole(&walk, first_site(option));
    if (params->scattered) {
        struct wring_cost copy = wring_work_copy(params->profile, elem_bytes(params));
        wring_walk_add(&walk, WRING_WORKER_CPU_ENCODE, copy);
        wring_walk_add(&walk, WRING_WORKER_CPU_DECODE, copy);
    }
}
