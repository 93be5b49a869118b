/* SPDX-License-Identifier: Apache-2.0 */
/* What a search ranges over: the question's model with nothing dropped, beside the one in which
 * options that are never the best ones are. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "planner/core/files/plan.h"
#include "planner/core/model/option.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/plan/planning.h"
#include "tools/table.h"
#include "tools/values.h"

/** One option of the model with all. */
struct way {
    uint32_t option;
    bool executable; /* by this build's runtime */
    bool kept;       /* it may be the best one for some group */
};

/** Of one codec. */
struct count {
    uint32_t ways, flat, sums, executable, kept;
};

struct range {
    const struct wring_planning *planning;
    struct wring_cost_model *all, *pruned;
    struct wring_settings settings;
    struct way *ways; /* [n] */
    uint32_t n;
    struct count *counts; /* [all->n_codecs] */
};

static bool is_listed(const struct wring_planning *planning, const char *spec)
{
    for (size_t i = 0; i < planning->n_codecs; i++)
        if (strcmp(planning->codecs[i], spec) == 0)
            return true;
    return !planning->only;
}

/** May some tensor take it? Options that are there to compare with only are for none. */
static bool is_allowed(const struct range *range, uint32_t option)
{
    const struct wring_problem *problem = &range->all->problem;
    uint32_t words = wring_problem_words(problem);
    bool any = problem->allowed == NULL;

    for (uint32_t i = 0; i < problem->n_tensors && !any; i++)
        any = (problem->allowed[(size_t)i * words + option / 64] >> option % 64 & 1) != 0;
    return any &&
           is_listed(range->planning, range->all->codecs[range->all->options[option].codec].spec);
}

static bool same(const struct wring_cost_option *a, const struct wring_cost_option *b)
{
    char ours[WRING_OPTION_TEXT_MAX], theirs[WRING_OPTION_TEXT_MAX];

    if (a->codec != b->codec || a->option.n != b->option.n)
        return false;
    wring_option_text(&a->option, ours, sizeof(ours));
    wring_option_text(&b->option, theirs, sizeof(theirs));
    return strcmp(ours, theirs) == 0;
}

static bool is_kept(const struct range *range, const struct wring_cost_option *option)
{
    for (uint32_t i = 0; i < range->pruned->problem.n_options; i++)
        if (same(&range->pruned->options[i], option))
            return true;
    return false;
}

static void add_way(struct range *range, uint32_t option)
{
    const struct wring_cost_option *chosen = &range->all->options[option];
    const char *spec = range->all->codecs[chosen->codec].spec;
    struct way *way = &range->ways[range->n++];
    struct count *count = &range->counts[chosen->codec];

    *way = (struct way){.option = option,
                        .kept = is_kept(range, chosen),
                        .executable = wring_plan_run_as(&chosen->option, spec,
                                                        range->all->ranks_per_node)[0] != '\0'};
    count->ways++;
    count->flat += wring_option_is_flat(&chosen->option);
    count->sums += wring_option_sums_codes(&chosen->option);
    count->executable += way->executable;
    count->kept += way->kept;
}

static enum wring_status look(struct range *range)
{
    const struct wring_planning *planning = range->planning;
    const struct wring_planned_want want = {0};
    struct wring_cost_model_params params = wring_planning_model(planning, &want);
    enum wring_status status =
        wring_settings_list(&params, &planning->settings, &planning->log, &range->settings);

    params.setting = range->settings.n > 0 ? &range->settings.list[0] : NULL;
    if (status == WRING_OK)
        status = wring_cost_model_create(&params, &planning->log, &range->pruned);
    params.keep_dominated = true;
    if (status == WRING_OK)
        status = wring_cost_model_create(&params, &planning->log, &range->all);
    if (status != WRING_OK)
        return status;
    range->ways = calloc(range->all->problem.n_options, sizeof(*range->ways));
    range->counts = calloc(range->all->n_codecs, sizeof(*range->counts));
    if (range->ways == NULL || range->counts == NULL)
        return wring_planning_said(planning, "the list", WRING_ERR_NO_MEMORY);
    for (uint32_t i = 0; i < range->all->problem.n_options; i++)
        if (is_allowed(range, i))
            add_way(range, i);
    return WRING_OK;
}

/* ---- for people ---- */

static void show_settings(const struct range *range)
{
    char bytes[32];

    if (range->settings.n == 0)
        puts("settings: none; pinned cores and pieces are left to the job");
    for (uint32_t i = 0; i < range->settings.n; i++)
        printf("setting %" PRIu32 ": %" PRIu32 " pinned cores in each rank, pieces of %s bytes\n",
               i + 1, range->settings.list[i].cores,
               wring_value_show_bytes(range->settings.list[i].chunk_bytes, bytes, sizeof(bytes)));
}

static void show_counts(const struct range *range)
{
    static const struct wring_table_column columns[] = {
        {"codec", WRING_ALIGN_LEFT},         {"ways", WRING_ALIGN_RIGHT},
        {"flat", WRING_ALIGN_RIGHT},         {"hierarchical", WRING_ALIGN_RIGHT},
        {"codes summed", WRING_ALIGN_RIGHT}, {"run here", WRING_ALIGN_RIGHT},
        {"may be best", WRING_ALIGN_RIGHT}};
    struct wring_table *table = wring_table_create(columns, 7);

    for (uint32_t i = 0; i < range->all->n_codecs; i++) {
        const struct count *count = &range->counts[i];
        if (count->ways == 0)
            continue;
        wring_table_cell(table, "%s", range->all->codecs[i].spec);
        wring_table_cell(table, "%" PRIu32, count->ways);
        wring_table_cell(table, "%" PRIu32, count->flat);
        wring_table_cell(table, "%" PRIu32, count->ways - count->flat);
        wring_table_cell(table, "%" PRIu32, count->sums);
        wring_table_cell(table, "%" PRIu32, count->executable);
        wring_table_cell(table, "%" PRIu32, count->kept);
    }
    wring_table_finish(table, stdout);
}

static enum wring_status show(const struct range *range)
{
    const struct wring_cost_model *model = range->all;
    char text[WRING_OPTION_TEXT_MAX];

    printf("%s on %s, %" PRIu32 " nodes of %" PRIu32
           " ranks, timeline %s: a plan is chosen among\n",
           model->trace->model, model->profile->name, model->nodes, model->ranks_per_node,
           wring_timeline_name(model->timeline));
    printf("groups: %" PRIu32 " tensors in the order of backward, each of %" PRIu32
           " borders between them is a cut or not\n",
           model->trace->n, model->trace->n - 1);
    show_settings(range);
    puts("ways of a group, by codec:\n");
    show_counts(range);
    puts("\nall of them (+: may be the best one of some group; *: codes travel)");
    for (uint32_t i = 0; i < range->n; i++) {
        const struct wring_cost_option *option = &model->options[range->ways[i].option];
        wring_option_text(&option->option, text, sizeof(text));
        printf("%6" PRIu32 " %c %s: %s\n", i, range->ways[i].kept ? '+' : ' ',
               model->codecs[option->codec].spec, text);
    }
    return fflush(stdout) == 0 ? WRING_OK : WRING_ERR_SYSTEM;
}

/* ---- as JSON ---- */

static json_t *settings_json(const struct range *range)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < range->settings.n; i++)
        json_array_append_new(
            list, json_pack("{s:I, s:I}", "cores", (json_int_t)range->settings.list[i].cores,
                            "chunk_bytes", (json_int_t)range->settings.list[i].chunk_bytes));
    return list;
}

static json_t *counts_json(const struct range *range)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < range->all->n_codecs; i++) {
        const struct count *count = &range->counts[i];
        if (count->ways > 0)
            json_array_append_new(
                list, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "codec",
                                range->all->codecs[i].spec, "ways", (json_int_t)count->ways, "flat",
                                (json_int_t)count->flat, "hierarchical",
                                (json_int_t)(count->ways - count->flat), "codes_summed",
                                (json_int_t)count->sums, "executable",
                                (json_int_t)count->executable, "kept", (json_int_t)count->kept));
    }
    return list;
}

static json_t *ways_json(const struct range *range)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < range->n; i++) {
        const struct way *way = &range->ways[i];
        const struct wring_cost_option *option = &range->all->options[way->option];
        json_t *one = wring_option_json(&option->option);
        json_t *more = json_pack("{s:I, s:s, s:b, s:b}", "option", (json_int_t)i, "codec",
                                 range->all->codecs[option->codec].spec, "executable",
                                 way->executable, "kept", way->kept);
        json_object_update(one, more);
        json_decref(more);
        json_array_append_new(list, one);
    }
    return list;
}

static enum wring_status print_json(const struct range *range)
{
    const struct wring_cost_model *model = range->all;
    json_t *answer = json_pack(
        "{s:o, s:s, s:I, s:I, s:s, s:I, s:I, s:o, s:o, s:o}", "model",
        wring_json_text(model->trace->model), "profile", model->profile->name, "nodes",
        (json_int_t)model->nodes, "ranks_per_node", (json_int_t)model->ranks_per_node, "timeline",
        wring_timeline_name(model->timeline), "tensors", (json_int_t)model->trace->n, "borders",
        (json_int_t)model->trace->n - 1, "settings", settings_json(range), "codecs",
        counts_json(range), "options", ways_json(range));

    return answer != NULL ? wring_json_print(stdout, answer) : WRING_ERR_NO_MEMORY;
}

int wring_plan_list_range(const struct wring_planning *planning, bool json)
{
    struct range range = {.planning = planning};
    enum wring_status status = look(&range);
    int exit = status == WRING_OK ? WRING_EXIT_OK : WRING_EXIT_FAILURE; /* which was said */

    if (status == WRING_OK && (json ? print_json(&range) : show(&range)) != WRING_OK)
        exit = wring_output_failed();
    wring_cost_model_destroy(range.all);
    wring_cost_model_destroy(range.pruned);
    free(range.ways);
    free(range.counts);
    return exit;
}
