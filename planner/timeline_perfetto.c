/* SPDX-License-Identifier: Apache-2.0 */
/* The Trace Event Format in its object form; a lane is a thread. */
#include <inttypes.h>

#include "base/json.h"
#include "planner/timeline.h"

static json_t *name_thread(const char *kind, int lane, const char *name)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:{s:o}}", "name", kind, "ph", "M", "pid", 0, "tid",
                     lane, "args", "name", wring_json_text(name));
}

static uint32_t group_begin(const struct wring_grouping *grouping, uint32_t group)
{
    return group == 0 ? 0 : grouping->end[group - 1];
}

/** "decoder.weight", or "decoder.weight and 3 more". */
static void name_group(const struct wring_cost_model *model, uint32_t begin, uint32_t end,
                       char *text, size_t bytes)
{
    if (end - begin == 1)
        snprintf(text, bytes, "%s", model->trace->tensors[begin].name);
    else
        snprintf(text, bytes, "%s and %" PRIu32 " more", model->trace->tensors[begin].name,
                 end - begin - 1);
}

static json_t *describe(const struct wring_cost_model *model, const struct wring_grouping *grouping,
                        const struct wring_lane_task *task)
{
    uint32_t begin = group_begin(grouping, task->group), end = grouping->end[task->group];
    const struct wring_cost_option *option = &model->options[grouping->option[task->group]];
    json_int_t elems = (json_int_t)(model->problem.elems[end] - model->problem.elems[begin]);
    char name[256], scheme[256];

    name_group(model, begin, end, name, sizeof(name));
    wring_option_text(&option->option, scheme, sizeof(scheme));
    json_t *arguments =
        json_pack("{s:i, s:i, s:I, s:s, s:s, s:f, s:f, s:b}", "group", (int)task->group, "tensors",
                  (int)(end - begin), "elements", elems, "codec", model->codecs[option->codec].spec,
                  "scheme", scheme, "busy_us", task->busy_us, "waited_us",
                  task->begin_us - task->ready_us, "critical", task->critical);
    return json_pack("{s:o, s:s, s:s, s:f, s:f, s:i, s:i, s:o}", "name", wring_json_text(name),
                     "cat", task->critical ? "critical" : "plan", "ph", "X", "ts", task->begin_us,
                     "dur", task->end_us - task->begin_us, "pid", 0, "tid", (int)task->lane, "args",
                     arguments);
}

enum wring_status wring_timeline_write_perfetto(const struct wring_cost_model *model,
                                                const struct wring_grouping *grouping,
                                                const struct wring_timeline_result *result,
                                                FILE *file)
{
    json_t *events = json_array();

    json_array_append_new(events, name_thread("process_name", 0, model->trace->model));
    for (uint32_t lane = 0; lane < model->problem.n_lanes; lane++)
        json_array_append_new(events, name_thread("thread_name", (int)lane, model->lanes[lane]));
    for (uint32_t i = 0; i < result->n; i++)
        json_array_append_new(events, describe(model, grouping, &result->tasks[i]));
    return wring_json_print(
        file, json_pack("{s:s, s:o}", "displayTimeUnit", "ms", "traceEvents", events));
}
