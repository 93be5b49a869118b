/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A tensor of E elements walks through its steps. Each rank that is at work holds `codes` pieces
 * (one, if raw) of x E elements each, of a part f of the tensor; option_comm.c says what becomes of
 * these on the links. Codes are neither added nor shrunk until somebody decodes them: then f of the
 * tensor is there, once.
 */
#include "planner/model/option_work.h"

#include <string.h>

#include "planner/model/option_walk.h"

/** On a device a rank codes what is its own, elsewhere a node what is of all its ranks, unless each
 *  of them has cores for that. */
static double coders_share(const struct wring_walk *walk, enum wring_place place)
{
    if (place == WRING_PLACE_CPU && walk->params->own_cores)
        return 1;
    return place == WRING_PLACE_DEVICE ? 1 : walk->active;
}

static enum wring_worker coder_of(enum wring_place place, bool encode)
{
    switch (place) {
    case WRING_PLACE_DEVICE:
        return encode ? WRING_WORKER_DEVICE_ENCODE : WRING_WORKER_DEVICE_DECODE;
    case WRING_PLACE_CPU:
        return encode ? WRING_WORKER_CPU_ENCODE : WRING_WORKER_CPU_DECODE;
    case WRING_PLACE_NODE:
        return WRING_WORKER_NODE;
    }
    return WRING_WORKER_NODE;
}

static void encode(struct wring_walk *walk, const struct wring_step *step)
{
    bool back = step->phase == WRING_PHASE_INTRA_OUT || walk->second[step->phase];

    walk->codec = back ? walk->params->out : walk->params->in;
    if (walk->whole != WRING_KNOWN_NONE)
        return;
    wring_walk_add(walk, coder_of(step->place, true),
                   wring_cost_scale(&walk->codec->at[step->place].encode_us, 1,
                                    coders_share(walk, step->place) * walk->x));
}

/** Codes of the same part of the tensor are added up; others have a place each. */
static bool adds(const struct wring_walk *walk)
{
    return walk->codes * walk->x > walk->f * (1 + 1e-9);
}

static void decode(struct wring_walk *walk, const struct wring_step *step)
{
    const struct wring_profile_coding *coding = &walk->codec->at[step->place];
    const struct wring_cost *one_us =
        wring_profile_decoding(&coding->decode_us, &coding->decode_add_us, adds(walk));

    if (walk->whole == WRING_KNOWN_NONE)
        wring_walk_add(
            walk, coder_of(step->place, false),
            wring_cost_scale(one_us, walk->codes, coders_share(walk, step->place) * walk->x));
    walk->codes = 1;
    walk->x = walk->f;
}

/**
 * Espresso's artifact knows what its own options take as a whole: once the encoding and once the
 * decoding of what remains of a tensor for a rank's device after the phase inside the node, or for
 * the node's other coders.
 */
static void code_as_whole(struct wring_walk *walk, enum wring_place place)
{
    const struct wring_profile_codec *codec = walk->params->in;
    const struct wring_profile_coding *coding =
        walk->whole == WRING_KNOWN_TWO_LEVEL ? &codec->two_level[place] : &codec->at[place];
    double part = place == WRING_PLACE_DEVICE ? 1.0 / walk->params->ranks_per_node : 1;

    wring_walk_add(walk, coder_of(place, true), wring_cost_scale(&coding->encode_us, 1, part));
    wring_walk_add(walk, coder_of(place, false), wring_cost_scale(&coding->decode_us, 1, part));
}

static enum wring_place first_place(const struct wring_option *option)
{
    for (uint32_t i = 0; i < option->n; i++)
        if (option->steps[i].kind != WRING_STEP_COMM)
            return option->steps[i].place;
    return WRING_PLACE_DEVICE;
}

static enum wring_known_option known_as_whole(const struct wring_work_params *params,
                                              const struct wring_option *option)
{
    enum wring_known_option known = wring_option_known(option, params->ranks_per_node == 1);
    enum wring_place place = first_place(option);

    if (params->profile->chunked || params->in != params->out || known == WRING_KNOWN_RAW)
        return WRING_KNOWN_NONE;
    if (known == WRING_KNOWN_TWO_LEVEL && !params->in->two_level[place].present)
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
        wring_walk_communicate(walk, step);
        break;
    case WRING_STEP_ENCODE:
        encode(walk, step);
        break;
    case WRING_STEP_DECODE:
        decode(walk, step);
        break;
    }
}

struct wring_cost wring_work_copy(const struct wring_profile *profile)
{
    return wring_cost_scale(&profile->copy_us, 1, sizeof(float));
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
                              .active = params->ranks_per_node};

    memset(out, 0, sizeof(*out));
    walk.whole = known_as_whole(params, option);
    walk.half_intra = !params->profile->chunked && codes_travel(option, true);
    walk.both_levels = !wring_option_sums_codes(option) && codes_travel(option, true) &&
                       codes_travel(option, false);
    for (uint32_t i = 0; i < option->n; i++)
        take_step(&walk, &option->steps[i]);
    if (walk.whole != WRING_KNOWN_NONE)
        code_as_whole(&walk, first_place(option));
    if (params->scattered) {
        wring_walk_add(&walk, WRING_WORKER_CPU_ENCODE, wring_work_copy(params->profile));
        wring_walk_add(&walk, WRING_WORKER_CPU_DECODE, wring_work_copy(params->profile));
    }
}
