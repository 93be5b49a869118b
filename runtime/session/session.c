/* SPDX-License-Identifier: Apache-2.0 */
/* A session: its settings (the environment, then params.settings, then fields of params), its
 * commit, and how it opens and closes. */
#include "runtime/session/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "planner/core/files/plan.h"
#include "runtime/autotune/autotune.h"
#include "runtime/buffer.h"
#include "runtime/codec_rules.h"
#include "runtime/commit/codec_bypass.h"
#include "runtime/commit/commit.h"
#include "runtime/commit/hierarchy_phases.h"
#include "runtime/plan/bucket_fusion.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/recorder.h"
#include "runtime/session/executor.h"
#include "runtime/trace_file.h"
#include "runtime/versioned_struct.h"
#include "transport/bootstrap/job_key.h"
#include "transport/bootstrap/newcomer.h"
#include "transport/message/message.h"
#include "transport/slot_pool.h"
#include "transport/wait_policy.h"
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

static enum wring_status check_codecs(const struct wring_session *session)
{
    char why[WRING_TEXT_MAX];
    enum wring_status status = wring_codec_check_own(session->codecs, why, sizeof(why));

    if (status != WRING_OK)
        wring_error(&session->log, "%s", why);
    return status;
}

/** Rank, size and settings: the environment's, then those of params. Errors: WRING_ERR_INVALID. */
static enum wring_status session_configure(struct wring_session *session,
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
    session->codecs = params->codecs;
    status = check_codecs(session);
    if (status == WRING_OK)
        status = wring_codec_rules_check(session);
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
    else if (config->join[0] != '\0')
        status = wring_session_find_place(session);
    else
        status = wring_launcher_find(config, &session->log, &session->launched);
    session->rank = session->launched.rank;
    session->size = session->launched.size;
    if (config->join[0] == '\0')
        session->seed = params->seed;
    return status;
}

/* ---- fd ---- */

/* A session in an event loop of the application's. */

int wring_session_fd(struct wring_session *session)
{
    int fd = -1;
    if (wring_session_enter(session) != WRING_OK)
        return -1;
    wring_progress_lock(session->progress);
    enum wring_status status = wring_progress_watch(session->progress, &fd);
    wring_progress_unlock(session->progress);
    wring_session_leave(session, status);
    return status == WRING_OK ? fd : -1;
}

enum wring_status wring_session_progress(struct wring_session *session)
{
    enum wring_status status = wring_session_enter(session);
    if (status != WRING_OK)
        return status;
    wring_progress_serve(session->progress);
    return wring_session_leave(session, wring_session_check(session));
}

uint64_t wring_session_next_ns(struct wring_session *session)
{
    if (wring_session_enter(session) != WRING_OK)
        return 0;
    uint64_t next_ns = wring_progress_next_ns(session->progress);
    wring_session_leave(session, WRING_OK);
    return next_ns;
}

/* ---- abort ---- */

/* All that a session has under way ends now, on every rank, whoever waits for it. */

static enum wring_status abort_all_groups(struct wring_session *session)
{
    struct wring_engine *engine = session->engine;

    wring_progress_lock(session->progress);
    wring_fabric_fail(session->fabric, WRING_ERR_CANCELLED, (int32_t)session->rank,
                      "rank %" PRIu32 " aborted the session by wring_session_abort()",
                      session->rank);
    wring_engine_poll(engine); /* peers are told, and what no job uses ends */
    wring_progress_unlock(session->progress);
    wring_session_call_back(session);
    return WRING_OK;
}

enum wring_status wring_session_abort(struct wring_session *session)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, abort_all_groups(session));
}

/*
 * ---- commit ----
 *
 * From above: which buckets travel as one (plan/), what ranks mean by them, which codecs run and
 * over which channels (commit/). The two do not call each other.
 */

/** What travels as one, in which legs, and where it lies. Collective: it goes on where all ranks
 * could. */
static enum wring_status arrange_buckets(struct wring_session *session)
{
    enum wring_status status = wring_commit_check_groups(session);
    if (status == WRING_OK)
        status = wring_autotune_settle(session);
    if (status == WRING_OK)
        status = wring_plan_apply(session);
    if (status == WRING_OK)
        status = wring_legs_make(session);
    status = wring_session_agree(session, status, NULL);
    if (status != WRING_OK)
        return status;
    return wring_commit_find_data(session);
}

/** All that follows the last commit's end. */
static enum wring_status commit_buckets(struct wring_session *session)
{
    enum wring_status status = arrange_buckets(session);
    if (status == WRING_OK)
        status = wring_commit_compare(session);
    if (status == WRING_OK)
        status = wring_plan_check_job(session);
    if (status == WRING_OK)
        status = wring_autotune_prepare(session);
    if (status == WRING_OK)
        status = wring_codec_bypass_choose(session);
    if (status == WRING_OK)
        status = wring_commit_connect(session);
    if (status != WRING_OK) {
        wring_progress_lock(session->progress);
        wring_commit_undo(session);
        wring_progress_unlock(session->progress);
    }
    return status;
}

static enum wring_status take_back_commit(struct wring_session *session)
{
    enum wring_status status = wring_commit_take_back(session);
    if (status == WRING_OK)
        status = wring_bucket_fusion_part_all(session);
    if (status == WRING_OK)
        wring_commit_free_dropped(session);
    return status;
}

enum wring_status wring_session_commit(struct wring_session *session)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    enum wring_status status = wring_session_refuses_to_wait(session, "wring_session_commit")
                                   ? WRING_ERR_INVALID
                                   : wring_session_check(session);
    if (status == WRING_OK)
        status = take_back_commit(session);
    if (status == WRING_OK)
        wring_codec_rules_warn(session);
    if (status == WRING_OK)
        status = wring_autotune_begin(session);
    if (status == WRING_OK)
        status = wring_recorder_begin(session);
    if (status == WRING_OK)
        status = commit_buckets(session);
    return wring_session_leave(session, status);
}

/** As wring_session_commit(), by a caller that is inside and has settled the plan itself. Nothing
 * is under way. */
static enum wring_status recommit(struct wring_session *session)
{
    enum wring_status status = wring_session_check(session);
    if (status == WRING_OK)
        status = take_back_commit(session);
    return status == WRING_OK ? commit_buckets(session) : status;
}

/* ---- session ---- */

/** Where all ranks record, rank 0 answers until all have met, whoever makes its progress. */
static enum wring_status compare_clocks(struct wring_session *session)
{
    return wring_session_trace_clocks(session) ? wring_barrier(session->world, NULL, NULL)
                                               : WRING_OK;
}

static enum wring_status open_plan(struct wring_session *session)
{
    enum wring_status status = wring_plan_open(session);
    return status == WRING_OK && wring_plan_is_auto(session) ? wring_autotune_open(session)
                                                             : status;
}

/** The bootstrap is there. */
static enum wring_status open_met(struct wring_session *session)
{
    enum wring_status status = wring_session_make_executor(session);
    if (status == WRING_OK)
        status = wring_engine_create(&session->config, &session->log, session->executor,
                                     &session->engine);
    if (status == WRING_OK)
        status = wring_session_trace_open(session);
    if (status == WRING_OK)
        status = wring_session_connect(session);
    if (status == WRING_OK)
        status = wring_messenger_create(session->engine, &session->messenger);
    if (status == WRING_OK)
        status = wring_session_measure(session);
    if (status == WRING_OK)
        status = wring_pool_create(session->engine, session->distance.piece_bytes,
                                   &session->engine->pool);
    if (status == WRING_OK)
        status = wring_group_make_world(session, &session->world);
    if (status == WRING_OK)
        status = wring_progress_create(
            session->engine, strcmp(session->config.progress, "thread") == 0,
            session->config.spin_ns, &session->completions, &session->progress);
    if (status != WRING_OK)
        return status;
    wring_progress_lock(session->progress);
    session->engine->trace = session->trace;
    wring_progress_unlock(session->progress);
    status = compare_clocks(session);
    return status == WRING_OK ? wring_recorder_open(session) : status;
}

static enum wring_status open_door(struct wring_session *session)
{
    const struct wring_config *config = &session->config;

    if (config->door_fd >= 0 || config->door[0] == '\0')
        return WRING_OK;
    return wring_newcomer_listen(&session->log, config->door, config->key[0] != '\0',
                                 &session->door_fd);
}

static enum wring_status open_session(struct wring_session *session,
                                      const struct wring_session_params *params)
{
    enum wring_status status = session_configure(session, params);
    if (status == WRING_OK)
        status = open_plan(session);
    if (status == WRING_OK)
        status = wring_session_meet(session, params);
    if (status == WRING_OK)
        status = open_door(session);
    return status == WRING_OK ? open_met(session) : status;
}

/** A session that failed while it opened has nobody else to tell its peers why; and one that is
 *  closed soon after it failed, too: peers would count it among those that were lost. */
static void drive_failing_fabric(struct wring_session *session)
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

static const struct wring_versioned_struct params_sized = {
    "struct wring_session_params",
    sizeof(struct wring_session_params),
    sizeof(struct wring_session_params),
};

static struct wring_session *new_session(struct wring_log log)
{
    struct wring_session *session = calloc(1, sizeof(*session));
    if (session == NULL)
        return NULL;
    session->born = wring_forked_begin();
    session->root_fd = session->door_fd = -1;
    session->recommit = recommit;
    session->log = log;
    wring_callers_init(&session->callers);
    wring_completions_init(&session->completions);
    pthread_mutex_init(&session->buffers_mutex, NULL);
    pthread_mutex_init(&session->shm_flags_mutex, NULL);
    pthread_mutex_init(&session->executor_mutex, NULL);
    return session;
}

static enum wring_status finish_opening(struct wring_session *session, enum wring_status status,
                                        struct wring_session **out)
{
    if (status != WRING_OK) {
        if (session->progress == NULL)
            drive_failing_fabric(session);
        wring_session_close(session);
        return status;
    }
    *out = session;
    return WRING_OK;
}

enum wring_status wring_session_open(const struct wring_session_params *params,
                                     struct wring_session **out)
{
    struct wring_session_params known;
    bool fits = wring_versioned_struct_read(&params_sized, params, &known);
    struct wring_session *session =
        new_session((struct wring_log){known.log, known.log_arg, WRING_LOG_WARN});
    if (session == NULL) {
        wring_descriptor_close(fits && known.root_fd > 0 ? known.root_fd : -1);
        return WRING_ERR_NO_MEMORY;
    }
    enum wring_status status =
        fits ? open_session(session, &known)
             : wring_versioned_struct_refuse(&params_sized, params, &session->log);
    return finish_opening(session, status, out);
}

enum wring_status wring_session_open_like(const struct wring_session *like,
                                          struct wring_bootstrap *bootstrap,
                                          const struct wring_cancel *called_off,
                                          struct wring_session **out)
{
    struct wring_session *session = new_session(like->log);
    if (session == NULL) {
        bootstrap->ops->close(bootstrap);
        return WRING_ERR_NO_MEMORY;
    }
    session->config = like->config;
    session->config.local_size = -1; /* detected: ranks of this host may be gone */
    session->launched = (struct wring_launched){
        .name = bootstrap->ops->name,
        .rank = bootstrap->rank,
        .size = bootstrap->size,
        .local_rank = -1,
        .local_size = -1,
    };
    session->rank = bootstrap->rank;
    session->size = bootstrap->size;
    session->seed = like->seed;
    session->codecs = like->codecs;
    session->told_rules = like->told_rules;
    session->bootstrap = bootstrap;
    session->owns_bootstrap = true;
    session->called_off = called_off;
    enum wring_status status = open_plan(session);
    return finish_opening(session, status == WRING_OK ? open_met(session) : status, out);
}

static void await_callers_left(struct wring_session *session,
                               bool (*left)(const struct wring_session *))
{
    const struct timespec pause = {0, wring_wait_policy.pause_ns};
    while (!left(session))
        nanosleep(&pause, NULL);
}

static bool have_counted_left(const struct wring_session *session)
{
    return atomic_load_explicit(&session->callers.n, memory_order_acquire) == 0;
}

static bool have_marked_left(const struct wring_session *session)
{
    const struct wring_bucket *const lists[] = {session->fused, session->buckets};
    for (size_t i = 0; i < 2; i++)
        for (const struct wring_bucket *at = lists[i]; at != NULL; at = at->next)
            if (atomic_load_explicit(&at->mark.inside, memory_order_acquire))
                return false;
    return true;
}

/** Nobody enters by a mark any more. Those who change lists are gone already. */
static void end_marks(struct wring_session *session)
{
    struct wring_bucket *const lists[] = {session->fused, session->buckets};
    for (size_t i = 0; i < 2; i++)
        for (struct wring_bucket *at = lists[i]; at != NULL; at = at->next)
            atomic_store_explicit(&at->mark.plain, false, memory_order_relaxed);
    wring_fence_heavy();
}

/** Calls in other threads return, and no job touches the application's memory. They free memory
 * that peers may still put into, so the good-bye goes before. */
static void turn_out_callers(struct wring_session *session)
{
    wring_progress_lock(session->progress);
    drive_failing_fabric(session);
    wring_fabric_turn_deaf(session->fabric);
    wring_callers_close(&session->callers);
    wring_progress_stop(session->progress);
    wring_progress_unlock(session->progress);
    await_callers_left(session, have_counted_left);
    end_marks(session);
    await_callers_left(session, have_marked_left);
    wring_progress_drop(session->progress);
}

static void free_buckets(struct wring_session *session)
{
    struct wring_bucket **const lists[] = {&session->fused, &session->buckets};
    for (size_t i = 0; i < 2; i++)
        while (*lists[i] != NULL) {
            struct wring_bucket *bucket = *lists[i];
            *lists[i] = bucket->next;
            wring_bucket_free(bucket);
        }
}

/** Their groups go before them. */
static void ungroup_buckets(struct wring_session *session)
{
    struct wring_bucket *const lists[] = {session->fused, session->buckets};
    for (size_t i = 0; i < 2; i++)
        for (struct wring_bucket *at = lists[i]; at != NULL; at = at->next)
            at->group = NULL;
}

void wring_session_close(struct wring_session *session)
{
    if (session == NULL || wring_session_is_inherited(session) ||
        wring_session_refuses_to_wait(session, "wring_session_close"))
        return;
    if (session->progress != NULL) {
        turn_out_callers(session);
        wring_progress_destroy(session->progress);
        wring_bucket_fusion_end_unsent(session);
        wring_completions_drain(&session->completions);
        wring_fabric_leave(session->fabric);
    }
    if (session->fabric != NULL)
        wring_commit_undo(session);
    ungroup_buckets(session);
    while (session->groups != NULL)
        wring_group_free(session->groups);
    wring_group_free(session->world);
    wring_recorder_close(session);
    wring_autotune_close(session);
    free_buckets(session);
    wring_plan_destroy(session->plan);
    wring_codec_bypass_forget(session);
    while (session->buffers != NULL) {
        struct wring_buffer *buffer = session->buffers;
        session->buffers = buffer->next;
        wring_buffer_destroy(buffer);
    }
    wring_buffer_index_finish(&session->buffer_index);
    wring_session_trace_close(session);
    wring_messenger_destroy(session->messenger);
    wring_pool_destroy(session->engine != NULL ? session->engine->pool : NULL);
    wring_fabric_destroy(session->fabric);
    wring_session_drop_queues(session);
    wring_engine_destroy(session->engine);
    if (session->executor != NULL)
        session->executor->ops->destroy(session->executor);
    if (session->owns_bootstrap && session->bootstrap != NULL)
        session->bootstrap->ops->close(session->bootstrap);
    wring_descriptor_close(session->root_fd);
    wring_descriptor_close(session->door_fd);
    while (session->n_held > 0)
        wring_descriptor_close(session->held_ports[--session->n_held]);
    free(session->held_ports);
    wring_completions_finish(&session->completions);
    pthread_mutex_destroy(&session->executor_mutex);
    pthread_mutex_destroy(&session->shm_flags_mutex);
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

static const struct wring_versioned_struct detail_sized = {
    "struct wring_error_detail",
    sizeof(struct wring_error_detail),
    sizeof(struct wring_error_detail),
};

enum wring_status wring_session_error(struct wring_session *session,
                                      struct wring_error_detail *detail)
{
    struct wring_failure failure = {WRING_ERR_CLOSED, -1, "the session is being closed"};
    enum wring_status status = wring_session_enter(session);
    if (status == WRING_OK)
        status = wring_session_leave(session, wring_fabric_failure(session->fabric, &failure));
    else if (status == WRING_ERR_INVALID)
        failure = (struct wring_failure){status, -1, WRING_SESSION_NOT_OURS};
    if (status == WRING_OK || detail == NULL)
        return status;
    struct wring_error_detail known = {.status = failure.status, .rank = failure.rank};
    snprintf(known.text, sizeof(known.text), "%.*s", (int)sizeof(known.text) - 1, failure.text);
    wring_versioned_struct_write(&detail_sized, &known, detail);
    return status;
}
