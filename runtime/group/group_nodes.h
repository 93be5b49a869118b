/* SPDX-License-Identifier: Apache-2.0 */
/** Which of a group's members share a node: hosts as they were told apart when the session opened.
 */
#ifndef WRING_RUNTIME_GROUP_NODES_H
#define WRING_RUNTIME_GROUP_NODES_H

#include "runtime/group/group.h"

struct wring_group_nodes {
    uint32_t n;
    uint32_t least, most;           /* members in one of them */
    uint32_t least_rank, most_rank; /* the first rank there */
};

struct wring_group_nodes wring_group_count_nodes(const struct wring_group *group);

/** Two or more, of equally many members, two or more: what hierarchical schemes are for. */
static inline bool wring_group_nodes_fit(const struct wring_group_nodes *nodes)
{
    return nodes->n > 1 && nodes->least > 1 && nodes->least == nodes->most;
}

/**
 * Fill in group->node, the members of our node, and group->across, those that stand in the same
 * place as we on every node; nodes have equally many. They have ranks, and nothing to make calls
 * with. Once is enough. Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_group_split(struct wring_group *group);

#endif
