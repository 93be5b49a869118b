/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Exchanges with further settings. A setting is a session's, so that each is measured by ranks of
 * its own, one after the other; a profile holds them side by side. While one is measured the
 * others are set aside.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "offload/cores.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"

uint32_t wring_calibrate_settings(const struct wring_calibrate_params *params)
{
    const struct wring_settings_wanted *settings = &params->settings;

    return (settings->n_cores > 0 ? settings->n_cores : 1) *
           (settings->n_chunks > 0 ? settings->n_chunks : 1);
}

/** @return false: cores by their names, or nothing that a session would take */
static bool count_cores(const char *executor, uint32_t *out)
{
    char end;

    *out = strcmp(executor, "pool") == 0 || strcmp(executor, "pool:") == 0;
    if (strcmp(executor, "inline") == 0 || *out == 1)
        return true;
    return sscanf(executor, "pool:%" SCNu32 "%c", out, &end) == 1;
}

/** Rank 0 says it. */
static int check_cores(const struct wring_calibrate_params *params, uint32_t cores, bool says)
{
    struct wring_log log = {.level = WRING_LOG_WARN};
    uint32_t usable;

    if (wring_cores_usable(&log, &usable) != WRING_OK)
        return WRING_EXIT_FAILURE; /* which was said */
    if (cores <= usable)
        return WRING_EXIT_OK;
    if (!says)
        return WRING_EXIT_FAILURE;
    return wring_fail(params->name, "--cores %u: a rank may use %u here", cores, usable);
}

int wring_calibrate_set(const struct wring_calibrate_params *params,
                        struct wring_calibrate_setting_texts *texts, struct wring_setting *out)
{
    const struct wring_settings_wanted *wanted = &params->settings;
    struct wring_log log = {.level = WRING_LOG_WARN};
    struct wring_config config;
    uint32_t n = 0;

    *texts = (struct wring_calibrate_setting_texts){.list = {NULL}};
    if (wring_config_load(&config, &log) != WRING_OK)
        return WRING_EXIT_FAILURE; /* which was said */
    bool counted = count_cores(config.executor, &out->cores);
    out->chunk_bytes = config.chunk_bytes;
    if (wanted->n_chunks > 0) {
        out->chunk_bytes = wanted->chunk_bytes[params->part % wanted->n_chunks];
        snprintf(texts->chunk_bytes, sizeof(texts->chunk_bytes), "WRING_CHUNK_BYTES=%" PRIu64,
                 out->chunk_bytes);
        texts->list[n++] = texts->chunk_bytes;
    }
    if (wanted->n_cores > 0) {
        uint32_t every = wanted->n_chunks > 0 ? wanted->n_chunks : 1;
        counted = true;
        out->cores = wanted->cores[params->part / every];
        if (out->cores > 0)
            snprintf(texts->executor, sizeof(texts->executor), "WRING_EXECUTOR=pool:%" PRIu32,
                     out->cores);
        else
            snprintf(texts->executor, sizeof(texts->executor), "WRING_EXECUTOR=inline");
        texts->list[n++] = texts->executor;
    }
    if (!counted)
        *out = (struct wring_setting){0};
    return wanted->n_cores > 0 ? check_cores(params, out->cores, config.rank <= 0) : WRING_EXIT_OK;
}

/* ---- in the profile ---- */

static bool is_said(const struct wring_profile_way *way, const struct wring_setting *setting)
{
    return way->coder_cores == setting->cores && way->chunk_bytes == setting->chunk_bytes;
}

static bool are_alike(const struct wring_profile_way *a, const struct wring_profile_way *b)
{
    struct wring_setting x = wring_profile_way_setting(a), y = wring_profile_way_setting(b);

    return strcmp(a->codec, b->codec) == 0 && strcmp(a->run_as, b->run_as) == 0 &&
           a->ranks == b->ranks && a->cores == b->cores && x.cores == y.cores &&
           x.chunk_bytes == y.chunk_bytes;
}

enum wring_status wring_calibrate_set_aside(const struct wring_calibration *job,
                                            struct wring_profile *profile)
{
    struct wring_calibrate_aside *aside = job->aside;
    uint32_t left = 0;

    aside->ways = calloc((size_t)profile->n_ways + 1, sizeof(*aside->ways));
    if (aside->ways == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < profile->n_ways; i++)
        if (is_said(&profile->ways[i], &job->setting))
            profile->ways[left++] = profile->ways[i];
        else
            aside->ways[aside->n++] = profile->ways[i];
    profile->n_ways = left;
    return WRING_OK;
}

/** Those that nobody measured anew. @return how many */
static uint32_t list_others(const struct wring_calibrate_aside *aside,
                            const struct wring_profile *profile, struct wring_profile_way *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < aside->n; i++) {
        uint32_t same = 0;
        while (same < profile->n_ways && !are_alike(&profile->ways[same], &aside->ways[i]))
            same++;
        if (same == profile->n_ways)
            out[n++] = aside->ways[i];
    }
    return n;
}

static bool is_default(const struct wring_setting *setting)
{
    return setting->cores == 0 &&
           (setting->chunk_bytes == 0 || setting->chunk_bytes == WRING_SETTING_CHUNK_BYTES);
}

enum wring_status wring_calibrate_bring_back(const struct wring_calibration *job,
                                             struct wring_profile *profile)
{
    struct wring_calibrate_aside *aside = job->aside;
    uint32_t n = profile->n_ways, others, begin;
    struct wring_profile_way *all = calloc((size_t)n + aside->n + 1, sizeof(*all));

    if (all == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        profile->ways[i].coder_cores = job->setting.cores;
        profile->ways[i].chunk_bytes = job->setting.chunk_bytes;
    }
    others = list_others(aside, profile, all);
    begin = is_default(&job->setting) ? 0 : others; /* the default's come first */
    memmove(all + (begin == 0 ? n : 0), all, others * sizeof(*all));
    if (n > 0)
        memcpy(all + begin, profile->ways, n * sizeof(*all));
    free(profile->ways);
    free(aside->ways);
    *aside = (struct wring_calibrate_aside){0};
    profile->ways = all;
    profile->n_ways = n + others;
    return WRING_OK;
}
