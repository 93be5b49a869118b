/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs the demo consists of, and what is made of their results. */
#include "tools/demo/demo.h"

#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/parse.h"
#include "tools/bench/bench.h"
#include "tools/commands.h"
#include "tools/demo/corpus.h"
#include "tools/demo/curve.h"
#include "tools/demo/model.h"
#include "tools/demo/train.h"
#include "tools/launch/launch.h"
#include "tools/values.h"
#include "transport/providers/fault/fault.h"

#define HASH_STEP 20 /* up to which the runs with and without the link must agree */
#define WARM_STEPS 20
#define TURNS 5 /* of timing, in which all take turns: a busy machine then hits all alike */

const struct demo_config demo_configs[DEMO_CONFIGS] = {
    {"fp32", "fp32, uncompressed", "none", WRING_SCHEME_DIVISIBLE,
     "the honest baseline: nothing lost"},
    {"bf16", "bf16", "bf16", WRING_SCHEME_DIVISIBLE, "what most jobs would use anyway"},
    {"int8", "int8, block of 512", "int8", WRING_SCHEME_DIVISIBLE, "a quarter of the bytes"},
    {"onebit+ef", "one bit + error feedback", "onebit:block=128+ef", WRING_SCHEME_INDIVISIBLE,
     "sign and mean; what is left out is sent later"},
    {"topk+ef", "top 1 % + error feedback", "topk:ratio=0.01+ef", WRING_SCHEME_INDIVISIBLE,
     "the largest hundredth; the rest is sent later"},
    {"onebit", "one bit, no error feedback", "onebit:block=128", WRING_SCHEME_INDIVISIBLE,
     "negative control: as fast, and wrong"},
};

static const struct demo_config *demo_config_find(const char *name)
{
    for (int i = 0; i < DEMO_CONFIGS; i++)
        if (strcmp(demo_configs[i].name, name) == 0)
            return &demo_configs[i];
    return NULL;
}

const struct demo_measure *demo_measure_find(const struct demo_results *results, const char *name)
{
    for (uint32_t i = 0; i < results->n; i++)
        if (strcmp(results->measures[i].config->name, name) == 0)
            return &results->measures[i];
    return NULL;
}

static bool is_wanted(const struct demo_options *options, const char *name)
{
    struct wring_list_item item;
    if (options->only == NULL)
        return true;
    for (const char *rest = options->only; wring_list_next(&rest, &item);)
        if (wring_list_item_is(&item, name))
            return true;
    return false;
}

struct show {
    bool terminal;
    char what[64];
};

static void show_progress(void *arg, uint32_t step, uint32_t steps)
{
    const struct show *show = arg;
    if (show->terminal && (step % 10 == 0 || step == steps))
        fprintf(stderr, "\r\033[K%s: step %u of %u", show->what, step, steps);
    if (show->terminal && step == steps)
        fprintf(stderr, "\r\033[K");
}

/** Mean over all ranks of some numbers, and whether all of them have the same hash. */
static enum wring_status combine_results(struct wring_session *session,
                                         struct demo_run_result *result, uint64_t hash, bool *same)
{
    float numbers[4] = {(float)result->step_us, (float)result->wire_bytes, (float)result->cpu_per_s,
                        0};
    uint64_t root_hash = hash;
    struct wring_group *world = wring_session_world(session);
    enum wring_status status = wring_broadcast(world, &root_hash, sizeof(root_hash), 0, NULL, NULL);
    numbers[3] = root_hash != hash;
    if (status == WRING_OK)
        status = wring_allreduce(world, numbers, numbers, 4, WRING_F32, WRING_AVG, NULL, NULL);
    result->step_us = numbers[0];
    result->wire_bytes = numbers[1];
    result->cpu_per_s = numbers[2];
    *same &= numbers[3] == 0;
    return status;
}

struct measuring {
    const struct demo_options *options;
    const struct demo_corpus *corpus;
    struct wring_session *control; /* the ranks agree over it between runs */
    atomic_bool settled;           /* it is open */
    uint32_t rank, ranks;
    struct show show;
};

static int run_training(struct measuring *m, const struct demo_config *config, const char *link,
                        uint32_t steps, bool evaluate, bool *same, struct demo_recording *recording,
                        struct demo_run_result *result)
{
    struct demo_run run = {
        .options = m->options,
        .corpus = m->corpus,
        .config = config,
        .link = link,
        .control = m->control,
        .rank = m->rank,
        .ranks = m->ranks,
        .steps = steps,
        .evaluate = evaluate,
        .hash_step = config != NULL ? HASH_STEP : 0,
        .warm_steps = WARM_STEPS,
        .recording = recording,
        .progress = show_progress,
        .progress_arg = &m->show,
    };
    snprintf(m->show.what, sizeof(m->show.what), "%s, %s",
             config != NULL ? config->name : "compute",
             evaluate       ? "loss"
             : link != NULL ? link
                            : "alone");
    enum wring_status status = wring_barrier(wring_session_world(m->control), NULL, NULL);
    if (status == WRING_OK && demo_train(&run, result) != 0)
        return 1;
    if (status == WRING_OK)
        status = combine_results(m->control, result, result->hash, same);
    return status == WRING_OK ? 0 : demo_fail(m->control, m->rank, "between runs", status);
}

/** @param recording  to be filled; NULL: none */
static int measure_losses(struct measuring *m, const struct demo_config *config,
                          struct demo_recording *recording, struct demo_measure *out,
                          uint64_t *hash)
{
    struct demo_run_result loss;
    *out = (struct demo_measure){.config = config, .same_bits = true, .time_to_target_s = NAN};
    if (run_training(m, config, NULL, m->options->steps, true, &out->same_bits, recording, &loss) !=
        0)
        return 1;
    memcpy(out->losses, loss.losses, sizeof(out->losses));
    *hash = loss.hash;
    return 0;
}

static int by_step_us(const void *a, const void *b)
{
    const struct demo_run_result *x = a, *y = b;
    return (x->step_us > y->step_us) - (x->step_us < y->step_us);
}

/** The turn of median step time speaks for all. */
static const struct demo_run_result *median_turn(struct demo_run_result *turns)
{
    qsort(turns, TURNS, sizeof(*turns), by_step_us);
    return &turns[TURNS / 2];
}

/** Compute alone, then every configuration on the link, and that TURNS times. */
static int measure_times(struct measuring *m, struct demo_results *out, const uint64_t *hashes)
{
    struct demo_run_result compute[TURNS], link[DEMO_CONFIGS][TURNS];
    uint32_t steps = WARM_STEPS + (m->options->timed_steps + TURNS - 1) / TURNS;
    bool same = true;
    if (steps < HASH_STEP)
        steps = HASH_STEP;
    for (uint32_t r = 0; r < TURNS; r++) {
        if (run_training(m, NULL, NULL, 3 * steps, false, &same, NULL, &compute[r]) != 0)
            return 1;
        for (uint32_t i = 0; i < out->n; i++) {
            struct demo_measure *measure = &out->measures[i];
            if (run_training(m, measure->config, m->options->link, steps, false,
                             &measure->same_bits, NULL, &link[i][r]) != 0)
                return 1;
            measure->same_bits &= link[i][r].hash == hashes[i];
        }
    }
    double compute_us = median_turn(compute)->step_us;
    out->times = median_turn(compute)->times;
    out->times_steps = median_turn(compute)->timed_steps;
    for (uint32_t i = 0; i < out->n; i++) {
        const struct demo_run_result *median = median_turn(link[i]);
        out->measures[i].compute_us = compute_us;
        out->measures[i].step_us = median->step_us;
        out->measures[i].wire_bytes = median->wire_bytes;
        out->measures[i].cores = median->cpu_per_s * m->ranks;
        out->measures[i].timeline = median->timeline;
    }
    return 0;
}

static void conclude_results(struct demo_results *results)
{
    uint32_t steps = results->options->steps;
    const struct demo_measure *bf16 = demo_measure_find(results, "bf16");
    results->target_loss = bf16 != NULL ? bf16->losses[DEMO_EVALS] : NAN;
    for (uint32_t i = 0; i < results->n; i++) {
        struct demo_measure *m = &results->measures[i];
        m->time_to_target_s =
            demo_curve_steps_to(m->losses, steps, results->target_loss) * m->step_us / 1e6;
        m->bf16_loss_then =
            bf16 != NULL ? demo_curve_at(bf16->losses, steps, steps * m->step_us / bf16->step_us)
                         : NAN;
    }
}

/** The first configuration's gradients are those that are recorded, in rank 0. */
static int measure_recorded(struct measuring *m, const struct demo_config *config,
                            struct demo_results *out, uint64_t *hash)
{
    struct demo_recording recording;

    if (m->rank != 0 || m->options->record_gradients[0] == '\0' || out->n > 0)
        return measure_losses(m, config, NULL, &out->measures[out->n], hash);
    if (demo_recording_init(&recording, out->elems, m->options->steps) != 0)
        return demo_fail(m->control, m->rank, "recorded gradients", WRING_ERR_NO_MEMORY);
    int failed = measure_losses(m, config, &recording, &out->measures[0], hash) != 0 ||
                 !demo_recording_write(&recording, m->options, config);
    demo_recording_finish(&recording);
    return failed;
}

static int measure_wanted(struct measuring *m, struct demo_results *out)
{
    uint64_t hashes[DEMO_CONFIGS];
    for (int i = 0; i < DEMO_CONFIGS; i++) {
        if (!is_wanted(m->options, demo_configs[i].name))
            continue;
        if (measure_recorded(m, &demo_configs[i], out, &hashes[out->n]) != 0)
            return 1;
        out->n++;
    }
    if (!m->options->losses_only && measure_times(m, out, hashes) != 0)
        return 1;
    conclude_results(out);
    return 0;
}

/** Run everything on this rank. Rank 0's results are complete. @return exit status */
static int demo_measure_all(const struct demo_options *options, struct demo_results *out)
{
    struct demo_corpus corpus;
    struct demo_model model;
    *out = (struct demo_results){.options = options};
    if (demo_corpus_load(options->texts, options->n_texts, options->seed, options->ranks,
                         &corpus) != 0)
        return 1;
    struct measuring m = {.options = options, .corpus = &corpus};
    m.control = demo_session_open("shm", NULL, &m.settled);
    int failed = m.control == NULL;
    if (!failed) {
        atomic_store(&m.settled, true);
        m.rank = wring_session_rank(m.control);
        m.ranks = wring_session_size(m.control);
        m.show.terminal = m.rank == 0 && isatty(STDERR_FILENO);
        out->text_files = corpus.files;
        out->dropped_files = corpus.dropped;
        out->text_bytes = corpus.train_bytes + corpus.held_out_bytes;
        out->held_out_bytes = corpus.held_out_bytes;
        if (demo_model_init(&model, options->blas, 1, options->hidden, 0) == 0) {
            for (int t = 0; t < DEMO_TENSORS; t++)
                out->parameters += out->elems[t] = model.elems[t];
            demo_model_finish(&model);
        }
        failed = measure_wanted(&m, out);
    }
    wring_session_close(m.control);
    demo_corpus_free(&corpus);
    return failed;
}

/* ---- demo ---- */

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

static error_t parse_option(int key, char *arg, struct argp_state *state)
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
    .parser = parse_option,
    .args_doc = "",
    .doc =
        "Train a small language model on this host over an emulated slow link, with and without "
        "codecs, and show what each gained and what it cost."
        "\v"
        "Several processes hold parts of the text and exchange every gradient, bucket by bucket, "
        "while backward still runs. The loss curves come from runs without the link: results are "
        "bit-identical with it, which is checked. Takes one to three minutes on two cores.",
};

/** Check the text here, so that its faults are printed once, not by every rank. */
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

static int show_results(const struct demo_results *results)
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
    return judge_results(results);
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
    return code == WRING_EXIT_OK && launched.rank == 0 ? show_results(&results) : code;
}

/* ---- demo session ---- */

/** Every other rank knows of a lost peer: one of them speaks for all. */
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
