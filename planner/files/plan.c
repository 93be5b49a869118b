/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/files/plan.h"

#include "planner/files/profile.h"
#include "planner/files/tensor_trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WRING_MODULE "planner"

static enum wring_status differ_in_tensor(const struct wring_plan *plan, const char *planned,
                                          const char *found, uint32_t i,
                                          const struct wring_log *log)
{
    wring_error(log,
                "the plan was made for other tensors: as number %" PRIu32
                " of model %s it has \"%s\", and there is \"%s\"; plan again",
                i, plan->model, planned, found);
    return WRING_ERR_MISMATCH;
}

/** The tensors that both name, in their order. */
static enum wring_status check_names(const struct wring_plan *plan,
                                     const struct wring_tensor *tensors, uint32_t n,
                                     const struct wring_log *log)
{
    uint32_t i = 0;

    for (uint32_t g = 0; g < plan->n_groups; g++)
        for (uint32_t t = 0; t < plan->groups[g].n; t++, i++) {
            const char *found = i < n ? tensors[i].name : "nothing more";
            if (strcmp(plan->groups[g].tensors[t], found) != 0 || i >= n)
                return differ_in_tensor(plan, plan->groups[g].tensors[t], found, i, log);
        }
    return i == n ? WRING_OK : differ_in_tensor(plan, "nothing more", tensors[i].name, i, log);
}

static enum wring_status differ_in_size(const char *name, uint64_t planned, uint64_t found,
                                        const struct wring_log *log)
{
    wring_error(log,
                "the plan was made for other sizes: its tensor \"%s\" has %" PRIu64
                " elements, and there are %" PRIu64 "; plan again",
                name, planned, found);
    return WRING_ERR_MISMATCH;
}

enum wring_status wring_plan_check_sizes(const struct wring_plan *plan, uint32_t g,
                                         const uint64_t *elems, const struct wring_log *log)
{
    const struct wring_plan_group *group = &plan->groups[g];
    uint64_t sum = 0;

    for (uint32_t t = 0; t < group->n; t++) {
        if (group->each != NULL && group->each[t] != elems[t])
            return differ_in_size(group->tensors[t], group->each[t], elems[t], log);
        sum += elems[t];
    }
    if (sum == group->elems)
        return WRING_OK;
    wring_error(log,
                "the plan was made for other sizes: its group %" PRIu32
                ", from \"%s\" on, has %" PRIu64 " elements, and there are %" PRIu64 "; plan again",
                g, group->tensors[0], group->elems, sum);
    return WRING_ERR_MISMATCH;
}

static enum wring_status check_sizes(const struct wring_plan *plan,
                                     const struct wring_tensor *tensors, uint32_t n,
                                     const struct wring_log *log)
{
    uint64_t *elems = calloc((size_t)n + 1, sizeof(*elems));
    enum wring_status status = elems != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
    uint32_t begin = 0;

    for (uint32_t i = 0; i < n && status == WRING_OK; i++)
        elems[i] = tensors[i].elems;
    for (uint32_t g = 0; g < plan->n_groups && status == WRING_OK; begin += plan->groups[g++].n)
        status = wring_plan_check_sizes(plan, g, elems + begin, log);
    free(elems);
    return status;
}

enum wring_status wring_plan_check_tensors(const struct wring_plan *plan,
                                           const struct wring_tensor *tensors, uint32_t n,
                                           const struct wring_log *log)
{
    enum wring_status status = check_names(plan, tensors, n, log);
    return status == WRING_OK ? check_sizes(plan, tensors, n, log) : status;
}

static enum wring_status check_hash(const char *what, const char *name, uint64_t planned,
                                    uint64_t found, const struct wring_log *log)
{
    if (planned == found)
        return WRING_OK;
    wring_error(log,
                "the plan was made from another %s: its hash was %016" PRIx64
                ", that of %s is %016" PRIx64 "; plan again",
                what, planned, name, found);
    return WRING_ERR_MISMATCH;
}

enum wring_status wring_plan_check(const struct wring_plan *plan,
                                   const struct wring_tensor_trace *trace,
                                   const struct wring_profile *profile, const struct wring_log *log)
{
    enum wring_status status = wring_plan_check_tensors(plan, trace->tensors, trace->n, log);

    if (status == WRING_OK)
        status = check_hash("trace", trace->model, plan->trace_hash, trace->hash, log);
    if (status == WRING_OK && profile != NULL)
        status = check_hash("profile", profile->name, plan->profile_hash, profile->hash, log);
    return status;
}

enum wring_status wring_plan_check_ranks(const struct wring_plan *plan, const char *name,
                                         uint32_t ranks, const struct wring_log *log)
{
    if ((uint64_t)plan->nodes * plan->ranks_per_node == ranks)
        return WRING_OK;
    wring_error(log,
                "%s is for %" PRIu32 " nodes of %" PRIu32 " ranks, and the job has %" PRIu32
                " ranks; plan again with --nodes and --gpus-per-node",
                name, plan->nodes, plan->ranks_per_node, ranks);
    return WRING_ERR_MISMATCH;
}

enum wring_status wring_plan_check_machine(const struct wring_plan *plan, const char *machine,
                                           const struct wring_log *log)
{
    if (plan->machine[0] == '\0' || strcmp(plan->machine, machine) == 0)
        return WRING_OK;
    wring_error(log,
                "the plan was made for \"%s\", and this is \"%s\": plan with what wring calibrate "
                "measures here",
                plan->machine, machine);
    return WRING_ERR_MISMATCH;
}

static void finish_group(struct wring_plan_group *group)
{
    for (uint32_t i = 0; i < group->n; i++)
        free(group->tensors[i]);
    free(group->tensors);
    free(group->each);
}

void wring_plan_destroy(struct wring_plan *plan)
{
    if (plan == NULL)
        return;
    for (uint32_t g = 0; g < plan->n_groups; g++)
        finish_group(&plan->groups[g]);
    free(plan->groups);
    free(plan);
}
