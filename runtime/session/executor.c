/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/executor.h"

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

/** @param asked  who names it, for a log line: "WRING_EXECUTOR" */
static enum wring_status create_executor(const struct wring_session *session, const char *asked,
                                         const char *text, struct wring_executor **out)
{
    if (strcmp(text, "inline") == 0)
        return wring_executor_inline_create(out);
    if (strncmp(text, "pool", 4) == 0 && (text[4] == '\0' || text[4] == ':')) {
        struct wring_pool_params params = {text[4] == ':' ? text + 5 : NULL, &session->log};
        return wring_executor_pool_create(&params, out);
    }
    wring_error(&session->log, "%s=%s: needs inline, pool, pool:N or pool:cores=LIST", asked, text);
    return WRING_ERR_INVALID;
}

enum wring_status wring_session_make_executor(struct wring_session *session)
{
    return create_executor(session, "WRING_EXECUTOR", session->config.executor, &session->executor);
}

enum wring_status wring_session_reserve(struct wring_session *session, uint64_t elems)
{
    if (elems > session->reserved_elems)
        session->reserved_elems = elems;
    enum wring_status status = WRING_OK;
    for (uint32_t i = 0; i < session->engine->n_queues && status == WRING_OK; i++) {
        struct wring_executor *executor = session->engine->queues[i].executor;
        status = executor->ops->reserve(executor, elems);
    }
    return status;
}

/** The engine is not locked, and has room for it. */
static struct wring_executor_queue *add_queue(struct wring_session *session, const char *text,
                                              struct wring_executor *executor)
{
    struct wring_engine *engine = session->engine;

    wring_progress_lock(session->progress);
    pthread_mutex_lock(&session->executor_mutex);
    snprintf(session->queues[engine->n_queues], WRING_EXECUTOR_TEXT, "%s", text);
    struct wring_executor_queue *queue = wring_engine_add_executor(engine, executor);
    pthread_mutex_unlock(&session->executor_mutex);
    wring_progress_unlock(session->progress);
    return queue;
}

static enum wring_status make_queue(struct wring_session *session, const char *bucket,
                                    const char *text, struct wring_executor_queue **out)
{
    char asked[WRING_NAME_MAX + 32], name[WRING_TEXT_SHORT];
    struct wring_executor *executor = NULL;

    snprintf(asked, sizeof(asked), "bucket '%s': executor", wring_text_short(bucket, name));
    if (strlen(text) >= WRING_EXECUTOR_TEXT ||
        session->engine->n_queues == WRING_EXECUTOR_QUEUES_MAX) {
        wring_error(&session->log, "%s=%s: %s", asked, text,
                    strlen(text) >= WRING_EXECUTOR_TEXT
                        ? "its name is too long"
                        : "a session has at most 16 executors: let buckets share some");
        return WRING_ERR_INVALID;
    }
    enum wring_status status = create_executor(session, asked, text, &executor);
    if (status != WRING_OK)
        return status;
    status = executor->ops->reserve(executor, session->reserved_elems);
    if (status != WRING_OK) {
        executor->ops->destroy(executor);
        return status;
    }
    *out = add_queue(session, text, executor);
    return WRING_OK;
}

enum wring_status wring_session_find_queue(struct wring_session *session, const char *bucket,
                                           const char *text, struct wring_executor_queue **out)
{
    struct wring_engine *engine = session->engine;
    bool own = text == NULL || text[0] == '\0' ||
               (session->autotune == NULL && strcmp(text, session->config.executor) == 0);

    *out = &engine->queues[0];
    if (own)
        return WRING_OK;
    for (uint32_t i = 1; i < engine->n_queues; i++)
        if (strcmp(session->queues[i], text) == 0) {
            *out = &engine->queues[i];
            return WRING_OK;
        }
    return make_queue(session, bucket, text, out);
}

void wring_session_drop_queues(struct wring_session *session)
{
    for (uint32_t i = 1; session->engine != NULL && i < session->engine->n_queues; i++) {
        struct wring_executor *executor = session->engine->queues[i].executor;
        executor->ops->destroy(executor);
    }
}

uint64_t wring_session_executor_cpu_ns(struct wring_session *session)
{
    pthread_mutex_lock(&session->executor_mutex);
    uint64_t ns = session->executors_gone_ns;
    for (uint32_t i = 0; i < session->engine->n_queues; i++) {
        struct wring_executor *executor = session->engine->queues[i].executor;
        ns += executor->ops->cpu_ns(executor);
    }
    pthread_mutex_unlock(&session->executor_mutex);
    return ns;
}

/** The engine is locked and idle: the one that it had is gone. */
static void replace_executor(struct wring_session *session, struct wring_executor *executor)
{
    struct wring_executor *before = session->executor;

    pthread_mutex_lock(&session->executor_mutex);
    session->executors_gone_ns += before->ops->cpu_ns(before);
    session->executor = session->engine->queues[0].executor = executor;
    pthread_mutex_unlock(&session->executor_mutex);
    before->ops->destroy(before);
}

/** @param executor  the new one; NULL: it stays */
static enum wring_status apply_tuning(struct wring_session *session,
                                      struct wring_executor *executor, uint64_t chunk_bytes)
{
    if (!wring_engine_idle(session->engine) || session->engine->jobs_under_way > 0)
        return WRING_ERR_BUSY;
    if (executor != NULL)
        replace_executor(session, executor);
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
        status = create_executor(session, "WRING_EXECUTOR", executor, &made);
        if (status == WRING_OK)
            status = made->ops->reserve(made, session->reserved_elems);
    }
    if (status == WRING_OK) {
        wring_progress_lock(session->progress);
        status = apply_tuning(session, made, chunk_bytes);
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
