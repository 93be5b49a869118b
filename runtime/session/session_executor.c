/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/session_executor.h"

#include <inttypes.h>
#include <stdio.h>

#include "offload/pool.h"

#define WRING_MODULE "session"

bool wring_executor_count_cores(const char *executor, uint32_t *out)
{
    char end;

    *out = strcmp(executor, "pool") == 0 || strcmp(executor, "pool:") == 0;
    if (strcmp(executor, "inline") == 0 || *out == 1)
        return true;
    return sscanf(executor, "pool:%" SCNu32 "%c", out, &end) == 1;
}

static enum wring_status create(const struct wring_session *session, const char *text,
                                struct wring_executor **out)
{
    if (strcmp(text, "inline") == 0)
        return wring_executor_inline_create(out);
    if (strncmp(text, "pool", 4) == 0 && (text[4] == '\0' || text[4] == ':')) {
        struct wring_pool_params params = {text[4] == ':' ? text + 5 : NULL, &session->log};
        return wring_executor_pool_create(&params, out);
    }
    wring_error(&session->log, "WRING_EXECUTOR=%s: needs inline, pool, pool:N or pool:cores=LIST",
                text);
    return WRING_ERR_INVALID;
}

enum wring_status wring_session_make_executor(struct wring_session *session)
{
    return create(session, session->config.executor, &session->executor);
}

enum wring_status wring_session_reserve(struct wring_session *session, uint64_t elems)
{
    if (elems > session->reserved_elems)
        session->reserved_elems = elems;
    return session->executor->ops->reserve(session->executor, elems);
}

uint64_t wring_session_executor_cpu_ns(struct wring_session *session)
{
    pthread_mutex_lock(&session->executor_mutex);
    uint64_t ns = session->executors_gone_ns + session->executor->ops->cpu_ns(session->executor);
    pthread_mutex_unlock(&session->executor_mutex);
    return ns;
}

/** The engine is locked and idle: the one that it had is gone. */
static void replace(struct wring_session *session, struct wring_executor *executor)
{
    struct wring_executor *before = session->executor;

    pthread_mutex_lock(&session->executor_mutex);
    session->executors_gone_ns += before->ops->cpu_ns(before);
    session->executor = executor;
    pthread_mutex_unlock(&session->executor_mutex);
    session->engine->executor = executor;
    before->ops->destroy(before);
}

/** @param executor  the new one; NULL: it stays */
static enum wring_status settle(struct wring_session *session, struct wring_executor *executor,
                                uint64_t chunk_bytes)
{
    if (!wring_engine_idle(session->engine) || session->engine->jobs_under_way > 0)
        return WRING_ERR_BUSY;
    if (executor != NULL)
        replace(session, executor);
    if (chunk_bytes != session->config.chunk_bytes) {
        session->config.chunk_bytes = chunk_bytes;
        wring_fabric_renew_windows(session->fabric);
    }
    return WRING_OK;
}

enum wring_status wring_session_settle(struct wring_session *session, const char *executor,
                                       uint64_t chunk_bytes)
{
    struct wring_executor *made = NULL;
    enum wring_status status = WRING_OK;

    if (strcmp(executor, session->config.executor) != 0) {
        status = create(session, executor, &made);
        if (status == WRING_OK)
            status = made->ops->reserve(made, session->reserved_elems);
    }
    if (status == WRING_OK) {
        wring_progress_lock(session->progress);
        status = settle(session, made, chunk_bytes);
        wring_progress_unlock(session->progress);
    }
    if (status != WRING_OK) {
        if (made != NULL)
            made->ops->destroy(made);
        return status;
    }
    if (made != NULL)
        snprintf(session->config.executor, sizeof(session->config.executor), "%s", executor);
    return WRING_OK;
}
