/* SPDX-License-Identifier: Apache-2.0 */
/** wring simulate: the same model over many clusters, links and codecs. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/output.h"
#include "tools/plan/simulate.h"
#include "tools/plan/sweep_give.h"

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
    wring_give_fn give; /* of sweep_give.h */
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
