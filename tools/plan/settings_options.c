/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/settings_options.h"

#include "tools/values.h"

void wring_settings_parse_cores(struct wring_settings_wanted *settings, char *arg,
                                struct argp_state *state)
{
    char *words[WRING_SETTINGS_EACH_MAX];
    size_t n = wring_value_option_list("--cores", arg, words, WRING_SETTINGS_EACH_MAX, state);

    if (n == 0 || n > WRING_SETTINGS_EACH_MAX)
        argp_error(state, "--cores needs 1 to %d numbers", WRING_SETTINGS_EACH_MAX);
    for (size_t i = 0; i < n && n <= WRING_SETTINGS_EACH_MAX; i++)
        if (!wring_value_count(words[i], 0, WRING_SETTING_CORES_MAX, &settings->cores[i]))
            argp_error(state, "--cores needs numbers from 0 to %d, not '%s'",
                       WRING_SETTING_CORES_MAX, words[i]);
    settings->n_cores = (uint32_t)n;
}

void wring_settings_parse_chunks(struct wring_settings_wanted *settings, char *arg,
                                 struct argp_state *state)
{
    char *words[WRING_SETTINGS_EACH_MAX];
    size_t n = wring_value_option_list("--chunk-bytes", arg, words, WRING_SETTINGS_EACH_MAX, state);

    if (n == 0 || n > WRING_SETTINGS_EACH_MAX)
        argp_error(state, "--chunk-bytes needs 1 to %d sizes", WRING_SETTINGS_EACH_MAX);
    for (size_t i = 0; i < n && n <= WRING_SETTINGS_EACH_MAX; i++)
        if (!wring_value_bytes(words[i], &settings->chunk_bytes[i]) ||
            settings->chunk_bytes[i] < WRING_SETTING_CHUNK_BYTES_MIN ||
            settings->chunk_bytes[i] > WRING_SETTING_CHUNK_BYTES_MAX)
            argp_error(state, "--chunk-bytes needs sizes from 4k to 64m, not '%s'", words[i]);
    settings->n_chunks = (uint32_t)n;
}
