/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/tool/timeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "planner/core/model/lanes.h"
#include "planner/tool/svg.h"

/** One group's times on the lanes: kept for all groups, to find the critical path backwards. */
struct stay {
    uint64_t chunks;
    double once[WRING_PLAN_LANES_MAX], each[WRING_PLAN_LANES_MAX];
    double before[WRING_PLAN_LANES_MAX]; /* lanes' ends before the group */
    double first[WRING_PLAN_LANES_MAX];  /* after its first chunk */
    bool critical[WRING_PLAN_LANES_MAX];
};

static void advance_all(const struct wring_problem *problem, const struct wring_grouping *grouping,
                        struct stay *stays, double *ends)
{
    uint32_t begin = 0;

    for (uint32_t g = 0; g < grouping->n; g++) {
        struct stay *stay = &stays[g];
        stay->chunks = wring_problem_group(problem, begin, grouping->end[g], grouping->option[g],
                                           stay->once, stay->each);
        memcpy(stay->before, ends, sizeof(stay->before));
        memcpy(stay->first, ends, sizeof(stay->first));
        wring_problem_advance(problem, 1, stay->once, stay->each, stay->first);
        wring_problem_advance(problem, stay->chunks, stay->once, stay->each, ends);
        begin = grouping->end[g];
    }
}

/** The path of a group's chunks that ends on a lane last of all, on the lanes from where it came.
 */
struct path {
    uint32_t from;
    double spent[WRING_PLAN_LANES_MAX]; /* us on each lane */
};

/** The critical path of the chunks after the first one. */
static struct path trace_chunks(const struct stay *stay, uint32_t last)
{
    double sum = 0, latest = stay->first[last];
    uint32_t slowest = last, slowest_then = last;
    struct path path = {.from = last + 1};

    for (uint32_t lane = last + 1; lane-- > 0;) {
        sum += stay->each[lane];
        slowest = stay->each[lane] > stay->each[slowest] ? lane : slowest;
        double end = stay->first[lane] + sum + (double)(stay->chunks - 2) * stay->each[slowest];
        if (end > latest) {
            latest = end;
            path.from = lane;
            slowest_then = slowest;
        }
    }
    for (uint32_t lane = path.from; lane <= last; lane++)
        path.spent[lane] = stay->each[lane];
    if (path.from <= last)
        path.spent[slowest_then] += (double)(stay->chunks - 2) * stay->each[slowest_then];
    else /* they take no time: the first chunk was the last to leave */
        path.from = last;
    return path;
}

/** The critical path of the first chunk, from the lane on which the group before let it in. */
static struct path trace_first(const struct stay *stay, uint32_t last)
{
    double sum = 0, latest = -1;
    struct path path = {.from = last};

    for (uint32_t lane = last + 1; lane-- > 0;) {
        sum += stay->once[lane] + stay->each[lane];
        if (stay->before[lane] + sum > latest) {
            latest = stay->before[lane] + sum;
            path.from = lane;
        }
    }
    for (uint32_t lane = path.from; lane <= last; lane++)
        path.spent[lane] = stay->once[lane] + stay->each[lane];
    return path;
}

static void take_path(const struct path *path, uint32_t last, struct stay *stay,
                      double *critical_us)
{
    for (uint32_t lane = path->from; lane <= last; lane++) {
        stay->critical[lane] = true;
        critical_us[lane] += path->spent[lane];
    }
}

/** Mark the critical path, from the end of the last lane back to the start: each task on it waits
 *  for the one before. */
static void mark_critical(uint32_t n_lanes, uint32_t n_groups, struct stay *stays,
                          double *critical_us)
{
    uint32_t lane = n_lanes - 1;

    for (uint32_t g = n_groups; g-- > 0;) {
        struct stay *stay = &stays[g];
        if (stay->chunks > 1) {
            struct path path = trace_chunks(stay, lane);
            take_path(&path, lane, stay, critical_us);
            lane = path.from;
        }
        struct path path = trace_first(stay, lane);
        take_path(&path, lane, stay, critical_us);
        lane = path.from;
    }
}

static void fill_tasks(uint32_t n_lanes, const struct wring_grouping *grouping,
                       const struct stay *stays, const double *ends,
                       struct wring_timeline_result *out)
{
    for (uint32_t g = 0; g < grouping->n; g++) {
        const struct stay *stay = &stays[g];
        const double *after = g + 1 < grouping->n ? stays[g + 1].before : ends;
        for (uint32_t lane = 0; lane < n_lanes; lane++) {
            double busy = stay->once[lane] + (double)stay->chunks * stay->each[lane];
            if (busy <= 0)
                continue;
            out->busy_us[lane] += busy;
            out->tasks[out->n++] = (struct wring_lane_task){
                .group = g,
                .lane = lane,
                .ready_us = lane > 0 ? stay->first[lane - 1] : stay->before[0],
                .begin_us = stay->first[lane] - stay->once[lane] - stay->each[lane],
                .end_us = after[lane],
                .busy_us = busy,
                .critical = stay->critical[lane],
            };
        }
    }
}

/** Times as they really come, where collectives lose some to computing. */
static void tell_true_times(const struct wring_cost_model *model,
                            struct wring_timeline_result *result)
{
    for (uint32_t i = 0; i < result->n; i++) {
        struct wring_lane_task *task = &result->tasks[i];
        task->ready_us = wring_interference_true_us(model, task->ready_us);
        task->begin_us = wring_interference_true_us(model, task->begin_us);
        task->end_us = wring_interference_true_us(model, task->end_us);
    }
}

enum wring_status wring_timeline_init(const struct wring_cost_model *model,
                                      const struct wring_grouping *grouping,
                                      struct wring_timeline_result *out)
{
    const struct wring_problem *problem = &model->problem;
    double ends[WRING_PLAN_LANES_MAX] = {0}, ready = 0;
    struct stay *stays = calloc(grouping->n + 1, sizeof(*stays));
    struct wring_lane_task *tasks =
        calloc((size_t)grouping->n * problem->n_lanes + 1, sizeof(*tasks));

    if (stays == NULL || tasks == NULL) {
        free(stays);
        free(tasks);
        return WRING_ERR_NO_MEMORY;
    }
    advance_all(problem, grouping, stays, ends);
    for (uint32_t i = 0; i < problem->n_tensors; i++)
        ready += problem->compute_us[i];

    *out = (struct wring_timeline_result){
        .iteration_us = ends[problem->n_lanes - 1], .last_ready_us = ready, .tasks = tasks};
    mark_critical(problem->n_lanes, grouping->n, stays, out->critical_us);
    fill_tasks(problem->n_lanes, grouping, stays, ends, out);
    tell_true_times(model, out);
    free(stays);
    return WRING_OK;
}

void wring_timeline_finish(struct wring_timeline_result *result)
{
    free(result->tasks);
    *result = (struct wring_timeline_result){0};
}

/* ---- parts ---- */

static bool find_task_parts(const struct wring_cost_model *model,
                            const struct wring_grouping *grouping,
                            const struct wring_lane_task *task, struct wring_collective_parts *out)
{
    uint32_t begin = task->group > 0 ? grouping->end[task->group - 1] : 0;
    uint32_t end = grouping->end[task->group];

    return strcmp(model->lanes[task->lane], WRING_LANE_COLLECTIVE) == 0 &&
           wring_collective_parts(model, grouping->option[task->group],
                                  model->problem.elems[end] - model->problem.elems[begin], out);
}

void wring_timeline_parts(const struct wring_cost_model *model,
                          const struct wring_grouping *grouping, const struct wring_lane_task *task,
                          uint64_t most, wring_part_box_fn each, void *arg)
{
    struct wring_collective_parts parts;

    if (!find_task_parts(model, grouping, task, &parts))
        return;
    uint64_t n = parts.pieces < most ? parts.pieces : most > 0 ? most : 1;
    double turn = (task->end_us - task->begin_us) / (double)n;
    double scale = turn / parts.took_us; /* a computing application stretches it, too */
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t part = 0; part < WRING_COLLECTIVE_PARTS; part++) {
            double begin = task->begin_us + (double)i * turn + parts.begin_us[part] * scale;
            const struct wring_part_box box = {.part = (enum wring_collective_part)part,
                                               .begin_us = begin,
                                               .end_us = begin + parts.us[part] * scale,
                                               .pieces = (parts.pieces + n - 1) / n,
                                               .critical =
                                                   task->critical && parts.decides >> part & 1};
            if (parts.us[part] > 0)
                each(arg, &box);
        }
}

struct sums {
    double *busy_us, *critical_us;
};

static void add_to_sums(void *arg, const struct wring_part_box *box)
{
    struct sums *sums = arg;
    double us = box->end_us - box->begin_us;

    sums->busy_us[box->part] += us;
    if (box->critical)
        sums->critical_us[box->part] += us;
}

/** What each part takes in all of a timeline, and what of that decides. Both out, in us. */
static void timeline_part_sums(const struct wring_cost_model *model,
                               const struct wring_grouping *grouping,
                               const struct wring_timeline_result *result,
                               double busy_us[WRING_COLLECTIVE_PARTS],
                               double critical_us[WRING_COLLECTIVE_PARTS])
{
    struct sums sums = {busy_us, critical_us};

    for (uint32_t part = 0; part < WRING_COLLECTIVE_PARTS; part++)
        busy_us[part] = critical_us[part] = 0;
    for (uint32_t i = 0; i < result->n; i++)
        wring_timeline_parts(model, grouping, &result->tasks[i], 1, add_to_sums, &sums);
}

/* ---- for Perfetto ---- */

/* The Trace Event Format in its object form; a lane is a thread. */

#define PARTS_TID 100 /* of the first row inside the collective's */
#define BOXES_MAX 256 /* of a group's part: pieces beyond are shown together */

static json_t *name_thread(const char *kind, int lane, const char *name)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:{s:o}}", "name", kind, "ph", "M", "pid", 0, "tid",
                     lane, "args", "name", wring_json_text(name));
}

/** A place among the rows: the collective's parts come right after it. */
static json_t *sort_thread(int tid, int order)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:{s:i}}", "name", "thread_sort_index", "ph", "M", "pid",
                     0, "tid", tid, "args", "sort_index", order);
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

static json_t *describe_task(const struct wring_cost_model *model,
                             const struct wring_grouping *grouping,
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

/** Names and places of the rows inside the collective's, and of all others then. */
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
        json_array_append_new(events, sort_thread(PARTS_TID + (int)part, 11 + (int)part));
        any = true;
    }
    for (uint32_t lane = 0; any && lane < model->problem.n_lanes; lane++)
        json_array_append_new(events, sort_thread((int)lane, 10 * (int)lane));
}

enum wring_status wring_timeline_write_perfetto(const struct wring_cost_model *model,
                                                const struct wring_grouping *grouping,
                                                const struct wring_timeline_result *result,
                                                FILE *file)
{
    double part_us[WRING_COLLECTIVE_PARTS], part_critical_us[WRING_COLLECTIVE_PARTS];
    json_t *events = json_array();

    timeline_part_sums(model, grouping, result, part_us, part_critical_us);
    json_array_append_new(events, name_thread("process_name", 0, model->trace->model));
    for (uint32_t lane = 0; lane < model->problem.n_lanes; lane++)
        json_array_append_new(events, name_thread("thread_name", (int)lane, model->lanes[lane]));
    name_parts(model, part_us, events);
    for (uint32_t i = 0; i < result->n; i++) {
        json_array_append_new(events, describe_task(model, grouping, &result->tasks[i]));
        wring_timeline_parts(model, grouping, &result->tasks[i], BOXES_MAX, add_part, events);
    }
    return wring_json_print(
        file, json_pack("{s:s, s:o}", "displayTimeUnit", "ms", "traceEvents", events));
}

/* ---- picture ---- */

/* A row per lane, a box per group, time to the right. The path that decides is drawn strong, the
 * rest pale; beside each lane stands what it adds to the iteration. */

#define MARGIN 16
#define LEFT 210
#define WIDTH 1000 /* of the time axis */
#define AXIS 58    /* where marks begin */
#define MARKS 10
#define TOP 64
#define ROW 46
#define BOX 30 /* height of a group on its lane */
#define PART_ROW 21
#define PART_BOX 13
#define PART_WIDTH_LEAST 4 /* of a piece: narrower ones are drawn as one */

/** A picture while it is drawn. */
struct picture {
    FILE *file;
    const struct wring_cost_model *model;
    const struct wring_grouping *grouping;
    const struct wring_timeline_result *result;
    struct wring_svg_axis ms;
    double lane_y[WRING_PLAN_LANES_MAX];
    double part_y[WRING_COLLECTIVE_PARTS]; /* below the lane of collectives */
    double part_us[WRING_COLLECTIVE_PARTS], part_critical_us[WRING_COLLECTIVE_PARTS];
    bool has_parts; /* rows for those that take time */
    double bottom;
};

/** Lay out the rows: everything but the file is there. */
static void stack_rows(struct picture *picture)
{
    const struct wring_cost_model *model = picture->model;
    double y = TOP;

    timeline_part_sums(model, picture->grouping, picture->result, picture->part_us,
                       picture->part_critical_us);
    for (uint32_t part = 0; part < WRING_COLLECTIVE_PARTS; part++)
        picture->has_parts |= picture->part_us[part] > 0;
    for (uint32_t lane = 0; lane < model->problem.n_lanes; lane++) {
        picture->lane_y[lane] = y;
        y += ROW;
        if (strcmp(model->lanes[lane], WRING_LANE_COLLECTIVE) != 0)
            continue;
        for (uint32_t part = 0; part < WRING_COLLECTIVE_PARTS; part++)
            if (picture->part_us[part] > 0) {
                picture->part_y[part] = y;
                y += PART_ROW;
            }
        y += picture->has_parts ? 6 : 0;
    }
    picture->bottom = y;
}

static double position_at_time(const struct picture *picture, double us)
{
    return wring_svg_position(&picture->ms, us / 1e3);
}

static double share_of(const struct picture *picture, double us)
{
    return picture->result->iteration_us > 0 ? us * 100 / picture->result->iteration_us : 0;
}

static void put_lane(const struct picture *picture, uint32_t lane)
{
    double y = picture->lane_y[lane];
    bool last = lane + 1 == picture->model->problem.n_lanes;
    double line = (last ? picture->bottom : picture->lane_y[lane + 1]) - 6;

    wring_svg_text(picture->file, "bold", MARGIN, y + 16, "%s", picture->model->lanes[lane]);
    wring_svg_text(picture->file, "small", MARGIN, y + 31, "busy %.0f %%, decides %.3g ms",
                   share_of(picture, picture->result->busy_us[lane]),
                   picture->result->critical_us[lane] / 1e3);
    wring_svg_line(picture->file, "grid", MARGIN, line, LEFT + WIDTH, line);
}

/** Names, what they are busy for and what of that decides; lines below. */
static void put_rows(const struct picture *picture)
{
    for (uint32_t lane = 0; lane < picture->model->problem.n_lanes; lane++)
        put_lane(picture, lane);
    for (uint32_t part = 0; part < WRING_COLLECTIVE_PARTS; part++) {
        double y = picture->part_y[part] + 11;
        if (picture->part_us[part] <= 0)
            continue;
        wring_svg_text(picture->file, "small", MARGIN + 12, y, "%s",
                       wring_collective_part_name((enum wring_collective_part)part));
        wring_svg_text(picture->file, "small end", LEFT - 12, y, "%.0f %%",
                       share_of(picture, picture->part_us[part]));
    }
}

static void put_axis(const struct picture *picture)
{
    double ready = position_at_time(picture, picture->result->last_ready_us);
    double middle = ready < LEFT + 80 ? LEFT + 80 : ready;

    wring_svg_axis_put(picture->file, &picture->ms, MARKS, AXIS, picture->bottom, AXIS - 4);
    wring_svg_line(picture->file, "mark", ready, AXIS, ready, picture->bottom + 4);
    wring_svg_text(picture->file, "small middle",
                   middle > LEFT + WIDTH - 80 ? LEFT + WIDTH - 80 : middle, picture->bottom + 18,
                   "all gradients ready, undelayed");
}

static enum wring_svg_colour colour_of_part(enum wring_collective_part part)
{
    switch (part) {
    case WRING_PART_ENCODE:
    case WRING_PART_DECODE:
        return WRING_SVG_PURPLE;
    case WRING_PART_WIRE:
        return WRING_SVG_BLUE;
    case WRING_PART_WORK:
        return WRING_SVG_AMBER;
    case WRING_PART_CORES:
    case WRING_PART_PEERS:
        break;
    }
    return WRING_SVG_GREY;
}

/** Of the box above it, if that is on the path. */
static void put_path(const struct picture *picture, bool critical, double from, double to,
                     double bottom)
{
    if (critical)
        wring_svg_line(picture->file, "path", from, bottom + 2.5, to, bottom + 2.5);
}

static void put_part_box(void *arg, const struct wring_part_box *box)
{
    const struct picture *picture = arg;
    double x = position_at_time(picture, box->begin_us),
           to = position_at_time(picture, box->end_us);
    double y = picture->part_y[box->part];

    wring_svg_group_begin(picture->file);
    wring_svg_box(picture->file, colour_of_part(box->part), box->critical, x, y, to - x, PART_BOX);
    put_path(picture, box->critical, x, to, y + PART_BOX);
    wring_svg_group_end(picture->file, "%s, of %" PRIu64 " piece%s: %.1f us, apportioned",
                        wring_collective_part_name(box->part), box->pieces,
                        box->pieces > 1 ? "s" : "", box->end_us - box->begin_us);
}

/** Lanes that code, the first one, which computes, and links. */
static enum wring_svg_colour colour_of(const struct wring_cost_model *model, uint32_t lane)
{
    if (lane == 0)
        return WRING_SVG_GREEN;
    return strstr(model->lanes[lane], "code") != NULL || strstr(model->lanes[lane], "cpu") != NULL
               ? WRING_SVG_PURPLE
               : WRING_SVG_BLUE;
}

/** What one sees when pointing at a task. */
static void put_tooltip(const struct picture *picture, const struct wring_lane_task *task)
{
    const struct wring_cost_model *model = picture->model;
    uint32_t begin = task->group == 0 ? 0 : picture->grouping->end[task->group - 1];
    uint32_t end = picture->grouping->end[task->group];
    const struct wring_cost_option *option =
        &model->options[picture->grouping->option[task->group]];
    bool many = end - begin > 1;
    char scheme[256];

    wring_option_text(&option->option, scheme, sizeof(scheme));
    wring_svg_group_end(picture->file,
                        "%s%s%s (%" PRIu32 " tensors, %" PRIu64
                        " elements), %s: %s; %.1f to %.1f us, busy %.1f us, waited %.1f us",
                        model->trace->tensors[begin].name, many ? " … " : "",
                        many ? model->trace->tensors[end - 1].name : "", end - begin,
                        model->problem.elems[end] - model->problem.elems[begin],
                        model->codecs[option->codec].spec, scheme, task->begin_us, task->end_us,
                        task->busy_us, task->begin_us - task->ready_us);
}

/** What of a stay on the first lane is coding, which comes after the computing. */
static void put_coding(const struct picture *picture, const struct wring_lane_task *task)
{
    uint32_t begin = task->group == 0 ? 0 : picture->grouping->end[task->group - 1];
    double coding_us = task->busy_us, to = position_at_time(picture, task->end_us);

    for (uint32_t i = begin; i < picture->grouping->end[task->group]; i++)
        coding_us -= picture->model->problem.compute_us[i];
    double x = position_at_time(picture, task->end_us - coding_us);
    if (to - x >= 0.1)
        wring_svg_box(picture->file, WRING_SVG_PURPLE, task->critical, x, picture->lane_y[0],
                      to - x, BOX);
}

static void put_task(const struct picture *picture, const struct wring_lane_task *task)
{
    double x = position_at_time(picture, task->begin_us),
           to = position_at_time(picture, task->end_us);
    double y = picture->lane_y[task->lane];

    wring_svg_group_begin(picture->file);
    wring_svg_box(picture->file, colour_of(picture->model, task->lane), task->critical, x, y,
                  to - x, BOX);
    if (task->lane == 0)
        put_coding(picture, task);
    put_path(picture, task->critical, x, to, y + BOX);
    put_tooltip(picture, task);
    wring_timeline_parts(picture->model, picture->grouping, task,
                         (uint64_t)((to - x) / PART_WIDTH_LEAST), put_part_box, (void *)picture);
}

static void put_legend(const struct picture *picture, double y)
{
    wring_svg_text(picture->file, "small", MARGIN, y,
                   "Strong boxes over a red line decide: each began when the one before it on that "
                   "line ended. Point at a box to see what it is.");
    if (picture->has_parts)
        wring_svg_text(picture->file, "small", MARGIN, y + 16,
                       "The narrow rows are apportioned, not measured: collectives were measured "
                       "whole, their codec work, processor time and bytes apart. A box is a piece, "
                       "or several where these would be too narrow.");
}

enum wring_status wring_timeline_write_svg(const struct wring_cost_model *model,
                                           const struct wring_grouping *grouping,
                                           const struct wring_timeline_result *result, FILE *file)
{
    struct picture picture = {
        .file = file,
        .model = model,
        .grouping = grouping,
        .result = result,
        .ms = {.high = result->iteration_us / 1e3, .from = LEFT, .to = LEFT + WIDTH, .unit = " ms"},
    };

    stack_rows(&picture);
    wring_svg_begin_file(file, LEFT + WIDTH + 30, picture.bottom + (picture.has_parts ? 66 : 50),
                         model->trace->model);
    wring_svg_text(file, "title", MARGIN, 26,
                   "%s: %.3f ms an iteration, %" PRIu32 " tensors in %" PRIu32 " groups",
                   model->trace->model, result->iteration_us / 1e3, model->problem.n_tensors,
                   grouping->n);
    put_axis(&picture);
    put_rows(&picture);
    for (uint32_t i = 0; i < result->n; i++)
        put_task(&picture, &result->tasks[i]);
    put_legend(&picture, picture.bottom + 40);
    wring_svg_end(file);
    return ferror(file) ? WRING_ERR_SYSTEM : WRING_OK;
}
