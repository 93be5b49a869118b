/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/bound/bound_labels.h"

#include <stdlib.h>

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
    wring_branch_drop(branch, heap[0].bound > label->bound ? heap[0].bound : label->bound);
    if (label->bound < heap[0].bound) {
        heap[0] = *label;
        sift_down(heap, width, 0);
    }
}
