/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Exchanges with further settings. A setting is a session's, so that each is measured by ranks of
 * its own, one after the other; a profile holds them side by side.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/config.h"
#include "offload/cores.h"
#include "runtime/session/session_executor.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"
#include "tools/launch/launch.h"

uint32_t wring_calibrate_settings(const struct wring_calibrate_params *params)
{
    const struct wring_settings_wanted *settings = &params->settings;

    return (settings->n_cores > 0 ? settings->n_cores : 1) *
           (settings->n_chunks > 0 ? settings->n_chunks : 1);
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
    struct wring_launched launched;
    uint32_t n = 0;

    *texts = (struct wring_calibrate_setting_texts){.list = {NULL}};
    if (wring_config_load(&config, &log) != WRING_OK ||
        wring_command_launched(&config, &launched) != WRING_EXIT_OK)
        return WRING_EXIT_FAILURE; /* which was said */
    bool counted = wring_executor_count_cores(config.executor, &out->cores);
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
    return wanted->n_cores > 0 ? check_cores(params, out->cores, launched.rank == 0)
                               : WRING_EXIT_OK;
}
