/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/bound/bound_labels.h"

#include <math.h>
#include <stdlib.h>

#include "planner/bound/bound_tails.h"

enum {
    STRIDE = WRING_PLAN_LANES_MAX,
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

static bool dominates(const struct wring_label *a, const struct wring_label *b)
{
    for (uint32_t lane = 0; lane < STRIDE; lane++)
        if (a->ends[lane] > b->ends[lane])
            return false;
    return true;
}

void wring_branch_settle(struct wring_branch *branch, uint32_t prefix)
{
    struct wring_label *labels = wring_branch_labels(branch, prefix);
    uint32_t kept = 0;

    qsort(labels, branch->count[prefix], sizeof(*labels), by_bound);
    for (uint32_t i = 0; i < branch->count[prefix]; i++) {
        bool dominated = false;
        for (uint32_t j = 0; j < kept && j < RIVALS && !dominated; j++)
            dominated = dominates(&labels[j], &labels[i]) ||
                        (j < NEIGHBOURS && dominates(&labels[kept - 1 - j], &labels[i]));
        if (!dominated)
            labels[kept++] = labels[i];
    }
    branch->count[prefix] = kept;
}

/** No room: let dominated labels go. Last to first they are a heap again. */
static void make_room(struct wring_branch *branch, uint32_t prefix, uint32_t width)
{
    struct wring_label *heap = wring_branch_labels(branch, prefix);

    wring_branch_settle(branch, prefix);
    uint32_t n = branch->count[prefix];
    for (uint32_t i = 0; i < n / 2; i++) {
        struct wring_label label = heap[i];
        heap[i] = heap[n - 1 - i];
        heap[n - 1 - i] = label;
    }
    branch->full[prefix] = n > width / 4 * 3;
}

/* Of what a label is below the limit: one that loses less by merging is merged. */
static const double alike = 0.25;

/* What an end counts for on each lane, beside the mass that crosses there. */
static const double any_lane = 0.05;

/** How much two labels lose by being merged, about. */
static double distance(const struct wring_tail *tail, const struct wring_label *a,
                       const struct wring_label *b)
{
    double sum = 0;

    for (uint32_t lane = 0; lane < STRIDE; lane++)
        sum += (tail->cross[lane] + any_lane) * fabs(a->ends[lane] - b->ends[lane]);
    return sum;
}

/** Merge a label with the one most like it, if there is any, or no room for one more. */
static void merge(struct wring_branch *branch, uint32_t prefix, const struct wring_label *label)
{
    const struct wring_tail *tail = branch->tails + (size_t)prefix * WRING_TAILS_MAX;
    struct wring_label *merged = wring_branch_merged(branch, prefix);
    uint32_t n = branch->n_merged[prefix], nearest = 0;
    double least = INFINITY;

    for (uint32_t i = 0; i < n; i++) {
        double far = distance(tail, &merged[i], label);
        nearest = far < least ? i : nearest;
        least = far < least ? far : least;
    }
    if (n < WRING_MERGED_MAX && least > alike * (branch->limit_us - label->bound)) {
        merged[branch->n_merged[prefix]++] = *label;
        return;
    }
    struct wring_label *into = &merged[nearest];
    if (label->bound < into->bound) { /* the way there is that of the better one */
        into->begin = label->begin;
        into->option = label->option;
        into->parent = label->parent;
        into->bound = label->bound;
    }
    for (uint32_t lane = 0; lane < STRIDE; lane++)
        into->ends[lane] = fmin(into->ends[lane], label->ends[lane]);
}

void wring_branch_take_merged(struct wring_branch *branch, uint32_t prefix)
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

void wring_branch_keep(struct wring_branch *branch, uint32_t prefix, uint32_t width,
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
        merge(branch, prefix, label);
        return;
    }
    merge(branch, prefix, &heap[0]);
    heap[0] = *label;
    sift_down(heap, width, 0);
}
