/* SPDX-License-Identifier: Apache-2.0 */
/* A group before it can do anything: who its members are, and which of them share a node. */
#include <stdlib.h>
#include <string.h>

#include "runtime/group/group.h"

enum wring_status wring_group_new(struct wring_session *session, const uint32_t *ranks, uint32_t n,
                                  struct wring_group **out)
{
    struct wring_group *group = calloc(1, sizeof(*group));
    if (group == NULL)
        return WRING_ERR_NO_MEMORY;
    group->session = session;
    pthread_mutex_init(&group->mutex, NULL);
    group->ranks = malloc(n * sizeof(*ranks));
    if (group->ranks == NULL) {
        pthread_mutex_destroy(&group->mutex);
        free(group);
        return WRING_ERR_NO_MEMORY;
    }
    memcpy(group->ranks, ranks, n * sizeof(*ranks));
    group->members = (struct wring_members){n, 0, group->ranks};
    group->members.me = wring_members_find(&group->members, session->rank);
    *out = group;
    return WRING_OK;
}

static uint32_t node_of(const struct wring_group *group, uint32_t member)
{
    return group->session->fabric->peers[group->ranks[member]].node;
}

/** How many of the first `end` members are on a member's node. */
static uint32_t count_alike(const struct wring_group *group, uint32_t member, uint32_t end)
{
    uint32_t alike = 0;
    for (uint32_t i = 0; i < end; i++)
        alike += node_of(group, i) == node_of(group, member);
    return alike;
}

struct wring_group_nodes wring_group_count_nodes(const struct wring_group *group)
{
    struct wring_group_nodes nodes = {.least = UINT32_MAX};

    for (uint32_t i = 0; i < group->members.n; i++) {
        if (count_alike(group, i, i) > 0)
            continue; /* not the first of its node */
        uint32_t alike = count_alike(group, i, group->members.n);
        nodes.n++;
        if (alike < nodes.least) {
            nodes.least = alike;
            nodes.least_rank = group->ranks[i];
        }
        if (alike > nodes.most) {
            nodes.most = alike;
            nodes.most_rank = group->ranks[i];
        }
    }
    return nodes;
}

/** Does a member belong to the subgroup that we are in: that of our node, or of our place? */
static bool is_with_us(const struct wring_group *group, uint32_t member, bool across)
{
    uint32_t me = group->members.me;
    if (!across)
        return node_of(group, member) == node_of(group, me);
    return count_alike(group, member, member) == count_alike(group, me, me);
}

static enum wring_status make_subgroup(struct wring_group *group, bool across,
                                       struct wring_group **out)
{
    uint32_t *ranks = malloc(group->members.n * sizeof(*ranks)), n = 0;

    if (ranks == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < group->members.n; i++)
        if (is_with_us(group, i, across))
            ranks[n++] = group->ranks[i];
    enum wring_status status = wring_group_new(group->session, ranks, n, out);
    free(ranks);
    return status;
}

enum wring_status wring_group_split(struct wring_group *group)
{
    enum wring_status status = WRING_OK;

    if (group->node == NULL)
        status = make_subgroup(group, false, &group->node);
    if (status == WRING_OK && group->across == NULL)
        status = make_subgroup(group, true, &group->across);
    return status;
}
