/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/demo.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "tools/bench/bench.h"
#include "tools/commands.h"
#include "tools/demo/corpus.h"
#include "tools/demo/model.h"
#include "tools/demo/training.h"
#include "tools/launch/launch.h"
#include "tools/values.h"
#include "transport/providers/fault/fault.h"

enum {
    OPTION_TEXT = 0x100,
    OPTION_LINK,
    OPTION_STEPS,
    OPTION_SEED,
    OPTION_REPORT,
    OPTION_RECORD,
    OPTION_GRADIENTS,
    OPTION_BATCH,
    OPTION_UNITS,
    OPTION_ONLY,
    OPTION_TIMED,
    OPTION_LOSSES,
    OPTION_JSON,
};

static const struct argp_option options[] = {
    {"text", OPTION_TEXT, "FILE", 0,
     "train on this file, again for more (default: the documentation of this system)", 0},
    {"ranks", 'n', "N", 0, "processes that train together (default 4)", 0},
    {"link", OPTION_LINK, "RATE", 0, "emulated link of each rank, each way (default 1gbit)", 0},
    {"steps", OPTION_STEPS, "N", 0, "training steps (default 1000)", 0},
    {"timed-steps", OPTION_TIMED, "N", 0, "steps timed on the link (default 250)", 0},
    {"seed", OPTION_SEED, "S", 0, "of the model, the batches and the split (default 1)", 0},
    {"batch", OPTION_BATCH, "N", 0, "samples of a rank in a step (default 16)", 0},
    {"hidden", OPTION_UNITS, "N", 0, "units of a hidden layer (default 512)", 0},
    {"only", OPTION_ONLY, "LIST", 0, "of fp32,bf16,int8,onebit+ef,topk+ef,onebit", 0},
    {"losses-only", OPTION_LOSSES, NULL, 0, "train without timing anything on the link", 0},
    {"report", OPTION_REPORT, "FILE", 0, "write pictures there (default wring-demo.html)", 0},
    {"record-trace", OPTION_RECORD, "FILE", 0,
     "write when each gradient was ready, as a trace for the planner", 0},
    {"record-gradients", OPTION_GRADIENTS, "FILE", 0,
     "write a sample of the gradients, for wring calibrate --gradients", 0},
    {"json", OPTION_JSON, NULL, 0, "print one JSON object", 0},
    {0},
};

static void parse_count(const char *name, const char *arg, uint32_t min, uint32_t max,
                        uint32_t *out, struct argp_state *state)
{
    if (!wring_value_count(arg, min, max, out))
        argp_error(state, "--%s needs a number from %u to %u", name, min, max);
}

static void check_only(char *arg, struct argp_state *state)
{
    char *copy = strdup(arg), *items[DEMO_CONFIGS + 1];
    size_t n =
        copy != NULL ? wring_value_option_list("--only", copy, items, DEMO_CONFIGS + 1, state) : 0;
    if (n == 0 || n > DEMO_CONFIGS)
        argp_error(state, "--only needs 1 to %d names", DEMO_CONFIGS);
    for (size_t i = 0; i < n; i++)
        if (demo_config_find(items[i]) == NULL)
            argp_error(state, "--only: %s is none of fp32,bf16,int8,onebit+ef,topk+ef,onebit",
                       items[i]);
    free(copy);
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

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct demo_options *o = state->input;
    uint32_t seed;

    switch (key) {
    case OPTION_TEXT:
        if (o->n_texts == DEMO_TEXTS_MAX)
            argp_error(state, "more than %d files", DEMO_TEXTS_MAX);
        o->texts[o->n_texts++] = arg;
        return 0;
    case ARGP_KEY_ARG: /* --text A B C */
        if (o->n_texts == 0)
            return ARGP_ERR_UNKNOWN;
        return parse(OPTION_TEXT, arg, state);
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
    case OPTION_ONLY:
        check_only(arg, state);
        o->only = arg;
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
    case ARGP_KEY_END:
        if (o->losses_only && o->record[0] != '\0')
            argp_error(state, "--record-trace needs times, which --losses-only leaves out");
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
    .parser = parse,
    .args_doc = "",
    .doc =
        "Train a small language model on this host over an emulated slow link, with and without "
        "codecs, and show what each gained and what it cost."
        "\v"
        "Several processes hold parts of the text and exchange every gradient, bucket by bucket, "
        "while backward still runs. The loss curves come from runs without the link: results are "
        "bit-identical with it, which is checked. Takes one to three minutes on two cores.",
};

/** What can be wrong with the text is said once here, not by every rank. */
static bool has_text(const struct demo_options *o)
{
    struct demo_corpus corpus;
    if (demo_corpus_load(o->texts, o->n_texts, o->seed, o->ranks, &corpus) != 0)
        return false;
    demo_corpus_free(&corpus);
    return true;
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
static int judge(const struct demo_results *results)
{
    for (uint32_t i = 0; i < results->n; i++)
        if (!results->measures[i].same_bits)
            return wring_fail("wring demo",
                              "%s: ranks, or runs with and without the link, came to "
                              "different parameters",
                              results->measures[i].config->name);
    return WRING_EXIT_OK;
}

static int show(const struct demo_results *results)
{
    const struct demo_options *o = results->options;
    bool report = o->report[0] != '\0' && !o->losses_only;
    if (report && !demo_report_write(results, o->report))
        return WRING_EXIT_FAILURE;
    if (o->record[0] != '\0' && !demo_training_trace_write(results, o->record))
        return WRING_EXIT_FAILURE;
    if (o->json && demo_print_json(results) != 0)
        return WRING_EXIT_FAILURE;
    if (!o->json) {
        demo_print_table(results);
        if (report)
            printf("\nreport with pictures: %s\n", o->report);
        if (o->record[0] != '\0')
            printf("\ntrace for the planner: %s\n", o->record);
        if (o->record_gradients[0] != '\0')
            printf("\ngradients for calibration: %s\n", o->record_gradients);
    }
    return judge(results);
}

int wring_cmd_demo(int argc, char **argv)
{
    struct demo_options o = {.ranks = 4,
                             .steps = 1000,
                             .batch = 16,
                             .hidden = 512,
                             .timed_steps = 250,
                             .seed = 1,
                             .link = "1gbit",
                             .record = "",
                             .record_gradients = "",
                             .report = "wring-demo.html"};
    struct wring_config config;
    struct wring_launched launched;
    struct wring_log log = {.level = WRING_LOG_WARN};
    struct demo_blas blas;
    char reason[128];

    argp_parse(&demo_argp, argc, argv, 0, NULL, &o);
    if (wring_config_load(&config, &log) != WRING_OK)
        return WRING_EXIT_FAILURE;
    if (!demo_blas_load(&blas, reason, sizeof(reason)))
        return wring_fail(argv[0], "%s", reason);
    o.blas = &blas;
    if (wring_command_launched(&config, &launched) != WRING_EXIT_OK)
        return WRING_EXIT_FAILURE;
    if (launched.name == NULL)
        return has_text(&o) ? start_ranks(&o, argc, argv) : WRING_EXIT_FAILURE;

    static struct demo_results results;
    o.ranks = launched.size;
    int code = demo_measure_all(&o, &results) == 0 ? WRING_EXIT_OK : WRING_EXIT_FAILURE;
    demo_blas_unload(&blas);
    return code == WRING_EXIT_OK && launched.rank == 0 ? show(&results) : code;
}

/* ---- demo session ---- */

/** Of a lost peer every other rank knows: one speaks for all. */
static bool is_speaker(uint32_t rank, enum wring_status status,
                       const struct wring_error_detail *detail)
{
    return status != WRING_ERR_PEER || rank == (detail->rank == 0 ? 1u : 0u);
}

int demo_fail(struct wring_session *session, uint32_t rank, const char *what,
              enum wring_status status)
{
    struct wring_error_detail detail = {.rank = -1, .text = ""};
    if (session != NULL)
        wring_session_error(session, &detail);
    if (is_speaker(rank, status, &detail))
        fprintf(stderr, "wring demo: rank %u: %s: %s%s%s\n", rank, what, wring_status_text(status),
                detail.text[0] != '\0' ? ": " : "", detail.text);
    return 1;
}

/** Once a session works, its calls bring errors back, and demo_fail() says them once. */
static void log_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    const atomic_bool *settled = arg;
    if (level != WRING_LOG_ERROR || !atomic_load(settled))
        fprintf(stderr, "wring: %s: %s\n", module, text);
}

struct wring_session *demo_session_open(const char *provider, const char *link,
                                        atomic_bool *settled)
{
    char provider_text[64], fault_text[64];
    const char *settings[4] = {provider_text, "WRING_BYPASS=never", NULL, NULL};
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_session *session = NULL;

    snprintf(provider_text, sizeof(provider_text), "WRING_PROVIDER=%s", provider);
    if (link != NULL) {
        snprintf(fault_text, sizeof(fault_text), "WRING_FAULT=rate=%s", link);
        settings[2] = fault_text;
    }
    params.settings = settings;
    params.log = log_line;
    params.log_arg = settled;
    enum wring_status status = wring_session_open(&params, &session);
    if (status != WRING_OK)
        fprintf(stderr, "wring demo: no session over %s: %s\n", provider,
                wring_status_text(status));
    return session;
}
