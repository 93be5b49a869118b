/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a calibration share: the profile that they fill, words between its ranks, and
 * what samples are worth. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/core/fit.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"
#include "tools/output.h"

static void say_log_line(void *arg, enum wring_log_level level, const char *module,
                         const char *text)
{
    (void)level;
    (void)module;
    wring_fail(arg, "%s", text);
}

static struct wring_profile *create_profile(const struct wring_calibration *job)
{
    struct wring_profile *profile = calloc(1, sizeof(*profile));

    if (profile == NULL)
        return NULL;
    snprintf(profile->name, sizeof(profile->name), "%.63s", job->params->profile_name);
    snprintf(profile->machine, sizeof(profile->machine), "%s", job->machine.text);
    snprintf(profile->source, sizeof(profile->source), "wring calibrate");
    profile->nodes = job->machine.nodes;
    profile->ranks_per_node = job->machine.ranks_per_node;
    profile->chunked = true;
    return profile;
}

static void add_codec(struct wring_collective_bench_codecs *codecs, const char *spec)
{
    snprintf(codecs->specs[codecs->n++], WRING_CODEC_SPEC_MAX, "%s", spec);
}

static void add_coded(struct wring_calibrate_coded *codecs, const char *spec)
{
    snprintf(codecs->specs[codecs->n++], WRING_CODEC_SPEC_MAX, "%s", spec);
}

/** Codecs that nobody measured by themselves, or that are to be measured again. What coding takes
 *  does not depend on a tuning. */
static void find_coded(const struct wring_calibration *job, const struct wring_profile *profile,
                       struct wring_calibrate_coded *out)
{
    const struct wring_calibrate_params *params = job->params;
    uint32_t again = params->part == 0 ? params->coded_again : 0;

    for (uint32_t i = 0; i < params->coded.n; i++)
        if (i < again || !wring_collective_profile_has_coding(profile, params->coded.specs[i]))
            add_coded(out, params->coded.specs[i]);
}

/** All of each link: puts, and every step by itself. */
static bool has_links(const struct wring_calibration *job, const struct wring_profile *profile)
{
    for (int level = 0; level < WRING_LEVELS; level++) {
        const struct wring_profile_link *link = &profile->links[level];
        if (job->level_ranks[level] > 1 && (!link->present || link->put.latency.us.n == 0 ||
                                            link->n_routines < WRING_CALIBRATE_ROUTINES))
            return false;
    }
    return true;
}

/** With a codec, too, where there is one. */
static bool has_computing(const struct wring_calibration *job, const struct wring_profile *profile)
{
    bool any = false;

    for (size_t i = 0; i < job->params->n_codecs; i++)
        any |= strcmp(job->params->codecs[i], "none") != 0;
    return profile->computing.present && (!any || profile->computing.spin_codec[0] != '\0');
}

static void find_wants(const struct wring_calibration *job, const struct wring_profile *profile,
                       struct wring_calibrate_wants *wants)
{
    wants->links = !has_links(job, profile);
    wants->copies = profile->copy_us.n == 0;
    wants->computing = !has_computing(job, profile);
    wants->waking = !profile->computing.present;
    for (size_t i = 0; i < job->params->n_codecs; i++)
        if (job->params->codecs_given ||
            wring_collective_profile_lacks(profile, job->params->codecs[i], job->ranks, true))
            add_codec(&wants->codecs, job->params->codecs[i]);
    find_coded(job, profile, &wants->coded);
}

/** The file's profile, if it was measured here. NULL: said */
static struct wring_profile *read_file(const struct wring_calibration *job)
{
    struct wring_log log = {say_log_line, (char *)(uintptr_t)job->params->name, WRING_LOG_WARN};
    struct wring_profile *profile = NULL;

    if (wring_profile_load(job->params->into, &log, &profile) != WRING_OK)
        return NULL;
    if (strcmp(profile->machine, job->machine.text) == 0)
        return profile;
    wring_fail(job->params->name,
               "%s was measured on \"%s\", and this is \"%s\": --fresh replaces it",
               job->params->into, profile->machine, job->machine.text);
    wring_profile_destroy(profile);
    return NULL;
}

struct wring_profile *wring_calibrate_open(const struct wring_calibration *job,
                                           struct wring_calibrate_wants *wants)
{
    const char *into = job->params->into;
    bool old =
        into != NULL && !job->params->fresh && (job->params->must_exist || access(into, F_OK) == 0);
    struct wring_profile *profile = old ? read_file(job) : create_profile(job);

    *wants = (struct wring_calibrate_wants){.code = WRING_EXIT_OK};
    if (profile != NULL && wring_profile_set_aside(profile, &job->tuning, job->aside) != WRING_OK) {
        wring_fail(job->params->name, "out of memory");
        wring_profile_destroy(profile);
        profile = NULL;
        old = true; /* that was said */
    }
    if (profile != NULL)
        find_wants(job, profile, wants);
    else if (!old)
        wring_fail(job->params->name, "out of memory");
    if (profile == NULL)
        wants->code = WRING_EXIT_FAILURE;
    return profile;
}

static bool save_profile(FILE *file, void *arg)
{
    return wring_profile_save(arg, file) == WRING_OK;
}

int wring_calibrate_write(const struct wring_calibrate_params *params,
                          const struct wring_profile *profile)
{
    return wring_output_file(params->name, params->into, save_profile, (void *)(uintptr_t)profile);
}

/* ---- job ---- */

enum wring_status wring_calibration_slowest(struct wring_calibration *job, double *times,
                                            uint64_t n)
{
    return wring_allreduce(job->world, times, times, n, WRING_F64, WRING_MAX, NULL, NULL);
}

enum wring_status wring_calibration_agree(struct wring_calibration *job, bool *more)
{
    uint64_t word = *more;
    enum wring_status status = wring_broadcast(job->world, &word, sizeof(word), 0, NULL, NULL);

    *more = word != 0;
    return status;
}

void wring_calibration_tell(const struct wring_calibration *job, const char *format, ...)
{
    va_list args;

    if (job->rank != 0 || !isatty(STDERR_FILENO))
        return;
    fputc('\r', stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("\033[K", stderr);
}

void wring_calibrate_count(struct wring_fit_point *point,
                           struct wring_collective_bench_noise *noise)
{
    noise->points++;
    noise->shaky += wring_fit_look(point).doubt > WRING_PROFILE_NOISE;
}

bool wring_calibrate_is_in_doubt(double *samples, uint32_t n)
{
    struct wring_fit_point point = {0, samples, n};

    return wring_fit_look(&point).doubt > WRING_PROFILE_NOISE;
}
