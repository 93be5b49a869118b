/* SPDX-License-Identifier: Apache-2.0 */
/** The options that the planner's commands share. */
#include <string.h>

#include "tools/plan/planning.h"
#include "tools/plan/settings_options.h"
#include "tools/values.h"

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
    {"codec", 'c', "LIST", 0, "codecs that may be taken, besides none and fp16", 1},
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
     "what no plan may use, to see what it is worth: hierarchy, division (of the exchange between "
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
     "exchange needs, too: what that costs, calibrated profiles know",
     1},
    {"memory", OPTION_MEMORY, "HOW", 0,
     "together, as where gradients that are merged lie one after another (default), or apart: they "
     "are copied into one place and their sums back, which a calibrated profile knows",
     1},
    {"search", OPTION_SEARCH, "HOW", 0,
     "best (default), espresso, mergecomp, or layers: every tensor by itself, all in one way", 1},
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
}

static void parse_where(struct wring_planning *planning, char *arg, struct argp_state *state)
{
    static const char *const places[] = {"device", "cpu", "node", NULL};
    char *words[WRING_PLACES];
    size_t n = wring_value_option_list("--where", arg, words, WRING_PLACES, state);

    if (n == 0 || n > WRING_PLACES)
        argp_error(state, "--where needs some of device,cpu,node");
    for (size_t i = 0; i < n && n <= WRING_PLACES; i++) {
        int place = find_word(places, words[i]);
        if (place < 0)
            argp_error(state, "--where needs some of device,cpu,node, not '%s'", words[i]);
        else
            planning->places |= 1u << place;
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

static error_t parse(int key, char *arg, struct argp_state *state)
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
        wring_settings_parse_cores(&planning->settings, arg, state);
        return 0;
    case OPTION_CHUNKS:
        wring_settings_parse_chunks(&planning->settings, arg, state);
        return 0;
    case OPTION_SEARCH:
        parse_search(planning, arg, state);
        return 0;
    case OPTION_BUDGET:
        parse_budget(planning, arg, state);
        return 0;
    case ARGP_KEY_END:
        if (planning->only && planning->n_codecs == 0)
            argp_error(state, "--only needs --codec");
        if (planning->only && planning->search == WRING_SEARCH_ESPRESSO)
            argp_error(state, "--only does not go with --search espresso, which starts with none");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp wring_planning_argp = {.options = options, .parser = parse};
