/* SPDX-License-Identifier: Apache-2.0 */
/** wring plan: which tensors to compress, where and how, and how far from the best that can be. */
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "planner/timeline.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/plan/plan_show.h"
#include "tools/values.h"

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
     "print the ways a tensor can travel, and end; with --trace, all that the search ranges over: "
     "groups, codecs with the ways of each, pinned cores and pieces",
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

static error_t parse(int key, char *arg, struct argp_state *state)
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
    .parser = parse,
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
static int draw(const struct command *command, const struct wring_planned *planned,
                const char *path, draw_fn write)
{
    struct drawing drawing = {planned, write};
    return wring_output_file(command->planning.log.arg, path, draw_timeline, &drawing);
}

static bool save_plan(FILE *file, void *arg)
{
    return wring_plan_save(arg, file) == WRING_OK;
}

static int save(const struct command *command, const struct wring_plan *plan)
{
    return wring_output_file(command->planning.log.arg, command->output, save_plan,
                             (void *)(uintptr_t)plan);
}

/** What was found beside the plan itself. */
static void complete(const struct wring_planned *planned, struct wring_plan *plan)
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

static int give(const struct command *command, const struct wring_planned *planned,
                const struct wring_plan *plan)
{
    int exit = WRING_EXIT_OK;

    if (command->output != NULL)
        exit = save(command, plan);
    if (exit == WRING_EXIT_OK && command->svg != NULL)
        exit = draw(command, planned, command->svg, wring_timeline_write_svg);
    if (exit == WRING_EXIT_OK && command->perfetto != NULL)
        exit = draw(command, planned, command->perfetto, wring_timeline_write_perfetto);
    if (exit != WRING_EXIT_OK)
        return exit;
    if (!command->json)
        wring_plan_show(&command->planning, planned, plan);
    else if (wring_plan_save(plan, stdout) != WRING_OK)
        return wring_output_failed();
    return WRING_EXIT_OK;
}

static int answer(struct command *command)
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
    if (status == WRING_OK) {
        complete(&planned, plan);
        exit = give(command, &planned, plan);
        wring_plan_destroy(plan);
    } else {
        wring_fail(name, "%s", wring_status_text(status));
    }
    wring_planned_finish(&planned);
    return exit;
}

static int list(struct command *command)
{
    if (wring_planning_load(&command->planning) != WRING_OK)
        return WRING_EXIT_FAILURE; /* which was said */
    return wring_plan_list_range(&command->planning, command->json);
}

int wring_cmd_plan(int argc, char **argv)
{
    struct command command = {.planning = WRING_PLANNING_INIT};

    command.planning.log = wring_planning_log(argv[0]);
    error_t error = argp_parse(&plan_argp, argc, argv, 0, NULL, &command);
    if (error != 0)
        return wring_fail(argv[0], "%s", strerror(error));
    if (command.list && command.planning.trace_path == NULL)
        return wring_plan_list_options(argv[0], command.planning.places, command.json);
    int exit = command.list ? list(&command) : answer(&command);
    wring_planning_finish(&command.planning);
    return exit;
}
