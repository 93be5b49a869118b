/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "planner/model/option_list.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/plan/plan_show.h"
#include "tools/table.h"
#include "tools/values.h"

static void add_time(struct wring_table *table, const char *what, double us, double plan_us,
                     const char *note)
{
    if (isnan(us))
        return;
    wring_table_cell(table, "%s", what);
    wring_table_cell(table, "%.3f ms", us / 1e3);
    if (plan_us > 0)
        wring_table_cell(table, "%.2f x", us / plan_us);
    else
        wring_table_cell(table, "%s", "");
    wring_table_cell(table, "%s", note);
}

/** Is it there to compare with only: codec and all, there is no way that plans may take? */
static bool is_barred(const struct wring_cost_model *model, uint32_t option)
{
    return option < model->problem.n_options && model->ways[model->options[option].codec] == 0;
}

/** Rounding takes nothing below nothing. */
static double exposed_ms(const struct wring_planned *planned, double us)
{
    return fmax(us - planned->last_ready_us, 0) / 1e3;
}

static void show_times(const struct wring_planning *planning, const struct wring_planned *planned)
{
    static const struct wring_table_column columns[] = {{"", WRING_ALIGN_LEFT},
                                                        {"iteration", WRING_ALIGN_RIGHT},
                                                        {"against plan", WRING_ALIGN_RIGHT},
                                                        {"", WRING_ALIGN_LEFT}};
    struct wring_table *table = wring_table_create(columns, 4);
    double plan_us = planned->found.time_us;
    char note[160];

    snprintf(note, sizeof(note), "%.3f ms exposed; found in %.2f ms", exposed_ms(planned, plan_us),
             (double)planned->found.took_ns / 1e6);
    add_time(table, "this plan", plan_us, 0, note);
    if (!isnan(planned->bound.time_us)) {
        snprintf(note, sizeof(note),
                 "%.3f ms exposed; %s: the plan is at most %.2f %% above it (%.0f ms)",
                 exposed_ms(planned, planned->bound.time_us),
                 planned->bound.exact ? "the optimum" : "no plan takes less",
                 fmax(plan_us / planned->bound.time_us - 1, 0) * 100,
                 (double)planned->bound.took_ns / 1e6);
        add_time(table, "bound", planned->bound.time_us, plan_us, note);
    }
    add_time(table, "computing alone", planned->last_ready_us, plan_us,
             planning->trace->optimizer_us > 0 ? "optimizer and backward, as the trace has them"
                                               : "backward, as the trace has it");
    add_time(table, "float32, tensor by tensor", planned->fp32.apart_us, plan_us, "");
    add_time(table, "float32, in the best groups", planned->fp32.merged_us, plan_us, "");
    const char *fp16_note = is_barred(planned->model, planned->model->fp16)
                                ? "to compare with: no plan may take it here"
                                : "";
    add_time(table, "fp16, tensor by tensor", planned->fp16.apart_us, plan_us, fp16_note);
    add_time(table, "fp16, in the best groups", planned->fp16.merged_us, plan_us, fp16_note);
    if (planning->search != WRING_SEARCH_ESPRESSO)
        add_time(table, "Espresso's greedy", planned->espresso_us, plan_us, "");
    wring_table_finish(table, stdout);
}

/** Schemes are long, and few: groups have their numbers. */
struct ways {
    uint32_t n;
    uint32_t *first; /* [n] a group that takes it */
};

/** The number of a group's way, from 1. */
static uint32_t number_way(struct ways *ways, const struct wring_plan *plan, uint32_t group)
{
    for (uint32_t i = 0; i < ways->n; i++)
        if (strcmp(plan->groups[ways->first[i]].scheme, plan->groups[group].scheme) == 0)
            return i + 1;
    ways->first[ways->n] = group;
    return ++ways->n;
}

static void add_group(struct wring_table *table, const struct wring_plan_group *group, uint32_t way)
{
    const char *last = group->tensors[group->n - 1];

    if (group->n == 1)
        wring_table_cell(table, "%s", last);
    else
        wring_table_cell(table, "%s ... %s", group->tensors[0], last);
    wring_table_cell(table, "%" PRIu32, group->n);
    wring_table_cell(table, "%" PRIu64, group->elems);
    wring_table_cell(table, "%s", group->codec);
    wring_table_cell(table, "%s", group->where);
    wring_table_cell(table, "%" PRIu32 "%s", way,
                     group->run_as[0] != '\0' ? "" : " (not run here)");
}

static void show_ways(const struct wring_plan *plan, const struct ways *ways)
{
    static const struct wring_table_column columns[] = {
        {"way", WRING_ALIGN_RIGHT}, {"steps; a star: codes travel", WRING_ALIGN_LEFT}};
    struct wring_table *table = wring_table_create(columns, 2);

    for (uint32_t i = 0; i < ways->n; i++) {
        wring_table_cell(table, "%" PRIu32, i + 1);
        wring_table_cell(table, "%s", plan->groups[ways->first[i]].scheme);
    }
    wring_table_finish(table, stdout);
}

static void show_groups(const struct wring_plan *plan)
{
    static const struct wring_table_column columns[] = {
        {"tensors, in backward order", WRING_ALIGN_LEFT},
        {"n", WRING_ALIGN_RIGHT},
        {"elements", WRING_ALIGN_RIGHT},
        {"codec", WRING_ALIGN_LEFT},
        {"coded by", WRING_ALIGN_LEFT},
        {"way", WRING_ALIGN_LEFT}};
    struct ways ways = {.first = calloc(plan->n_groups, sizeof(uint32_t))};
    struct wring_table *table = wring_table_create(columns, 6);

    for (uint32_t i = 0; i < plan->n_groups && ways.first != NULL; i++)
        add_group(table, &plan->groups[i], number_way(&ways, plan, i));
    wring_table_finish(table, stdout);
    printf("\n");
    show_ways(plan, &ways);
    free(ways.first);
}

/** How sessions have to be set for it. */
static void show_setting(const struct wring_planned *planned)
{
    const struct wring_setting *setting = &planned->model->setting;
    char bytes[32], pinned[32] = "inline";

    if (planned->n_settings == 0)
        return;
    if (setting->cores > 0)
        snprintf(pinned, sizeof(pinned), "on %" PRIu32 " pinned core%s", setting->cores,
                 setting->cores > 1 ? "s" : "");
    printf("codecs %s in each rank, pieces of %s bytes: the best of %" PRIu32 " setting%s\n",
           pinned, wring_value_show_bytes(setting->chunk_bytes, bytes, sizeof(bytes)),
           planned->n_settings, planned->n_settings > 1 ? "s" : "");
}

/** Of a measured profile one takes for granted that somebody measured. */
static void show_costs(const struct wring_planned *planned)
{
    const struct wring_cost_model *model = planned->model;

    if (model->source == WRING_COSTS_PARTS && model->profile->machine[0] != '\0')
        printf("%s has no exchanges of such a cluster: times are put together from links, codecs "
               "and\nprocessors, and no run was compared with them\n",
               model->profile->name);
}

static uint32_t count_not_executable(const struct wring_plan *plan)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < plan->n_groups; i++)
        n += plan->groups[i].run_as[0] == '\0';
    return n;
}

void wring_plan_show(const struct wring_planning *planning, const struct wring_planned *planned,
                     const struct wring_plan *plan)
{
    const struct wring_problem *problem = &planned->model->problem;

    printf("%s on %s, %" PRIu32 " nodes of %" PRIu32 " ranks: %" PRIu32
           " tensors, %.1f MB of float32; timeline %s\n",
           plan->model, plan->profile, plan->nodes, plan->ranks_per_node, problem->n_tensors,
           (double)problem->elems[problem->n_tensors] * 4e-6, plan->timeline);
    printf("%" PRIu64 " options a tensor, %" PRIu64 " of them never the best ones\n",
           planned->model->considered, planned->model->dominated);
    show_setting(planned);
    show_costs(planned);
    printf("\n");
    show_times(planning, planned);
    printf("\n");
    show_groups(plan);
    uint32_t not_here = count_not_executable(plan);
    if (not_here > 0)
        printf("\nThis build cannot run %" PRIu32 " of the %" PRIu32
               " groups: it has no such codec, place or scheme yet.\n",
               not_here, plan->n_groups);
}

int wring_plan_list_options(const char *name, uint32_t places, bool json)
{
    struct wring_options_params params = {
        .places = places != 0 ? places : WRING_PLACES_DEFAULT,
        .flat = true,
        .hierarchical = true,
    };
    enum wring_status status = WRING_OK;
    json_t *list;

    if (!json) {
        status = wring_options_print(&params, stdout);
        puts("To these come the codec, groups of tensors that travel as one, and for the whole job "
             "the cores that\nare pinned for codecs in each rank (--cores) and the size of the "
             "pieces that travel (--chunk-bytes): with --trace they are listed as the search has "
             "them.");
    } else {
        status = wring_options_json(&params, &list);
        if (status == WRING_OK)
            status = wring_json_print(stdout, list);
    }
    if (status == WRING_ERR_NO_MEMORY)
        return wring_fail(name, "no memory for the list of options");
    if (status != WRING_OK)
        return wring_output_failed();
    return WRING_EXIT_OK;
}
