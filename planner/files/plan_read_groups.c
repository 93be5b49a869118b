/* SPDX-License-Identifier: Apache-2.0 */
/** A plan's groups, read from its file. */
#include "planner/files/plan_read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "planner/files/profile.h"
#include "planner/files/tensor_trace.h"
#include <wring/types.h>

static void read_names(struct wring_reading *reading, const json_t *object,
                       struct wring_plan_group *out)
{
    const json_t *list =
        wring_reading_array(reading, object, "tensors", 1, WRING_TRACE_TENSORS_MAX);

    if (list == NULL)
        return;
    out->tensors = calloc(json_array_size(list), sizeof(*out->tensors));
    wring_reading_enter(reading, "tensors");
    for (size_t i = 0; i < json_array_size(list) && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        const char *name =
            wring_reading_value_text(reading, json_array_get(list, i), 1, WRING_TRACE_NAME_MAX);
        char *copy = out->tensors != NULL ? strdup(name) : NULL;
        if (copy == NULL)
            wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
        else
            out->tensors[out->n++] = copy;
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
}

/** Of each tensor, which old files do not say; together they are the group's. */
static void read_sizes(struct wring_reading *reading, const json_t *object,
                       struct wring_plan_group *out)
{
    uint64_t sum = 0;

    if (!wring_reading_has(reading, object, "tensor_elements"))
        return;
    const json_t *list = wring_reading_array(reading, object, "tensor_elements", out->n, out->n);
    if (list == NULL)
        return;
    out->each = calloc((size_t)out->n + 1, sizeof(*out->each));
    if (out->each == NULL)
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
    wring_reading_enter(reading, "tensor_elements");
    for (uint32_t i = 0; i < out->n && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        out->each[i] =
            wring_reading_value_count(reading, json_array_get(list, i), 1, WRING_TRACE_ELEMS_MAX);
        sum += out->each[i];
        wring_reading_leave(reading);
    }
    if (reading->status == WRING_OK && sum != out->elems)
        wring_reading_fault(reading, WRING_ERR_INVALID,
                            "makes it %" PRIu64 " elements, and the group has %" PRIu64, sum,
                            out->elems);
    wring_reading_leave(reading);
}

static void read_group(struct wring_reading *reading, const json_t *value,
                       struct wring_plan_group *out)
{
    const char *const places[] = {"", wring_place_name(WRING_PLACE_DEVICE),
                                  wring_place_name(WRING_PLACE_CPU),
                                  wring_place_name(WRING_PLACE_NODE), NULL};
    const char *schemes[WRING_SCHEMES + 2] = {""};
    wring_reading_expect_object(reading, value);
    for (unsigned i = 0; i < WRING_SCHEMES; i++)
        schemes[i + 1] = wring_scheme_name((enum wring_scheme)i);
    read_names(reading, value, out);
    out->elems = wring_reading_count(reading, value, "elements", 1, WRING_TRACE_ELEMS_MAX);
    read_sizes(reading, value, out);
    wring_reading_copy(reading, value, "codec", 1, out->codec, sizeof(out->codec));
    wring_reading_word(reading, value, "where", places, out->where, sizeof(out->where));
    wring_reading_copy(reading, value, "scheme", 0, out->scheme, sizeof(out->scheme));
    out->chunk_elems =
        wring_reading_count(reading, value, "chunk_elements", 0, WRING_TRACE_ELEMS_MAX);
    out->cores = (uint32_t)wring_reading_count(reading, value, "cores", 0, WRING_SETTING_CORES_MAX);
    wring_reading_word(reading, value, "run_as", schemes, out->run_as, sizeof(out->run_as));
    wring_plan_read_executor(reading, value, out->executor, sizeof(out->executor));
}

static void check_count(struct wring_reading *reading, uint64_t tensors)
{
    if (tensors > WRING_TRACE_TENSORS_MAX)
        wring_reading_fault(reading, WRING_ERR_INVALID,
                            "makes it %" PRIu64 " tensors with the groups before it; a plan may "
                            "have %d",
                            tensors, WRING_TRACE_TENSORS_MAX);
}

static void read_list(struct wring_reading *reading, const json_t *object, struct wring_plan *plan)
{
    const json_t *list = wring_reading_array(reading, object, "groups", 1, WRING_TRACE_TENSORS_MAX);
    uint64_t tensors = 0;

    if (list == NULL)
        return;
    plan->groups = calloc(json_array_size(list), sizeof(*plan->groups));
    if (plan->groups == NULL) {
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
        return;
    }
    wring_reading_enter(reading, "groups");
    while (plan->n_groups < json_array_size(list) && reading->status == WRING_OK) {
        struct wring_plan_group *group = &plan->groups[plan->n_groups];
        wring_reading_enter_index(reading, plan->n_groups);
        read_group(reading, json_array_get(list, plan->n_groups++), group);
        tensors += group->n;
        check_count(reading, tensors);
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
}

struct place {
    const char *name;
    uint32_t group, tensor;
};

static int by_name(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    if (order != 0)
        return order;
    return x->group != y->group ? (x->group > y->group) - (x->group < y->group)
                                : (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static void report_twice(struct wring_reading *reading, const struct place *first,
                         const struct place *second)
{
    wring_reading_enter(reading, "groups");
    wring_reading_enter_index(reading, second->group);
    wring_reading_enter(reading, "tensors");
    wring_reading_enter_index(reading, second->tensor);
    wring_reading_fault(reading, WRING_ERR_INVALID,
                        "\"%.60s\" is in groups[%" PRIu32 "] already; a tensor travels once",
                        second->name, first->group);
    for (int i = 0; i < 4; i++)
        wring_reading_leave(reading);
}

/** @return tensors in all */
static uint32_t list_places(const struct wring_plan *plan, struct place *out)
{
    uint32_t n = 0;

    for (uint32_t g = 0; g < plan->n_groups; g++)
        for (uint32_t t = 0; t < plan->groups[g].n; t++)
            out[n++] = (struct place){plan->groups[g].tensors[t], g, t};
    return n;
}

static void check_names(struct wring_reading *reading, const struct wring_plan *plan)
{
    struct place *places = calloc(WRING_TRACE_TENSORS_MAX, sizeof(*places));

    if (places == NULL) {
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
        return;
    }
    uint32_t n = list_places(plan, places);
    qsort(places, n, sizeof(*places), by_name);
    for (uint32_t i = 1; i < n; i++)
        if (strcmp(places[i - 1].name, places[i].name) == 0)
            report_twice(reading, &places[i - 1], &places[i]);
    free(places);
}

void wring_plan_read_groups(struct wring_reading *reading, const json_t *object,
                            struct wring_plan *plan)
{
    read_list(reading, object, plan);
    if (reading->status == WRING_OK)
        check_names(reading, plan);
}
