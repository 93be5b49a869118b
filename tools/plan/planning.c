/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/planning.h"

#include <math.h>
#include <sched.h>
#include <string.h>

#include "base/config.h"
#include "compress/codec.h"
#include "planner/core/files/machine.h"
#include "planner/core/files/tensor_trace.h"
#include "tools/commands.h"
#include "tools/values.h"

#define WRING_MODULE "plan"

enum wring_status wring_planning_load_trace(struct wring_planning *planning)
{
    struct wring_config config;
    char path[4096];
    enum wring_status status = wring_config_load(&config, &planning->log);

    if (status == WRING_OK)
        status = wring_tensor_trace_find(planning->trace_path, config.traces, &planning->log, path,
                                         sizeof(path));
    if (status != WRING_OK)
        return status;
    status = wring_tensor_trace_load(path, &planning->log, &planning->trace);
    if (status != WRING_OK || planning->scale == 1)
        return status;
    return wring_tensor_trace_scale(planning->trace, planning->scale);
}

/** One may plan for another machine; one should know. */
static void warn_of_machine(const struct wring_planning *planning)
{
    struct wring_machine_params here = {.version = WRING_VERSION};
    char why[512];
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    sched_getaffinity(0, sizeof(cpus), &cpus);
    here.cores = (uint32_t)CPU_COUNT(&cpus);
    if (wring_machine_differs(planning->profile->machine, &here, why, sizeof(why)))
        wring_warn(&planning->log,
                   "the profile %s was measured on another machine than this one: %s; its jobs "
                   "run nowhere else",
                   planning->profile->name, why);
}

/** Why a session may refuse a plan with a codec. */
struct reserve {
    bool alters; /* training is another with it: a bucket that is registered otherwise may not have
                    it */
    bool keeps_state;
};

/** As the profile says, and the library: older files say nothing. */
static struct reserve find_reserve(const struct wring_profile *profile, const char *spec)
{
    struct reserve reserve = {false, false};
    struct wring_codec *codec;

    for (uint32_t i = 0; i < profile->n_codecs; i++)
        if (strcmp(profile->codecs[i].spec, spec) == 0)
            reserve.alters = profile->codecs[i].traits.alters;
    if (wring_codec_create(spec, NULL, NULL, NULL, 0, &codec) != WRING_OK)
        return reserve;
    reserve.alters = reserve.alters || wring_codec_alters(codec);
    reserve.keeps_state = wring_codec_info(codec)->states > 0;
    wring_codec_destroy(codec);
    return reserve;
}

/** May plans have it: somebody who may code has it, a budget knows its error, training is the same
 *  with it, and it keeps no state? */
static bool is_choice(const struct wring_planning *planning,
                      const struct wring_profile_codec *codec)
{
    uint32_t sites = planning->sites != 0 ? planning->sites : WRING_SITES_DEFAULT;
    bool coded = false;

    for (uint32_t site = 0; site < WRING_SITES; site++)
        coded = coded || (codec->at[site].present && sites >> site & 1);
    bool judged = planning->max_nmse <= 0 || !isnan(codec->nmse) ||
                  !isnan(wring_profile_error(planning->profile, codec->spec, NULL));
    const struct reserve reserve = find_reserve(planning->profile, codec->spec);
    return coded && judged && !reserve.alters && !reserve.keeps_state &&
           strstr(codec->spec, "=R") == NULL;
}

/** --codec all. */
static void list_all_codecs(struct wring_planning *planning)
{
    struct wring_profile *profile = planning->profile;

    for (uint32_t i = 0; i < profile->n_codecs; i++)
        if (is_choice(planning, &profile->codecs[i]))
            planning->codecs[planning->n_codecs++] = profile->codecs[i].spec;
    if (planning->max_nmse <= 0)
        wring_warn(&planning->log,
                   "--codec all without --max-nmse: a plan knows time and no accuracy, and takes "
                   "the codecs that lose most");
}

/** Plans may mix what is listed with none, or with each other. */
static void warn_of_altering(const struct wring_planning *planning)
{
    bool alone = planning->only && planning->n_codecs == 1;

    for (size_t i = 0; i < planning->n_codecs && !alone; i++)
        if (find_reserve(planning->profile, planning->codecs[i]).alters)
            wring_warn(&planning->log,
                       "%s changes training: a session refuses a plan that has it on some buckets; "
                       "alone, with --only, it is on all",
                       planning->codecs[i]);
}

enum wring_status wring_planning_load(struct wring_planning *planning)
{
    enum wring_status status = wring_planning_load_trace(planning);

    if (status != WRING_OK)
        return status;
    status = wring_profile_load(planning->profile_path, &planning->log, &planning->profile);
    if (status != WRING_OK)
        return status;
    warn_of_machine(planning);
    if (planning->all_codecs)
        list_all_codecs(planning);
    else
        warn_of_altering(planning);
    return WRING_OK;
}

static void say_log_line(void *arg, enum wring_log_level level, const char *module,
                         const char *text)
{
    (void)level;
    (void)module;
    wring_fail(arg, "%s", text);
}

struct wring_log wring_planning_log(char *name)
{
    return (struct wring_log){say_log_line, name, WRING_LOG_WARN};
}

void wring_planning_finish(struct wring_planning *planning)
{
    wring_tensor_trace_destroy(planning->trace);
    wring_profile_destroy(planning->profile);
    planning->trace = NULL;
    planning->profile = NULL;
}

enum wring_status wring_planning_said(const struct wring_planning *planning, const char *what,
                                      enum wring_status status)
{
    if (status != WRING_OK)
        wring_error(&planning->log, "%s: %s", what, wring_status_text(status));
    return status;
}

double wring_planning_link_gbit(const struct wring_profile *profile)
{
    const struct wring_profile_link *link = &profile->links[WRING_LEVEL_INTER];
    double us_per_byte = link->us.slope;

    if (!link->present)
        return NAN;
    return us_per_byte > 0 ? 8e-3 / us_per_byte : INFINITY;
}

bool wring_planning_lists(const struct wring_planning *planning, const char *spec)
{
    for (size_t i = 0; i < planning->n_codecs; i++)
        if (strcmp(planning->codecs[i], spec) == 0)
            return true;
    return false;
}

/** All tensors by themselves, with one option. */
void wring_planned_apart(uint32_t n_tensors, uint32_t option, struct wring_grouping *grouping)
{
    grouping->n = n_tensors;
    for (uint32_t i = 0; i < n_tensors; i++) {
        grouping->end[i] = i + 1;
        grouping->option[i] = option;
    }
}

/** One option, for tensors of each type of elements. */
struct option_of_types {
    uint32_t n;
    struct wring_option_cost costs[WRING_BF16 + 1];
    uint32_t whole[WRING_BF16 + 1]; /* their numbers in the model */
    uint64_t *allowed;              /* [tensors] */
};

/** Errors: WRING_ERR_NO_MEMORY. `allowed` is freed by the caller, whatever comes back. */
static enum wring_status take_option_of_types(const struct wring_cost_model *model, uint32_t option,
                                              struct option_of_types *out)
{
    *out = (struct option_of_types){.allowed =
                                        calloc(model->problem.n_tensors, sizeof(*out->allowed))};
    if (out->allowed == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < model->problem.n_tensors; i++) {
        uint32_t takes = wring_cost_model_option(model, i, option), at = 0;
        while (at < out->n && out->whole[at] != takes)
            at++;
        if (at == out->n) {
            out->costs[out->n] = model->problem.options[takes];
            out->whole[out->n++] = takes;
        }
        out->allowed[i] = UINT64_C(1) << at;
    }
    return WRING_OK;
}

/** Let the search merge, where all take one option. */
static enum wring_status merge_with_option(const struct wring_planning *planning,
                                           const struct wring_cost_model *model, uint32_t option,
                                           struct wring_found *found)
{
    struct wring_problem alone = model->problem;
    struct wring_search_params params = {.budget_ns = planning->budget_ns, .uncompressed = 0};
    struct option_of_types all;
    enum wring_status status = take_option_of_types(model, option, &all);

    if (status == WRING_OK) {
        alone.options = all.costs;
        alone.n_options = all.n;
        alone.allowed = all.n > 1 ? all.allowed : NULL;
        status = wring_search_run(&alone, &params, found);
    }
    for (uint32_t i = 0; status == WRING_OK && i < found->grouping.n; i++)
        found->grouping.option[i] = all.whole[found->grouping.option[i]];
    free(all.allowed);
    return status;
}

static enum wring_status baseline_init(const struct wring_planning *planning,
                                       const struct wring_cost_model *model, uint32_t option,
                                       struct wring_baseline *out)
{
    const struct wring_problem *problem = &model->problem;
    struct wring_baseline baseline;
    struct wring_found found;

    *out = (struct wring_baseline){.apart_us = NAN, .merged_us = NAN};
    if (option >= problem->n_options)
        return WRING_OK;
    enum wring_status status = wring_grouping_init(&baseline.grouping, problem->n_tensors);
    if (status != WRING_OK)
        return status;
    wring_planned_apart(problem->n_tensors, option, &baseline.grouping);
    for (uint32_t i = 0; i < problem->n_tensors; i++)
        baseline.grouping.option[i] = wring_cost_model_option(model, i, option);
    baseline.apart_us = wring_problem_time(problem, &baseline.grouping);
    status = merge_with_option(planning, model, option, &found);
    if (status != WRING_OK) {
        wring_grouping_finish(&baseline.grouping);
        return status;
    }
    baseline.merged_us = wring_problem_time(problem, &found.grouping);
    struct wring_grouping worse = found.grouping;
    if (baseline.merged_us < baseline.apart_us) {
        worse = baseline.grouping;
        baseline.grouping = found.grouping;
    }
    wring_grouping_finish(&worse);
    *out = baseline;
    return WRING_OK;
}

/** Espresso's answer; where it should be the better one, and any will do, it is the plan. */
static enum wring_status compare_espresso(const struct wring_planning *planning,
                                          struct wring_planned *planned)
{
    const struct wring_cost_model *model = planned->model;
    /* no budget: a comparison cut short would be none */
    struct wring_search_params params = {.method = WRING_SEARCH_ESPRESSO,
                                         .offload = model->offload,
                                         .on_device = model->on_device,
                                         .uncompressed = model->raw,
                                         .kinds = model->kinds,
                                         .alike = model->alike};
    struct wring_found found;

    enum wring_status status = wring_search_run(&model->problem, &params, &found);
    if (status != WRING_OK)
        return status;
    planned->espresso_us = found.time_us;
    struct wring_grouping worse = found.grouping;
    bool any = planning->search == WRING_SEARCH_BEST && !planning->layers && !planning->only;
    if (any && found.time_us < planned->found.time_us) {
        worse = planned->found.grouping;
        planned->found.grouping = found.grouping;
        planned->found.time_us = found.time_us;
    }
    wring_grouping_finish(&worse);
    return WRING_OK;
}

struct wring_cost_model_params wring_planning_model(const struct wring_planning *planning,
                                                    const struct wring_planned_want *want)
{
    return (struct wring_cost_model_params){
        .trace = planning->trace,
        .profile = planning->profile,
        .nodes = want->nodes != 0 ? want->nodes : planning->nodes,
        .ranks_per_node = planning->ranks_per_node,
        .timeline = planning->timeline,
        .codecs = (const char *const *)planning->codecs,
        .n_codecs = (uint32_t)planning->n_codecs,
        .sites = planning->sites,
        .runnable = planning->runnable,
        .flat = planning->flat,
        .indivisible = planning->indivisible,
        .apart = planning->apart,
        .computing = planning->computing,
        .scattered = planning->scattered,
        .max_nmse = planning->max_nmse,
        .link_scale = want->link_scale,
        .keep_dominated = planning->only, /* by another codec, that may be */
    };
}

static bool has_option(const struct wring_cost_model *model, const char *spec)
{
    for (uint32_t codec = 0; codec < model->n_codecs; codec++)
        if (model->n_allowed[codec] > 0 && strcmp(model->codecs[codec].spec, spec) == 0)
            return true;
    return false;
}

void wring_planning_say_lacking(const struct wring_planning *planning,
                                const struct wring_cost_model *model, bool *said)
{
    /* a budget alone is there to leave codecs out, and nobody named those of "all" */
    bool asked = planning->runnable && !planning->all_codecs;
    for (size_t i = 0; i < planning->n_codecs && asked; i++) {
        if (said[i] || has_option(model, planning->codecs[i]))
            continue;
        said[i] = true;
        wring_warn(
            &planning->log,
            "plans do without %s: it has no option that this build can run%s: codec, site or "
            "scheme is missing",
            planning->codecs[i], planning->max_nmse > 0 ? " within --max-nmse" : "");
    }
}

static enum wring_status compare_baselines(const struct wring_planning *planning,
                                           struct wring_planned *planned)
{
    const struct wring_cost_model *model = planned->model;

    for (uint32_t i = 0; i < model->problem.n_tensors; i++)
        planned->last_ready_us += model->problem.compute_us[i];
    enum wring_status status = baseline_init(planning, model, model->uncompressed, &planned->fp32);
    if (status != WRING_OK)
        return status;
    return baseline_init(planning, model, model->fp16, &planned->fp16);
}

enum wring_status wring_planned_init(const struct wring_planning *planning,
                                     const struct wring_planned_want *want,
                                     struct wring_planned *out)
{
    struct wring_planned planned = {.espresso_us = NAN, .bound.time_us = NAN};
    struct wring_cost_model_params params = wring_planning_model(planning, want);
    enum wring_status status = wring_planned_tunings(planning, want, &params, &planned);

    if (status == WRING_OK)
        status =
            wring_planning_said(planning, "the baselines", compare_baselines(planning, &planned));
    if (status == WRING_OK && want->espresso)
        status = wring_planning_said(planning, "Espresso's greedy",
                                     compare_espresso(planning, &planned));
    if (status != WRING_OK)
        goto finish;
    *out = planned;
    return WRING_OK;

finish:
    wring_planned_finish(&planned);
    return status;
}

void wring_planned_finish(struct wring_planned *planned)
{
    wring_grouping_finish(&planned->found.grouping);
    wring_grouping_finish(&planned->fp32.grouping);
    wring_grouping_finish(&planned->fp16.grouping);
    wring_cost_model_destroy(planned->model);
    *planned = (struct wring_planned){0};
}

/* ---- tunings options ---- */

void wring_tunings_parse_cores(struct wring_tunings_wanted *tunings, char *arg,
                               struct argp_state *state)
{
    char *words[WRING_TUNINGS_EACH_MAX];
    size_t n = wring_value_option_list("--cores", arg, words, WRING_TUNINGS_EACH_MAX, state);

    if (n == 0 || n > WRING_TUNINGS_EACH_MAX)
        argp_error(state, "--cores needs 1 to %d numbers", WRING_TUNINGS_EACH_MAX);
    for (size_t i = 0; i < n && n <= WRING_TUNINGS_EACH_MAX; i++)
        if (!wring_value_count(words[i], 0, WRING_TUNING_CORES_MAX, &tunings->cores[i]))
            argp_error(state, "--cores needs numbers from 0 to %d, not '%s'",
                       WRING_TUNING_CORES_MAX, words[i]);
    tunings->n_cores = (uint32_t)n;
}

void wring_tunings_parse_chunks(struct wring_tunings_wanted *tunings, char *arg,
                                struct argp_state *state)
{
    char *words[WRING_TUNINGS_EACH_MAX];
    size_t n = wring_value_option_list("--chunk-bytes", arg, words, WRING_TUNINGS_EACH_MAX, state);

    if (n == 0 || n > WRING_TUNINGS_EACH_MAX)
        argp_error(state, "--chunk-bytes needs 1 to %d sizes", WRING_TUNINGS_EACH_MAX);
    for (size_t i = 0; i < n && n <= WRING_TUNINGS_EACH_MAX; i++)
        if (!wring_value_bytes(words[i], &tunings->chunk_bytes[i]) ||
            tunings->chunk_bytes[i] < WRING_TUNING_CHUNK_BYTES_MIN ||
            tunings->chunk_bytes[i] > WRING_TUNING_CHUNK_BYTES_MAX)
            argp_error(state, "--chunk-bytes needs sizes from 4k to 64m, not '%s'", words[i]);
    tunings->n_chunks = (uint32_t)n;
}

/* ---- planning options ---- */

/* The options that the planner's commands share. */

enum {
    OPTION_MAX_NMSE = 0x200,
    OPTION_TIMELINE,
    OPTION_SEARCH,
    OPTION_BUDGET,
    OPTION_WHERE,
    OPTION_SCALE,
    OPTION_ONLY,
    OPTION_RUNNABLE,
    OPTION_COMPUTE,
    OPTION_CORES,
    OPTION_CHUNKS,
    OPTION_WITHOUT,
    OPTION_MEMORY,
};

static const struct argp_option options[] = {
    {"trace", 't', "T", 0, "the model: a wring-trace file, or the name of one that is shipped", 1},
    {"scale", OPTION_SCALE, "X", 0,
     "tensors and times are so much smaller, as in wring replay --scale (default 1)", 1},
    {"profile", 'p', "P", 0,
     "links and codecs: a wring-profile file, or one that is built in (default espresso-pcie)", 1},
    {"gpus-per-node", 'g', "G", 0, "ranks in each node (default: the profile's)", 1},
    {"codec", 'c', "LIST", 0,
     "codecs that may be taken, besides none and fp16; all: those that the profile knows, but for "
     "those that change what training does, as votes and momentum do, or that keep state",
     1},
    {"max-nmse", OPTION_MAX_NMSE, "X", 0,
     "no tensor takes a codec that loses a larger share of its gradient's power; 0: none that "
     "loses anything",
     1},
    {"where", OPTION_WHERE, "LIST", 0,
     "who may code: device,cpu,node (default: device and cpu; an offload node only where it is "
     "named, and no build runs it yet)",
     1},
    {"runnable", OPTION_RUNNABLE, NULL, 0, "only take options that this build can execute", 1},
    {"without", OPTION_WITHOUT, "LIST", 0,
     "what no plan may use, to see what it is worth: hierarchy, division (of the collective "
     "between "
     "nodes, or all ranks, into two steps), merging",
     1},
    {"timeline", OPTION_TIMELINE, "HOW", 0,
     "serial, phases or full (default: phases for built-in profiles, else full)", 1},
    {"cores", OPTION_CORES, "LIST", 0,
     "cores pinned for codecs in each rank, 0 for none, to choose among (default: all that a "
     "measured profile can tell)",
     1},
    {"chunk-bytes", OPTION_CHUNKS, "LIST", 0,
     "sizes of the pieces that travel, likewise; suffixes k and m", 1},
    {"compute", OPTION_COMPUTE, "HOW", 0,
     "sleep, as where a device computes (default), or spin, as where the processor does that the "
     "collective needs, too: what that costs, calibrated profiles know",
     1},
    {"memory", OPTION_MEMORY, "HOW", 0,
     "together, as where gradients that are merged lie one after another (default), or apart: they "
     "are copied into one place and their sums back, which a calibrated profile knows",
     1},
    {"search", OPTION_SEARCH, "HOW", 0,
     "best (default), espresso, mergecomp, or layers: every tensor by itself, all with one option",
     1},
    {"only", OPTION_ONLY, NULL, 0,
     "every tensor takes a codec of the list, also where none or fp16 would be better", 1},
    {"budget-ms", OPTION_BUDGET, "MS", 0,
     "end the search by then with the best so far; what is left goes to each codec alone", 1},
    {0},
};

/** The index of a word in a list that NULL ends; -1 for another word. */
static int find_word(const char *const *words, const char *word)
{
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

static void parse_codecs(struct wring_planning *planning, char *arg, struct argp_state *state)
{
    planning->n_codecs =
        wring_value_option_list("--codec", arg, planning->codecs, WRING_PLANNING_CODECS_MAX, state);
    if (planning->n_codecs > WRING_PLANNING_CODECS_MAX)
        argp_error(state, "--codec takes up to %d specs", WRING_PLANNING_CODECS_MAX);
    planning->all_codecs = planning->n_codecs == 1 && strcmp(planning->codecs[0], "all") == 0;
    if (planning->all_codecs)
        planning->n_codecs = 0; /* until there is a profile */
}

static void parse_where(struct wring_planning *planning, char *arg, struct argp_state *state)
{
    static const char *const sites[] = {"device", "cpu", "node", NULL};
    char *words[WRING_SITES];
    size_t n = wring_value_option_list("--where", arg, words, WRING_SITES, state);

    if (n == 0 || n > WRING_SITES)
        argp_error(state, "--where needs some of device,cpu,node");
    for (size_t i = 0; i < n && n <= WRING_SITES; i++) {
        int site = find_word(sites, words[i]);
        if (site < 0)
            argp_error(state, "--where needs some of device,cpu,node, not '%s'", words[i]);
        else
            planning->sites |= 1u << site;
    }
}

static void parse_without(struct wring_planning *planning, char *arg, struct argp_state *state)
{
    static const char *const words[] = {"hierarchy", "division", "merging", NULL};
    bool *const without[] = {&planning->flat, &planning->indivisible, &planning->apart};
    char *list[3];
    size_t n = wring_value_option_list("--without", arg, list, 3, state);

    if (n == 0 || n > 3)
        argp_error(state, "--without needs some of hierarchy,division,merging");
    for (size_t i = 0; i < n && n <= 3; i++) {
        int word = find_word(words, list[i]);
        if (word < 0)
            argp_error(state, "--without needs some of hierarchy,division,merging, not '%s'",
                       list[i]);
        else
            *without[word] = true;
    }
}

static void parse_timeline(struct wring_planning *planning, char *arg, struct argp_state *state)
{
    static const char *const words[] = {"auto", "serial", "phases", "full", NULL};
    int word = find_word(words, arg);

    if (word < 0)
        argp_error(state, "--timeline needs serial, phases or full");
    planning->timeline = (enum wring_timeline)word;
}

static void parse_compute(struct wring_planning *planning, char *arg, struct argp_state *state)
{
    static const char *const words[] = {"sleep", "spin", NULL};
    int word = find_word(words, arg);

    if (word < 0)
        argp_error(state, "--compute needs sleep or spin");
    planning->computing = (enum wring_computing)word;
}

static void parse_memory(struct wring_planning *planning, char *arg, struct argp_state *state)
{
    static const char *const words[] = {"together", "apart", NULL};
    int word = find_word(words, arg);

    if (word < 0)
        argp_error(state, "--memory needs together or apart");
    planning->scattered = word == 1;
}

static void parse_search(struct wring_planning *planning, char *arg, struct argp_state *state)
{
    static const char *const words[] = {"best", "espresso", "mergecomp", "layers", NULL};
    int word = find_word(words, arg);

    if (word < 0)
        argp_error(state, "--search needs best, espresso, mergecomp or layers");
    planning->layers = word == 3;
    planning->search = planning->layers ? WRING_SEARCH_BEST : (enum wring_search_method)word;
}

static void parse_budget(struct wring_planning *planning, const char *arg, struct argp_state *state)
{
    double ms;

    if (!wring_value_real(arg, 0.001, 3600e3, &ms))
        argp_error(state, "--budget-ms needs milliseconds from 0.001 to 3600000");
    planning->budget_ns = (uint64_t)(ms * 1e6);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct wring_planning *planning = state->input;

    switch (key) {
    case 't':
        planning->trace_path = arg;
        return 0;
    case 'p':
        planning->profile_path = arg;
        return 0;
    case 'g':
        if (!wring_value_count(arg, 1, 1024, &planning->ranks_per_node))
            argp_error(state, "--gpus-per-node needs a number from 1 to 1024");
        return 0;
    case 'c':
        parse_codecs(planning, arg, state);
        return 0;
    case OPTION_MAX_NMSE:
        if (!wring_value_real(arg, 0, 1e6, &planning->max_nmse))
            argp_error(state, "--max-nmse needs a number, such as 0.01; 0: nothing may be lost");
        if (planning->max_nmse < WRING_BUDGET_NOTHING)
            planning->max_nmse = WRING_BUDGET_NOTHING;
        return 0;
    case OPTION_RUNNABLE:
        planning->runnable = true;
        return 0;
    case OPTION_ONLY:
        planning->only = true;
        return 0;
    case OPTION_SCALE:
        if (!wring_value_real(arg, 1e-6, 1, &planning->scale))
            argp_error(state, "--scale needs a number from 0.000001 to 1, such as 0.125");
        return 0;
    case OPTION_WHERE:
        parse_where(planning, arg, state);
        return 0;
    case OPTION_WITHOUT:
        parse_without(planning, arg, state);
        return 0;
    case OPTION_TIMELINE:
        parse_timeline(planning, arg, state);
        return 0;
    case OPTION_COMPUTE:
        parse_compute(planning, arg, state);
        return 0;
    case OPTION_MEMORY:
        parse_memory(planning, arg, state);
        return 0;
    case OPTION_CORES:
        wring_tunings_parse_cores(&planning->tunings, arg, state);
        return 0;
    case OPTION_CHUNKS:
        wring_tunings_parse_chunks(&planning->tunings, arg, state);
        return 0;
    case OPTION_SEARCH:
        parse_search(planning, arg, state);
        return 0;
    case OPTION_BUDGET:
        parse_budget(planning, arg, state);
        return 0;
    case ARGP_KEY_END:
        if (planning->only && planning->n_codecs == 0 && !planning->all_codecs)
            argp_error(state, "--only needs --codec");
        if (planning->only && planning->search == WRING_SEARCH_ESPRESSO)
            argp_error(state, "--only does not go with --search espresso, which starts with none");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp wring_planning_argp = {.options = options, .parser = parse_option};
