/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session.h"
#include "runtime/trace_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "offload/pool.h"
#include "transport/auth.h"
#include "transport/bootstrap/rendezvous.h"
#include "transport/ports.h"

#define WRING_MODULE "session"
#define JOB_BYTES 16

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

/** Environment, then settings, then the fields of params. */
static enum wring_status configure(struct wring_session *session,
                                   const struct wring_session_params *params)
{
    struct wring_config *config = &session->config;
    session->log = (struct wring_log){params->log, params->log_arg, WRING_LOG_WARN};
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
    if (rank < 0 || size < 1 || rank >= size) {
        wring_error(&session->log,
                    "rank %" PRId64 " of %" PRId64 ": set both WRING_RANK and "
                    "WRING_SIZE, or start with wring run",
                    rank, size);
        return WRING_ERR_INVALID;
    }
    session->rank = (uint32_t)rank;
    session->size = (uint32_t)size;
    session->seed = params->seed;
    return WRING_OK;
}

static enum wring_status meet(struct wring_session *session,
                              const struct wring_session_params *params)
{
    struct wring_config *config = &session->config;
    if (params->bootstrap != NULL) {
        session->bootstrap = params->bootstrap;
        return WRING_OK;
    }
    session->owns_bootstrap = true;
    if (session->size == 1)
        return wring_bootstrap_local_create(1, &session->bootstrap);
    if (config->root[0] == '\0' && !(session->rank == 0 && config->root_fd >= 0)) {
        wring_error(&session->log, "WRING_ROOT is not set: where do the ranks meet? Give "
                                   "host:port of rank 0, or start with wring run");
        return WRING_ERR_INVALID;
    }
    struct wring_ports ports;
    enum wring_status status = wring_ports_read(&session->log, config->ports, &ports);
    if (status != WRING_OK)
        return status;
    wring_ports_complete(&ports, config->root, sizeof(config->root));
    struct wring_rendezvous_params rendezvous = {
        .log = &session->log,
        .rank = session->rank,
        .size = session->size,
        .root = config->root,
        .root_fd = (int)config->root_fd,
        .key = config->key,
        .deadline_ns = wring_deadline_in(config->join_timeout_ns),
    };
    return wring_rendezvous_create(&rendezvous, &session->bootstrap);
}

/** Asked once there is somebody who drives the connections. */
static bool job_has_failed(void *arg)
{
    struct wring_session *session = arg;
    wring_progress_nudge(session->progress);
    return wring_fabric_failure(session->fabric, NULL) != WRING_OK;
}

/** The bootstrap says who is at fault: let the fabric tell everyone and the application so. */
static void adopt_failure(struct wring_session *session, enum wring_status status)
{
    int32_t rank = session->bootstrap->at_fault;
    if (session->progress != NULL)
        wring_progress_lock(session->progress);
    if (rank >= 0 && session->fabric != NULL && session->fabric->state == WRING_FABRIC_WORKING)
        wring_fabric_fail(session->fabric, status, rank,
                          "rank %" PRId32 " was lost while ranks opened, committed or made a group",
                          rank);
    if (session->progress != NULL)
        wring_progress_unlock(session->progress);
}

enum wring_status wring_session_exchange(struct wring_session *session, const void *blob,
                                         size_t bytes, struct wring_blobs *out)
{
    struct wring_cancel cancel = {job_has_failed, session};
    uint64_t deadline = wring_deadline_in(session->config.join_timeout_ns);
    enum wring_status status = session->bootstrap->ops->exchange(
        session->bootstrap, blob, bytes, deadline, session->progress != NULL ? &cancel : NULL, out);
    if (status == WRING_ERR_PEER)
        adopt_failure(session, status);
    return status == WRING_ERR_CLOSED ? WRING_ERR_PEER : status;
}

enum wring_status wring_session_exchange_writer(struct wring_session *session,
                                                struct wring_writer *writer,
                                                struct wring_blobs *out)
{
    enum wring_status status = WRING_ERR_NO_MEMORY;
    if (!writer->failed)
        status = wring_session_exchange(session, writer->data, writer->bytes, out);
    free(writer->data);
    *writer = (struct wring_writer){0};
    return status;
}

struct wring_reader wring_blobs_reader(const struct wring_blobs *blobs, uint32_t rank)
{
    return (struct wring_reader){blobs->storage + blobs->offsets[rank],
                                 blobs->offsets[rank + 1] - blobs->offsets[rank], false};
}

enum wring_status wring_session_agree(struct wring_session *session, enum wring_status status,
                                      const char *text)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;
    wring_write_u32(&writer, (uint32_t)status);
    wring_write_sized(&writer, text, strlen(text));
    enum wring_status exchanged = wring_session_exchange_writer(session, &writer, &blobs);
    if (exchanged != WRING_OK)
        return exchanged;

    enum wring_status result = WRING_OK;
    for (uint32_t i = 0; i < session->size && result == WRING_OK; i++) {
        char line[WRING_TEXT_MAX] = "";
        struct wring_reader reader = wring_blobs_reader(&blobs, i);
        uint32_t said = wring_read_u32(&reader);
        wring_read_text(&reader, line, sizeof(line));
        if (reader.failed || said > WRING_ERR_SYSTEM)
            said = WRING_ERR_FRAME;
        if (said != WRING_OK) {
            result = (enum wring_status)said;
            wring_error(&session->log, "%s", line[0] != '\0' ? line : wring_status_text(result));
        }
    }
    wring_blobs_finish(&blobs);
    return result;
}

/** Agree on the job's random name, and derive from it and the key what connections prove. */
static enum wring_status name_job(struct wring_session *session, uint8_t *job, uint8_t *secret)
{
    uint8_t own[JOB_BYTES + 1]; /* and whether this rank keeps a trace */
    struct wring_blobs blobs;
    if (getrandom(own, JOB_BYTES, 0) != JOB_BYTES)
        return WRING_ERR_SYSTEM;
    own[JOB_BYTES] = session->trace != NULL;
    enum wring_status status = wring_session_exchange(session, own, sizeof(own), &blobs);
    if (status != WRING_OK)
        return status;
    session->all_trace = true;
    for (uint32_t i = 0; i < session->size && status == WRING_OK; i++) {
        status =
            blobs.offsets[i + 1] - blobs.offsets[i] == sizeof(own) ? WRING_OK : WRING_ERR_FRAME;
        session->all_trace &=
            status == WRING_OK && blobs.storage[blobs.offsets[i] + JOB_BYTES] != 0;
    }
    if (status == WRING_OK)
        memcpy(job, blobs.storage, JOB_BYTES);
    wring_blobs_finish(&blobs);
    if (status != WRING_OK)
        return status;
    const char *key = session->config.key;
    return wring_secret_derive(key, strlen(key), "wring session", job, JOB_BYTES, secret);
}

static enum wring_status create_executor(struct wring_session *session)
{
    const char *text = session->config.executor;
    if (strcmp(text, "inline") == 0)
        return wring_executor_inline_create(&session->executor);
    if (strncmp(text, "pool", 4) == 0 && (text[4] == '\0' || text[4] == ':')) {
        struct wring_pool_params params = {text[4] == ':' ? text + 5 : NULL, &session->log};
        return wring_executor_pool_create(&params, &session->executor);
    }
    wring_error(&session->log, "WRING_EXECUTOR=%s: needs inline, pool, pool:N or pool:cores=LIST",
                text);
    return WRING_ERR_INVALID;
}

static enum wring_status connect_all(struct wring_session *session)
{
    struct wring_fabric_params params = {
        .config = &session->config,
        .log = &session->log,
        .rank = session->rank,
        .size = session->size,
        .provider = session->config.provider,
        .bind = session->config.bind,
        .handler = wring_engine_handler(session->engine),
    };
    enum wring_status status = name_job(session, params.job, params.secret);
    if (status != WRING_OK)
        return status;
    if (params.bind[0] == '\0' && session->config.key[0] != '\0')
        params.bind = session->bootstrap->ops->local_address(session->bootstrap);

    struct wring_writer description = {0};
    struct wring_blobs blobs;
    status = wring_fabric_create(&params, &session->fabric);
    session->engine->fabric = session->fabric;
    if (status == WRING_OK)
        wring_fabric_describe(session->fabric, &description);
    enum wring_status agreed = wring_session_agree(session, status, "");
    if (agreed != WRING_OK) {
        free(description.data);
        return status != WRING_OK ? status : agreed;
    }
    status = wring_session_exchange_writer(session, &description, &blobs);
    if (status != WRING_OK)
        return status;
    status = wring_fabric_connect(session->fabric, session->bootstrap, &blobs,
                                  wring_deadline_in(session->config.join_timeout_ns));
    wring_blobs_finish(&blobs);
    return status;
}

static enum wring_status make_world(struct wring_session *session)
{
    uint32_t *ranks = malloc(session->size * sizeof(*ranks));
    if (ranks == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < session->size; i++)
        ranks[i] = i;
    enum wring_status status = wring_group_make(session, ranks, session->size, &session->world);
    free(ranks);
    return status;
}

static enum wring_status open_session(struct wring_session *session,
                                      const struct wring_session_params *params)
{
    enum wring_status status = configure(session, params);
    if (status == WRING_OK)
        status = meet(session, params);
    if (status == WRING_OK)
        status = create_executor(session);
    if (status == WRING_OK)
        status = wring_engine_create(&session->config, &session->log, session->executor,
                                     &session->engine);
    if (status == WRING_OK)
        status = wring_session_trace_open(session);
    if (status == WRING_OK)
        status = connect_all(session);
    if (status == WRING_OK)
        status = make_world(session);
    if (status == WRING_OK)
        status =
            wring_progress_create(session->engine, strcmp(session->config.progress, "thread") == 0,
                                  session->config.spin_ns, &session->progress);
    if (status != WRING_OK)
        return status;
    wring_progress_lock(session->progress);
    session->engine->trace = session->trace;
    wring_progress_unlock(session->progress);
    return wring_session_trace_clocks(session);
}

/** A session that failed while it opened has nobody else to tell its peers why. */
static void tell_peers(struct wring_session *session)
{
    struct wring_fabric *fabric = session->fabric;
    while (fabric != NULL && fabric->state == WRING_FABRIC_FAILING) { /* half a second at most */
        struct wring_wait_set set = {.deadline_ns = wring_deadline_in(10 * WRING_NS_PER_MS)};
        if (wring_fabric_poll(fabric))
            continue;
        wring_fabric_arm(fabric, &set);
        wring_wait_set_sleep(&set);
    }
}

enum wring_status wring_session_open(const struct wring_session_params *params,
                                     struct wring_session **out)
{
    struct wring_session *session = calloc(1, sizeof(*session));
    if (session == NULL)
        return WRING_ERR_NO_MEMORY;
    pthread_mutex_init(&session->buffers_mutex, NULL);
    enum wring_status status = open_session(session, params);
    if (status != WRING_OK) {
        if (session->progress == NULL)
            tell_peers(session);
        wring_session_close(session);
        return status;
    }
    *out = session;
    return WRING_OK;
}

/** Nobody waits for the rest any more: end it, so that no job touches the application's memory. */
static void drop_work(struct wring_session *session)
{
    struct wring_engine *engine = session->engine;
    while (engine->jobs_under_way > 0)
        wring_engine_poll(engine);
    while (engine->active != NULL)
        wring_engine_finish(engine, engine->active, WRING_ERR_CLOSED);
}

static void free_buckets(struct wring_session *session)
{
    while (session->buckets != NULL) {
        struct wring_bucket *bucket = session->buckets;
        session->buckets = bucket->next;
        wring_bucket_free(bucket);
    }
}

void wring_session_close(struct wring_session *session)
{
    if (session == NULL)
        return;
    wring_progress_destroy(session->progress);
    if (session->progress != NULL) {
        drop_work(session);
        wring_fabric_leave(session->fabric);
    }
    if (session->fabric != NULL)
        wring_commit_undo(session);
    while (session->groups != NULL)
        wring_group_free(session->groups);
    wring_group_free(session->world);
    free_buckets(session);
    while (session->buffers != NULL) {
        struct wring_buffer *buffer = session->buffers;
        session->buffers = buffer->next;
        wring_block_finish(&buffer->block);
        free(buffer);
    }
    wring_session_trace_close(session);
    wring_fabric_destroy(session->fabric);
    wring_engine_destroy(session->engine);
    if (session->executor != NULL)
        session->executor->ops->destroy(session->executor);
    if (session->owns_bootstrap && session->bootstrap != NULL)
        session->bootstrap->ops->close(session->bootstrap);
    pthread_mutex_destroy(&session->buffers_mutex);
    free(session);
}

uint32_t wring_session_rank(const struct wring_session *session)
{
    return session->rank;
}

uint32_t wring_session_size(const struct wring_session *session)
{
    return session->size;
}

struct wring_group *wring_session_world(struct wring_session *session)
{
    return session->world;
}

enum wring_status wring_session_check(struct wring_session *session)
{
    return wring_fabric_failure(session->fabric, NULL);
}

enum wring_status wring_session_error(struct wring_session *session,
                                      struct wring_error_detail *detail)
{
    struct wring_failure failure;
    enum wring_status status = wring_fabric_failure(session->fabric, &failure);
    if (status == WRING_OK || detail == NULL)
        return status;
    detail->status = failure.status;
    detail->rank = failure.rank;
    snprintf(detail->text, sizeof(detail->text), "%s", failure.text);
    return status;
}
