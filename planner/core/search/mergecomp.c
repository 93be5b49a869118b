/* SPDX-License-Identifier: Apache-2.0 */
/**
 * MergeComp (arXiv:2103.15195): the tensors in y consecutive groups, all with one option, for
 * y = 1, 2, 3, … until one more group gains too little. The next cut is the best of all there are.
 * Tensors of several kinds are cut where kinds change, and y begins with as many groups.
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

/** Of the tensors [begin, end), which are of one kind. */
static void task_of(const struct partition *partition, uint32_t begin, uint32_t end,
                    struct wring_task *task)
{
    const struct wring_search_state *search = partition->search;

    wring_cost_tables_task(search->tables, begin, end,
                           wring_search_alike(search, begin, partition->option), task);
}

static void time_partition(struct partition *partition)
{
    const struct wring_cost_tables *tables = partition->search->tables;
    uint32_t n = partition->n;
    struct wring_task task;

    memset(partition->heads[0], 0, sizeof(partition->heads[0]));
    memset(partition->tails[n], 0, sizeof(partition->tails[n]));
    for (uint32_t i = 0; i < n; i++) {
        task_of(partition, partition->cut[i], partition->cut[i + 1], &task);
        wring_task_advance(tables->n_lanes, &task, partition->heads[i], partition->heads[i + 1]);
    }
    for (uint32_t i = n; i-- > 0;) {
        task_of(partition, partition->cut[i], partition->cut[i + 1], &task);
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

    task_of(partition, partition->cut[i], at, &task);
    wring_task_advance(tables->n_lanes, &task, partition->heads[i], heads);
    task_of(partition, at, partition->cut[i + 1], &task);
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

/** One group of each run of tensors of a kind. */
static void begin_partition(struct partition *partition)
{
    const struct wring_search_state *search = partition->search;

    partition->n = 0;
    partition->cut[0] = 0;
    for (uint32_t i = 1; i <= search->tables->n_tensors; i++)
        if (i == search->tables->n_tensors || wring_search_kinds_differ(search, i - 1, i))
            partition->cut[++partition->n] = i;
    time_partition(partition);
}

/** All cuts, and an offer. */
static void partition_tensors(struct partition *partition, const uint32_t *breakpoints, uint32_t n)
{
    struct wring_search_state *search = partition->search;

    begin_partition(partition);
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
    size_t kinds = search->params->kinds != NULL ? search->tables->n_tensors : 0;
    size_t room = n + 2 + kinds; /* cuts at breakpoints, and where kinds change */
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
