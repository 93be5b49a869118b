/* SPDX-License-Identifier: Apache-2.0 */
/** wring plan: which tensors to compress, where and how, and how far from the best that can be. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "planner/core/files/json.h"
#include "planner/core/model/option.h"
#include "planner/tool/timeline.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/plan/planning.h"
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

/** Is it there to compare with only: codec and all, there is no option that plans may take? */
static bool is_barred(const struct wring_cost_model *model, uint32_t option)
{
    return option < model->problem.n_options && model->n_allowed[model->options[option].codec] == 0;
}

/** Rounding takes nothing below nothing. */
static double exposed_ms(const struct wring_planned *planned, double us)
{
    return fmax(us - planned->last_ready_us, 0) / 1e3;
}

/** What this build runs of an answer: all of it, or else another plan, the best that it runs. */
struct runnable {
    const struct wring_plan *plan; /* NULL: there is none */
    struct wring_planned planned;  /* of another one; empty else */
    struct wring_plan *other;      /* likewise */
};

/** The times of gradients as they are, and as fp16; 16-bit ones are as they are in both. */
static void add_baselines(struct wring_table *table, const struct wring_planning *planning,
                          const struct wring_planned *planned)
{
    const char *types = wring_tensor_trace_types(planning->trace);
    const struct wring_cost_model *model = planned->model;
    double plan_us = planned->found.time_us;
    char apart[64], merged[64];

    snprintf(apart, sizeof(apart), "%s, tensor by tensor", types);
    snprintf(merged, sizeof(merged), "%s, in the best groups", types);
    add_time(table, apart, planned->fp32.apart_us, plan_us, "");
    add_time(table, merged, planned->fp32.merged_us, plan_us, "");
    if (model->options[model->uncompressed].dtype != WRING_F32)
        return;
    const char *note =
        is_barred(model, model->fp16) ? "to compare with: no plan may take it here" : "";
    add_time(table, "fp16, tensor by tensor", planned->fp16.apart_us, plan_us, note);
    add_time(table, "fp16, in the best groups", planned->fp16.merged_us, plan_us, note);
}

static void show_times(const struct wring_planning *planning, const struct wring_planned *planned,
                       const struct runnable *runnable)
{
    static const struct wring_table_column columns[] = {{"", WRING_ALIGN_LEFT},
                                                        {"iteration", WRING_ALIGN_RIGHT},
                                                        {"against plan", WRING_ALIGN_RIGHT},
                                                        {"", WRING_ALIGN_LEFT}};
    struct wring_table *table = wring_table_create(columns, 4);
    double plan_us = planned->found.time_us;
    char note[160];

    if (runnable->other != NULL) {
        double here_us = runnable->other->iteration_us;
        snprintf(note, sizeof(note), "%.3f ms exposed; the best that this build runs",
                 exposed_ms(planned, here_us));
        add_time(table, "run here", here_us, plan_us, note);
    }
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
    add_baselines(table, planning, planned);
    if (planning->search != WRING_SEARCH_ESPRESSO)
        add_time(table, "Espresso's greedy", planned->espresso_us, plan_us, "");
    wring_table_finish(table, stdout);
}

/** Schemes are long, and few: groups have their numbers. */
struct schemes {
    uint32_t n;
    uint32_t *first; /* [n] a group that takes it */
};

/** The number of a group's scheme, from 1. */
static uint32_t number_scheme(struct schemes *schemes, const struct wring_plan *plan,
                              uint32_t group)
{
    for (uint32_t i = 0; i < schemes->n; i++)
        if (strcmp(plan->groups[schemes->first[i]].scheme, plan->groups[group].scheme) == 0)
            return i + 1;
    schemes->first[schemes->n] = group;
    return ++schemes->n;
}

static void add_group(struct wring_table *table, const struct wring_plan_group *group,
                      uint32_t number)
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
    wring_table_cell(table, "%" PRIu32 "%s", number,
                     group->run_as[0] != '\0' ? "" : " (not run here)");
}

static void show_schemes(const struct wring_plan *plan, const struct schemes *schemes)
{
    static const struct wring_table_column columns[] = {
        {"how", WRING_ALIGN_RIGHT}, {"steps; a star: codes travel", WRING_ALIGN_LEFT}};
    struct wring_table *table = wring_table_create(columns, 2);

    for (uint32_t i = 0; i < schemes->n; i++) {
        wring_table_cell(table, "%" PRIu32, i + 1);
        wring_table_cell(table, "%s", plan->groups[schemes->first[i]].scheme);
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
        {"how", WRING_ALIGN_LEFT}};
    struct schemes schemes = {.first = calloc(plan->n_groups, sizeof(uint32_t))};
    struct wring_table *table = wring_table_create(columns, 6);

    for (uint32_t i = 0; i < plan->n_groups && schemes.first != NULL; i++)
        add_group(table, &plan->groups[i], number_scheme(&schemes, plan, i));
    wring_table_finish(table, stdout);
    printf("\n");
    show_schemes(plan, &schemes);
    free(schemes.first);
}

/** How sessions have to be set for it. */
static void show_tuning(const struct wring_planned *planned)
{
    const struct wring_tuning *tuning = &planned->model->tuning;
    char bytes[32], pinned[32] = "inline";

    if (planned->n_tunings == 0)
        return;
    if (tuning->cores > 0)
        snprintf(pinned, sizeof(pinned), "on %" PRIu32 " pinned core%s", tuning->cores,
                 tuning->cores > 1 ? "s" : "");
    printf("codecs %s in each rank, pieces of %s bytes: the best of %" PRIu32 " tuning%s\n", pinned,
           wring_value_show_bytes(tuning->chunk_bytes, bytes, sizeof(bytes)), planned->n_tunings,
           planned->n_tunings > 1 ? "s" : "");
}

/** Of a measured profile one takes for granted that somebody measured. */
static void show_costs(const struct wring_planned *planned)
{
    const struct wring_cost_model *model = planned->model;

    if (model->source == WRING_COSTS_PARTS && model->profile->machine[0] != '\0')
        printf("%s has no collectives of such a cluster: times are put together from links, codecs "
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

/** The groups that run first. */
static void show_all_groups(const struct wring_plan *plan, const struct runnable *runnable)
{
    uint32_t not_here = count_not_executable(plan);

    if (not_here == 0) {
        show_groups(plan);
        return;
    }
    if (runnable->plan != NULL) {
        printf("Of this, what this build runs (--runnable):\n\n");
        show_groups(runnable->plan);
    } else {
        printf("Of this, this build runs nothing.\n");
    }
    printf("\nThis plan:\n\n");
    show_groups(plan);
    printf("\nThis build cannot run %" PRIu32 " of the %" PRIu32
           " groups: it has no such codec, site or scheme yet.\n",
           not_here, plan->n_groups);
}

/** For people: the times beside each other, and a table of groups. */
static void plan_show(const struct wring_planning *planning, const struct wring_planned *planned,
                      const struct wring_plan *plan, const struct runnable *runnable)
{
    const struct wring_problem *problem = &planned->model->problem;

    printf("%s on %s, %" PRIu32 " nodes of %" PRIu32 " ranks: %" PRIu32
           " tensors, %.1f MB of %s; timeline %s\n",
           plan->model, plan->profile, plan->nodes, plan->ranks_per_node, problem->n_tensors,
           (double)wring_tensor_trace_bytes(planning->trace) * 1e-6,
           wring_tensor_trace_types(planning->trace), plan->timeline);
    printf("%" PRIu64 " options%s, %" PRIu64 " of them never the best ones\n",
           planned->model->considered,
           wring_tensor_trace_is_mixed(planning->trace) ? " for tensors of all types" : " a tensor",
           planned->model->dominated);
    show_tuning(planned);
    show_costs(planned);
    printf("\n");
    show_times(planning, planned, runnable);
    printf("\n");
    show_all_groups(plan, runnable);
}

/** The plan, and before all else the part that runs: "run_here". Errors: WRING_ERR_NO_MEMORY;
 * others are those of standard output. */
static enum wring_status print_plan(const struct wring_plan *plan, const struct runnable *runnable)
{
    static const char *const told[] = {"iteration_us", "exposed_us", "executor", "chunk_bytes",
                                       "groups"};
    json_t *all = wring_plan_json(plan);
    json_t *whole = runnable->plan != NULL ? wring_plan_json(runnable->plan) : NULL;
    json_t *here = whole != NULL ? json_object() : json_null();
    json_t *answer = json_pack("{s:o}", "run_here", here);

    bool complete = answer != NULL && all != NULL && (whole != NULL || runnable->plan == NULL);
    for (size_t i = 0; complete && i < sizeof(told) / sizeof(told[0]); i++) {
        json_t *value = json_object_get(whole, told[i]);
        complete = value == NULL || json_object_set(here, told[i], value) == 0;
    }
    complete = complete && json_object_update(answer, all) == 0;
    json_decref(all);
    json_decref(whole);
    if (complete)
        return wring_json_write(stdout, answer);
    json_decref(answer);
    return WRING_ERR_NO_MEMORY;
}

/** All leaves of the tree of options, as text or as one JSON object. @return exit status */
static int plan_list_options(const char *name, uint32_t sites, bool json)
{
    struct wring_options_params params = {
        .sites = sites != 0 ? sites : WRING_SITES_DEFAULT,
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

/* ---- plan command ---- */

enum {
    OPTION_JSON = 0x100,
    OPTION_SVG,
    OPTION_PERFETTO,
    OPTION_BOUND,
    OPTION_LIST,
};

static const struct argp_option options[] = {
    {"nodes", 'N', "N", 0, "nodes (default: the profile's)", 0},
    {"output", 'o', "FILE", 0, "write the plan, for WRING_PLAN and wring replay", 0},
    {"svg", OPTION_SVG, "FILE", 0, "draw the timeline", 0},
    {"perfetto", OPTION_PERFETTO, "FILE", 0, "write the timeline for ui.perfetto.dev", 0},
    {"bound-ms", OPTION_BOUND, "MS", 0,
     "time for proving how far from the optimum the plan can be (0: no proof; default: as much "
     "effort as takes some 500 ms, counted, so that the plan is the same on any machine); looking "
     "farther for a better plan, before the proof, is part of it",
     0},
    {"list-options", OPTION_LIST, NULL, 0,
     "print the options of a tensor, and end; with --trace, all that the search ranges over: "
     "groups, codecs with the options of each, pinned cores and pieces",
     0},
    {"json", OPTION_JSON, NULL, 0, "print one JSON object", 0},
    {0},
};

struct command {
    struct wring_planning planning; /* first: the shared options write to it */
    const char *output, *svg, *perfetto;
    bool list, json;
};

static void parse_bound(struct command *command, const char *arg, struct argp_state *state)
{
    double ms;

    if (!wring_value_real(arg, 0, 3600e3, &ms))
        argp_error(state, "--bound-ms needs milliseconds from 0 to 3600000");
    command->planning.bound_ns = (uint64_t)(ms * 1e6);
    command->planning.bound_effort = 0;
    command->planning.no_bound = command->planning.bound_ns == 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct command *command = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &command->planning;
        return 0;
    case 'N':
        if (!wring_value_count(arg, 1, 1 << 20, &command->planning.nodes))
            argp_error(state, "--nodes needs a number from 1 to %d", 1 << 20);
        return 0;
    case 'o':
        command->output = arg;
        return 0;
    case OPTION_SVG:
        command->svg = arg;
        return 0;
    case OPTION_PERFETTO:
        command->perfetto = arg;
        return 0;
    case OPTION_BOUND:
        parse_bound(command, arg, state);
        return 0;
    case OPTION_LIST:
        command->list = true;
        return 0;
    case OPTION_JSON:
        command->json = true;
        return 0;
    case ARGP_KEY_END:
        if (command->planning.trace_path == NULL && !command->list)
            argp_error(state, "--trace is needed: a wring-trace file, or a name such as vgg16");
        if (command->planning.trace_path == NULL && command->planning.n_codecs > 0)
            argp_error(state, "--list-options needs --trace to say what codecs make of it");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&wring_planning_argp, 0, NULL, 0}, {0}};

static const struct argp plan_argp = {
    .options = options,
    .parser = parse_option,
    .children = children,
    .doc =
        "Choose for each gradient of a model whether to compress it, with which codec, who codes "
        "and how it travels, so that an iteration takes the least time."
        "\v"
        "The time is that of a model: tensors become ready as the trace says, in groups of "
        "consecutive ones, and pass through the lanes of the cluster one group after another. "
        "'exposed' is what the iteration takes beyond computing. The plan is compared with "
        "float32 and fp16, tensor by tensor and merged into the best groups, and with the plain "
        "greedy of Espresso. A lower bound that no plan can pass says how much a better one "
        "could gain at most.",
};

typedef enum wring_status (*draw_fn)(const struct wring_cost_model *, const struct wring_grouping *,
                                     const struct wring_timeline_result *, FILE *);

/** What goes into a file. */
struct drawing {
    const struct wring_planned *planned;
    draw_fn write;
};

static bool draw_timeline(FILE *file, void *arg)
{
    const struct drawing *drawing = arg;
    const struct wring_planned *planned = drawing->planned;
    struct wring_timeline_result result;

    if (wring_timeline_init(planned->model, &planned->found.grouping, &result) != WRING_OK) {
        errno = ENOMEM;
        return false;
    }
    enum wring_status status =
        drawing->write(planned->model, &planned->found.grouping, &result, file);
    wring_timeline_finish(&result);
    return status == WRING_OK;
}

/** Draw a timeline into a file. @return exit status, said */
static int draw_into_file(const struct command *command, const struct wring_planned *planned,
                          const char *path, draw_fn write)
{
    struct drawing drawing = {planned, write};
    return wring_output_file(command->planning.log.arg, path, draw_timeline, &drawing);
}

static bool save_plan(FILE *file, void *arg)
{
    return wring_plan_save(arg, file) == WRING_OK;
}

static int save_into_file(const struct command *command, const struct wring_plan *plan)
{
    return wring_output_file(command->planning.log.arg, command->output, save_plan,
                             (void *)(uintptr_t)plan);
}

/** What was found beside the plan itself. */
static void complete_plan(const struct wring_planned *planned, struct wring_plan *plan)
{
    plan->iteration_us = planned->found.time_us;
    plan->last_ready_us = planned->last_ready_us;
    plan->bound_us = planned->bound.time_us;
    plan->gap = planned->found.time_us / planned->bound.time_us - 1;
    if (plan->gap < 0) /* by rounding; NaN where there is no bound */
        plan->gap = 0;
    plan->fp32_us = planned->fp32.apart_us;
    plan->fp16_us = planned->fp16.apart_us;
    plan->espresso_us = planned->espresso_us;
    plan->selection_us = (double)planned->found.took_ns / 1e3;
    plan->bound_time_us = (double)planned->bound.took_ns / 1e3;
}

static int give_plan(const struct command *command, const struct wring_planned *planned,
                     const struct wring_plan *plan, const struct runnable *runnable)
{
    int exit = WRING_EXIT_OK;

    if (command->output != NULL)
        exit = save_into_file(command, plan);
    if (exit == WRING_EXIT_OK && command->svg != NULL)
        exit = draw_into_file(command, planned, command->svg, wring_timeline_write_svg);
    if (exit == WRING_EXIT_OK && command->perfetto != NULL)
        exit = draw_into_file(command, planned, command->perfetto, wring_timeline_write_perfetto);
    if (exit != WRING_EXIT_OK)
        return exit;
    if (!command->json) {
        plan_show(&command->planning, planned, plan, runnable);
        return WRING_EXIT_OK;
    }
    enum wring_status status = print_plan(plan, runnable);
    if (status == WRING_ERR_NO_MEMORY)
        return wring_fail(command->planning.log.arg, "%s", wring_status_text(status));
    return status == WRING_OK ? WRING_EXIT_OK : wring_output_failed();
}

/** That a second question has no answer is no fault of the first. */
static void drop_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

/** Free it with finish_runnable(). Errors: WRING_ERR_NO_MEMORY. */
static enum wring_status find_runnable(const struct wring_planning *question,
                                       const struct wring_plan *plan, struct runnable *out)
{
    const struct wring_planned_want want = {0};
    struct wring_planning planning = *question;

    *out = (struct runnable){.plan = count_not_executable(plan) == 0 ? plan : NULL};
    if (out->plan != NULL)
        return WRING_OK;
    planning.runnable = true;
    planning.log.fn = drop_line;
    enum wring_status status = wring_planned_init(&planning, &want, &out->planned);
    if (status != WRING_OK)
        return status == WRING_ERR_NO_MEMORY ? status : WRING_OK;
    status = wring_plan_create(out->planned.model, planning.trace, planning.profile,
                               &out->planned.found.grouping, &out->other);
    if (status == WRING_OK)
        complete_plan(&out->planned, out->other);
    out->plan = out->other;
    return status;
}

static void finish_runnable(struct runnable *runnable)
{
    wring_plan_destroy(runnable->other);
    wring_planned_finish(&runnable->planned);
}

static int answer_with_plan(struct command *command)
{
    const char *name = command->planning.log.arg;
    struct wring_planned_want want = {.espresso = true, .bound = !command->planning.no_bound};
    bool said[WRING_PLANNING_CODECS_MAX] = {false};
    struct wring_planned planned;
    struct wring_plan *plan;

    if (wring_planning_load(&command->planning) != WRING_OK ||
        wring_planned_init(&command->planning, &want, &planned) != WRING_OK)
        return WRING_EXIT_FAILURE; /* which was said */
    wring_planning_say_lacking(&command->planning, planned.model, said);
    int exit = WRING_EXIT_FAILURE;
    enum wring_status status =
        wring_plan_create(planned.model, command->planning.trace, command->planning.profile,
                          &planned.found.grouping, &plan);
    struct runnable runnable = {.plan = NULL};
    if (status == WRING_OK) {
        complete_plan(&planned, plan);
        status = find_runnable(&command->planning, plan, &runnable);
        if (status == WRING_OK)
            exit = give_plan(command, &planned, plan, &runnable);
        finish_runnable(&runnable);
        wring_plan_destroy(plan);
    }
    if (status != WRING_OK)
        wring_fail(name, "%s", wring_status_text(status));
    wring_planned_finish(&planned);
    return exit;
}

/* ---- what the search ranges over ---- */

/** One option of the model with all. */
struct choice {
    uint32_t option;
    bool executable; /* by this build's runtime */
    bool kept;       /* it may be the best one for some group */
};

/** Numbers of one codec's options. */
struct count {
    uint32_t options, flat, sums, executable, kept;
};

struct range {
    const struct wring_planning *planning;
    struct wring_cost_model *all, *pruned;
    struct wring_tunings tunings;
    struct choice *choices; /* [n] */
    uint32_t n;
    struct count *counts; /* [all->n_codecs] */
};

/** May some tensor take it? Options that are there to compare with only are for none. */
static bool is_allowed(const struct range *range, uint32_t option)
{
    const struct wring_problem *problem = &range->all->problem;
    uint32_t words = wring_problem_words(problem);
    bool any = problem->allowed == NULL;

    for (uint32_t i = 0; i < problem->n_tensors && !any; i++)
        any = (problem->allowed[(size_t)i * words + option / 64] >> option % 64 & 1) != 0;
    return any &&
           (!range->planning->only ||
            wring_planning_lists(range->planning,
                                 range->all->codecs[range->all->options[option].codec].spec));
}

static bool is_same_option(const struct wring_cost_option *a, const struct wring_cost_option *b)
{
    char ours[WRING_OPTION_TEXT_MAX], theirs[WRING_OPTION_TEXT_MAX];

    if (a->codec != b->codec || a->dtype != b->dtype || a->option.n != b->option.n)
        return false;
    wring_option_text(&a->option, ours, sizeof(ours));
    wring_option_text(&b->option, theirs, sizeof(theirs));
    return strcmp(ours, theirs) == 0;
}

static bool is_kept(const struct range *range, const struct wring_cost_option *option)
{
    for (uint32_t i = 0; i < range->pruned->problem.n_options; i++)
        if (is_same_option(&range->pruned->options[i], option))
            return true;
    return false;
}

static void add_choice(struct range *range, uint32_t option)
{
    const struct wring_cost_option *chosen = &range->all->options[option];
    const char *spec = range->all->codecs[chosen->codec].spec;
    struct choice *choice = &range->choices[range->n++];
    struct count *count = &range->counts[chosen->codec];

    *choice =
        (struct choice){.option = option,
                        .kept = is_kept(range, chosen),
                        .executable = wring_option_run_as(&chosen->option, spec,
                                                          range->all->ranks_per_node)[0] != '\0'};
    count->options++;
    count->flat += wring_option_is_flat(&chosen->option);
    count->sums += wring_option_sums_codes(&chosen->option);
    count->executable += choice->executable;
    count->kept += choice->kept;
}

static enum wring_status fill_range(struct range *range)
{
    const struct wring_planning *planning = range->planning;
    const struct wring_planned_want want = {0};
    struct wring_cost_model_params params = wring_planning_model(planning, &want);
    enum wring_status status =
        wring_tunings_list(&params, &planning->tunings, &planning->log, &range->tunings);

    params.tuning = range->tunings.n > 0 ? &range->tunings.list[0] : NULL;
    if (status == WRING_OK)
        status = wring_cost_model_create(&params, &planning->log, &range->pruned);
    params.keep_dominated = true;
    if (status == WRING_OK)
        status = wring_cost_model_create(&params, &planning->log, &range->all);
    if (status != WRING_OK)
        return status;
    range->choices = calloc(range->all->problem.n_options, sizeof(*range->choices));
    range->counts = calloc(range->all->n_codecs, sizeof(*range->counts));
    if (range->choices == NULL || range->counts == NULL)
        return wring_planning_said(planning, "the list", WRING_ERR_NO_MEMORY);
    for (uint32_t i = 0; i < range->all->problem.n_options; i++)
        if (is_allowed(range, i))
            add_choice(range, i);
    return WRING_OK;
}

/* ---- for people ---- */

static void show_tunings(const struct range *range)
{
    char bytes[32];

    if (range->tunings.n == 0)
        puts("tunings: none; pinned cores and pieces are left to the job");
    for (uint32_t i = 0; i < range->tunings.n; i++)
        printf("tuning %" PRIu32 ": %" PRIu32 " pinned cores in each rank, pieces of %s bytes\n",
               i + 1, range->tunings.list[i].cores,
               wring_value_show_bytes(range->tunings.list[i].chunk_bytes, bytes, sizeof(bytes)));
}

static void show_counts(const struct range *range)
{
    static const struct wring_table_column columns[] = {
        {"codec", WRING_ALIGN_LEFT},         {"options", WRING_ALIGN_RIGHT},
        {"flat", WRING_ALIGN_RIGHT},         {"hierarchical", WRING_ALIGN_RIGHT},
        {"codes summed", WRING_ALIGN_RIGHT}, {"run here", WRING_ALIGN_RIGHT},
        {"may be best", WRING_ALIGN_RIGHT}};
    struct wring_table *table = wring_table_create(columns, 7);

    for (uint32_t i = 0; i < range->all->n_codecs; i++) {
        const struct count *count = &range->counts[i];
        if (count->options == 0)
            continue;
        wring_table_cell(table, "%s", range->all->codecs[i].spec);
        wring_table_cell(table, "%" PRIu32, count->options);
        wring_table_cell(table, "%" PRIu32, count->flat);
        wring_table_cell(table, "%" PRIu32, count->options - count->flat);
        wring_table_cell(table, "%" PRIu32, count->sums);
        wring_table_cell(table, "%" PRIu32, count->executable);
        wring_table_cell(table, "%" PRIu32, count->kept);
    }
    wring_table_finish(table, stdout);
}

static enum wring_status show_range(const struct range *range)
{
    const struct wring_cost_model *model = range->all;
    bool mixed = wring_tensor_trace_is_mixed(model->trace);
    char text[WRING_OPTION_TEXT_MAX];

    printf("%s on %s, %" PRIu32 " nodes of %" PRIu32
           " ranks, timeline %s: a plan is chosen among\n",
           model->trace->model, model->profile->name, model->nodes, model->ranks_per_node,
           wring_timeline_name(model->timeline));
    printf("groups: %" PRIu32 " tensors in the order of backward, each of %" PRIu32
           " borders between them is a cut or not\n",
           model->trace->n, model->trace->n - 1);
    show_tunings(range);
    puts("options of a group, by codec:\n");
    show_counts(range);
    puts("\nall of them (+: may be the best one of some group; *: codes travel)");
    for (uint32_t i = 0; i < range->n; i++) {
        const struct wring_cost_option *option = &model->options[range->choices[i].option];
        wring_option_text(&option->option, text, sizeof(text));
        printf("%6" PRIu32 " %c %s%s%s: %s\n", i, range->choices[i].kept ? '+' : ' ',
               model->codecs[option->codec].spec, mixed ? " of " : "",
               mixed ? wring_tensor_trace_type_name(option->dtype) : "", text);
    }
    return fflush(stdout) == 0 ? WRING_OK : WRING_ERR_SYSTEM;
}

/* ---- as JSON ---- */

static json_t *tunings_json(const struct range *range)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < range->tunings.n; i++)
        json_array_append_new(
            list, json_pack("{s:I, s:I}", "cores", (json_int_t)range->tunings.list[i].cores,
                            "chunk_bytes", (json_int_t)range->tunings.list[i].chunk_bytes));
    return list;
}

static json_t *counts_json(const struct range *range)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < range->all->n_codecs; i++) {
        const struct count *count = &range->counts[i];
        if (count->options > 0)
            json_array_append_new(
                list, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "codec",
                                range->all->codecs[i].spec, "ways", (json_int_t)count->options,
                                "flat", (json_int_t)count->flat, "hierarchical",
                                (json_int_t)(count->options - count->flat), "codes_summed",
                                (json_int_t)count->sums, "executable",
                                (json_int_t)count->executable, "kept", (json_int_t)count->kept));
    }
    return list;
}

static json_t *choices_json(const struct range *range)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < range->n; i++) {
        const struct choice *choice = &range->choices[i];
        const struct wring_cost_option *option = &range->all->options[choice->option];
        json_t *one = wring_option_json(&option->option);
        json_t *more = json_pack("{s:I, s:s, s:s, s:b, s:b}", "option", (json_int_t)i, "codec",
                                 range->all->codecs[option->codec].spec, "dtype",
                                 wring_tensor_trace_type_name(option->dtype), "executable",
                                 choice->executable, "kept", choice->kept);
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
        (json_int_t)model->trace->n - 1, "settings", tunings_json(range), "codecs",
        counts_json(range), "options", choices_json(range));

    return answer != NULL ? wring_json_print(stdout, answer) : WRING_ERR_NO_MEMORY;
}

static int print_range(const struct wring_planning *planning, bool json)
{
    struct range range = {.planning = planning};
    enum wring_status status = fill_range(&range);
    int exit = status == WRING_OK ? WRING_EXIT_OK : WRING_EXIT_FAILURE; /* which was said */

    if (status == WRING_OK && (json ? print_json(&range) : show_range(&range)) != WRING_OK)
        exit = wring_output_failed();
    wring_cost_model_destroy(range.all);
    wring_cost_model_destroy(range.pruned);
    free(range.choices);
    free(range.counts);
    return exit;
}

static int list_range(struct command *command)
{
    if (wring_planning_load(&command->planning) != WRING_OK)
        return WRING_EXIT_FAILURE; /* which was said */
    return print_range(&command->planning, command->json);
}

int wring_cmd_plan(int argc, char **argv)
{
    struct command command = {.planning = WRING_PLANNING_INIT};

    command.planning.log = wring_planning_log(argv[0]);
    error_t error = argp_parse(&plan_argp, argc, argv, 0, NULL, &command);
    if (error != 0)
        return wring_fail(argv[0], "%s", strerror(error));
    if (command.list && command.planning.trace_path == NULL)
        return plan_list_options(argv[0], command.planning.sites, command.json);
    int exit = command.list ? list_range(&command) : answer_with_plan(&command);
    wring_planning_finish(&command.planning);
    return exit;
}
