/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/model/candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/files/plan.h"
#include "planner/core/model/option.h"

/* sums that were added up in another order */
#define ROUNDING 1e-12

static bool is_not_above(double a, double b)
{
    return a <= b + ROUNDING * b;
}

static bool is_not_above_at(const struct wring_cost *a, const struct wring_cost *b,
                            const struct wring_cost *corners)
{
    for (uint32_t i = 0; i < corners->n; i++) {
        double x = corners->corners[i].x;
        if (!is_not_above(wring_cost_at(a, x), wring_cost_at(b, x)))
            return false;
    }
    return true;
}

/** Between corners both are straight, so that the corners of both decide, and the last slopes. */
static bool is_cost_below(const struct wring_cost *a, const struct wring_cost *b)
{
    if (a->n == 0)
        return true;
    if (b->n == 0)
        return wring_cost_below(a, b);
    return is_not_above(a->slope, b->slope) && is_not_above_at(a, b, a) && is_not_above_at(a, b, b);
}

bool wring_dominates(const struct wring_option_cost *a, const struct wring_option_cost *b,
                     uint32_t n_lanes)
{
    if (a->chunk_elems != b->chunk_elems)
        return false;
    for (uint32_t lane = 0; lane < n_lanes; lane++)
        if (!is_cost_below(&a->each[lane], &b->each[lane]) ||
            !is_cost_below(&a->once[lane], &b->once[lane]))
            return false;
    return true;
}

/* ---- candidates ---- */

#define GATHER_UP 4 /* a chunk's raw bytes against those that travel, as collectives cut it */

struct walk {
    struct wring_candidates *candidates;
    const struct wring_candidates_params *params;
    bool one_level;
    enum wring_status status;
};

/* ---- what an option costs ---- */

/** The longest that travels of so many elements: a code, or a sum on its way back. */
static double longest_bytes(const struct wring_profile_codec *codec, double elems)
{
    const struct wring_profile_way_back *back = &codec->traits.way_back;
    double bytes = wring_cost_at(&codec->wire_bytes, elems);

    if (back->bytes.n > 0)
        bytes = fmax(bytes, wring_cost_at(&back->bytes, elems));
    if (back->most_bytes.n > 0)
        bytes = fmax(bytes, wring_cost_at(&back->most_bytes, elems));
    return bytes;
}

double wring_candidate_piece_elems(const struct wring_profile_codec *codec, uint64_t chunk_bytes,
                                   uint32_t elem_bytes)
{
    double bytes = (double)chunk_bytes, elems = bytes / sizeof(float);

    if (codec == NULL)
        return bytes / elem_bytes;
    double coded = longest_bytes(codec, GATHER_UP * elems);
    return coded > bytes ? GATHER_UP * elems * bytes / coded : GATHER_UP * elems;
}

static double piece_elems(const struct wring_candidates_params *params)
{
    uint32_t elem_bytes = (uint32_t)wring_dtype_bytes(params->dtype);
    return wring_candidate_piece_elems(params->work.in, params->chunk_bytes, elem_bytes);
}

/** Elements of a group that travel at once: a piece for each of those that it is divided between.
 */
static uint64_t chunk_elems(const struct wring_candidates_params *params,
                            const struct wring_option *option)
{
    double chunk = piece_elems(params);

    for (uint32_t i = 0; i < option->n; i++) {
        const struct wring_step *step = &option->steps[i];
        if (step->kind != WRING_STEP_COMM || (step->routine != WRING_ROUTINE_ALLREDUCE &&
                                              step->routine != WRING_ROUTINE_REDUCE_SCATTER &&
                                              step->routine != WRING_ROUTINE_ALLTOALL))
            continue;
        if (step->phase != WRING_PHASE_INTER)
            chunk *= params->work.ranks_per_node;
        if (step->phase == WRING_PHASE_INTER || step->phase == WRING_PHASE_FLAT)
            chunk *= params->work.nodes;
    }
    return chunk < 1 ? 1 : (uint64_t)chunk;
}

uint64_t wring_candidate_cost(const struct wring_candidates_params *params,
                              const struct wring_option *option, struct wring_option_cost *out)
{
    bool chunked = params->timeline == WRING_TIMELINE_FULL;
    struct wring_work work;

    wring_option_work(&params->work, option, &work);
    wring_lanes_cost(params->timeline, &work, chunked ? chunk_elems(params, option) : 0, out);
    return chunked ? (uint64_t)piece_elems(params) : 0;
}

/* ---- which stay ---- */

static void take_samples(const struct wring_option_cost *cost,
                         struct wring_candidate_samples *samples)
{
    static const double sizes[WRING_CANDIDATE_SIZES] = {1 << 22, 0, 1e12};

    for (uint32_t i = 0; i < WRING_CANDIDATE_SIZES; i++)
        for (uint32_t lane = 0; lane < WRING_PLAN_LANES_MAX; lane++)
            samples->us[i][lane] = (float)wring_cost_at(&cost->each[lane], sizes[i]);
}

/** What dominating needs, in a few nanoseconds; it is not enough. */
static bool may_dominate(const struct wring_candidate_samples *a,
                         const struct wring_candidate_samples *b)
{
    bool may = true;

    for (uint32_t i = 0; i < WRING_CANDIDATE_SIZES && may; i++)
        for (uint32_t lane = 0; lane < WRING_PLAN_LANES_MAX; lane++)
            may &= a->us[i][lane] <= b->us[i][lane] * (1 + 1e-6F);
    return may;
}

static bool may_take_place_of(const struct wring_candidate *a, const struct wring_candidate *b)
{
    bool may = !a->somewhere ||
               (a->option.codec == b->option.codec && a->encodings.in <= b->encodings.in &&
                a->encodings.back <= b->encodings.back);

    return !a->barred && may && a->option.dtype == b->option.dtype &&
           wring_dominates(&a->cost, &b->cost, WRING_PLAN_LANES_MAX);
}

static bool is_dominated(struct wring_candidates *candidates,
                         const struct wring_candidate *candidate,
                         const struct wring_candidate_samples *samples)
{
    if (candidates->last < candidates->n &&
        may_take_place_of(&candidates->list[candidates->last], candidate))
        return true;
    for (uint32_t i = 0; i < candidates->n; i++)
        if (may_dominate(&candidates->samples[i], samples) &&
            may_take_place_of(&candidates->list[i], candidate)) {
            candidates->last = i;
            return true;
        }
    return false;
}

/** Drop those whose place a new one takes. */
static void drop_dominated(struct wring_candidates *candidates,
                           const struct wring_candidate *candidate,
                           const struct wring_candidate_samples *samples)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < candidates->n; i++) {
        const struct wring_candidate *old = &candidates->list[i];
        if (may_dominate(samples, &candidates->samples[i]) && !old->baseline &&
            may_take_place_of(candidate, old)) {
            candidates->dominated++;
            continue;
        }
        if (left != i) {
            candidates->list[left] = *old;
            candidates->samples[left] = candidates->samples[i];
        }
        left++;
    }
    candidates->n = left;
}

static enum wring_status make_room(struct wring_candidates *candidates)
{
    uint32_t room = 2 * candidates->room + 64;
    void *list, *samples;

    if (candidates->n < candidates->room)
        return WRING_OK;
    list = realloc(candidates->list, room * sizeof(*candidates->list));
    if (list == NULL)
        return WRING_ERR_NO_MEMORY;
    candidates->list = list;
    samples = realloc(candidates->samples, room * sizeof(*candidates->samples));
    if (samples == NULL)
        return WRING_ERR_NO_MEMORY;
    candidates->samples = samples;
    candidates->room = room;
    return WRING_OK;
}

enum wring_status wring_candidates_offer(struct wring_candidates *candidates,
                                         const struct wring_candidate *candidate)
{
    struct wring_candidate_samples samples;

    candidates->considered++;
    candidates->n_allowed[candidate->option.codec] += !candidate->barred;
    take_samples(&candidate->cost, &samples);
    if (!candidates->keep_dominated) {
        if (!candidate->baseline && is_dominated(candidates, candidate, &samples)) {
            candidates->dominated++;
            return WRING_OK;
        }
        drop_dominated(candidates, candidate, &samples);
    }
    enum wring_status status = make_room(candidates);
    if (status != WRING_OK)
        return status;
    candidates->list[candidates->n] = *candidate;
    candidates->samples[candidates->n++] = samples;
    return WRING_OK;
}

/* ---- a codec's tree ---- */

static const struct wring_step *first_encode(const struct wring_option *option)
{
    for (uint32_t i = 0; i < option->n; i++)
        if (option->steps[i].kind == WRING_STEP_ENCODE)
            return &option->steps[i];
    return NULL;
}

/** Raw, or summed as codes all the way, or where codes cannot be summed by re-encoding everywhere.
 */
static bool is_baseline(const struct walk *walk, const struct wring_candidate *candidate)
{
    const struct wring_profile_codec *codec = walk->params->work.in;
    enum wring_known_option coded = WRING_KNOWN_SUMMED;

    if (!walk->params->baseline)
        return false;
    if (codec == NULL)
        return candidate->known == WRING_KNOWN_RAW;
    if (!codec->summable)
        coded = walk->one_level ? WRING_KNOWN_INTER_ONLY : WRING_KNOWN_TWO_LEVEL;
    for (uint32_t site = 0; site < (uint32_t)candidate->option.site; site++)
        if (walk->params->sites >> site & 1 && codec->at[site].present)
            return false; /* there is one of an earlier site */
    return candidate->known == coded;
}

/** Is it of those that are asked for? The baselines stay, to compare with. */
static bool is_wanted(const struct wring_candidates_params *params,
                      const struct wring_option *option)
{
    return (!params->flat || wring_option_is_flat(option)) &&
           (!params->indivisible || !wring_option_is_divisible(option));
}

static bool may_run(const struct wring_candidates_params *params, const struct wring_option *option)
{
    const char *spec = params->work.in != NULL ? params->work.in->spec : "none";

    return !params->runnable ||
           wring_option_run_as(option, spec, params->work.ranks_per_node)[0] != '\0';
}

static void take_option(void *arg, const struct wring_option *option)
{
    struct walk *walk = arg;
    const struct wring_step *encode = first_encode(option);
    struct wring_candidate candidate = {
        .option = {.codec = walk->params->codec,
                   .dtype = walk->params->dtype,
                   .option = *option,
                   .site = encode != NULL ? encode->site : WRING_SITE_DEVICE},
        .known = wring_option_known(option, walk->one_level),
        .encodings = wring_option_encodings(option)};

    if (walk->status != WRING_OK || (encode == NULL) != (walk->params->work.in == NULL))
        return;
    candidate.baseline = is_baseline(walk, &candidate);
    enum wring_budget budget =
        walk->params->budgets.of[candidate.encodings.in][candidate.encodings.back];
    candidate.somewhere = budget == WRING_BUDGET_SOMEWHERE;
    candidate.barred = walk->params->barred || budget == WRING_BUDGET_BEYOND ||
                       !is_wanted(walk->params, option) || !may_run(walk->params, option);
    if (candidate.barred && !candidate.baseline)
        return;
    candidate.option.chunk_elems = wring_candidate_cost(walk->params, option, &candidate.cost);
    walk->status = wring_candidates_offer(walk->candidates, &candidate);
}

/** Who can run both codecs of the way, and may. */
static uint32_t sites_of(const struct wring_candidates_params *params)
{
    uint32_t sites = 0;

    for (uint32_t site = 0; site < WRING_SITES && params->work.in != NULL; site++)
        if (params->work.in->at[site].present && params->work.out->at[site].present)
            sites |= 1u << site;
    return sites & params->sites;
}

enum wring_status wring_candidates_walk(struct wring_candidates *candidates,
                                        const struct wring_candidates_params *params)
{
    bool one_level = params->work.nodes == 1 || params->work.ranks_per_node == 1;
    struct walk walk = {candidates, params, one_level, WRING_OK};
    struct wring_options_params tree = {
        .sites = sites_of(params),
        .flat = true,
        .hierarchical = !one_level,
        .summable = params->work.in != NULL && params->work.in->summable,
    };

    wring_options_walk(&tree, take_option, &walk);
    return walk.status;
}

void wring_candidates_finish(struct wring_candidates *candidates)
{
    free(candidates->list);
    free(candidates->samples);
    *candidates = (struct wring_candidates){0};
}
