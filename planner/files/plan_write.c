/* SPDX-License-Identifier: Apache-2.0 */
/** Plans written as files. docs/planner-files.md has the fields. */
#include "planner/files/json_writer.h"
#include "planner/files/plan.h"

static json_t *names_to_json(const struct wring_plan_group *group)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < group->n; i++)
        if (json_array_append_new(list, json_string(group->tensors[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *sizes_to_json(const struct wring_plan_group *group)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < group->n; i++)
        if (json_array_append_new(list, json_integer((json_int_t)group->each[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *groups_to_json(const struct wring_plan *plan)
{
    json_t *list = json_array();

    for (uint32_t g = 0; g < plan->n_groups; g++) {
        const struct wring_plan_group *group = &plan->groups[g];
        json_t *value = json_pack("{s:o, s:I, s:s, s:s, s:s, s:I, s:i, s:s}", "tensors",
                                  names_to_json(group), "elements", (json_int_t)group->elems,
                                  "codec", group->codec, "where", group->where, "scheme",
                                  group->scheme, "chunk_elements", (json_int_t)group->chunk_elems,
                                  "cores", (int)group->cores, "run_as", group->run_as);
        int failed = group->each != NULL
                         ? json_object_set_new(value, "tensor_elements", sizes_to_json(group))
                         : 0;
        if (group->executor[0] != '\0')
            failed |= json_object_set_new(value, "executor", json_string(group->executor));
        if (json_array_append_new(list, value) != 0 || failed != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *baseline_to_json(const struct wring_plan *plan)
{
    return json_pack("{s:o, s:o}", "fp32", wring_json_number(plan->fp32_us), "fp16",
                     wring_json_number(plan->fp16_us));
}

/** What is left after the last gradient; rounding takes none of it below nothing. */
static double exposed(const struct wring_plan *plan, double us)
{
    return us > plan->last_ready_us ? us - plan->last_ready_us : 0;
}

static json_t *head_to_json(const struct wring_plan *plan)
{
    return json_pack(
        "{s:s, s:i, s:o, s:o, s:s, s:s, s:s, s:s, s:i, s:i, "
        "s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "format", WRING_PLAN_FORMAT, "version", WRING_PLAN_VERSION, "trace_hash",
        wring_json_hash(plan->trace_hash), "profile_hash", wring_json_hash(plan->profile_hash),
        "model", plan->model, "profile", plan->profile, "machine", plan->machine, "timeline",
        plan->timeline, "nodes", (int)plan->nodes, "ranks_per_node", (int)plan->ranks_per_node,
        "iteration_us", wring_json_number(plan->iteration_us), "last_ready_us",
        wring_json_number(plan->last_ready_us), "exposed_us",
        wring_json_number(exposed(plan, plan->iteration_us)), "baseline_us", baseline_to_json(plan),
        "espresso_us", wring_json_number(plan->espresso_us), "bound_us",
        wring_json_number(plan->bound_us), "bound_exposed_us",
        wring_json_number(exposed(plan, plan->bound_us)), "gap", wring_json_number(plan->gap),
        "selection_us", wring_json_number(plan->selection_us), "bound_time_us",
        wring_json_number(plan->bound_time_us));
}

static json_t *to_json(const struct wring_plan *plan)
{
    json_t *object = head_to_json(plan);
    int failed = object == NULL;

    if (!failed && plan->costs[0] != '\0')
        failed = json_object_set_new(object, "costs", json_string(plan->costs));
    if (!failed && plan->executor[0] != '\0')
        failed = json_object_set_new(object, "executor", json_string(plan->executor));
    if (!failed && plan->chunk_bytes > 0)
        failed =
            json_object_set_new(object, "chunk_bytes", json_integer((json_int_t)plan->chunk_bytes));
    if (!failed)
        failed = json_object_set_new(object, "groups", groups_to_json(plan));
    if (failed != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

enum wring_status wring_plan_save(const struct wring_plan *plan, FILE *file)
{
    return wring_json_write(file, to_json(plan));
}
