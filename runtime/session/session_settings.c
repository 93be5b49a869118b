/* SPDX-License-Identifier: Apache-2.0 */
/* What a session is told: the environment, then the settings, then the fields of params. */
#include "runtime/session/session.h"

#include <string.h>

#include "transport/bootstrap/job_key.h"
#include <wring/codec.h>

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

/** A field of params counts as its variable does. */
static enum wring_status apply_field(struct wring_session *session, const char *variable,
                                     const char *value)
{
    if (value == NULL)
        return WRING_OK;
    return wring_config_set(&session->config, &session->log, variable, value);
}

static enum wring_status apply_params(struct wring_session *session,
                                      const struct wring_session_params *params)
{
    struct wring_config *config = &session->config;
    enum wring_status status = apply_field(session, "WRING_PROVIDER", params->provider);
    if (status == WRING_OK)
        status = apply_field(session, "WRING_ROOT", params->root);
    if (status == WRING_OK)
        status = wring_job_key_read(&session->log, params->key, config);
    if (params->root_fd > 0)
        config->root_fd = params->root_fd;
    if (params->size > 0) {
        config->rank = params->rank;
        config->size = params->size;
    }
    return status;
}

static enum wring_status check_codecs(const struct wring_session *session,
                                      const struct wring_session_params *params)
{
    char why[WRING_TEXT_MAX];
    enum wring_status status = wring_codec_check_own(params->codecs, why, sizeof(why));

    if (status != WRING_OK)
        wring_error(&session->log, "%s", why);
    return status;
}

enum wring_status wring_session_configure(struct wring_session *session,
                                          const struct wring_session_params *params)
{
    struct wring_config *config = &session->config;
    session->root_fd = params->root_fd > 0 ? params->root_fd : -1;
    enum wring_status status = wring_config_load(config, &session->log);
    if (status == WRING_OK)
        status = apply_settings(session, params);
    if (status != WRING_OK)
        return status;
    session->log.level = wring_config_log_level(config);
    status = check_codecs(session, params);
    if (status == WRING_OK)
        status = apply_params(session, params);
    if (status != WRING_OK)
        return status;
    if (params->bootstrap != NULL)
        session->launched = (struct wring_launched){
            .name = params->bootstrap->ops->name,
            .rank = params->bootstrap->rank,
            .size = params->bootstrap->size,
            .local_rank = -1,
            .local_size = -1,
        };
    else
        status = wring_launcher_find(config, &session->log, &session->launched);
    session->rank = session->launched.rank;
    session->size = session->launched.size;
    session->seed = params->seed;
    session->codecs = params->codecs;
    return status;
}
