/* SPDX-License-Identifier: Apache-2.0 */
/* What a session is told: the environment, then the settings, then the fields of params. */
#include "runtime/session/session.h"

#include <inttypes.h>
#include <stdio.h>

#define WRING_MODULE "session"

static enum wring_status apply_settings(struct wring_session *session,
                                        const struct wring_session_params *params)
{
    char name[64];
    for (const char *const *at = params->settings; at != NULL && *at != NULL; at++) {
        const char *equals = strchr(*at, '=');
        size_t length = equals != NULL ? (size_t)(equals - *at) : sizeof(name);
        if (length >= sizeof(name)) {
            wring_error(&session->log, "setting '%s': needs WRING_NAME=value", *at);
            return WRING_ERR_INVALID;
        }
        memcpy(name, *at, length);
        name[length] = '\0';
        enum wring_status status =
            wring_config_set(&session->config, &session->log, name, equals + 1);
        if (status != WRING_OK)
            return status;
    }
    return WRING_OK;
}

static void copy_text(char *to, const char *from)
{
    if (from != NULL)
        snprintf(to, WRING_CONFIG_TEXT, "%s", from);
}

static enum wring_status read_key_file(struct wring_session *session)
{
    struct wring_config *config = &session->config;
    if (config->key[0] != '\0' || config->key_file[0] == '\0')
        return WRING_OK;
    FILE *file = fopen(config->key_file, "re");
    if (file == NULL || fgets(config->key, sizeof(config->key), file) == NULL) {
        wring_error(&session->log, "WRING_KEY_FILE=%s: cannot be read or is empty",
                    config->key_file);
        if (file != NULL)
            fclose(file);
        return WRING_ERR_INVALID;
    }
    fclose(file);
    config->key[strcspn(config->key, "\r\n")] = '\0';
    return WRING_OK;
}

enum wring_status wring_session_configure(struct wring_session *session,
                                          const struct wring_session_params *params)
{
    struct wring_config *config = &session->config;
    enum wring_status status = wring_config_load(config, &session->log);
    if (status == WRING_OK)
        status = apply_settings(session, params);
    if (status != WRING_OK)
        return status;
    session->log.level = wring_config_log_level(config);
    copy_text(config->provider, params->provider);
    copy_text(config->root, params->root);
    copy_text(config->key, params->key);
    if (params->root_fd > 0)
        config->root_fd = params->root_fd;
    status = read_key_file(session);
    if (status != WRING_OK)
        return status;

    int64_t rank = params->size > 0 ? params->rank : config->rank;
    int64_t size = params->size > 0 ? params->size : config->size;
    if (params->bootstrap != NULL) {
        rank = params->bootstrap->rank;
        size = params->bootstrap->size;
    }
    if (rank < 0 && size < 0) { /* nobody launched us: a job of one */
        rank = 0;
        size = 1;
    }
    if (rank < 0 || size < 0) {
        wring_error(&session->log, "%s is set, %s is not: set both, or start with wring run",
                    rank < 0 ? "WRING_SIZE" : "WRING_RANK", rank < 0 ? "WRING_RANK" : "WRING_SIZE");
        return WRING_ERR_INVALID;
    }
    if (size < 1 || rank >= size) {
        wring_error(&session->log,
                    "rank %" PRId64 " of %" PRId64 ": ranks count from 0 to WRING_SIZE - 1", rank,
                    size);
        return WRING_ERR_INVALID;
    }
    session->rank = (uint32_t)rank;
    session->size = (uint32_t)size;
    session->seed = params->seed;
    return WRING_OK;
}
