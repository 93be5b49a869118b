/* SPDX-License-Identifier: Apache-2.0 */
/** wring simulate: the same model over many clusters, links and codecs. */
#include "tools/plan/sweep.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/output.h"
#include "tools/values.h"

static bool jitters(const struct wring_sweep *sweep)
{
    for (uint32_t i = 0; i < sweep->n_link_jitters; i++)
        if (sweep->link_jitter[i] > 0)
            return true;
    return false;
}

static void set_defaults(struct wring_simulate *command)
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
    sweep->iterations = sweep->jitter > 0 || jitters(sweep) ? 101 : 1;
    if (command->iterations > 0)
        sweep->iterations = command->iterations;
}

/** Only links whose speed is known can be made faster or slower. @return false, said: they are not
 */
static bool check_links(const struct wring_simulate *command)
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

static bool keep(void *arg, const struct wring_point *point)
{
    struct wring_simulate *command = arg;

    command->points[command->n++] = *point;
    if (command->progress)
        fprintf(stderr, "\r%zu of %zu\033[K", command->n, command->capacity);
    return true;
}

/** What goes into a file. */
struct giving {
    const struct wring_simulate *command;
    wring_give_fn give; /* of plan/sweep.h */
};

static bool give_points(FILE *file, void *arg)
{
    const struct giving *giving = arg;
    const struct wring_simulate *command = giving->command;
    return giving->give(&command->sweep, command->points, command->n, file) == WRING_OK;
}

/** @return exit status, said */
static int write_file(const struct wring_simulate *command, const char *path, wring_give_fn give)
{
    struct giving giving = {command, give};
    return wring_output_file(command->sweep.planning.log.arg, path, give_points, &giving);
}

static int give(const struct wring_simulate *command)
{
    int exit = WRING_EXIT_OK;

    if (command->csv != NULL)
        exit = write_file(command, command->csv, wring_sweep_write_csv);
    if (exit == WRING_EXIT_OK && command->svg != NULL)
        exit = write_file(command, command->svg, wring_sweep_write_svg);
    if (exit != WRING_EXIT_OK)
        return exit;
    wring_give_fn show = command->json ? wring_sweep_write_json : wring_sweep_show;
    if (show(&command->sweep, command->points, command->n, stdout) != WRING_OK)
        return wring_output_failed();
    return WRING_EXIT_OK;
}

static int run(struct wring_simulate *command)
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
    enum wring_status status = wring_sweep_run(&command->sweep, keep, command);
    if (command->progress)
        fprintf(stderr, "\r\033[K");
    if (status == WRING_ERR_NO_MEMORY)
        return wring_fail(name, "%s", wring_status_text(status));
    return status == WRING_OK ? give(command) : WRING_EXIT_FAILURE;
}

int wring_cmd_simulate(int argc, char **argv)
{
    struct wring_simulate command = {.sweep = {.planning = WRING_PLANNING_INIT,
                                               .oversubscription = 1,
                                               .straggler = 1,
                                               .link_straggler = 1,
                                               .seed = 1},
                                     .progress = isatty(STDERR_FILENO)};

    command.sweep.planning.log = wring_planning_log(argv[0]);
    error_t error = argp_parse(&wring_simulate_argp, argc, argv, 0, NULL, &command);
    if (error != 0)
        return wring_fail(argv[0], "%s", strerror(error));
    int exit = run(&command);
    free(command.points);
    wring_planning_finish(&command.sweep.planning);
    return exit;
}

/* ---- simulate options ---- */

/* The options of wring simulate. */

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
     "steps between two exchanges, which run beside the next ones (default 1: each is exchanged)",
     0},
    {"rack", OPTION_RACK, "NODES", 0, "nodes of a rack (default: one network for all)", 0},
    {"oversubscription", OPTION_OVERSUBSCRIPTION, "X", 0,
     "of what leaves a rack (default 1: as fast as inside)", 0},
    {"jitter", OPTION_JITTER, "SIGMA", 0,
     "each node's computing takes exp(SIGMA * normal) times as long, anew each iteration", 0},
    {"straggler", OPTION_STRAGGLER, "X", 0, "one node computes X times as long", 0},
    {"link-jitter", OPTION_LINK_JITTER, "LIST", 0,
     "each link takes exp(SIGMA * normal) times as long, anew in each exchange, for each SIGMA of "
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

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct wring_simulate *command = state->input;
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

const struct argp wring_simulate_argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .doc =
        "Plan a model's exchange for many clusters, and say how it scales."
        "\v"
        "Each point has a plan of its own. The scaling factor is a rank's training speed against "
        "that of one rank alone, forward included; speed-ups are of training, too, against "
        "float32 and against fp16, each in the best groups. Where the trace does not say how "
        "long forward takes, half of backward is assumed, and said. With jitter or a straggler "
        "all wait for the slowest node, an exchange waits for its slowest link, and times are "
        "medians of iterations drawn by --seed. Plans are made for nodes and links as usual. "
        "What every node exchanges with all others leaves its rack for the larger part: the "
        "link between nodes counts as that much slower.",
};
