/* SPDX-License-Identifier: Apache-2.0 */
/** What flows say of suffixes. */
#ifndef WRING_BOUND_SUFFIX_BOUND_H
#define WRING_BOUND_SUFFIX_BOUND_H

#include "planner/tool/bound/branch.h"

static inline double wring_suffix_bound_at(const struct wring_suffix_bound *tail,
                                           const double *ends)
{
    return wring_group_dot(ends, tail->cross) + tail->rest;
}

/** No completion of a label with these ends takes less: the largest of the tails' bounds, or one
 * that reaches the limit. */
static inline double wring_branch_bound(const struct wring_branch *branch, uint32_t prefix,
                                        const double *ends, double limit)
{
    const struct wring_suffix_bound *tails =
        branch->tails + (size_t)prefix * WRING_SUFFIX_BOUNDS_MAX;
    uint32_t n = branch->n_tails[prefix] < WRING_SUFFIX_BOUNDS_MAX ? branch->n_tails[prefix]
                                                                   : WRING_SUFFIX_BOUNDS_MAX;
    double bound = 0;

    for (uint32_t i = 0; i < n && bound < limit; i++) {
        double one = wring_suffix_bound_at(&tails[i], ends);
        bound = one > bound ? one : bound;
    }
    return bound;
}

/** Give the label of the least bound a flow of its own, from which all labels learn. Only if that
 * is due at this prefix, or if it has taken no more effort so far than expanding labels. */
void wring_suffix_bound_learn_behind(struct wring_branch *branch, uint32_t prefix);

#endif
