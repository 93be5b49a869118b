/* SPDX-License-Identifier: Apache-2.0 */
/**
 * MergeComp (arXiv:2103.15195): the tensors in y consecutive groups, all with one option, for
 * y = 1, 2, 3, … until one more group gains too little. The next cut is the best of all there are.
 */
#include <stdlib.h>
#include <string.h>

#include "planner/core/search/search_state.h"

/* Of the time: what one more group must gain. */
static const double threshold = 1e-3;

/** A partition that grows. Heads and tails are those at each cut. */
struct partition {
    struct wring_search_state *search;
    uint32_t option, n; /* groups */
    uint32_t *cut;      /* [n + 1] 0, …, n_tensors */
    double (*heads)[WRING_PLAN_LANES_MAX], (*tails)[WRING_PLAN_LANES_MAX]; /* [n + 1] */
    double time_us;
};

static void time_partition(struct partition *partition)
{
    const struct wring_cost_tables *tables = partition->search->tables;
    uint32_t n = partition->n;
    struct wring_task task;

    memset(partition->heads[0], 0, sizeof(partition->heads[0]));
    memset(partition->tails[n], 0, sizeof(partition->tails[n]));
    for (uint32_t i = 0; i < n; i++) {
        wring_cost_tables_task(tables, partition->cut[i], partition->cut[i + 1], partition->option,
                               &task);
        wring_task_advance(tables->n_lanes, &task, partition->heads[i], partition->heads[i + 1]);
    }
    for (uint32_t i = n; i-- > 0;) {
        wring_cost_tables_task(tables, partition->cut[i], partition->cut[i + 1], partition->option,
                               &task);
        wring_task_retreat(tables->n_lanes, &task, partition->tails[i + 1], partition->tails[i]);
    }
    partition->time_us = partition->heads[n][tables->n_lanes - 1];
}

/** The time with group i cut once more. */
static double time_cut(const struct partition *partition, uint32_t i, uint32_t at)
{
    const struct wring_cost_tables *tables = partition->search->tables;
    double heads[WRING_PLAN_LANES_MAX];
    struct wring_task task;

    wring_cost_tables_task(tables, partition->cut[i], at, partition->option, &task);
    wring_task_advance(tables->n_lanes, &task, partition->heads[i], heads);
    wring_cost_tables_task(tables, at, partition->cut[i + 1], partition->option, &task);
    wring_task_advance(tables->n_lanes, &task, heads, heads);
    partition->search->evaluations++;
    return wring_heads_meet(tables->n_lanes, heads, partition->tails[i + 1]);
}

/** Cut where it helps most. @return whether that was enough */
static bool cut_once(struct partition *partition, const uint32_t *breakpoints, uint32_t n)
{
    uint32_t group = 0, best = 0, best_group = 0;
    double time = partition->time_us * (1 - threshold);

    for (uint32_t i = 0; i < n && breakpoints[i] < partition->search->tables->n_tensors; i++) {
        while (partition->cut[group + 1] < breakpoints[i])
            group++;
        if (partition->cut[group + 1] == breakpoints[i])
            continue;
        double cut = time_cut(partition, group, breakpoints[i]);
        if (cut < time) {
            time = cut;
            best = breakpoints[i];
            best_group = group;
        }
    }
    if (best == 0)
        return false;
    memmove(partition->cut + best_group + 2, partition->cut + best_group + 1,
            (partition->n - best_group) * sizeof(*partition->cut));
    partition->cut[best_group + 1] = best;
    partition->n++;
    time_partition(partition);
    return true;
}

/** All cuts, and an offer. */
static void partition_tensors(struct partition *partition, const uint32_t *breakpoints, uint32_t n)
{
    struct wring_search_state *search = partition->search;

    partition->n = 1;
    partition->cut[0] = 0;
    partition->cut[1] = search->tables->n_tensors;
    time_partition(partition);
    while (!wring_search_late(search) && cut_once(partition, breakpoints, n))
        ;
    wring_search_uniform(search, partition->cut + 1, partition->n, partition->option,
                         &search->trial);
    wring_search_offer(search, &search->trial);
}

enum wring_status wring_search_mergecomp(struct wring_search_state *search, uint32_t option,
                                         const uint32_t *breakpoints, uint32_t n)
{
    struct partition partition = {.search = search, .option = option};
    size_t room = (size_t)n + 2;
    enum wring_status status = WRING_ERR_NO_MEMORY;

    partition.cut = malloc(room * sizeof(*partition.cut));
    partition.heads = malloc(room * sizeof(*partition.heads));
    partition.tails = malloc(room * sizeof(*partition.tails));
    if (partition.cut != NULL && partition.heads != NULL && partition.tails != NULL) {
        partition_tensors(&partition, breakpoints, n);
        status = WRING_OK;
    }
    free(partition.cut);
    free(partition.heads);
    free(partition.tails);
    return status;
}
