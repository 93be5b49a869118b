/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Every option there is, group by group of the best grouping so far: the best change is made, and
 * those options are noted that a next beam should know of. A few choices per size cannot hold all
 * that may pay, since what pays depends on which lanes a plan leaves idle; here that is known.
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "planner/search/seek.h"

enum {
    SWEEPS_MAX = 3,
    VIEWS = 4, /* see blurs */
};

/* What the mean lane counts for beside the time: the option that is best by itself, and those that
   would be if other groups made room. */
static const double blurs[VIEWS] = {1e-3, 0.1, 0.5, 3};

/* Of the time: less is rounding. */
static const double least_gain = 1e-9;

struct trial {
    struct wring_seek *seek;
    struct wring_grouping *grouping;
    double (*tails)[WRING_PLAN_LANES_MAX]; /* [n + 1] before each group */
    double heads[WRING_PLAN_LANES_MAX];    /* before the present group */
    uint32_t group, begin, end;
    uint32_t best[VIEWS]; /* options */
};

static void work_out_tails(struct trial *trial)
{
    const struct wring_rates *rates = trial->seek->rates;
    const struct wring_grouping *grouping = trial->grouping;
    struct wring_task task;

    memset(trial->tails[grouping->n], 0, sizeof(*trial->tails));
    for (uint32_t i = grouping->n; i-- > 0;) {
        uint32_t begin = i > 0 ? grouping->end[i - 1] : 0;
        wring_rates_task(rates, begin, grouping->end[i], grouping->option[i], &task);
        wring_task_retreat(rates->n_lanes, &task, trial->tails[i + 1], trial->tails[i]);
    }
}

/** What an option is worth to the present group, as each of the views has it. */
static void measure(struct trial *trial, uint32_t option, double *worth)
{
    const struct wring_rates *rates = trial->seek->rates;
    const double *tails = trial->tails[trial->group + 1];
    double heads[WRING_PLAN_LANES_MAX], most = 0, sum = 0;
    struct wring_task task;

    wring_rates_task(rates, trial->begin, trial->end, option, &task);
    wring_task_advance(rates->n_lanes, &task, trial->heads, heads);
    for (uint32_t lane = 0; lane < rates->n_lanes; lane++) {
        double time = heads[lane] + tails[lane];
        most = wring_later(most, time);
        sum += time;
    }
    for (int view = 0; view < VIEWS; view++)
        worth[view] = most + blurs[view] / rates->n_lanes * sum;
    trial->seek->evaluations++;
}

/** @return whether another option than the present one is best for the time */
static bool try_all(struct trial *trial)
{
    const struct wring_rates *rates = trial->seek->rates;
    uint32_t present = trial->grouping->option[trial->group];
    double least[VIEWS], worth[VIEWS];

    measure(trial, present, least);
    for (int view = 0; view < VIEWS; view++)
        trial->best[view] = present;
    least[0] *= 1 - least_gain;
    for (uint32_t option = 0; option < rates->n_options; option++) {
        if (!wring_rates_allow(rates, trial->begin, trial->end, option))
            continue;
        measure(trial, option, worth);
        for (int view = 0; view < VIEWS; view++)
            if (worth[view] < least[view]) {
                least[view] = worth[view];
                trial->best[view] = option;
            }
    }
    return trial->best[0] != present;
}

/** At sizes that the next groups may have. */
static void mark(const struct trial *trial, bool *marked)
{
    const struct wring_rates *rates = trial->seek->rates;
    uint64_t elems = rates->problem->elems[trial->end] - rates->problem->elems[trial->begin];
    int size = wring_rates_size(elems), first = size > 0 ? size - 1 : 0;

    for (int i = first; i <= size + 1 && i < WRING_SIZES; i++)
        for (int view = 0; view < VIEWS; view++)
            marked[(size_t)i * rates->n_options + trial->best[view]] = true;
}

static void step(struct trial *trial)
{
    const struct wring_rates *rates = trial->seek->rates;
    struct wring_task task;

    wring_rates_task(rates, trial->begin, trial->end, trial->grouping->option[trial->group], &task);
    wring_task_advance(rates->n_lanes, &task, trial->heads, trial->heads);
    trial->begin = trial->end;
}

/** @return options changed */
static uint32_t sweep(struct trial *trial, bool *marked)
{
    uint32_t changes = 0;

    work_out_tails(trial);
    memset(trial->heads, 0, sizeof(trial->heads));
    trial->begin = 0;
    for (trial->group = 0; trial->group < trial->grouping->n; trial->group++) {
        trial->end = trial->grouping->end[trial->group];
        if (wring_seek_late(trial->seek))
            return 0;
        changes += try_all(trial);
        trial->grouping->option[trial->group] = trial->best[0];
        mark(trial, marked);
        step(trial);
    }
    return changes;
}

enum wring_status wring_seek_every_option(struct wring_seek *seek, bool *marked)
{
    struct trial trial = {.seek = seek, .grouping = &seek->trial};

    trial.tails = malloc(((size_t)seek->rates->n_tensors + 1) * sizeof(*trial.tails));
    if (trial.tails == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_seek_copy(&seek->trial, &seek->best);
    for (int i = 0; i < SWEEPS_MAX && sweep(&trial, marked) > 0; i++)
        wring_seek_offer(seek, &seek->trial);
    free(trial.tails);
    return WRING_OK;
}
