/* SPDX-License-Identifier: Apache-2.0 */
/* Agree on all buckets, then give each its channels. */
#include "runtime/commit/commit.h"
#include "runtime/buffer.h"
#include "runtime/commit/legs.h"
#include "runtime/stats.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

#define WRING_MODULE "commit"

void wring_commit_undo(struct wring_session *session)
{
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        wring_bucket_unready(at);
        wring_engine_remove_channel(session->engine, &at->scatter);
        wring_engine_remove_channel(session->engine, &at->gather);
        wring_channel_finish(&at->scatter);
        wring_channel_finish(&at->gather);
        wring_stats_unlist(session, at->collective.mapped);
        wring_coding_destroy(at->collective.work.coding);
        at->collective.work.coding = NULL;
        wring_collective_finish(&at->collective);
        wring_block_finish(&at->keys);
        wring_block_finish(&at->borrowed);
        at->revoked = 0;
        at->block = NULL;
    }
    for (struct wring_bucket *at = session->joined; at != NULL; at = at->next)
        wring_bucket_unready(at);
    wring_imports_finish(&session->imports);
    wring_block_finish(&session->slots);
    wring_block_finish(&session->sources);
}

void wring_commit_free_dropped(struct wring_session *session)
{
    for (struct wring_bucket **at = &session->buckets; *at != NULL;) {
        struct wring_bucket *bucket = *at;
        if (!bucket->dropped) {
            at = &bucket->next;
            continue;
        }
        *at = bucket->next;
        wring_bucket_free(bucket);
    }
}

static enum wring_status find_data(struct wring_session *session)
{
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        size_t bytes = wring_bucket_bytes(at);
        if (at->whole != NULL) {
            at->block = at->whole->block;
            continue;
        }
        at->block = wring_buffer_find(session, at->data, bytes);
        if (at->block != NULL || bytes == 0)
            continue;
        enum wring_status status =
            wring_block_borrow(session->fabric, at->data, bytes, at->place, &at->borrowed);
        if (status != WRING_OK)
            return status;
        at->block = &at->borrowed;
    }
    return WRING_OK;
}

enum wring_status wring_commit_find_data(struct wring_session *session)
{
    wring_progress_lock(session->progress);
    enum wring_status status = find_data(session);
    wring_progress_unlock(session->progress);
    return status;
}

/** Are we in a bucket's group with that rank? We are connected to it then. */
static bool meets(const struct wring_session *session, uint32_t rank)
{
    const struct wring_bucket *at = session->buckets;
    while (at != NULL && wring_members_find(&at->group->members, rank) == at->group->members.n)
        at = at->next;
    return at != NULL;
}

static enum wring_status import_all(struct wring_session *session, const struct wring_blobs *blobs)
{
    enum wring_status status = WRING_OK;
    for (uint32_t i = 0; i < session->size && status == WRING_OK; i++)
        if (i != session->rank && meets(session, i))
            status = wring_commit_read_places(session, &session->fabric->peers[i],
                                              wring_blobs_reader(blobs, i));
    return status;
}

static enum wring_status exchange_places(struct wring_session *session)
{
    struct wring_writer places = {0};
    struct wring_blobs blobs;

    wring_progress_lock(session->progress);
    enum wring_status status = wring_commit_make(session);
    if (status == WRING_OK)
        wring_commit_write_places(session, &places);
    wring_progress_unlock(session->progress);
    status = wring_session_agree(session, status, "");
    if (status != WRING_OK) {
        free(places.data);
        return status;
    }
    status = wring_session_exchange_writer(session, &places, &blobs);
    if (status != WRING_OK)
        return status;
    wring_progress_lock(session->progress);
    status = wring_session_check(session);
    if (status == WRING_OK)
        status = import_all(session, &blobs);
    wring_progress_unlock(session->progress);
    wring_blobs_finish(&blobs);
    return wring_session_agree(session, status, "");
}

static void describe(const struct wring_session *session, const struct wring_bucket *bucket)
{
    const struct wring_shape *shape = &bucket->shape;
    wring_debug(&session->log,
                "bucket '%s': %" PRIu64 " elements, codec %s, %s, pieces of %" PRIu64, bucket->name,
                bucket->elems, wring_bucket_spec(bucket), wring_algorithms[shape->algorithm].name,
                shape->geometry.chunk_elems);
}

enum wring_status wring_commit_connect(struct wring_session *session)
{
    enum wring_status status = exchange_places(session);
    if (status != WRING_OK)
        return status;
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        wring_bucket_ready(at);
        describe(session, at);
    }
    for (struct wring_bucket *at = session->joined; at != NULL; at = at->next)
        wring_bucket_ready(at);
    return WRING_OK;
}

/** Of the steps that go past the engine, or have not come to it yet. */
static bool any_under_way(const struct wring_session *session)
{
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (wring_bucket_under_way(at))
            return true;
    for (const struct wring_bucket *at = session->joined; at != NULL; at = at->next)
        if (wring_bucket_under_way(at))
            return true;
    return false;
}

enum wring_status wring_commit_check_groups(const struct wring_session *session)
{
    char name[WRING_TEXT_SHORT];

    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        if (!wring_bucket_is_ceased(at))
            continue;
        wring_error(&session->log,
                    "bucket '%s' is of a group that rank %u aborted: drop it, and all of that "
                    "group's",
                    wring_text_short(at->name, name), atomic_load(&at->group->aborted_by) - 1);
        return WRING_ERR_CANCELLED;
    }
    return WRING_OK;
}

/** Of groups that were aborted: late pieces come into slots that the commit gives to others. */
static bool any_is_late(const struct wring_session *session)
{
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (wring_bucket_is_ceased(at) && !wring_pairs_have_ceased(&at->group->pairs))
            return true;
    return false;
}

enum wring_status wring_commit_take_back(struct wring_session *session)
{
    const struct timespec pause = {0, WRING_NS_PER_MS / 4};
    uint64_t until_ns = wring_deadline_in(session->config.join_timeout_ns);
    enum wring_status status = WRING_ERR_BUSY;

    wring_progress_lock(session->progress);
    while (any_is_late(session) && wring_session_check(session) == WRING_OK &&
           wring_now_ns() < until_ns) {
        wring_engine_poll(session->engine);
        wring_progress_unlock(session->progress);
        nanosleep(&pause, NULL);
        wring_progress_lock(session->progress);
    }
    if (wring_engine_idle(session->engine) && !any_under_way(session) && !any_is_late(session)) {
        wring_commit_undo(session);
        wring_legs_remove(session);
        status = WRING_OK;
    }
    wring_progress_unlock(session->progress);
    return status;
}

enum wring_status wring_commit_passing(struct wring_session *session, enum wring_status registered)
{
    if (registered == WRING_OK)
        registered = wring_legs_make(session);
    enum wring_status status = wring_session_agree(session, registered, "");

    if (status == WRING_OK)
        status = wring_commit_find_data(session);
    if (status == WRING_OK)
        status = wring_commit_compare(session);
    return status == WRING_OK ? wring_commit_connect(session) : status;
}

void wring_commit_forget_passing(struct wring_session *session, struct wring_bucket *own)
{
    wring_progress_lock(session->progress);
    wring_commit_undo(session);
    while (session->buckets != NULL) {
        struct wring_bucket *bucket = session->buckets;
        session->buckets = bucket->next;
        wring_bucket_free(bucket);
    }
    session->buckets = own;
    wring_progress_unlock(session->progress);
}
