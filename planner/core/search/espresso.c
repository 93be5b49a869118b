/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Espresso (EuroSys 2023), as published: each tensor a group of its own; Algorithm 1 chooses
 * options tensor by tensor, Algorithm 2 moves what is coded to the CPU. The comparison that a plan
 * has to stand, and nothing is added to it. What differs is only how a time is come by: from heads
 * before and tails after the tensor that changes.
 */
#include "planner/core/search/espresso.h"

#include <stdlib.h>
#include <string.h>

enum {
    PREFIXES_MAX = 4096 /* of Algorithm 2 that are all tried; of more, group by group */
};

/** Equal sizes and options side by side, the earliest ready first. */
static int by_family(const void *a, const void *b)
{
    const struct wring_espresso_candidate *x = a, *y = b;

    if (x->elems != y->elems)
        return x->elems < y->elems ? 1 : -1;
    if (x->option != y->option)
        return x->option < y->option ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static void find_families(struct wring_espresso *espresso)
{
    const struct wring_cost_tables *tables = espresso->search->tables;
    const uint32_t *offload = espresso->search->params->offload;
    const uint64_t *elems = tables->problem->elems;
    struct wring_espresso_candidate *candidates = espresso->candidates;
    uint32_t n = 0;

    for (uint32_t i = 0; i < espresso->n; i++) {
        uint32_t option = espresso->option[i];
        if (offload[option] < tables->n_options &&
            option != espresso->search->params->uncompressed &&
            wring_cost_tables_allow(tables, i, i + 1, offload[option]))
            candidates[n++] = (struct wring_espresso_candidate){elems[i + 1] - elems[i], i, option};
    }
    qsort(candidates, n, sizeof(*candidates), by_family);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || candidates[i].elems != candidates[i - 1].elems ||
            candidates[i].option != candidates[i - 1].option)
            espresso->families[espresso->n_families++] = (struct wring_espresso_family){.first = i};
        espresso->families[espresso->n_families - 1].n++;
    }
}

static void offload_prefix(struct wring_espresso *espresso, struct wring_espresso_family *family,
                           uint32_t moved)
{
    const uint32_t *offload = espresso->search->params->offload;

    for (uint32_t i = 0; i < family->n; i++) {
        const struct wring_espresso_candidate *candidate = &espresso->candidates[family->first + i];
        espresso->option[candidate->tensor] =
            i < moved ? offload[candidate->option] : candidate->option;
    }
    family->moved = moved;
}

/** Forwards only: whoever asks has changed many tensors. */
static double time_all(struct wring_espresso *espresso)
{
    double heads[WRING_PLAN_LANES_MAX] = {0};
    struct wring_task task;

    for (uint32_t i = 0; i < espresso->n; i++) {
        wring_espresso_task(espresso, i, espresso->option[i], &task);
        wring_task_advance(espresso->search->tables->n_lanes, &task, heads, heads);
    }
    espresso->search->evaluations++;
    return heads[espresso->search->tables->n_lanes - 1];
}

/** The next of all combinations of prefixes of the first few families. @return false: no more */
static bool next_combination(struct wring_espresso *espresso, uint32_t few)
{
    for (uint32_t i = 0; i < few; i++) {
        struct wring_espresso_family *family = &espresso->families[i];
        if (family->moved < family->n) {
            offload_prefix(espresso, family, family->moved + 1);
            return true;
        }
        offload_prefix(espresso, family, 0);
    }
    return false;
}

/** All combinations of as many families as the cap allows. @param best  scratch, [n_families] */
static void try_combinations(struct wring_espresso *espresso, uint32_t *best)
{
    uint32_t few = 0;

    for (uint64_t product = 1; few < espresso->n_families; few++) {
        product *= espresso->families[few].n + 1;
        if (product > PREFIXES_MAX)
            break;
        best[few] = 0;
    }
    while (next_combination(espresso, few) && !wring_search_late(espresso->search)) {
        double time = time_all(espresso);
        if (time >= espresso->time_us * (1 - WRING_ESPRESSO_GAIN))
            continue;
        espresso->time_us = time;
        for (uint32_t i = 0; i < few; i++)
            best[i] = espresso->families[i].moved;
    }
    for (uint32_t i = 0; i < few; i++)
        offload_prefix(espresso, &espresso->families[i], best[i]);
}

/** The best prefix of one family, the others as they are. @return whether it is another one */
static bool try_prefixes(struct wring_espresso *espresso, struct wring_espresso_family *family)
{
    uint32_t was = family->moved, best = was;

    for (uint32_t moved = 0; moved <= family->n; moved++) {
        offload_prefix(espresso, family, moved);
        double time = time_all(espresso);
        if (time < espresso->time_us * (1 - WRING_ESPRESSO_GAIN)) {
            espresso->time_us = time;
            best = moved;
        }
    }
    offload_prefix(espresso, family, best);
    return best != was;
}

/** Algorithm 2: move what is coded to the CPU, after Algorithm 1. @param best  scratch, [n] */
static void espresso_offload(struct wring_espresso *espresso, uint32_t *best)
{
    bool changed = espresso->search->params->offload != NULL;

    if (!changed)
        return;
    find_families(espresso);
    try_combinations(espresso, best);
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < espresso->n_families && !wring_search_late(espresso->search); i++)
            changed |= try_prefixes(espresso, &espresso->families[i]);
    }
}

/* ---- espresso ---- */

/** Does the tensor go through all lanes without waiting for the one before it? */
static bool waits_nowhere(const struct wring_espresso *espresso, uint32_t tensor)
{
    const double *before = espresso->heads[tensor], *after = espresso->heads[tensor + 1];
    uint32_t n_lanes = espresso->search->tables->n_lanes;

    for (uint32_t lane = 1; lane < n_lanes; lane++)
        if (before[lane] > after[lane - 1])
            return false;
    return true;
}

/**
 * The timeline, and Remove(): a tensor that is sent the moment it is ready marks a bubble, and what
 * was sent uncompressed before that cannot gain by compression.
 */
static void simulate_timeline(struct wring_espresso *espresso)
{
    uint32_t n = espresso->n, n_lanes = espresso->search->tables->n_lanes;
    struct wring_task task;

    memset(espresso->heads[0], 0, sizeof(*espresso->heads));
    memset(espresso->tails[n], 0, sizeof(*espresso->tails));
    for (uint32_t i = 0; i < n; i++) {
        wring_espresso_task(espresso, i, espresso->option[i], &task);
        wring_task_advance(n_lanes, &task, espresso->heads[i], espresso->heads[i + 1]);
        if (waits_nowhere(espresso, i))
            espresso->dropped = i;
    }
    for (uint32_t i = n; i-- > 0;) {
        wring_espresso_task(espresso, i, espresso->option[i], &task);
        wring_task_retreat(n_lanes, &task, espresso->tails[i + 1], espresso->tails[i]);
    }
    espresso->time_us = espresso->heads[n][n_lanes - 1];
    espresso->search->evaluations++;
}

/** The time with another option for one tensor. */
static double time_with(struct wring_espresso *espresso, uint32_t tensor, uint32_t option)
{
    uint32_t n_lanes = espresso->search->tables->n_lanes;
    double heads[WRING_PLAN_LANES_MAX];
    struct wring_task task;

    wring_espresso_task(espresso, tensor, option, &task);
    wring_task_advance(n_lanes, &task, espresso->heads[tensor], heads);
    espresso->search->evaluations++;
    return wring_heads_meet(n_lanes, heads, espresso->tails[tensor + 1]);
}

/** Largest first; of equal ones the latest ready first. */
static int by_size(const void *a, const void *b)
{
    const struct wring_espresso_candidate *x = a, *y = b;

    if (x->elems != y->elems)
        return x->elems < y->elems ? 1 : -1;
    return (x->tensor < y->tensor) - (x->tensor > y->tensor);
}

/** Which options Algorithm 1 chooses from: those that code where it computes. */
static void find_choosable(struct wring_espresso *espresso)
{
    const struct wring_search_params *params = espresso->search->params;
    uint32_t n = espresso->search->tables->n_options;

    for (uint32_t i = 0; i < n; i++)
        espresso->choosable[i] = params->on_device == NULL || params->on_device[i];
    if (params->on_device != NULL || params->offload == NULL)
        return;
    for (uint32_t i = 0; i < n; i++)
        if (params->offload[i] < n && params->offload[i] != i)
            espresso->choosable[params->offload[i]] = false;
}

/** The option with the least time: as it is, or any that codes where it computes. */
static uint32_t choose_option(struct wring_espresso *espresso, uint32_t tensor)
{
    const struct wring_cost_tables *tables = espresso->search->tables;
    uint32_t best = espresso->option[tensor];
    double least = espresso->time_us;

    for (uint32_t option = 0; option < tables->n_options; option++) {
        if (option == espresso->option[tensor] || !espresso->choosable[option] ||
            !wring_cost_tables_allow(tables, tensor, tensor + 1, option))
            continue;
        double time = time_with(espresso, tensor, option);
        if (time < least * (1 - WRING_ESPRESSO_GAIN)) {
            least = time;
            best = option;
        }
    }
    return best;
}

/** Algorithm 1. */
static void choose_options(struct wring_espresso *espresso)
{
    const struct wring_problem *problem = espresso->search->tables->problem;

    for (uint32_t i = 0; i < espresso->n; i++)
        espresso->candidates[i] = (struct wring_espresso_candidate){
            .elems = problem->elems[i + 1] - problem->elems[i], .tensor = i};
    qsort(espresso->candidates, espresso->n, sizeof(*espresso->candidates), by_size);
    for (uint32_t i = 0; i < espresso->n && !wring_search_late(espresso->search); i++) {
        uint32_t tensor = espresso->candidates[i].tensor;
        if (tensor < espresso->dropped)
            continue;
        uint32_t option = choose_option(espresso, tensor);
        if (option == espresso->option[tensor])
            continue;
        espresso->option[tensor] = option;
        simulate_timeline(espresso);
    }
}

static enum wring_status get_memory(struct wring_espresso *espresso)
{
    size_t n = espresso->n;

    espresso->heads = malloc((n + 1) * sizeof(*espresso->heads));
    espresso->tails = malloc((n + 1) * sizeof(*espresso->tails));
    espresso->candidates = malloc(n * sizeof(*espresso->candidates));
    espresso->families = malloc(n * sizeof(*espresso->families));
    espresso->choosable = malloc(espresso->search->tables->n_options * sizeof(bool));
    bool all = espresso->heads != NULL && espresso->tails != NULL && espresso->candidates != NULL &&
               espresso->families != NULL && espresso->choosable != NULL;
    return all ? WRING_OK : WRING_ERR_NO_MEMORY;
}

enum wring_status wring_search_espresso(struct wring_search_state *search)
{
    struct wring_espresso espresso = {.search = search, .n = search->tables->n_tensors};
    uint32_t *best = malloc(espresso.n * sizeof(*best));

    enum wring_status status = get_memory(&espresso);
    if (status == WRING_OK && best != NULL) {
        wring_search_alone(search, search->params->uncompressed, &search->trial);
        espresso.option = search->trial.option;
        simulate_timeline(&espresso);
        find_choosable(&espresso);
        choose_options(&espresso);
        espresso_offload(&espresso, best);
        wring_search_offer(search, &search->trial);
    }
    free(espresso.heads);
    free(espresso.tails);
    free(espresso.candidates);
    free(espresso.families);
    free(espresso.choosable);
    free(best);
    return best != NULL ? status : WRING_ERR_NO_MEMORY;
}
