/* SPDX-License-Identifier: Apache-2.0 */
/* The command: its options, its ranks, and what is shown in the end. */
#include "tools/demo/demo.h"

#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/parse.h"
#include "tools/bench/bench.h"
#include "tools/commands.h"
#include "tools/demo/configs.h"
#include "tools/demo/measure.h"
#include "tools/demo/page.h"
#include "tools/demo/record.h"
#include "tools/demo/store.h"
#include "tools/demo/task.h"
#include "tools/launch/launch.h"
#include "tools/output.h"
#include "tools/values.h"
#include "transport/providers/fault/fault.h"

/* ---- options ---- */

enum {
    OPTION_TASK = 0x100,
    OPTION_TEXT,
    OPTION_IMAGES,
    OPTION_OPTIMIZER,
    OPTION_RATE,
    OPTION_CODEC,
    OPTION_SEEDS,
    OPTION_TARGET,
    OPTION_TUNE,
    OPTION_RESULTS,
    OPTION_TABLE,
    OPTION_LINK,
    OPTION_STEPS,
    OPTION_SEED,
    OPTION_REPORT,
    OPTION_RECORD,
    OPTION_GRADIENTS,
    OPTION_RECORDED,
    OPTION_BATCH,
    OPTION_UNITS,
    OPTION_TIMED,
    OPTION_LOSSES,
    OPTION_JSON,
};

static const struct argp_option options[] = {
    {"task", OPTION_TASK, "NAME", 0,
     "text: a language model (default); image: a convolutional network that reads digits", 0},
    {"text", OPTION_TEXT, "FILE", 0,
     "train on this file, again for more (default: the documentation of this system)", 0},
    {"images", OPTION_IMAGES, "FILE", 0,
     "read digits from this file of comma-separated values (default: Debian's python3-sklearn)", 0},
    {"codec", OPTION_CODEC, "LIST", 0,
     "compare these, joined by commas: fp32, bf16, int8, onebit+ef, topk+ef and onebit (the "
     "default), all for all with a name, or any codec's spec",
     0},
    {"optimizer", OPTION_OPTIMIZER, "NAME", 0,
     "sgd (default), adam, lamb, lans, or onebit-adam:warmup=N", 0},
    {"rate", OPTION_RATE, "R", 0, "learning rate (default: one that suits the optimizer)", 0},
    {"tune", OPTION_TUNE, "SEEDS", OPTION_ARG_OPTIONAL,
     "search each codec's learning rate first: it is doubled, or else halved, as long as that "
     "lowers the mean loss of so many seeds, which judge nothing (default 1)",
     0},
    {"ranks", 'n', "N", 0, "processes that train together (default 4)", 0},
    {"link", OPTION_LINK, "RATE", 0, "emulated link of each rank, each way (default 1gbit)", 0},
    {"steps", OPTION_STEPS, "N", 0, "training steps (default 1000)", 0},
    {"timed-steps", OPTION_TIMED, "N", 0, "steps timed on the link (default 250)", 0},
    {"seed", OPTION_SEED, "S", 0, "of the model, the batches and the split (default 1)", 0},
    {"seeds", OPTION_SEEDS, "N", 0,
     "train with so many seeds, from --seed on, and show how far they lie apart (default 1)", 0},
    {"target-loss", OPTION_TARGET, "X", 0, "loss to reach (default: 1.001 times bf16's last one)",
     0},
    {"batch", OPTION_BATCH, "N", 0, "samples of a rank in a step (default 16)", 0},
    {"hidden", OPTION_UNITS, "N", 0,
     "units of a hidden layer (default 512 for text, 256 for image)", 0},
    {"losses-only", OPTION_LOSSES, NULL, 0, "train without timing anything on the link", 0},
    {"report", OPTION_REPORT, "FILE", 0, "write pictures there (default wring-demo.html)", 0},
    {"results", OPTION_RESULTS, "FILE", 0,
     "keep finished trainings there, and take those that it has: a stopped series goes on", 0},
    {"table", OPTION_TABLE, "FILE.md", 0,
     "write the comparison there in Markdown, in the place of an earlier one of this task and "
     "optimizer, and its curves beside it as FILE-TASK-OPTIMIZER.svg",
     0},
    {"record-trace", OPTION_RECORD, "FILE", 0,
     "write when each gradient was ready, as a trace for the planner", 0},
    {"record-gradients", OPTION_GRADIENTS, "FILE", 0,
     "write a sample of the gradients, for wring calibrate --gradients and wring bench codec "
     "--data",
     0},
    {"record-ranks", OPTION_RECORDED, "N", 0,
     "gradients of the first N ranks, each with its own batches (default 1)", 0},
    {"json", OPTION_JSON, NULL, 0, "print one JSON object", 0},
    {0},
};

static void parse_count(const char *name, const char *arg, uint32_t min, uint32_t max,
                        uint32_t *out, struct argp_state *state)
{
    if (!wring_value_count(arg, min, max, out))
        argp_error(state, "--%s needs a number from %u to %u", name, min, max);
}

static void parse_real(const char *name, const char *arg, double min, double max, double *out,
                       struct argp_state *state)
{
    if (!wring_value_real(arg, min, max, out))
        argp_error(state, "--%s needs a number from %g to %g", name, min, max);
}

static void choose_task(const char *arg, struct demo_options *o, struct argp_state *state)
{
    static const struct demo_task *const tasks[] = {&demo_task_text, &demo_task_image};

    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++)
        if (strcmp(arg, tasks[i]->name) == 0) {
            o->task = tasks[i];
            return;
        }
    argp_error(state, "--task is text or image, not %s", arg);
}

static void choose_codecs(char *arg, struct demo_options *o, struct argp_state *state)
{
    static char *copy; /* the configurations name parts of it */
    char why[256];

    free(copy);
    copy = strdup(arg);

    if (copy == NULL || !demo_configs_choose(copy, o, why, sizeof(why)))
        argp_error(state, "--codec: %s", copy != NULL ? why : "out of memory");
}

static void choose_optimizer(const char *arg, struct demo_options *o, struct argp_state *state)
{
    if (!demo_optimizer_parse(arg, &o->optimizer))
        argp_error(state, "--optimizer is sgd, adam, lamb, lans or onebit-adam:warmup=N, not %s",
                   arg);
    o->optimizer_text = arg;
}

static void check_table(const char *arg, struct argp_state *state)
{
    const char *dot = strrchr(arg, '.');

    if (dot == NULL || strcmp(dot, ".md") != 0)
        argp_error(state, "--table needs a name that ends in .md");
}

static void check_link(const char *arg, struct argp_state *state)
{
    char text[64], why[128];
    struct wring_fault_schedule schedule;
    int length = snprintf(text, sizeof(text), "rate=%s", arg);
    if (length >= (int)sizeof(text) || strchr(arg, ',') != NULL ||
        !wring_fault_parse(text, &schedule, why, sizeof(why)))
        argp_error(state, "--link needs a rate from 1kbit to 10000gbit, such as 1gbit");
}

static const char default_report[] = "wring-demo.html";

/** What goes with other options only. */
static void check_options(const struct demo_options *o, struct argp_state *state)
{
    if (o->task != &demo_task_text && o->n_texts > 0)
        argp_error(state, "--text goes with --task text");
    if (o->task != &demo_task_image && o->images != NULL)
        argp_error(state, "--images goes with --task image");
    if (o->losses_only && o->record[0] != '\0')
        argp_error(state, "--record-trace needs times, which --losses-only leaves out");
    if (o->losses_only && o->report != default_report && o->report[0] != '\0')
        argp_error(state, "--report needs times, which --losses-only leaves out");
    if (o->record_ranks > 1 && o->record_gradients[0] == '\0')
        argp_error(state, "--record-ranks goes with --record-gradients");
    if (o->tuning_seeds > 0 && o->seed == 0)
        argp_error(state, "--tune takes seed 0 for itself: give another --seed");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct demo_options *o = state->input;
    uint32_t seed;

    switch (key) {
    case OPTION_TASK:
        choose_task(arg, o, state);
        return 0;
    case OPTION_IMAGES:
        o->images = arg;
        return 0;
    case OPTION_CODEC:
        choose_codecs(arg, o, state);
        return 0;
    case OPTION_OPTIMIZER:
        choose_optimizer(arg, o, state);
        return 0;
    case OPTION_RATE:
        parse_real("rate", arg, 1e-9, 1e3, &o->rate, state);
        return 0;
    case OPTION_TUNE:
        o->tuning_seeds = 1;
        if (arg != NULL)
            parse_count("tune", arg, 1, DEMO_SEEDS_MAX, &o->tuning_seeds, state);
        return 0;
    case OPTION_SEEDS:
        parse_count("seeds", arg, 1, DEMO_SEEDS_MAX, &o->seeds, state);
        return 0;
    case OPTION_TARGET:
        parse_real("target-loss", arg, 0, 100, &o->target_loss, state);
        return 0;
    case OPTION_RESULTS:
        o->results = arg;
        return 0;
    case OPTION_TABLE:
        check_table(arg, state);
        o->table = arg;
        return 0;
    case OPTION_TEXT:
        if (o->n_texts == DEMO_TEXTS_MAX)
            argp_error(state, "more than %d files", DEMO_TEXTS_MAX);
        o->texts[o->n_texts++] = arg;
        return 0;
    case ARGP_KEY_ARG: /* --text A B C */
        if (o->n_texts == 0)
            return ARGP_ERR_UNKNOWN;
        return parse_option(OPTION_TEXT, arg, state);
    case 'n':
        parse_count("ranks", arg, 2, 64, &o->ranks, state);
        return 0;
    case OPTION_LINK:
        check_link(arg, state);
        o->link = arg;
        return 0;
    case OPTION_STEPS:
        parse_count("steps", arg, DEMO_EVALS * 2, 1000000, &o->steps, state);
        return 0;
    case OPTION_TIMED:
        parse_count("timed-steps", arg, 20, 100000, &o->timed_steps, state);
        return 0;
    case OPTION_SEED:
        parse_count("seed", arg, 0, 1000000000, &seed, state);
        o->seed = seed;
        return 0;
    case OPTION_BATCH:
        parse_count("batch", arg, 1, 4096, &o->batch, state);
        return 0;
    case OPTION_UNITS:
        parse_count("hidden", arg, 16, 8192, &o->hidden, state);
        return 0;
    case OPTION_LOSSES:
        o->losses_only = true;
        return 0;
    case OPTION_REPORT:
        o->report = arg;
        return 0;
    case OPTION_RECORD:
        o->record = arg;
        return 0;
    case OPTION_GRADIENTS:
        o->record_gradients = arg;
        return 0;
    case OPTION_RECORDED:
        parse_count("record-ranks", arg, 1, 64, &o->record_ranks, state);
        return 0;
    case ARGP_KEY_END:
        check_options(o, state);
        return 0;
    case OPTION_JSON:
        o->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp demo_argp = {
    .options = options,
    .parser = parse_option,
    .args_doc = "",
    .doc =
        "Train a small network on this host over an emulated slow link, with and without codecs, "
        "and show what each gained and what it cost."
        "\v"
        "Several processes exchange every gradient, bucket by bucket, "
        "while backward still runs. The loss curves come from runs without the link: results are "
        "bit-identical with it, which is checked. Takes one to three minutes on two cores.",
};

/** Check the data here, so that its faults are printed once, not by every rank. */
static bool has_data(const struct demo_options *o)
{
    void *data;
    if (o->task->load(o, &data) != 0)
        return false;
    o->task->drop(data);
    return true;
}

/** Check the other files here, too: a training takes long, and its ranks would all complain. */
static bool has_files(const struct demo_options *o)
{
    struct demo_store store;
    const char *const written[] = {o->losses_only ? "" : o->report, o->record, o->record_gradients,
                                   o->results};

    bool well = demo_store_open(&store, o->results);
    demo_store_close(&store);
    for (size_t i = 0; i < sizeof(written) / sizeof(written[0]) && well; i++)
        well =
            written[i][0] == '\0' || wring_output_check("wring demo", written[i]) == WRING_EXIT_OK;
    return well && (o->table[0] == '\0' || demo_page_check(o, o->table));
}

/** Become the launcher of ranks that run this same command line. */
static int start_ranks(const struct demo_options *o, int argc, char **argv)
{
    char **line = calloc((size_t)argc + 2, sizeof(*line));
    char program[] = "/proc/self/exe", demo[] = "demo";
    if (line == NULL)
        return wring_fail(argv[0], "out of memory");
    line[0] = program;
    line[1] = demo;
    for (int i = 1; i < argc; i++)
        line[1 + i] = argv[i];
    setenv("WRING_SPIN", "0", 0); /* more ranks than cores: waiters give way at once */
    struct wring_launch_params launch = {
        .name = argv[0], .ranks = o->ranks, .grace_ns = WRING_LAUNCH_GRACE_NS, .argv = line};
    int code = wring_launch(&launch);
    free(line);
    return code;
}

/** Results that depend on the link or differ between ranks are wrong, however fast they came. */
static int judge_results(const struct demo_results *results)
{
    for (uint32_t i = 0; i < results->n; i++)
        if (!results->measures[i].same_bits)
            return wring_fail("wring demo",
                              "%s: ranks, or runs with and without the link, came to "
                              "different parameters",
                              results->measures[i].config->name);
    return WRING_EXIT_OK;
}

struct written {
    const char *what, *path; /* "": not asked for */
    bool (*write)(const struct demo_results *results, const char *path);
};

/** What could not be written keeps nothing else back. */
static int show_results(const struct demo_results *results)
{
    const struct demo_options *o = results->options;
    const struct written files[] = {
        {"report with pictures", o->losses_only ? "" : o->report, demo_report_write},
        {"comparison", o->table, demo_page_write},
        {"trace for the planner", o->record, demo_training_trace_write},
    };
    int code = WRING_EXIT_OK;

    if (!o->json)
        demo_print_table(results);
    else if (demo_print_json(results) != 0)
        code = WRING_EXIT_FAILURE;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (files[i].path[0] == '\0')
            continue;
        if (!files[i].write(results, files[i].path))
            code = WRING_EXIT_FAILURE;
        else if (!o->json)
            printf("\n%s: %s\n", files[i].what, files[i].path);
    }
    if (!o->json && o->record_gradients[0] != '\0')
        printf("\ngradients for calibration: %s\n", o->record_gradients);
    return code == WRING_EXIT_OK ? judge_results(results) : code;
}

/** What depends on other options. */
static void complete_options(struct demo_options *o)
{
    char why[8];

    if (o->n_configs == 0)
        demo_configs_choose(NULL, o, why, sizeof(why));
    if (o->hidden == 0)
        o->hidden = o->task->hidden;
    if (o->rate == 0)
        o->rate = demo_optimizer_rate(o->optimizer.kind);
}

int wring_cmd_demo(int argc, char **argv)
{
    struct demo_options o = {.task = &demo_task_text,
                             .optimizer_text = "sgd",
                             .ranks = 4,
                             .steps = 1000,
                             .batch = 16,
                             .timed_steps = 250,
                             .seed = 1,
                             .seeds = 1,
                             .target_loss = NAN,
                             .results = "",
                             .table = "",
                             .link = "1gbit",
                             .record = "",
                             .record_gradients = "",
                             .record_ranks = 1,
                             .report = default_report};
    struct wring_config config;
    struct wring_launched launched;
    struct wring_log log = {.level = WRING_LOG_WARN};
    struct demo_blas blas;
    char reason[128];

    argp_parse(&demo_argp, argc, argv, 0, NULL, &o);
    complete_options(&o);
    if (wring_config_load(&config, &log) != WRING_OK)
        return WRING_EXIT_FAILURE;
    if (!demo_blas_load(&blas, reason, sizeof(reason)))
        return wring_fail(argv[0], "%s", reason);
    o.blas = &blas;
    if (wring_command_launched(&config, &launched) != WRING_EXIT_OK)
        return WRING_EXIT_FAILURE;
    if (launched.name != NULL)
        o.ranks = launched.size;
    if (o.record_ranks > o.ranks) {
        wring_fail(argv[0], "--record-ranks %u: there are %u ranks", o.record_ranks, o.ranks);
        return WRING_EXIT_USAGE;
    }
    if (launched.name == NULL)
        return has_data(&o) && has_files(&o) ? start_ranks(&o, argc, argv) : WRING_EXIT_FAILURE;

    static struct demo_results results;
    int code = demo_measure_all(&o, &results) == 0 ? WRING_EXIT_OK : WRING_EXIT_FAILURE;
    demo_blas_unload(&blas);
    return code == WRING_EXIT_OK && launched.rank == 0 ? show_results(&results) : code;
}
