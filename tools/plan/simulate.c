/* SPDX-License-Identifier: Apache-2.0 */
/** wring simulate: the same model over many clusters, links and codecs. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "planner/core/files/json.h"
#include "planner/core/files/profile.h"
#include "planner/core/files/tensor_trace.h"
#include "planner/tool/svg.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/plan/sweep.h"
#include "tools/values.h"

/** Has any tensor of the trace more than 16 bits? Others are as they are in both baselines, so that
 * without one the two are the same. */
static bool has_float32(const struct wring_sweep *sweep)
{
    const struct wring_tensor_trace *trace = sweep->planning.trace;

    for (uint32_t i = 0; i < trace->n; i++)
        if (wring_tensor_trace_dtype(trace, i) == WRING_F32)
            return true;
    return false;
}

/** What the first speed-up is against: uncompressed tensors of these types. */
static const char *name_uncompressed(const struct wring_sweep *sweep)
{
    return wring_tensor_trace_types(sweep->planning.trace);
}

/** With a measured profile: say which times were not measured as they are. */
static void show_costs(const struct wring_sweep *sweep, const struct wring_point *points, size_t n,
                       FILE *file)
{
    size_t rescaled = 0, parts = 0;

    for (size_t i = 0; i < n; i++) {
        rescaled += strcmp(points[i].costs, "rescaled") == 0;
        parts += strcmp(points[i].costs, "parts") == 0;
    }
    if (sweep->planning.profile->machine[0] == '\0')
        return;
    if (rescaled > 0)
        fprintf(file,
                "\nrescaled: collectives as they were measured, with links as fast as these\n");
    if (parts > 0)
        fprintf(
            file,
            "\nparts: %s has no collectives of such a cluster; times are put together from links, "
            "codecs and\nprocessors, and no run was compared with them\n",
            sweep->planning.profile->name);
}

/** @param fp16  has the table a speed-up against that? */
static void add_point(struct wring_table *table, const struct wring_point *point, bool fp16)
{
    wring_table_cell(table, "%" PRIu32, point->nodes);
    wring_table_cell(table, "%" PRIu32, point->ranks);
    if (isnan(point->link_gbit))
        wring_table_cell(table, "-");
    else
        wring_table_cell(table, "%g", point->link_gbit);
    wring_table_cell(table, "%" PRIu32, point->local_steps);
    wring_table_cell(table, "%g", point->link_jitter);
    wring_table_cell(table, "%.3f ms", point->iteration_us / 1e3);
    wring_table_cell(table, "%.3f ms", point->p90_us / 1e3);
    wring_table_cell(table, "%.3f", point->scaling_factor);
    wring_table_cell(table, "%.2f", point->speedup_fp32);
    if (fp16)
        wring_table_cell(table, "%.2f", point->speedup_fp16);
    wring_table_cell(table, "%s", point->codec);
    wring_table_cell(table, "%s", point->costs);
}

/** For people. */
static enum wring_status sweep_show(const struct wring_sweep *sweep,
                                    const struct wring_point *points, size_t n, FILE *file)
{
    char heading[32];
    struct wring_table_column columns[] = {
        {"nodes", WRING_ALIGN_RIGHT},       {"ranks", WRING_ALIGN_RIGHT},
        {"Gbit/s", WRING_ALIGN_RIGHT},      {"local steps", WRING_ALIGN_RIGHT},
        {"link jitter", WRING_ALIGN_RIGHT}, {"iteration", WRING_ALIGN_RIGHT},
        {"9 of 10", WRING_ALIGN_RIGHT},     {"scaling", WRING_ALIGN_RIGHT},
        {heading, WRING_ALIGN_RIGHT},       {"x fp16", WRING_ALIGN_RIGHT},
        {"codecs", WRING_ALIGN_LEFT},       {"costs", WRING_ALIGN_LEFT},
    };
    const struct wring_tensor_trace *trace = sweep->planning.trace;
    const bool fp16 = has_float32(sweep);
    size_t n_columns = sizeof(columns) / sizeof(columns[0]);

    if (!fp16) {
        columns[n_columns - 3] = columns[n_columns - 2];
        columns[n_columns - 2] = columns[n_columns - 1];
        n_columns--;
    }
    snprintf(heading, sizeof(heading), "x %s", name_uncompressed(sweep));
    struct wring_table *table = wring_table_create(columns, n_columns);

    fprintf(file, "%s on %s; forward takes %.3f ms%s, backward %.3f ms\n\n", trace->model,
            sweep->planning.profile->name, points[0].forward_us / 1e3,
            isnan(trace->forward_us) ? " (assumed: half of backward)" : "",
            points[0].last_ready_us / 1e3);
    for (size_t i = 0; i < n; i++)
        add_point(table, &points[i], fp16);
    wring_table_finish(table, file);
    show_costs(sweep, points, n, file);
    return ferror(file) ? WRING_ERR_SYSTEM : WRING_OK;
}

static json_t *point_json(const struct wring_point *point)
{
    return json_pack("{s:i, s:i, s:o, s:i, s:f, s:o, s:s, s:f, s:f, s:f, s:o, s:f, s:f, s:o}",
                     "nodes", (int)point->nodes, "ranks", (int)point->ranks, "link_gbit",
                     wring_json_number(point->link_gbit), "local_steps", (int)point->local_steps,
                     "link_jitter", point->link_jitter, "codec", wring_json_text(point->codec),
                     "costs", point->costs, "iteration_us", point->iteration_us, "p90_us",
                     point->p90_us, "fp32_us", point->fp32_us, "fp16_us",
                     wring_json_number(point->fp16_us), "scaling_factor", point->scaling_factor,
                     "speedup_fp32", point->speedup_fp32, "speedup_fp16",
                     wring_json_number(point->speedup_fp16));
}

/** What speed-ups are against, where that is not what they are called. */
static json_t *list_relative(const struct wring_sweep *sweep)
{
    const char *uncompressed = name_uncompressed(sweep);

    return json_pack("{s:s, s:s}", "speedup_fp32", uncompressed, "speedup_fp16",
                     has_float32(sweep) ? "16 bits" : uncompressed);
}

static enum wring_status sweep_write_json(const struct wring_sweep *sweep,
                                          const struct wring_point *points, size_t n, FILE *file)
{
    const struct wring_tensor_trace *trace = sweep->planning.trace;
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, point_json(&points[i]));
    json_t *object = json_pack(
        "{s:o, s:o, s:f, s:b, s:f, s:I, s:i, s:f, s:f, s:f}", "model",
        wring_json_text(trace->model), "profile", wring_json_text(sweep->planning.profile->name),
        "forward_us", points[0].forward_us, "forward_assumed", isnan(trace->forward_us),
        "last_ready_us", points[0].last_ready_us, "seed", (json_int_t)sweep->seed, "iterations",
        (int)sweep->iterations, "jitter", sweep->jitter, "straggler", sweep->straggler,
        "link_straggler", sweep->link_straggler);
    if (strcmp(name_uncompressed(sweep), wring_tensor_trace_type_name(WRING_F32)) != 0)
        json_object_set_new(object, "relative_to", list_relative(sweep));
    json_object_set_new(object, "points", list);
    return wring_json_print(file, object);
}

/** Write a number, or nothing if it is not known. */
static void write_number(double number, const char *after, FILE *file)
{
    if (isfinite(number))
        fprintf(file, "%.10g", number);
    fputs(after, file);
}

static void write_row(const struct wring_point *point, FILE *file)
{
    fprintf(file, "%" PRIu32 ",%" PRIu32 ",", point->nodes, point->ranks);
    write_number(point->link_gbit, ",", file);
    fprintf(file, "%" PRIu32 ",%g,%s,%s,%.3f,%.3f,%.3f,", point->local_steps, point->link_jitter,
            point->codec, point->costs, point->iteration_us, point->p90_us, point->fp32_us);
    write_number(point->fp16_us, ",", file);
    fprintf(file, "%.6f,%.6f,", point->scaling_factor, point->speedup_fp32);
    write_number(point->speedup_fp16, "\r\n", file);
}

/** RFC 4180, with a line of names. */
static enum wring_status sweep_write_csv(const struct wring_sweep *sweep,
                                         const struct wring_point *points, size_t n, FILE *file)
{
    (void)sweep;
    fputs("nodes,ranks,link_gbit,local_steps,link_jitter,codec,costs,iteration_us,p90_us,fp32_us,"
          "fp16_us,"
          "scaling_factor,speedup_fp32,speedup_fp16\r\n",
          file);
    for (size_t i = 0; i < n; i++)
        write_row(&points[i], file);
    return ferror(file) ? WRING_ERR_SYSTEM : WRING_OK;
}

/* ---- charts ---- */

/* Three charts, one below the other, over nodes or, if only one number of nodes is swept, over
 * links. Each combination of the other swept values has a curve. */

#define TOP 20
#define HEIGHT 210
#define CURVES_MAX 10

/** What is drawn upwards. */
struct measure {
    const char *title; /* of the second one the uncompressed types follow */
    double (*of)(const struct wring_point *point);
};

static double scaling_of(const struct wring_point *point)
{
    return point->scaling_factor;
}

static double fp32_of(const struct wring_point *point)
{
    return point->speedup_fp32;
}

static double fp16_of(const struct wring_point *point)
{
    return point->speedup_fp16;
}

static const struct measure measures[] = {
    {"scaling factor (1: every rank trains as fast as one alone)", scaling_of},
    {"speed-up against", fp32_of},
    {"speed-up against fp16", fp16_of}, /* the last: not of 16-bit tensors alone */
};

#define MEASURES (sizeof(measures) / sizeof(measures[0]))

/** The points, by curve. */
struct curves {
    const struct wring_point *points;
    size_t n;
    bool by_link;
    uint32_t drawn, left_out;
    size_t first[CURVES_MAX]; /* a point of each that is drawn */
};

static bool same_curve(const struct curves *curves, const struct wring_point *a,
                       const struct wring_point *b)
{
    return strcmp(a->codec, b->codec) == 0 && a->local_steps == b->local_steps &&
           a->link_jitter == b->link_jitter &&
           (curves->by_link || isnan(a->link_gbit) || a->link_gbit == b->link_gbit);
}

/** Which curves there are, as far as they can be told apart. */
static void find_curves(struct curves *curves)
{
    for (size_t i = 0; i < curves->n; i++) {
        bool begins = true;
        for (size_t j = 0; j < i; j++)
            begins = begins && !same_curve(curves, &curves->points[i], &curves->points[j]);
        if (begins && curves->drawn < CURVES_MAX)
            curves->first[curves->drawn++] = i;
        else
            curves->left_out += begins;
    }
}

static void name_curve(const struct curves *curves, const struct wring_point *first, char *name,
                       size_t bytes)
{
    char link[32] = "", steps[32] = "", jitter[32] = "";

    if (!curves->by_link && !isnan(first->link_gbit))
        snprintf(link, sizeof(link), ", %g Gbit/s", first->link_gbit);
    if (first->local_steps > 1)
        snprintf(steps, sizeof(steps), ", %" PRIu32 " local steps", first->local_steps);
    if (first->link_jitter > 0)
        snprintf(jitter, sizeof(jitter), ", link jitter %g", first->link_jitter);
    snprintf(name, bytes, "%s%s%s%s", first->codec, link, steps, jitter);
}

static void fill_chart(struct wring_svg_chart *chart, const struct curves *curves,
                       const struct measure *measure)
{
    *chart = (struct wring_svg_chart){
        .title = measure->title,
        .x_title = curves->by_link ? "Gbit/s between nodes" : "nodes",
        .height = HEIGHT,
        .x = {.low = NAN, .high = NAN, .base = 2},
        .y = {.low = 0, .high = 1},
        .n = curves->drawn,
        .left_out = curves->left_out,
    };
    for (uint32_t c = 0; c < curves->drawn; c++) {
        struct wring_svg_curve *curve = &chart->curves[c];
        const struct wring_point *first = &curves->points[curves->first[c]];
        curve->colour = (enum wring_svg_colour)(c % WRING_SVG_COLOURS);
        name_curve(curves, first, curve->name, sizeof(curve->name));
        for (size_t i = 0; i < curves->n; i++) {
            const struct wring_point *point = &curves->points[i];
            if (same_curve(curves, point, first))
                wring_svg_curve_add(curve, curves->by_link ? point->link_gbit : point->nodes,
                                    measure->of(point));
        }
    }
}

/** Charts of scaling factor and speed-ups against nodes, or links where only these are swept. */
static enum wring_status sweep_write_svg(const struct wring_sweep *sweep,
                                         const struct wring_point *points, size_t n, FILE *file)
{
    struct curves curves = {.points = points, .n = n, .by_link = sweep->n_nodes == 1};
    struct wring_svg_chart *chart = malloc(sizeof(*chart));
    const size_t n_charts = MEASURES - !has_float32(sweep);
    char title[64];

    if (chart == NULL)
        return WRING_ERR_NO_MEMORY;
    find_curves(&curves);
    wring_svg_begin_file(file, WRING_SVG_CHART_WIDTH,
                         TOP + (double)n_charts * (HEIGHT + WRING_SVG_CHART_ROOM),
                         sweep->planning.trace->model);
    for (size_t i = 0; i < n_charts; i++) {
        fill_chart(chart, &curves, &measures[i]);
        if (measures[i].of == fp32_of) {
            snprintf(title, sizeof(title), "%s %s", measures[i].title, name_uncompressed(sweep));
            chart->title = title;
        }
        wring_svg_chart_put(file, chart, TOP + (double)i * (HEIGHT + WRING_SVG_CHART_ROOM));
    }
    wring_svg_end(file);
    free(chart);
    return ferror(file) ? WRING_ERR_SYSTEM : WRING_OK;
}

/* ---- options ---- */

/** Between the command line and the sweep. */
struct simulate {
    struct wring_sweep sweep;
    const char *csv, *svg;
    bool json;
    uint32_t iterations; /* 0: as many as it takes */
    struct wring_point *points;
    size_t n, capacity;
    bool progress; /* on a terminal */
};

enum {
    OPTION_JSON = 0x100,
    OPTION_CSV,
    OPTION_SVG,
    OPTION_EACH,
    OPTION_RACK,
    OPTION_OVERSUBSCRIPTION,
    OPTION_JITTER,
    OPTION_STRAGGLER,
    OPTION_LINK_JITTER,
    OPTION_LINK_STRAGGLER,
    OPTION_ITERATIONS,
    OPTION_SEED,
    OPTION_LOCAL,
};

static const struct argp_option options[] = {
    {"nodes", 'N', "LIST", 0, "nodes, such as 1,8,64,4096 (default: the profile's)", 0},
    {"link", 'l', "LIST", 0, "Gbit/s between nodes (default: the profile's)", 0},
    {"each", OPTION_EACH, NULL, 0, "plan with each codec by itself, too", 0},
    {"local-steps", OPTION_LOCAL, "LIST", 0,
     "steps between two collectives, which run beside the next ones (default 1: each is exchanged)",
     0},
    {"rack", OPTION_RACK, "NODES", 0, "nodes of a rack (default: one network for all)", 0},
    {"oversubscription", OPTION_OVERSUBSCRIPTION, "X", 0,
     "of what leaves a rack (default 1: as fast as inside)", 0},
    {"jitter", OPTION_JITTER, "SIGMA", 0,
     "each node's computing takes exp(SIGMA * normal) times as long, anew each iteration", 0},
    {"straggler", OPTION_STRAGGLER, "X", 0, "one node computes X times as long", 0},
    {"link-jitter", OPTION_LINK_JITTER, "LIST", 0,
     "each link takes exp(SIGMA * normal) times as long, anew in each collective, for each SIGMA "
     "of "
     "the list (default 0)",
     0},
    {"link-straggler", OPTION_LINK_STRAGGLER, "X", 0,
     "one node's link to the others takes X times as long", 0},
    {"iterations", OPTION_ITERATIONS, "R", 0, "drawn with jitter (default 101)", 0},
    {"seed", OPTION_SEED, "S", 0, "of what is drawn (default 1)", 0},
    {"csv", OPTION_CSV, "FILE", 0, "write the points as a table", 0},
    {"svg", OPTION_SVG, "FILE", 0, "draw scaling factor and speed-ups", 0},
    {"json", OPTION_JSON, NULL, 0, "print one JSON object", 0},
    {0},
};

static uint32_t parse_counts(const char *option, char *arg, uint32_t max, uint32_t *out,
                             struct argp_state *state)
{
    char *words[WRING_SWEEP_MAX];
    size_t n = wring_value_option_list(option, arg, words, WRING_SWEEP_MAX, state);

    if (n == 0 || n > WRING_SWEEP_MAX)
        argp_error(state, "%s needs 1 to %d numbers", option, WRING_SWEEP_MAX);
    for (size_t i = 0; i < n && n <= WRING_SWEEP_MAX; i++)
        if (!wring_value_count(words[i], 1, max, &out[i]))
            argp_error(state, "%s needs numbers from 1 to %" PRIu32 ", not '%s'", option, max,
                       words[i]);
    return (uint32_t)n;
}

/** @param what  the numbers are, such as "rates in Gbit/s" */
static uint32_t parse_reals(const char *option, const char *what, char *arg, double min, double max,
                            double *out, struct argp_state *state)
{
    char *words[WRING_SWEEP_MAX];
    size_t n = wring_value_option_list(option, arg, words, WRING_SWEEP_MAX, state);

    if (n == 0 || n > WRING_SWEEP_MAX)
        argp_error(state, "%s needs 1 to %d %s", option, WRING_SWEEP_MAX, what);
    for (size_t i = 0; i < n && n <= WRING_SWEEP_MAX; i++)
        if (!wring_value_real(words[i], min, max, &out[i]))
            argp_error(state, "%s needs %s from %.15g to %.15g, not '%s'", option, what, min, max,
                       words[i]);
    return (uint32_t)n;
}

static void parse_real(const char *option, const char *arg, double min, double max, double *out,
                       struct argp_state *state)
{
    if (!wring_value_real(arg, min, max, out))
        argp_error(state, "%s needs a number from %g to %g", option, min, max);
}

static void parse_seed(struct wring_sweep *sweep, const char *arg, struct argp_state *state)
{
    uint32_t seed;

    if (!wring_value_count(arg, 0, UINT32_MAX, &seed))
        argp_error(state, "--seed needs a number from 0 to %" PRIu32, UINT32_MAX);
    sweep->seed = seed;
}

/** The one lane of a serial timeline has codec work on it, too. */
static void check_link_options(const struct wring_sweep *sweep, struct argp_state *state)
{
    if (sweep->planning.timeline == WRING_TIMELINE_SERIAL &&
        (sweep->n_link_jitters > 0 || sweep->link_straggler > 1))
        argp_error(state, "--timeline serial does not tell links apart, which --link-jitter and "
                          "--link-straggler are about");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct simulate *command = state->input;
    struct wring_sweep *sweep = &command->sweep;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &sweep->planning;
        return 0;
    case 'N':
        sweep->n_nodes = parse_counts("--nodes", arg, 1 << 20, sweep->nodes, state);
        return 0;
    case 'l':
        sweep->n_links =
            parse_reals("--link", "rates in Gbit/s", arg, 1e-3, 1e5, sweep->link_gbit, state);
        return 0;
    case OPTION_EACH:
        sweep->each = true;
        return 0;
    case OPTION_LOCAL:
        sweep->n_local_steps =
            parse_counts("--local-steps", arg, 1 << 20, sweep->local_steps, state);
        return 0;
    case OPTION_RACK:
        if (!wring_value_count(arg, 1, 1 << 20, &sweep->rack))
            argp_error(state, "--rack needs a number of nodes from 1 to %d", 1 << 20);
        return 0;
    case OPTION_OVERSUBSCRIPTION:
        parse_real("--oversubscription", arg, 1, 1000, &sweep->oversubscription, state);
        return 0;
    case OPTION_JITTER:
        parse_real("--jitter", arg, 0, 2, &sweep->jitter, state);
        return 0;
    case OPTION_STRAGGLER:
        parse_real("--straggler", arg, 1, 1000, &sweep->straggler, state);
        return 0;
    case OPTION_LINK_JITTER:
        sweep->n_link_jitters =
            parse_reals("--link-jitter", "numbers", arg, 0, 2, sweep->link_jitter, state);
        return 0;
    case OPTION_LINK_STRAGGLER:
        parse_real("--link-straggler", arg, 1, 1000, &sweep->link_straggler, state);
        return 0;
    case OPTION_ITERATIONS:
        if (!wring_value_count(arg, 1, 100000, &command->iterations))
            argp_error(state, "--iterations needs a number from 1 to 100000");
        return 0;
    case OPTION_SEED:
        parse_seed(sweep, arg, state);
        return 0;
    case OPTION_CSV:
        command->csv = arg;
        return 0;
    case OPTION_SVG:
        command->svg = arg;
        return 0;
    case OPTION_JSON:
        command->json = true;
        return 0;
    case ARGP_KEY_END:
        if (sweep->planning.trace_path == NULL)
            argp_error(state, "--trace is needed: a wring-trace file, or a name such as vgg16");
        check_link_options(sweep, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&wring_planning_argp, 0, NULL, 0}, {0}};

static const struct argp command_line = {
    .options = options,
    .parser = parse_option,
    .children = children,
    .doc =
        "Plan a model's collective for many clusters, and say how it scales."
        "\v"
        "Each point has a plan of its own. The scaling factor is a rank's training speed against "
        "that of one rank alone, forward included; speed-ups are of training, too, against "
        "uncompressed tensors of the trace's types and against fp16, each in the best groups. "
        "Where the trace does not say how "
        "long forward takes, half of backward is assumed, and said. With jitter or a straggler "
        "all wait for the slowest node, a collective waits for its slowest link, and times are "
        "medians of iterations drawn by --seed. Plans are made for nodes and links as usual. "
        "What every node exchanges with all others leaves its rack for the larger part: the "
        "link between nodes counts as that much slower.",
};

/* ---- command ---- */

static bool has_link_jitter(const struct wring_sweep *sweep)
{
    for (uint32_t i = 0; i < sweep->n_link_jitters; i++)
        if (sweep->link_jitter[i] > 0)
            return true;
    return false;
}

static void set_defaults(struct simulate *command)
{
    struct wring_sweep *sweep = &command->sweep;

    if (sweep->n_nodes == 0)
        sweep->nodes[sweep->n_nodes++] = sweep->planning.profile->nodes;
    sweep->links_given = sweep->n_links > 0;
    if (sweep->n_links == 0)
        sweep->link_gbit[sweep->n_links++] = wring_planning_link_gbit(sweep->planning.profile);
    if (sweep->n_local_steps == 0)
        sweep->local_steps[sweep->n_local_steps++] = 1;
    if (sweep->n_link_jitters == 0)
        sweep->link_jitter[sweep->n_link_jitters++] = 0;
    sweep->iterations = sweep->jitter > 0 || has_link_jitter(sweep) ? 101 : 1;
    if (command->iterations > 0)
        sweep->iterations = command->iterations;
}

/** Only links whose speed is known can be made faster or slower. @return false, said: they are not
 */
static bool check_links(const struct simulate *command)
{
    const struct wring_sweep *sweep = &command->sweep;
    const struct wring_profile *profile = sweep->planning.profile;

    if (!sweep->links_given || isfinite(wring_planning_link_gbit(profile)))
        return true;
    wring_fail(sweep->planning.log.arg,
               "--link: the profile %s does not know how fast a link between nodes is",
               profile->name);
    return false;
}

static bool keep_point(void *arg, const struct wring_point *point)
{
    struct simulate *command = arg;

    command->points[command->n++] = *point;
    if (command->progress)
        fprintf(stderr, "\r%zu of %zu\033[K", command->n, command->capacity);
    return true;
}

/** Gives away the points of a sweep. Errors: WRING_ERR_SYSTEM (cannot write). */
typedef enum wring_status (*give_fn)(const struct wring_sweep *sweep,
                                     const struct wring_point *points, size_t n, FILE *file);

/** What goes into a file. */
struct giving {
    const struct simulate *command;
    give_fn give;
};

static bool give_points(FILE *file, void *arg)
{
    const struct giving *giving = arg;
    const struct simulate *command = giving->command;
    return giving->give(&command->sweep, command->points, command->n, file) == WRING_OK;
}

/** @return exit status, said */
static int write_file(const struct simulate *command, const char *path, give_fn give)
{
    struct giving giving = {command, give};
    return wring_output_file(command->sweep.planning.log.arg, path, give_points, &giving);
}

static int write_all_outputs(const struct simulate *command)
{
    int exit = WRING_EXIT_OK;

    if (command->csv != NULL)
        exit = write_file(command, command->csv, sweep_write_csv);
    if (exit == WRING_EXIT_OK && command->svg != NULL)
        exit = write_file(command, command->svg, sweep_write_svg);
    if (exit != WRING_EXIT_OK)
        return exit;
    give_fn show = command->json ? sweep_write_json : sweep_show;
    if (show(&command->sweep, command->points, command->n, stdout) != WRING_OK)
        return wring_output_failed();
    return WRING_EXIT_OK;
}

static int run_simulation(struct simulate *command)
{
    const char *name = command->sweep.planning.log.arg;

    if (wring_planning_load(&command->sweep.planning) != WRING_OK)
        return WRING_EXIT_FAILURE; /* which was said */
    set_defaults(command);
    if (!check_links(command))
        return WRING_EXIT_FAILURE;
    command->capacity = wring_sweep_count(&command->sweep);
    command->points = calloc(command->capacity, sizeof(*command->points));
    if (command->points == NULL)
        return wring_fail(name, "no memory for %zu points", command->capacity);
    enum wring_status status = wring_sweep_run(&command->sweep, keep_point, command);
    if (command->progress)
        fprintf(stderr, "\r\033[K");
    if (status == WRING_ERR_NO_MEMORY)
        return wring_fail(name, "%s", wring_status_text(status));
    return status == WRING_OK ? write_all_outputs(command) : WRING_EXIT_FAILURE;
}

int wring_cmd_simulate(int argc, char **argv)
{
    struct simulate command = {.sweep = {.planning = WRING_PLANNING_INIT,
                                         .oversubscription = 1,
                                         .straggler = 1,
                                         .link_straggler = 1,
                                         .seed = 1},
                               .progress = isatty(STDERR_FILENO)};

    command.sweep.planning.log = wring_planning_log(argv[0]);
    error_t error = argp_parse(&command_line, argc, argv, 0, NULL, &command);
    if (error != 0)
        return wring_fail(argv[0], "%s", strerror(error));
    int exit = run_simulation(&command);
    free(command.points);
    wring_planning_finish(&command.sweep.planning);
    return exit;
}
