/* SPDX-License-Identifier: Apache-2.0 */
/* What the application has pointers to goes from one session to another. */
#include "runtime/elastic/elastic.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/commit/commit.h"
#include "runtime/commit/hierarchy_phases.h"
#include "runtime/plan/bucket_fusion.h"

#define WRING_MODULE "elastic"

enum wring_status wring_elastic_check(const struct wring_session *session)
{
    const struct wring_bucket *const lists[] = {session->fused, session->buckets};

    for (size_t i = 0; i < 2; i++)
        for (const struct wring_bucket *at = lists[i]; at != NULL; at = at->next)
            if (!at->dropped && at->whole == NULL && at->group != session->world) {
                wring_error(&session->log,
                            "bucket '%s' belongs to a group, which ends with its session: drop it "
                            "by wring_bucket_drop(), and register it in a group of the new one",
                            at->name);
                return WRING_ERR_UNSUPPORTED;
            }
    return WRING_OK;
}

enum wring_status wring_elastic_uncommit(struct wring_session *session)
{
    wring_progress_lock(session->progress);
    wring_commit_undo(session);
    wring_legs_remove(session);
    wring_progress_unlock(session->progress);
    enum wring_status status = wring_bucket_fusion_part_all(session);
    wring_commit_free_dropped(session);
    return status;
}

/* ---- buffers ---- */

/** Known to no provider; the memory stays. */
static void detach_buffer(struct wring_buffer *buffer)
{
    struct wring_memory memory = buffer->block.memory;
    bool owned = buffer->block.owned;

    buffer->block.owned = false;
    wring_block_finish(&buffer->block);
    buffer->block = (struct wring_block){.memory = memory, .owned = owned};
}

static enum wring_status attach_buffer(struct wring_session *session, struct wring_buffer *buffer)
{
    struct wring_memory memory = buffer->block.memory;
    bool owned = buffer->block.owned;
    struct wring_block block;

    enum wring_status status = wring_block_borrow_memory(session->fabric, &memory, &block);
    if (status != WRING_OK)
        return status;
    block.memory = memory;
    block.owned = owned;
    buffer->block = block;
    return WRING_OK;
}

static void move_list_of_buffers(struct wring_session *from, struct wring_session *to)
{
    to->buffers = from->buffers;
    to->buffer_index = from->buffer_index;
    to->arena_bytes = from->arena_bytes;
    atomic_store(&to->n_device_buffers, atomic_load(&from->n_device_buffers));
    from->buffers = NULL;
    from->buffer_index = (struct wring_buffer_index){0};
    from->arena_bytes = 0;
    atomic_store(&from->n_device_buffers, 0);
}

static void detach_buffers(struct wring_session *session)
{
    wring_progress_lock(session->progress);
    for (struct wring_buffer *at = session->buffers; at != NULL; at = at->next)
        detach_buffer(at);
    wring_progress_unlock(session->progress);
}

static enum wring_status attach_buffers(struct wring_session *session)
{
    enum wring_status status = WRING_OK;

    wring_progress_lock(session->progress);
    for (struct wring_buffer *at = session->buffers; at != NULL && status == WRING_OK;
         at = at->next)
        status = attach_buffer(session, at);
    wring_progress_unlock(session->progress);
    return status;
}

/* ---- both ---- */

static void append_bucket(struct wring_session *session, struct wring_bucket *bucket)
{
    struct wring_bucket **at = &session->buckets;

    while (*at != NULL)
        at = &(*at)->next;
    *at = bucket;
    bucket->next = NULL;
}

/** One that fails to stays in the list that it was in. */
static enum wring_status move_buckets(struct wring_session *from, struct wring_session *to)
{
    enum wring_status status = WRING_OK;

    while (from->buckets != NULL && status == WRING_OK) {
        struct wring_bucket *bucket = from->buckets;
        from->buckets = bucket->next;
        status = wring_bucket_move(bucket, to);
        append_bucket(to, bucket);
    }
    return status;
}

enum wring_status wring_elastic_move(struct wring_session *from, struct wring_session *to)
{
    detach_buffers(from);
    move_list_of_buffers(from, to);
    enum wring_status status = attach_buffers(to);
    return status == WRING_OK ? move_buckets(from, to) : status;
}

void wring_elastic_move_back(struct wring_session *from, struct wring_session *to)
{
    wring_elastic_uncommit(from);
    if (from->buffers != NULL) {
        detach_buffers(from);
        move_list_of_buffers(from, to);
    }
    move_buckets(from, to);
}
