/* SPDX-License-Identifier: Apache-2.0 */
/** wring bench scale: the command line, a process for each number of ranks, and what is printed. */
#include "tools/bench/scale.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "planner/tool/svg.h"
#include "tools/bench/bench.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/values.h"

#define JOBS_MAX 16
#define RANKS_MAX 65536
#define CHART_HEIGHT 300

struct scale {
    const char *name;
    struct wring_scale_job asked;
    uint32_t ranks[JOBS_MAX], n;
    double latency_us, message_us, gbit;
    const char *csv, *svg;
    bool json;
    struct wring_scale_job jobs[JOBS_MAX];
};

enum {
    OPTION_LATENCY = 0x100,
    OPTION_MESSAGE,
    OPTION_RATE,
    OPTION_EMPTY,
    OPTION_STEPS,
    OPTION_DEATH,
    OPTION_CSV,
    OPTION_SVG,
    OPTION_JSON,
};

static const struct argp_option options[] = {
    {"ranks", 'n', "LIST", 0, "ranks, such as 16,256,4096 (default 16,64,256)", 0},
    {"bytes", 'b', "LIST", 0, "sizes of a rank's float32 data (default 4k,1m)", 0},
    {"latency", OPTION_LATENCY, "US", 0, "of the network (default 5)", 0},
    {"message", OPTION_MESSAGE, "US", 0, "that each message takes a port (default 0.5)", 0},
    {"rate", OPTION_RATE, "GBIT", 0, "Gbit/s of each port (default 100)", 0},
    {"steps", OPTION_STEPS, "N", 0, "of each size; the last one is reported (default 3)", 0},
    {"empty", OPTION_EMPTY, NULL, 0,
     "messages carry no bytes: saves memory, and no sum is compared", 0},
    {"death", OPTION_DEATH, NULL, 0, "kill a rank in the end: when have all heard of it?", 0},
    {"csv", OPTION_CSV, "FILE", 0, "write the results as a table", 0},
    {"svg", OPTION_SVG, "FILE", 0, "draw times against ranks", 0},
    {"json", OPTION_JSON, NULL, 0, "print one JSON object", 0},
    {0},
};

static void parse_ranks(struct scale *scale, char *arg, struct argp_state *state)
{
    char *words[JOBS_MAX];
    size_t n = wring_bench_parse_list("--ranks", "numbers", arg, words, JOBS_MAX, state);

    for (size_t i = 0; i < n; i++)
        if (!wring_value_count(words[i], 1, RANKS_MAX, &scale->ranks[i]))
            argp_error(state, "--ranks needs numbers from 1 to %d, not '%s'", RANKS_MAX, words[i]);
    scale->n = (uint32_t)n;
}

static void parse_bytes(struct scale *scale, char *arg, struct argp_state *state)
{
    static const struct wring_bench_sizes allowed = {4, 1 << 30, 4, "a size from 4 to 1g"};
    uint64_t sizes[WRING_BENCH_LIST_MAX];
    size_t n = wring_bench_parse_sizes(&allowed, arg, sizes, state);

    if (n > WRING_SCALE_SIZES_MAX)
        argp_error(state, "--bytes needs at most %d sizes", WRING_SCALE_SIZES_MAX);
    scale->asked.n_sizes = (uint32_t)n;
    for (size_t i = 0; i < n && i < WRING_SCALE_SIZES_MAX; i++)
        scale->asked.sizes[i].bytes = sizes[i];
}

static void parse_real(const char *option, const char *arg, double min, double max, double *out,
                       struct argp_state *state)
{
    if (!wring_value_real(arg, min, max, out))
        argp_error(state, "%s needs a number from %g to %g", option, min, max);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct scale *scale = state->input;

    switch (key) {
    case 'n':
        parse_ranks(scale, arg, state);
        return 0;
    case 'b':
        parse_bytes(scale, arg, state);
        return 0;
    case OPTION_LATENCY:
        parse_real("--latency", arg, 0, 1e6, &scale->latency_us, state);
        return 0;
    case OPTION_MESSAGE:
        parse_real("--message", arg, 0, 1e6, &scale->message_us, state);
        return 0;
    case OPTION_RATE:
        parse_real("--rate", arg, 1e-3, 1e5, &scale->gbit, state);
        return 0;
    case OPTION_STEPS:
        if (!wring_value_count(arg, 1, WRING_SCALE_STEPS_MAX, &scale->asked.steps))
            argp_error(state, "--steps needs a number from 1 to %d", WRING_SCALE_STEPS_MAX);
        return 0;
    case OPTION_EMPTY:
        scale->asked.network.empty = true;
        return 0;
    case OPTION_DEATH:
        scale->asked.death = true;
        return 0;
    case OPTION_CSV:
        scale->csv = arg;
        return 0;
    case OPTION_SVG:
        scale->svg = arg;
        return 0;
    case OPTION_JSON:
        scale->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp command_line = {
    .options = options,
    .parser = parse_option,
    .doc = "Run the library for many ranks over a simulated network."
           "\v"
           "All ranks live in one thread of one process, each with a session of its own, and run "
           "wring's own code: control tree, algorithms and credits. Only network and clock are "
           "simulated, and computing takes no time there. A message alone takes latency + message "
           "+ bytes / rate. Each rank has one port, where messages wait for each other. The "
           "prediction is the textbook's for the algorithm that such a sum takes. The first step "
           "also connects ranks; times are of the last one, until the last rank is done. Sums are "
           "compared bit by bit in up to 1024 elements of each rank.",
};

/* ---- what is said ---- */

static bool is_well(const struct scale *scale, const struct wring_scale_job *job)
{
    bool well = job->unopened == 0 && job->failed == 0 && job->deaf == 0;

    if (!well)
        wring_fail(scale->name,
                   "%u ranks: %u sessions did not open, %u failed, %u did not hear of the death",
                   job->network.ranks, job->unopened, job->failed, job->deaf);
    for (uint32_t s = 0; s < job->n_sizes; s++)
        if (job->sizes[s].wrong > 0) {
            wring_fail(scale->name, "%u ranks: %u sums of %" PRIu64 " bytes are wrong",
                       job->network.ranks, job->sizes[s].wrong, job->sizes[s].bytes);
            well = false;
        }
    return well;
}

static void show_death(struct wring_table *table, const struct wring_scale_job *job)
{
    if (job->death)
        wring_table_cell(table, "%.1f us", job->death_us);
    else
        wring_table_cell(table, "-");
}

static bool show(const struct scale *scale, FILE *file)
{
    static const struct wring_table_column columns[] = {
        {"ranks", WRING_ALIGN_RIGHT},    {"bytes", WRING_ALIGN_RIGHT},
        {"first", WRING_ALIGN_RIGHT},    {"step", WRING_ALIGN_RIGHT},
        {"expected", WRING_ALIGN_RIGHT}, {"puts", WRING_ALIGN_RIGHT},
        {"control", WRING_ALIGN_RIGHT},  {"sent", WRING_ALIGN_RIGHT},
        {"death", WRING_ALIGN_RIGHT},    {"conns", WRING_ALIGN_RIGHT},
        {"KiB", WRING_ALIGN_RIGHT},      {"CPU", WRING_ALIGN_RIGHT},
    };
    struct wring_table *table = wring_table_create(columns, sizeof(columns) / sizeof(columns[0]));
    char text[32];

    fprintf(file,
            "latency %g us, %g us a message, %g Gbit/s; of the rank that has most of them: "
            "puts, control\nmessages and bytes sent in a step, and connections; memory of "
            "each rank\n\n",
            scale->latency_us, scale->message_us, scale->gbit);
    for (uint32_t j = 0; j < scale->n; j++)
        for (uint32_t s = 0; s < scale->asked.n_sizes; s++) {
            const struct wring_scale_job *job = &scale->jobs[j];
            const struct wring_scale_size *size = &job->sizes[s];
            wring_table_cell(table, "%" PRIu32, job->network.ranks);
            wring_table_cell(table, "%s", wring_value_show_bytes(size->bytes, text, sizeof(text)));
            wring_table_cell(table, "%.1f us", size->first_us);
            wring_table_cell(table, "%.1f us", size->us);
            wring_table_cell(table, "%.1f us", size->predicted_us);
            wring_table_cell(table, "%" PRIu64, size->puts);
            wring_table_cell(table, "%" PRIu64, size->messages);
            wring_table_cell(table, "%" PRIu64, size->sent_bytes);
            show_death(table, job);
            wring_table_cell(table, "%" PRIu64, job->connections);
            wring_table_cell(table, "%.0f", job->memory_bytes / 1024);
            wring_table_cell(table, "%.1f s", job->cpu_s);
        }
    wring_table_finish(table, file);
    return ferror(file) == 0;
}

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static bool write_json(const struct scale *scale, FILE *file)
{
    json_t *results = json_array();

    for (uint32_t j = 0; j < scale->n; j++)
        for (uint32_t s = 0; s < scale->asked.n_sizes; s++) {
            const struct wring_scale_job *job = &scale->jobs[j];
            const struct wring_scale_size *size = &job->sizes[s];
            json_array_append_new(
                results,
                json_pack("{s:I, s:I, s:f, s:f, s:o, s:I, s:I, s:I, s:I, s:o, s:f, s:I, s:f, s:f}",
                          "ranks", (json_int_t)job->network.ranks, "bytes", (json_int_t)size->bytes,
                          "first_us", size->first_us, "time_us", size->us, "predicted_us",
                          number_or_null(size->predicted_us), "puts", (json_int_t)size->puts,
                          "control_messages", (json_int_t)size->messages, "sent_bytes",
                          (json_int_t)size->sent_bytes, "wrong", (json_int_t)size->wrong,
                          "death_us", number_or_null(job->death ? job->death_us : (double)NAN),
                          "open_us", job->open_us, "connections", (json_int_t)job->connections,
                          "memory_bytes", job->memory_bytes, "cpu_s", job->cpu_s));
        }
    return wring_json_print(
               file, json_pack("{s:f, s:f, s:f, s:b, s:o}", "latency_us", scale->latency_us,
                               "message_us", scale->message_us, "link_gbit", scale->gbit, "empty",
                               scale->asked.network.empty, "results", results)) == WRING_OK;
}

/** RFC 4180, with a line of names. */
static bool write_csv(FILE *file, void *arg)
{
    const struct scale *scale = arg;

    fputs("ranks,bytes,first_us,time_us,predicted_us,puts,control_messages,sent_bytes,wrong,"
          "death_us,open_us,connections,memory_bytes,cpu_s\r\n",
          file);
    for (uint32_t j = 0; j < scale->n; j++)
        for (uint32_t s = 0; s < scale->asked.n_sizes; s++) {
            const struct wring_scale_job *job = &scale->jobs[j];
            const struct wring_scale_size *size = &job->sizes[s];
            fprintf(file,
                    "%" PRIu32 ",%" PRIu64 ",%.3f,%.3f,%.3f,%" PRIu64 ",%" PRIu64 ",%" PRIu64
                    ",%" PRIu32 ",",
                    job->network.ranks, size->bytes, size->first_us, size->us, size->predicted_us,
                    size->puts, size->messages, size->sent_bytes, size->wrong);
            if (job->death)
                fprintf(file, "%.3f", job->death_us);
            fprintf(file, ",%.3f,%" PRIu64 ",%.0f,%.2f\r\n", job->open_us, job->connections,
                    job->memory_bytes, job->cpu_s);
        }
    return ferror(file) == 0;
}

static void add_curve(const struct scale *scale, struct wring_svg_chart *chart, uint32_t s,
                      bool predicted)
{
    struct wring_svg_curve *curve = &chart->curves[chart->n++];
    char bytes[32];

    curve->colour = (enum wring_svg_colour)(s % WRING_SVG_COLOURS);
    curve->dash = predicted ? 6 : 0;
    snprintf(curve->name, sizeof(curve->name), "%s%s",
             wring_value_show_bytes(scale->asked.sizes[s].bytes, bytes, sizeof(bytes)),
             predicted ? ", predicted" : "");
    for (uint32_t j = 0; j < scale->n; j++) {
        const struct wring_scale_size *size = &scale->jobs[j].sizes[s];
        wring_svg_curve_add(curve, scale->ranks[j], predicted ? size->predicted_us : size->us);
    }
}

static bool write_svg(FILE *file, void *arg)
{
    const struct scale *scale = arg;
    struct wring_svg_chart *chart = calloc(1, sizeof(*chart));

    if (chart == NULL)
        return false;
    chart->title = "microseconds of an allreduce, simulated and predicted";
    chart->x_title = "ranks";
    chart->height = CHART_HEIGHT;
    chart->x = (struct wring_svg_axis){.low = NAN, .high = NAN, .base = 2};
    chart->y = (struct wring_svg_axis){.low = NAN, .high = NAN, .base = 10};
    for (uint32_t s = 0; s < scale->asked.n_sizes; s++) {
        add_curve(scale, chart, s, true);
        add_curve(scale, chart, s, false);
    }
    wring_svg_begin_file(file, WRING_SVG_CHART_WIDTH, 20 + CHART_HEIGHT + WRING_SVG_CHART_ROOM,
                         "allreduce over simulated ranks");
    wring_svg_chart_put(file, chart, 20);
    wring_svg_end(file);
    free(chart);
    return ferror(file) == 0;
}

static int write_outputs(struct scale *scale)
{
    int exit = WRING_EXIT_OK;

    if (scale->csv != NULL)
        exit = wring_output_file(scale->name, scale->csv, write_csv, scale);
    if (exit == WRING_EXIT_OK && scale->svg != NULL)
        exit = wring_output_file(scale->name, scale->svg, write_svg, scale);
    if (exit != WRING_EXIT_OK)
        return exit;
    bool well = scale->json ? write_json(scale, stdout) : show(scale, stdout);
    return well ? WRING_EXIT_OK : wring_output_failed();
}

/* ---- command ---- */

/** In a process of its own, whose memory goes with it. @return false: said */
static bool run_apart(const struct scale *scale, struct wring_scale_job *job)
{
    int ends[2], status = 0;

    if (pipe(ends) != 0) {
        wring_fail(scale->name, "no pipe: %s", strerror(errno));
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        bool well = wring_scale_run(job, scale->name) &&
                    write(ends[1], job, sizeof(*job)) == (ssize_t)sizeof(*job);
        _exit(well ? WRING_EXIT_OK : WRING_EXIT_FAILURE);
    }
    close(ends[1]);
    bool well = child > 0 && read(ends[0], job, sizeof(*job)) == (ssize_t)sizeof(*job);
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        wring_fail(scale->name, "no process: %s", strerror(errno));
    else if (WIFSIGNALED(status))
        wring_fail(scale->name,
                   "%u ranks: the process was ended by signal %d; is there memory for "
                   "as many? --empty needs less",
                   job->network.ranks, WTERMSIG(status));
    return well;
}

static int run_all(struct scale *scale)
{
    int exit = WRING_EXIT_OK;

    scale->asked.network.latency_ns = (uint64_t)(scale->latency_us * 1e3);
    scale->asked.network.message_ns = (uint64_t)(scale->message_us * 1e3);
    scale->asked.network.bytes_per_ns = scale->gbit / 8;
    for (uint32_t i = 0; i < scale->n; i++) {
        struct wring_scale_job *job = &scale->jobs[i];
        *job = scale->asked;
        job->network.ranks = scale->ranks[i];
        if (!run_apart(scale, job))
            return WRING_EXIT_FAILURE;
        if (!is_well(scale, job))
            exit = WRING_EXIT_FAILURE;
    }
    int written = write_outputs(scale);
    return exit == WRING_EXIT_OK ? written : exit;
}

int wring_bench_scale(int argc, char **argv)
{
    struct scale *scale = calloc(1, sizeof(*scale));

    if (scale == NULL)
        return wring_fail(argv[0], "no memory");
    *scale = (struct scale){
        .name = argv[0],
        .asked = {.steps = 3, .n_sizes = 2, .sizes = {{.bytes = 4096}, {.bytes = 1 << 20}}},
        .ranks = {16, 64, 256},
        .n = 3,
        .latency_us = 5,
        .message_us = 0.5,
        .gbit = 100};
    error_t error = argp_parse(&command_line, argc, argv, 0, NULL, scale);
    int exit = error == 0 ? run_all(scale) : wring_fail(argv[0], "%s", strerror(error));
    free(scale);
    return exit;
}
