/* SPDX-License-Identifier: Apache-2.0 */
/* The Trace Event Format in its object form; a lane is a thread. */
#include <inttypes.h>

#include "base/json.h"
#include "planner/tool/timeline.h"

#define PARTS_TID 100 /* of the first row inside the exchange's */
#define BOXES_MAX 256 /* of a group's part: pieces beyond are shown together */

static json_t *name_thread(const char *kind, int lane, const char *name)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:{s:o}}", "name", kind, "ph", "M", "pid", 0, "tid",
                     lane, "args", "name", wring_json_text(name));
}

/** A place among the rows: the exchange's parts come right after it. */
static json_t *place_thread(int tid, int place)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:{s:i}}", "name", "thread_sort_index", "ph", "M", "pid",
                     0, "tid", tid, "args", "sort_index", place);
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

static void add_part(void *arg, const struct wring_part_box *box)
{
    json_t *arguments = json_pack("{s:I, s:b, s:s}", "pieces", (json_int_t)box->pieces, "critical",
                                  box->critical, "how", "apportioned, not measured");

    json_array_append_new(arg,
                          json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:o}", "name",
                                    wring_collective_part_name(box->part), "cat",
                                    box->critical ? "critical" : "apportioned", "ph", "X", "ts",
                                    box->begin_us, "dur", box->end_us - box->begin_us, "pid", 0,
                                    "tid", PARTS_TID + (int)box->part, "args", arguments));
}

/** Names and places of the rows inside the exchange's, and of all others then. */
static void name_parts(const struct wring_cost_model *model, const double *part_us, json_t *events)
{
    bool any = false;
    char name[64];

    for (uint32_t part = 0; part < WRING_COLLECTIVE_PARTS; part++) {
        if (part_us[part] <= 0)
            continue;
        snprintf(name, sizeof(name), WRING_LANE_COLLECTIVE ": %s (apportioned)",
                 wring_collective_part_name((enum wring_collective_part)part));
        json_array_append_new(events, name_thread("thread_name", PARTS_TID + (int)part, name));
        json_array_append_new(events, place_thread(PARTS_TID + (int)part, 11 + (int)part));
        any = true;
    }
    for (uint32_t lane = 0; any && lane < model->problem.n_lanes; lane++)
        json_array_append_new(events, place_thread((int)lane, 10 * (int)lane));
}

enum wring_status wring_timeline_write_perfetto(const struct wring_cost_model *model,
                                                const struct wring_grouping *grouping,
                                                const struct wring_timeline_result *result,
                                                FILE *file)
{
    double part_us[WRING_COLLECTIVE_PARTS], part_critical_us[WRING_COLLECTIVE_PARTS];
    json_t *events = json_array();

    wring_timeline_part_sums(model, grouping, result, part_us, part_critical_us);
    json_array_append_new(events, name_thread("process_name", 0, model->trace->model));
    for (uint32_t lane = 0; lane < model->problem.n_lanes; lane++)
        json_array_append_new(events, name_thread("thread_name", (int)lane, model->lanes[lane]));
    name_parts(model, part_us, events);
    for (uint32_t i = 0; i < result->n; i++) {
        json_array_append_new(events, describe(model, grouping, &result->tasks[i]));
        wring_timeline_parts(model, grouping, &result->tasks[i], BOXES_MAX, add_part, events);
    }
    return wring_json_print(
        file, json_pack("{s:s, s:o}", "displayTimeUnit", "ms", "traceEvents", events));
}
