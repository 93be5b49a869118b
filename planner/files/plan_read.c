/* SPDX-License-Identifier: Apache-2.0 */
/** Plans read from files. docs/planner-files.md has the fields. */
#include "planner/files/plan_read.h"

#include <stdlib.h>
#include <string.h>

#include "planner/files/profile.h"
#include "planner/files/tensor_trace.h"

#define NODES_MAX (1u << 20)
#define RANKS_MAX (1u << 16)

/** As WRING_EXECUTOR; whether this machine has the cores is not the file's to say. */
void wring_plan_read_executor(struct wring_reading *reading, const json_t *object, char *executor,
                              size_t bytes)
{
    if (wring_reading_has(reading, object, "executor"))
        wring_reading_copy(reading, object, "executor", 0, executor, bytes);
    if (executor[0] == '\0' || strcmp(executor, "inline") == 0 || strcmp(executor, "pool") == 0 ||
        strncmp(executor, "pool:", 5) == 0)
        return;
    wring_reading_enter(reading, "executor");
    wring_reading_fault(reading, WRING_ERR_INVALID,
                        "needs \"\", inline, pool, pool:N or pool:cores=LIST, is \"%s\"", executor);
    wring_reading_leave(reading);
}

static void read_times(struct wring_reading *reading, const json_t *object, struct wring_plan *plan)
{
    plan->iteration_us =
        wring_reading_number(reading, object, "iteration_us", 0, WRING_TRACE_US_MAX) + 0.0;
    plan->last_ready_us =
        wring_reading_number(reading, object, "last_ready_us", 0, WRING_TRACE_US_MAX) + 0.0;
    const json_t *baseline = wring_reading_object(reading, object, "baseline_us");
    const struct {
        const json_t *object;
        const char *group, *name;
        double *out;
    } known[] = {
        {baseline, "baseline_us", "fp32", &plan->fp32_us},
        {baseline, "baseline_us", "fp16", &plan->fp16_us},
        {object, "", "espresso_us", &plan->espresso_us},
        {object, "", "bound_us", &plan->bound_us},
        {object, "", "gap", &plan->gap},
        {object, "", "selection_us", &plan->selection_us},
        {object, "", "bound_time_us", &plan->bound_time_us},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        wring_reading_enter(reading, known[i].group);
        *known[i].out = wring_reading_number_or_null(reading, known[i].object, known[i].name, 0,
                                                     WRING_TRACE_US_MAX) +
                        0.0;
        wring_reading_leave(reading);
    }
}

/** What all of a session has in common; both may be missing. */
static void read_session(struct wring_reading *reading, const json_t *object,
                         struct wring_plan *plan)
{
    wring_plan_read_executor(reading, object, plan->executor, sizeof(plan->executor));
    if (wring_reading_has(reading, object, "chunk_bytes"))
        plan->chunk_bytes =
            wring_reading_count(reading, object, "chunk_bytes", WRING_SETTING_CHUNK_BYTES_MIN,
                                WRING_SETTING_CHUNK_BYTES_MAX);
}

static void read_plan(struct wring_reading *reading, const json_t *object, struct wring_plan *plan)
{
    static const char *const timelines[] = {"serial", "phases", "full", NULL};

    plan->trace_hash = wring_reading_hash(reading, object, "trace_hash");
    plan->profile_hash = wring_reading_hash(reading, object, "profile_hash");
    wring_reading_copy(reading, object, "model", 1, plan->model, sizeof(plan->model));
    wring_reading_copy(reading, object, "profile", 1, plan->profile, sizeof(plan->profile));
    wring_reading_copy(reading, object, "machine", 0, plan->machine, sizeof(plan->machine));
    wring_reading_word(reading, object, "timeline", timelines, plan->timeline,
                       sizeof(plan->timeline));
    if (wring_reading_has(reading, object, "costs"))
        wring_reading_copy(reading, object, "costs", 0, plan->costs, sizeof(plan->costs));
    plan->nodes = (uint32_t)wring_reading_count(reading, object, "nodes", 1, NODES_MAX);
    plan->ranks_per_node =
        (uint32_t)wring_reading_count(reading, object, "ranks_per_node", 1, RANKS_MAX);
    read_times(reading, object, plan);
    read_session(reading, object, plan);
    wring_plan_read_groups(reading, object, plan);
}

static enum wring_status load(struct wring_reading *reading, struct wring_plan **out)
{
    struct wring_plan *plan = calloc(1, sizeof(*plan));
    json_t *object;

    if (plan == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_reading_open(reading, WRING_PLAN_FORMAT, WRING_PLAN_VERSION, &object);
    if (reading->status == WRING_OK)
        read_plan(reading, object, plan);
    json_decref(object);
    if (reading->status != WRING_OK) {
        wring_plan_destroy(plan);
        return reading->status;
    }
    *out = plan;
    return WRING_OK;
}

enum wring_status wring_plan_load(const char *path, const struct wring_log *log,
                                  struct wring_plan **out)
{
    struct wring_reading reading = {.file = path, .log = log};

    return load(&reading, out);
}

enum wring_status wring_plan_parse(const char *name, const char *text, size_t bytes,
                                   const struct wring_log *log, struct wring_plan **out)
{
    struct wring_reading reading = {.file = name, .text = text, .bytes = bytes, .log = log};

    return load(&reading, out);
}
