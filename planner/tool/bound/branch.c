/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/tool/bound/branch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/tool/bound/proof.h"

enum {
    STRIDE = WRING_PLAN_LANES_MAX,
    STEPS = 60, /* of the game for a tail */
};

static void put_tail(struct wring_branch *branch, uint32_t prefix, uint32_t slot,
                     const struct wring_edges *flow)
{
    struct wring_suffix_bound *tail =
        branch->tails + (size_t)prefix * WRING_SUFFIX_BOUNDS_MAX + slot;
    const struct wring_problem *problem = branch->table->problem;

    tail->rest = branch->table->rest[prefix];
    if (prefix < problem->n_tensors) {
        memcpy(tail->cross, flow->along + (size_t)prefix * STRIDE, sizeof(tail->cross));
    } else {
        memset(tail->cross, 0, sizeof(tail->cross));
        tail->cross[problem->n_lanes - 1] = 1;
    }
}

void wring_suffix_bound_learn(struct wring_branch *branch, const struct wring_edges *flow)
{
    uint32_t n = branch->table->problem->n_tensors;

    wring_masses_set(0, n, flow, &branch->masses);
    memcpy(branch->head, branch->table->head, (n + 1) * sizeof(double));
    for (uint32_t prefix = 0; prefix <= n; prefix++) {
        put_tail(branch, prefix, 0, flow);
        branch->n_tails[prefix] += branch->n_tails[prefix] == 0;
    }
}

/** One tail more for a prefix and all beyond it; the oldest goes. */
static void learn_tails(struct wring_branch *branch, uint32_t first, const struct wring_edges *flow)
{
    for (uint32_t prefix = first; prefix < branch->table->problem->n_tensors; prefix++) {
        uint32_t slot = 1 + (branch->n_tails[prefix] - 1) % (WRING_SUFFIX_BOUNDS_MAX - 1);
        put_tail(branch, prefix, slot, flow);
        branch->n_tails[prefix]++;
    }
}

/** Compute the bounds again, after a further tail. Drops labels at the limit; the least bound comes
 *  first. */
static void renew_bounds(struct wring_branch *branch, uint32_t prefix)
{
    struct wring_label *labels = wring_branch_labels(branch, prefix);
    uint32_t kept = 0, least = 0;

    for (uint32_t i = 0; i < branch->count[prefix]; i++) {
        struct wring_label label = labels[i];
        double bound = wring_branch_bound(branch, prefix, label.ends, branch->limit_us);
        label.bound = bound > label.bound ? bound : label.bound;
        if (label.bound >= branch->limit_us)
            continue;
        labels[kept] = label;
        least = label.bound < labels[least].bound ? kept : least;
        kept++;
    }
    branch->count[prefix] = kept;
    if (kept > 0) {
        struct wring_label first = labels[0];
        labels[0] = labels[least];
        labels[least] = first;
    }
}

/** At how many prefixes a tail more is learnt at least: one takes the longer, the more tensors
 * there are. */
static uint32_t tails_every(uint32_t n_tensors)
{
    return 1 + n_tensors / 48 * (n_tensors / 48);
}

/** Give the label of the least bound a flow of its own, from which all labels learn. */
static void cut_tail(struct wring_branch *branch, uint32_t prefix)
{
    struct wring_column_generation *generation = branch->generation;

    if (generation->set->row[prefix] == generation->set->row[prefix + 1])
        return;
    wring_column_generation_enter(generation, prefix, wring_branch_labels(branch, prefix)->ends);
    for (int step = 0; step < STEPS; step++)
        wring_column_generation_step(generation);
    wring_column_generation_rest(generation);
    wring_masses_set(prefix - 1, branch->table->problem->n_tensors, &generation->best,
                     &branch->table->masses);
    if (wring_group_table_price(branch->table, prefix, branch->deadline_ns)) {
        learn_tails(branch, prefix, &generation->best);
        renew_bounds(branch, prefix);
    }
    wring_column_generation_leave(generation);
}

/** Give the label of the least bound a flow of its own, from which all labels learn. Only if that
 * is due at this prefix, or if it has taken no more effort so far than expanding labels. */
static void suffix_bound_learn_behind(struct wring_branch *branch, uint32_t prefix)
{
    uint64_t played = branch->generation->played, priced = branch->table->priced;
    uint64_t expanded = WRING_EFFORT_BRANCHED * (branch->nodes - branch->run_nodes) +
                        WRING_EFFORT_TRIED * (branch->tried - branch->run_tried);

    if (prefix == 0 || branch->count[prefix] == 0)
        return;
    if (prefix % tails_every(branch->table->problem->n_tensors) != 0 &&
        branch->run_learnt > expanded)
        return;
    cut_tail(branch, prefix);
    branch->run_learnt += WRING_EFFORT_PLAYED * (branch->generation->played - played) +
                          WRING_EFFORT_PRICED * (branch->table->priced - priced);
}

/* ---- branch ---- */

enum {
    RIVALS = 128,    /* labels that a label is compared with for dominance */
    NEIGHBOURS = 16, /* likewise, of about the same bound */
};

static void sift_down(struct wring_label *heap, uint32_t n, uint32_t at)
{
    struct wring_label label = heap[at];

    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && heap[child + 1].bound > heap[child].bound;
        if (heap[child].bound <= label.bound)
            break;
        heap[at] = heap[child];
    }
    heap[at] = label;
}

static void sift_up(struct wring_label *heap, uint32_t at)
{
    struct wring_label label = heap[at];

    for (; at > 0 && heap[(at - 1) / 2].bound < label.bound; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = label;
}

static int by_bound(const void *a, const void *b)
{
    const struct wring_label *x = a, *y = b;
    return (x->bound > y->bound) - (x->bound < y->bound);
}

static bool label_dominates(const struct wring_label *a, const struct wring_label *b)
{
    for (uint32_t lane = 0; lane < STRIDE; lane++)
        if (a->ends[lane] > b->ends[lane])
            return false;
    return true;
}

/** Sort the labels of a prefix, best first, and let dominated ones go. */
static void branch_settle(struct wring_branch *branch, uint32_t prefix)
{
    struct wring_label *labels = wring_branch_labels(branch, prefix);
    uint32_t kept = 0;

    qsort(labels, branch->count[prefix], sizeof(*labels), by_bound);
    for (uint32_t i = 0; i < branch->count[prefix]; i++) {
        bool dominated = false;
        for (uint32_t j = 0; j < kept && j < RIVALS && !dominated; j++)
            dominated = label_dominates(&labels[j], &labels[i]) ||
                        (j < NEIGHBOURS && label_dominates(&labels[kept - 1 - j], &labels[i]));
        if (!dominated)
            labels[kept++] = labels[i];
    }
    branch->count[prefix] = kept;
}

/** No room: let dominated labels go. Last to first they are a heap again. */
static void make_room(struct wring_branch *branch, uint32_t prefix, uint32_t width)
{
    struct wring_label *heap = wring_branch_labels(branch, prefix);

    branch_settle(branch, prefix);
    uint32_t n = branch->count[prefix];
    for (uint32_t i = 0; i < n / 2; i++) {
        struct wring_label label = heap[i];
        heap[i] = heap[n - 1 - i];
        heap[n - 1 - i] = label;
    }
    branch->full[prefix] = n > width / 4 * 3;
}

/* Part of a label's distance to the limit: a label that loses less by merging is merged. */
static const double alike = 0.25;

/* Weight of an end on each lane, added to the mass that crosses there. */
static const double any_lane = 0.05;

/** How much two labels lose by being merged, about. */
static double estimate_merge_loss(const struct wring_suffix_bound *tail,
                                  const struct wring_label *a, const struct wring_label *b)
{
    double sum = 0;

    for (uint32_t lane = 0; lane < STRIDE; lane++)
        sum += (tail->cross[lane] + any_lane) * fabs(a->ends[lane] - b->ends[lane]);
    return sum;
}

/** Merge a label with the one most like it, if there is any, or no room for one more. */
static void merge_label(struct wring_branch *branch, uint32_t prefix,
                        const struct wring_label *label)
{
    const struct wring_suffix_bound *tail =
        branch->tails + (size_t)prefix * WRING_SUFFIX_BOUNDS_MAX;
    struct wring_label *merged = wring_branch_merged(branch, prefix);
    uint32_t n = branch->n_merged[prefix], nearest = 0;
    double least = INFINITY;

    for (uint32_t i = 0; i < n; i++) {
        double far = estimate_merge_loss(tail, &merged[i], label);
        nearest = far < least ? i : nearest;
        least = far < least ? far : least;
    }
    if (n < WRING_MERGED_MAX && least > alike * (branch->limit_us - label->bound)) {
        merged[branch->n_merged[prefix]++] = *label;
        return;
    }
    struct wring_label *into = &merged[nearest];
    if (label->bound < into->bound) { /* the path there is that of the better one */
        into->begin = label->begin;
        into->option = label->option;
        into->parent = label->parent;
        into->bound = label->bound;
    }
    for (uint32_t lane = 0; lane < STRIDE; lane++)
        into->ends[lane] = fmin(into->ends[lane], label->ends[lane]);
}

/** Put the labels that stand for others among the rest, where they may lead to less than the limit.
 */
static void branch_take_merged(struct wring_branch *branch, uint32_t prefix)
{
    const struct wring_label *merged = wring_branch_merged(branch, prefix);

    for (uint32_t i = 0; i < branch->n_merged[prefix]; i++) {
        struct wring_label label = merged[i];
        double bound = wring_branch_bound(branch, prefix, label.ends, branch->limit_us);
        label.bound = bound > label.bound ? bound : label.bound;
        if (label.bound < branch->limit_us)
            wring_branch_labels(branch, prefix)[branch->count[prefix]++] = label;
    }
    branch->n_merged[prefix] = 0;
}

/** Take a label in. If the prefix is full, the worst label is merged with one like it.
 *  @param width  labels per prefix, at most */
static void branch_keep(struct wring_branch *branch, uint32_t prefix, uint32_t width,
                        const struct wring_label *label)
{
    struct wring_label *heap = wring_branch_labels(branch, prefix);

    if (branch->count[prefix] == width && !branch->full[prefix])
        make_room(branch, prefix, width);
    if (branch->count[prefix] < width) {
        heap[branch->count[prefix]] = *label;
        sift_up(heap, branch->count[prefix]++);
        return;
    }
    if (label->bound >= heap[0].bound) {
        merge_label(branch, prefix, label);
        return;
    }
    merge_label(branch, prefix, &heap[0]);
    heap[0] = *label;
    sift_down(heap, width, 0);
}

/* ---- branch ---- */

/** Lower `least` to an option's time for one tensor on the lanes before each. */
static void arrive_by(const struct wring_branch *branch, uint32_t tensor, uint32_t option,
                      double *least)
{
    bool whole = branch->table->problem->options[option].chunk_elems == 0;
    struct wring_group_cost group;
    double sum = 0;

    wring_group_cost_of(branch->table, tensor, tensor + 1, option, &group);
    for (uint32_t lane = 0; lane < STRIDE; lane++) {
        least[lane] = fmin(least[lane], sum);
        sum += whole ? group.took[lane]
               : lane == wring_problem_computes(branch->table->problem)
                   ? branch->table->problem->compute_us[tensor]
                   : 0;
    }
}

/** Costs never fall with size, so that no group takes less than its first tensor, but in chunks. */
static void set_arrivals(struct wring_branch *branch)
{
    const struct wring_problem *problem = branch->table->problem;

    for (uint32_t i = 0; i < problem->n_tensors; i++) {
        double *least = branch->arrive + (size_t)i * STRIDE;
        for (uint32_t lane = 0; lane < STRIDE; lane++)
            least[lane] = INFINITY;
        for (uint32_t option = 0; option < problem->n_options; option++)
            if (wring_problem_allows(problem, i, option))
                arrive_by(branch, i, option, least);
    }
}

enum wring_status wring_branch_init(struct wring_branch *branch, struct wring_group_table *table,
                                    struct wring_column_generation *generation, uint32_t labels)
{
    size_t rows = (size_t)table->problem->n_tensors + 1, room = labels / rows;
    size_t label_bytes = rows * (room + WRING_MERGED_MAX) * sizeof(struct wring_label);
    size_t merged_bytes = rows * WRING_MERGED_MAX * sizeof(struct wring_label);
    size_t tail_bytes = rows * WRING_SUFFIX_BOUNDS_MAX * sizeof(struct wring_suffix_bound);
    size_t choice_bytes = table->problem->n_options * sizeof(struct wring_branch_choice);
    char *memory =
        malloc(label_bytes + merged_bytes + tail_bytes + choice_bytes +
               rows * ((3 * STRIDE + 1) * sizeof(double) + 3 * sizeof(uint32_t) + sizeof(bool)));

    *branch = (struct wring_branch){
        .table = table, .generation = generation, .room = (uint32_t)room, .memory = memory};
    if (memory == NULL)
        return WRING_ERR_NO_MEMORY;
    branch->labels = (struct wring_label *)memory;
    branch->merged = (struct wring_label *)(memory += label_bytes);
    branch->tails = (struct wring_suffix_bound *)(memory += merged_bytes);
    branch->choices = (struct wring_branch_choice *)(memory += tail_bytes);
    branch->masses.base = (double *)(memory += choice_bytes);
    branch->masses.sum = branch->masses.base + rows * STRIDE;
    branch->head = branch->masses.sum + rows * STRIDE;
    branch->arrive = branch->head + rows;
    branch->count = (uint32_t *)(branch->arrive + rows * STRIDE);
    branch->n_merged = branch->count + rows;
    branch->n_tails = branch->n_merged + rows;
    branch->full = (bool *)(branch->n_tails + rows);
    memset(branch->n_tails, 0, rows * sizeof(uint32_t));
    set_arrivals(branch);
    return WRING_OK;
}

void wring_branch_finish(struct wring_branch *branch)
{
    free(branch->memory);
    branch->memory = NULL;
}

/** The ends after one group more; a lane that waits for the next one is as good as busy. */
static inline void advance_ends(const struct wring_problem *problem, uint64_t chunks,
                                const double *once, const double *each, const double *before,
                                const double *arrive, double *ends)
{
    memcpy(ends, before, STRIDE * sizeof(*ends));
    wring_problem_advance(problem, chunks, once, each, ends);
    for (uint32_t lane = 1; lane < problem->n_lanes && arrive != NULL; lane++)
        ends[lane] = fmax(ends[lane], ends[0] + arrive[lane]);
}

static void expand_option(struct wring_branch *branch, uint32_t begin, uint32_t end,
                          uint32_t option, uint32_t width)
{
    const struct wring_problem *problem = branch->table->problem;
    const struct wring_label *from = wring_branch_labels(branch, begin);
    double once[STRIDE] = {0}, each[STRIDE] = {0};
    uint64_t chunks = wring_problem_group(problem, begin, end, option, once, each);
    const double *arrive = end < problem->n_tensors ? branch->arrive + (size_t)end * STRIDE : NULL;
    struct wring_label label = {.begin = begin, .option = option};

    for (uint32_t i = 0; i < branch->count[begin]; i++) {
        advance_ends(problem, chunks, once, each, from[i].ends, arrive, label.ends);
        double limit = branch->count[end] < width || !branch->full[end]
                           ? branch->limit_us
                           : wring_branch_labels(branch, end)->bound;
        label.bound = wring_branch_bound(branch, end, label.ends, limit);
        label.bound = label.bound > from[i].bound ? label.bound : from[i].bound;
        label.parent = i;
        if (label.bound < branch->limit_us)
            branch_keep(branch, end, width, &label);
    }
    branch->nodes += branch->count[begin];
}

/** Is a no longer than b on any lane? Said of groups that are one chunk only. */
static bool beats_group_cost(const struct wring_group_cost *a, const struct wring_group_cost *b)
{
    if (a->chunked || b->chunked)
        return false;
    for (uint32_t lane = 0; lane < STRIDE; lane++)
        if (a->took[lane] > b->took[lane])
            return false;
    return true;
}

static int by_length(const void *a, const void *b)
{
    const struct wring_branch_choice *x = a, *y = b;
    int order = (x->length > y->length) - (x->length < y->length);
    return order != 0 ? order : (x->option > y->option) - (x->option < y->option);
}

/** The options of the group that a row has reached which are worth a try. @return how many choices
 */
static uint32_t choose_options(struct wring_branch *branch, const struct wring_group_row *row)
{
    const struct wring_group_table *table = branch->table;
    uint32_t begin = row->begin, end = row->next;
    double around = branch->head[begin] + branch->tails[(size_t)end * WRING_SUFFIX_BOUNDS_MAX].rest;
    double mass[STRIDE];
    uint32_t n = 0, kept = 0;

    wring_masses_of(&branch->masses, begin, end, mass);
    around += (table->computed[end] - table->computed[begin]) *
              mass[wring_problem_computes(table->problem)];
    for (uint32_t i = 0; i < row->n; i++) {
        struct wring_branch_choice *choice = &branch->choices[n];
        choice->option = table->active[i];
        choice->length = wring_group_row_length(table, row, choice->option, mass);
        if (around + choice->length >= branch->limit_us)
            continue;
        wring_group_cost_of(table, begin, end, choice->option, &choice->group);
        n++;
    }
    qsort(branch->choices, n, sizeof(*branch->choices), by_length);
    for (uint32_t i = 0; i < n; i++) {
        bool beaten = false;
        for (uint32_t j = 0; j < kept && !beaten; j++)
            beaten = beats_group_cost(&branch->choices[j].group, &branch->choices[i].group);
        if (!beaten)
            branch->choices[kept++] = branch->choices[i];
    }
    return kept;
}

/** Or of nodes. */
static bool is_out_of_time(const struct wring_branch *branch)
{
    return (branch->nodes_max != 0 && branch->nodes >= branch->nodes_max) ||
           (branch->deadline_ns != 0 && wring_now_ns() >= branch->deadline_ns);
}

/** All labels of a prefix, with one group more. @return false: no time */
static bool expand_prefix(struct wring_branch *branch, uint32_t begin, uint32_t width)
{
    const struct wring_group_table *table = branch->table;
    const struct wring_group_pair *pairs = table->pairs + table->row[begin];
    struct wring_group_row row;

    wring_group_row_start(table, begin, &row);
    for (uint32_t i = 0; i < table->alive[begin] && branch->count[begin] > 0; i++) {
        if (pairs[i].least >= branch->limit_us)
            continue;
        branch->tried += wring_group_row_reach(table, pairs[i].end, &row);
        uint32_t n = choose_options(branch, &row);
        for (uint32_t j = 0; j < n; j++) {
            if (is_out_of_time(branch))
                return false;
            expand_option(branch, begin, pairs[i].end, branch->choices[j].option, width);
        }
    }
    return true;
}

static void trace_back(const struct wring_branch *branch, struct wring_grouping *out)
{
    uint32_t n = 0, prefix = branch->table->problem->n_tensors, at = 0;

    while (prefix > 0) {
        const struct wring_label *label = wring_branch_labels(branch, prefix) + at;
        out->end[n] = prefix;
        out->option[n++] = label->option;
        prefix = label->begin;
        at = label->parent;
    }
    out->n = n;
    for (uint32_t i = 0; i < n / 2; i++) {
        uint32_t end = out->end[i], option = out->option[i];
        out->end[i] = out->end[n - 1 - i];
        out->option[i] = out->option[n - 1 - i];
        out->end[n - 1 - i] = end;
        out->option[n - 1 - i] = option;
    }
}

static void begin_run(struct wring_branch *branch, double limit_us, uint64_t deadline_ns)
{
    uint32_t n = branch->table->problem->n_tensors;

    branch->dropped_us = INFINITY;
    branch->run_nodes = branch->nodes;
    branch->run_tried = branch->tried;
    branch->run_learnt = 0;
    branch->limit_us = limit_us;
    branch->deadline_ns = deadline_ns;
    memset(branch->count, 0, (n + 1) * sizeof(*branch->count));
    memset(branch->n_merged, 0, (n + 1) * sizeof(*branch->n_merged));
    memset(branch->full, 0, (n + 1) * sizeof(*branch->full));
    memset(branch->labels, 0, sizeof(*branch->labels));
    branch->count[0] = 1;
}

/** Out of time: the labels that were not extended to the end count as dropped. */
static void drop_open(struct wring_branch *branch, uint32_t prefix)
{
    for (; prefix <= branch->table->problem->n_tensors; prefix++) {
        for (uint32_t i = 0; i < branch->count[prefix]; i++)
            wring_branch_drop(branch, wring_branch_labels(branch, prefix)[i].bound);
        for (uint32_t i = 0; i < branch->n_merged[prefix]; i++)
            wring_branch_drop(branch, wring_branch_merged(branch, prefix)[i].bound);
    }
}

bool wring_branch_run(struct wring_branch *branch, double limit_us, uint32_t width,
                      uint64_t deadline_ns, struct wring_grouping *best, double *bound)
{
    uint32_t n = branch->table->problem->n_tensors;

    begin_run(branch, limit_us, deadline_ns);
    for (uint32_t prefix = 0; prefix < n; prefix++) {
        branch_settle(branch, prefix);
        branch_take_merged(branch, prefix);
        suffix_bound_learn_behind(branch, prefix);
        if (!expand_prefix(branch, prefix, width < branch->room ? width : branch->room)) {
            drop_open(branch, prefix);
            break;
        }
    }
    branch_take_merged(branch, n);
    branch_settle(branch, n);
    *bound = branch->dropped_us < limit_us ? branch->dropped_us : limit_us;
    if (branch->count[n] == 0)
        return false;
    double found = wring_branch_labels(branch, n)->bound;
    *bound = found < *bound ? found : *bound;
    trace_back(branch, best);
    return true;
}
