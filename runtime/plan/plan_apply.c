/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/plan_apply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "planner/files/plan.h"
#include "runtime/plan/joined.h"

#define WRING_MODULE "plan"

/** Is each as large as the plan has it? */
static enum wring_status check_sizes(const struct wring_session *session, uint32_t number,
                                     struct wring_bucket *const *members)
{
    uint32_t n = session->plan->groups[number].n;
    uint64_t *elems = calloc(n, sizeof(*elems));

    if (elems == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        elems[i] = members[i]->elems;
    enum wring_status status = wring_plan_check_sizes(session->plan, number, elems, &session->log);
    free(elems);
    return status;
}

/** @param members  out, [group->n] */
static enum wring_status find_members(const struct wring_session *session, uint32_t number,
                                      struct wring_bucket **members)
{
    const struct wring_plan_group *group = &session->plan->groups[number];

    for (uint32_t i = 0; i < group->n; i++) {
        members[i] = wring_bucket_find(session, group->tensors[i]);
        if (members[i] == NULL) {
            wring_error(&session->log,
                        "WRING_PLAN=%s has a tensor '%s', and no bucket is called so; plan for "
                        "the buckets of this job",
                        session->config.plan, group->tensors[i]);
            return WRING_ERR_MISMATCH;
        }
    }
    return check_sizes(session, number, members);
}

/** Only what is of one kind can travel as one. */
static enum wring_status check_kinds(const struct wring_session *session,
                                     struct wring_bucket *const *members,
                                     const struct wring_plan_group *group)
{
    const struct wring_bucket *first = members[0];
    char first_name[WRING_TEXT_SHORT], name[WRING_TEXT_SHORT];

    for (uint32_t i = 1; i < group->n; i++) {
        const struct wring_bucket *other = members[i];
        bool alike = group->executor[0] != '\0' || strcmp(other->executor, first->executor) == 0;
        if (other->dtype == first->dtype && other->op == first->op &&
            other->group == first->group && alike)
            continue;
        wring_error(&session->log,
                    "WRING_PLAN=%s merges '%s' (%s of %s) with '%s' (%s of %s)%s, which cannot "
                    "travel as one",
                    session->config.plan, wring_text_short(first->name, first_name),
                    wring_op_name(first->op), wring_dtype_name(first->dtype),
                    wring_text_short(other->name, name), wring_op_name(other->op),
                    wring_dtype_name(other->dtype),
                    other->group != first->group ? " of another group"
                    : !alike                     ? " with another executor"
                                                 : "");
        return WRING_ERR_MISMATCH;
    }
    return WRING_OK;
}

/** A bucket by itself keeps its name; the number makes that of several unique. */
static void name_group(const struct wring_plan_group *group, uint32_t number, char *name)
{
    if (group->n == 1)
        snprintf(name, WRING_NAME_MAX, "%s", group->tensors[0]);
    else
        snprintf(name, WRING_NAME_MAX, "%.30s + %" PRIu32 " (group %" PRIu32 ")", group->tensors[0],
                 group->n - 1, number);
}

static enum wring_status join_group(struct wring_session *session, uint32_t number,
                                    struct wring_bucket **members)
{
    const struct wring_plan_group *group = &session->plan->groups[number];
    char name[WRING_NAME_MAX];
    const struct wring_joined_way way = {.name = name,
                                         .codec = group->codec,
                                         .scheme = wring_scheme_find(group->run_as),
                                         .priority = (int32_t)number,
                                         .executor =
                                             group->executor[0] != '\0' ? group->executor : NULL};

    enum wring_status status = find_members(session, number, members);
    if (status == WRING_OK)
        status = check_kinds(session, members, group);
    if (status != WRING_OK)
        return status;
    name_group(group, number, name);
    return wring_join(session, members, group->n, &way);
}

/** Every bucket is in a group. */
static enum wring_status check_all(const struct wring_session *session)
{
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (at->carries == NULL) {
            wring_error(&session->log,
                        "bucket '%s' is not in WRING_PLAN=%s; plan for the buckets of this job",
                        at->name, session->config.plan);
            return WRING_ERR_MISMATCH;
        }
    return WRING_OK;
}

enum wring_status wring_plan_apply(struct wring_session *session)
{
    if (session->plan == NULL)
        return WRING_OK;
    uint32_t most = 1;
    for (uint32_t g = 0; g < session->plan->n_groups; g++)
        most = session->plan->groups[g].n > most ? session->plan->groups[g].n : most;
    struct wring_bucket **members = calloc(most, sizeof(struct wring_bucket *));
    if (members == NULL)
        return WRING_ERR_NO_MEMORY;

    enum wring_status status = WRING_OK;
    for (uint32_t g = 0; g < session->plan->n_groups && status == WRING_OK; g++)
        status = join_group(session, g, members);
    free(members);
    if (status == WRING_OK && session->autoplan == NULL)
        status = check_all(session);
    return status;
}
