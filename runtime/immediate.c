/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives without a registered bucket. A group runs one at a time; those that were asked for
 * meanwhile wait their turn in the order of the calls, which is the same on all members.
 */
#include "runtime/session.h"

#include <stdlib.h>

#include "base/clock.h"

#define WRING_MODULE "group"

struct wring_request {
    struct wring_group *group;
    struct wring_request *next;
    const struct wring_collective_ops *ops;
    struct wring_geometry geometry;
    const struct wring_codec *codec; /* NULL: raw */
    void *data;
    float divisor;
    uint32_t root;
    bool sync;
    atomic_int status;
};

static void on_finished(struct wring_collective *collective);

/** Put the next request onto the group's collective. Under the group's mutex. */
static void run(struct wring_group *group, struct wring_request *request)
{
    struct wring_collective *collective = &group->collective;
    group->running = request;
    collective->finished = on_finished;
    collective->ops = request->ops;
    collective->geometry = request->geometry;
    collective->codec = request->codec;
    collective->data = request->data;
    collective->divisor = request->divisor;
    collective->root = request->root;
    collective->sync = request->sync;
    wring_engine_post(group->session->engine, collective);
}

/** The engine is done with one: start the next, then tell whoever waits. */
static void on_finished(struct wring_collective *collective)
{
    struct wring_group *group = collective->owner;
    pthread_mutex_lock(&group->mutex);
    int status = atomic_load(&collective->status); /* before run() sets it for the next one */
    struct wring_request *done = group->running;
    struct wring_request *next = group->waiting;
    group->running = NULL;
    if (next != NULL) {
        group->waiting = next->next;
        run(group, next);
    }
    pthread_mutex_unlock(&group->mutex);
    atomic_store_explicit(&done->status, status, memory_order_release);
}

static void submit(struct wring_request *request)
{
    struct wring_group *group = request->group;
    pthread_mutex_lock(&group->mutex);
    if (group->running == NULL) {
        run(group, request);
    } else {
        struct wring_request **at = &group->waiting;
        while (*at != NULL)
            at = &(*at)->next;
        *at = request;
    }
    pthread_mutex_unlock(&group->mutex);
    bool small = request->geometry.elems * sizeof(float) <= group->session->config.flat_bytes;
    wring_progress_posted(group->session->progress, small);
}

static enum wring_status new_request(struct wring_group *group,
                                     const struct wring_collective_ops *ops, void *data,
                                     struct wring_request **out)
{
    enum wring_status failed = wring_session_check(group->session);
    if (failed != WRING_OK)
        return failed;
    struct wring_request *request = calloc(1, sizeof(*request));
    if (request == NULL)
        return WRING_ERR_NO_MEMORY;
    request->group = group;
    request->ops = ops;
    request->data = data;
    request->divisor = 1;
    atomic_init(&request->status, WRING_ERR_AGAIN);
    *out = request;
    return WRING_OK;
}

/** Hand out the request, or wait for it where the caller wants none. */
static enum wring_status hand_out(struct wring_request *request, struct wring_request **out)
{
    submit(request);
    if (out == NULL)
        return wring_request_wait(request, WRING_FOREVER);
    *out = request;
    return WRING_OK;
}

/** The codec of a spec, made once per group. */
static enum wring_status find_codec(struct wring_group *group, const char *spec,
                                    const struct wring_codec **out)
{
    size_t slots = sizeof(group->codecs) / sizeof(group->codecs[0]);
    struct wring_session *session = group->session;
    struct wring_codec *codec;
    char why[WRING_TEXT_MAX];

    enum wring_status status =
        wring_codec_create(spec, session->config.cpu, why, sizeof(why), &codec);
    if (status != WRING_OK) {
        wring_error(&session->log, "%s", why);
        return status;
    }
    const struct wring_codec_info *info = wring_codec_info(codec);
    if (info->flags & WRING_CODEC_FEEDBACK) {
        wring_error(&session->log, "codec %s keeps a residual between steps: register a bucket",
                    info->spec);
        wring_codec_destroy(codec);
        return WRING_ERR_UNSUPPORTED;
    }
    for (size_t i = 0; i < slots; i++) {
        if (group->codecs[i] == NULL) {
            *out = group->codecs[i] = codec;
            return WRING_OK;
        }
        if (strcmp(wring_codec_info(group->codecs[i])->spec, info->spec) == 0) {
            wring_codec_destroy(codec);
            *out = group->codecs[i];
            return WRING_OK;
        }
    }
    wring_error(&session->log, "more than %zu codecs in immediate calls of one group", slots);
    wring_codec_destroy(codec);
    return WRING_ERR_UNSUPPORTED;
}

/** Chunks that fit a slot when encoded. */
static enum wring_status cut(struct wring_group *group, struct wring_request *request,
                             uint64_t elems, const struct wring_codec *codec)
{
    size_t slot_bytes = group->scatter.slot_bytes;
    request->geometry = wring_geometry_make(elems, group->members.n, codec, slot_bytes);
    struct wring_geometry *geometry = &request->geometry;
    if (codec == NULL || (wring_codec_bound(codec, geometry->chunk_elems) <= slot_bytes &&
                          geometry->chunk_elems <= wring_geometry_most(slot_bytes)))
        return WRING_OK;
    wring_error(&group->session->log,
                "codec %s needs larger pieces than WRING_CHUNK_BYTES: register a bucket",
                wring_codec_info(codec)->spec);
    return WRING_ERR_UNSUPPORTED;
}

/** Two members send as much either way, and round once less without. */
static bool has_way_back(const struct wring_codec *codec, uint32_t members)
{
    const struct wring_codec_info *info = wring_codec_info(codec);
    return info->flags & WRING_CODEC_TWO_WAYS || (members > 2 && info->unit != 0);
}

enum wring_status wring_allreduce(struct wring_group *group, void *buf, uint64_t elems,
                                  enum wring_dtype dtype, enum wring_op op, const char *codec_spec,
                                  struct wring_request **out)
{
    const struct wring_codec *codec = NULL;
    struct wring_request *request;

    if (dtype != WRING_F32 || (op != WRING_SUM && op != WRING_AVG) ||
        (elems > 0 && (buf == NULL || (uintptr_t)buf % sizeof(float) != 0)))
        return WRING_ERR_INVALID;
    if (codec_spec != NULL && strcmp(codec_spec, "none") != 0) {
        pthread_mutex_lock(&group->mutex);
        enum wring_status status = find_codec(group, codec_spec, &codec);
        pthread_mutex_unlock(&group->mutex);
        if (status != WRING_OK)
            return status;
    }
    bool gathered = codec == NULL ? elems * sizeof(float) <= group->session->config.flat_bytes
                                  : !has_way_back(codec, group->members.n);
    enum wring_status status =
        new_request(group, gathered ? &wring_gathered : &wring_sharded, buf, &request);
    if (status != WRING_OK)
        return status;
    request->codec = codec;
    request->divisor = op == WRING_AVG ? (float)group->members.n : 1;
    status = cut(group, request, elems, codec);
    if (status != WRING_OK) {
        free(request);
        return status;
    }
    return hand_out(request, out);
}

enum wring_status wring_broadcast(struct wring_group *group, void *buf, uint64_t bytes,
                                  uint32_t root, struct wring_request **out)
{
    struct wring_request *request;
    if (root >= group->members.n || (bytes > 0 && buf == NULL))
        return WRING_ERR_INVALID;
    enum wring_status status = new_request(group, &wring_broadcast_ops, buf, &request);
    if (status != WRING_OK)
        return status;
    request->root = root;
    request->geometry = (struct wring_geometry){bytes, 1, group->gather.slot_bytes, 1};
    return hand_out(request, out);
}

enum wring_status wring_barrier(struct wring_group *group)
{
    struct wring_request *request;
    enum wring_status status = new_request(group, &wring_gathered, NULL, &request);
    if (status != WRING_OK)
        return status;
    request->sync = true;
    request->geometry = wring_geometry_make(0, group->members.n, NULL, group->gather.slot_bytes);
    return hand_out(request, NULL);
}

enum wring_status wring_request_test(struct wring_request *request)
{
    int status = atomic_load_explicit(&request->status, memory_order_acquire);
    if (status == WRING_ERR_AGAIN) {
        wring_progress_nudge(request->group->session->progress);
        status = atomic_load_explicit(&request->status, memory_order_acquire);
    }
    if (status != WRING_ERR_AGAIN)
        free(request);
    return (enum wring_status)status;
}

enum wring_status wring_request_wait(struct wring_request *request, uint64_t timeout_ns)
{
    enum wring_status status = wring_progress_wait(request->group->session->progress,
                                                   &request->status, wring_deadline_in(timeout_ns));
    if (status == WRING_ERR_AGAIN)
        return WRING_ERR_TIMEOUT;
    free(request);
    return status;
}
