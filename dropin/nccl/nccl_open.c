/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of CollNet are opened by threads of their own, since NCCL's must not wait. */
#include "dropin/nccl/nccl_own.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "transport/bootstrap/rendezvous.h"

/** What wring says of one session among many: we say what becomes of it, and quote the reason. */
static void log_and_keep_error(void *arg, enum wring_log_level level, const char *module,
                               const char *text)
{
    struct wring_nccl_opening *opening = arg;

    if (level == WRING_LOG_ERROR) {
        pthread_mutex_lock(&opening->why_mutex);
        snprintf(opening->why, sizeof(opening->why), "%s", text);
        pthread_mutex_unlock(&opening->why_mutex);
    }
    wring_nccl_say(level == WRING_LOG_DEBUG ? WRING_NCCL_LOG_TRACE : WRING_NCCL_LOG_INFO,
                   "wring: %s: %s: %s", opening->what, module, text);
}

void wring_nccl_why(struct wring_nccl_opening *opening, char *text, size_t bytes)
{
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;

    if (atomic_load(&opening->state) == WRING_NCCL_OPEN &&
        wring_session_error(opening->session, &detail) != WRING_OK) {
        snprintf(text, bytes, "%s", detail.text);
        return;
    }
    pthread_mutex_lock(&opening->why_mutex);
    snprintf(text, bytes, "%s", opening->why);
    pthread_mutex_unlock(&opening->why_mutex);
}

static bool is_cancelled(void *arg)
{
    return atomic_load(&((struct wring_nccl_opening *)arg)->cancelled);
}

static enum wring_status open_bootstrap(struct wring_nccl_opening *opening, uint64_t deadline_ns)
{
    struct wring_cancel cancel = {is_cancelled, opening};
    char job[32];

    if (opening->size == 1)
        return wring_bootstrap_local_create(1, &opening->bootstrap);
    snprintf(job, sizeof(job), "nccl %" PRIu64, opening->listen);
    struct wring_rendezvous_params params = {
        .log = &opening->log,
        .rank = opening->rank,
        .size = opening->size,
        .root = opening->root,
        .job = job,
        .root_fd = opening->root_fd,
        .key = opening->key,
        .deadline_ns = deadline_ns,
        .cancel = &cancel,
    };
    return wring_rendezvous_create(&params, &opening->bootstrap);
}

static enum wring_status open_session(struct wring_nccl_opening *opening)
{
    const struct wring_nccl_own *own = &wring_nccl_own;
    const char *settings[2 + 2 + 3 + 1] = {"WRING_PROGRESS=thread", "WRING_PLAN="};
    unsigned n = 2;
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;

    for (unsigned i = 0; i < own->n_settings; i++)
        settings[n++] = own->settings[i];
    for (unsigned i = 0; i < opening->device->n_settings; i++) /* they come after, and count */
        settings[n++] = opening->device->settings[i];
    uint64_t deadline_ns = wring_deadline_in(wring_nccl_own.config.join_timeout_ns);
    enum wring_status status = open_bootstrap(opening, deadline_ns);
    if (status != WRING_OK)
        return status;
    params.bootstrap = opening->bootstrap;
    params.key = opening->key;
    params.settings = settings;
    params.log = log_and_keep_error;
    params.log_arg = opening;
    status = wring_session_open(&params, &opening->session);
    if (status != WRING_OK)
        return status;
    opening->world = wring_session_world(opening->session);
    return WRING_OK;
}

static void *open_in_thread(void *arg)
{
    struct wring_nccl_opening *opening = arg;

    opening->status = open_session(opening);
    atomic_store(&opening->state,
                 opening->status == WRING_OK ? WRING_NCCL_OPEN : WRING_NCCL_FAILED);
    return NULL;
}

bool wring_nccl_opening_start(struct wring_nccl_opening *opening)
{
    opening->log = (struct wring_log){log_and_keep_error, opening, WRING_LOG_INFO};
    atomic_init(&opening->cancelled, false);
    atomic_init(&opening->state, WRING_NCCL_OPENING);
    pthread_mutex_init(&opening->why_mutex, NULL);
    int error = wring_thread_create(&opening->thread, open_in_thread, opening);
    if (error != 0) {
        wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: no thread to open %s: %s", opening->what,
                       strerror(error));
        pthread_mutex_destroy(&opening->why_mutex);
        return false;
    }
    opening->joinable = true;
    return true;
}

void wring_nccl_opening_finish(struct wring_nccl_opening *opening)
{
    if (!opening->joinable)
        return;
    atomic_store(&opening->cancelled, true);
    pthread_join(opening->thread, NULL);
    wring_session_close(opening->session);
    if (opening->bootstrap != NULL)
        opening->bootstrap->ops->close(opening->bootstrap);
    pthread_mutex_destroy(&opening->why_mutex);
    opening->joinable = false;
}
