/* SPDX-License-Identifier: Apache-2.0 */
/* Do all ranks mean the same buckets? */
#include "runtime/commit/commit.h"
#include "runtime/commit/commit_signature.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WRING_MODULE "commit"
#define PLACEABLE 1u                   /* others can put into the data */
#define MAPS 2u                        /* this rank can map the others' data */
#define ENTRIES_MAX WRING_CHANNELS_MAX /* a bucket has a channel, at the least */

/** What one rank says of one bucket. */
struct entry {
    char name[WRING_NAME_MAX];
    char signature[WRING_SIGNATURE_MAX];
    uint32_t abilities;
    const uint8_t *ranks; /* u32 each */
    uint32_t n;
};

struct list {
    struct entry *entries;
    uint32_t n;
};

static uint32_t abilities_of(const struct wring_bucket *bucket)
{
    const struct wring_fabric *fabric = bucket->session->fabric;
    const struct wring_members *members = &bucket->group->members;
    uint32_t abilities = MAPS;

    for (uint32_t i = 0; i < members->n; i++) {
        const struct wring_peer *peer = &fabric->peers[members->ranks[i]];
        if (i != members->me && !fabric->devices[peer->device].caps.remote_map)
            abilities = 0;
    }
    if (bucket->block != NULL && wring_block_complete(bucket->block))
        abilities |= PLACEABLE;
    return abilities;
}

/** What a member lacks, the bucket lacks. */
static void set_abilities(struct wring_bucket *bucket, uint32_t abilities)
{
    bucket->placed &= (abilities & PLACEABLE) != 0;
    bucket->mapped &= (abilities & MAPS) != 0;
}

static void write_own(struct wring_session *session, struct wring_writer *out)
{
    char signature[WRING_SIGNATURE_MAX];
    uint32_t n = 0;
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        n++;
    wring_write_u32(out, n);
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        const struct wring_members *members = &at->group->members;
        wring_signature_write(at, signature);
        wring_write_sized(out, at->name, strlen(at->name));
        wring_write_sized(out, signature, strlen(signature));
        wring_write_u32(out, abilities_of(at));
        wring_write_sized(out, members->ranks, members->n * sizeof(*members->ranks));
    }
}

static enum wring_status read_list(struct wring_reader reader, struct list *out)
{
    uint32_t n = wring_read_u32(&reader);
    if (reader.failed || n > ENTRIES_MAX)
        return WRING_ERR_FRAME;
    struct list list = {calloc(n + 1, sizeof(*list.entries)), n};
    if (list.entries == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        struct entry *entry = &list.entries[i];
        size_t bytes;
        wring_read_text(&reader, entry->name, sizeof(entry->name));
        wring_read_text(&reader, entry->signature, sizeof(entry->signature));
        entry->abilities = wring_read_u32(&reader);
        entry->ranks = wring_read_sized(&reader, &bytes);
        entry->n = (uint32_t)(bytes / sizeof(uint32_t));
    }
    if (reader.failed) {
        free(list.entries);
        return WRING_ERR_FRAME;
    }
    *out = list;
    return WRING_OK;
}

static bool has_rank(const struct entry *entry, uint32_t rank)
{
    for (uint32_t i = 0; i < entry->n; i++)
        if (wring_get_u32(entry->ranks + i * sizeof(uint32_t)) == rank)
            return true;
    return false;
}

static const struct entry *find(const struct list *list, const char *name)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (strcmp(list->entries[i].name, name) == 0)
            return &list->entries[i];
    return NULL;
}

/** "0, 1, 2" for a message; cut where it is long. @param ranks u32 each */
static void list_ranks(const uint8_t *ranks, uint32_t n, char *text, size_t bytes)
{
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        if (at + 16 > bytes) {
            snprintf(text + at, bytes - at, "...");
            return;
        }
        at += (size_t)snprintf(text + at, bytes - at, "%s%" PRIu32, i > 0 ? ", " : "",
                               wring_get_u32(ranks + i * sizeof(uint32_t)));
    }
}

static bool compare_group(const struct wring_bucket *bucket, uint32_t rank,
                          const struct entry *entry, char *text)
{
    const struct wring_members *members = &bucket->group->members;
    char own[48], other[48], name[WRING_TEXT_SHORT];
    if (entry->n == members->n &&
        memcmp(entry->ranks, members->ranks, members->n * sizeof(uint32_t)) == 0)
        return true;
    list_ranks((const uint8_t *)members->ranks, members->n, own, sizeof(own));
    list_ranks(entry->ranks, entry->n, other, sizeof(other));
    snprintf(text, WRING_TEXT_MAX,
             "bucket '%s': its group is {%s} on rank %" PRIu32 " and {%s} on rank %" PRIu32
             "; register it alike on all ranks",
             wring_text_short(bucket->name, name), own, bucket->session->rank, other, rank);
    return false;
}

/** Compare one bucket of ours with another rank's view of it. */
static bool compare_bucket(struct wring_bucket *bucket, uint32_t rank, const struct list *theirs,
                           char *text)
{
    uint32_t me = bucket->session->rank;
    const struct entry *entry = find(theirs, bucket->name);
    char own[WRING_SIGNATURE_MAX], name[WRING_TEXT_SHORT];

    if (entry == NULL) {
        snprintf(text, WRING_TEXT_MAX, "rank %" PRIu32 " has bucket '%s', rank %" PRIu32 " has not",
                 me, wring_text_short(bucket->name, name), rank);
        return false;
    }
    wring_signature_write(bucket, own);
    if (!wring_signature_compare(bucket->name, (struct wring_signed_by){own, me},
                                 (struct wring_signed_by){entry->signature, rank}, text,
                                 WRING_TEXT_MAX) ||
        !compare_group(bucket, rank, entry, text))
        return false;
    set_abilities(bucket, entry->abilities);
    return true;
}

static bool compare_with(struct wring_session *session, uint32_t rank, const struct list *theirs,
                         char *text)
{
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (wring_members_find(&at->group->members, rank) < at->group->members.n &&
            !compare_bucket(at, rank, theirs, text))
            return false;
    for (uint32_t i = 0; i < theirs->n; i++) {
        const struct wring_bucket *at = session->buckets;
        while (at != NULL && strcmp(at->name, theirs->entries[i].name) != 0)
            at = at->next;
        if (at == NULL && has_rank(&theirs->entries[i], session->rank)) {
            char name[WRING_TEXT_SHORT];
            snprintf(text, WRING_TEXT_MAX,
                     "rank %" PRIu32 " has bucket '%s', rank %" PRIu32 " has not", rank,
                     wring_text_short(theirs->entries[i].name, name), session->rank);
            return false;
        }
    }
    return true;
}

/** What members can map is known once they are connected: that may be by another device than both
 *  have chosen. */
static enum wring_status reach_members(struct wring_session *session)
{
    enum wring_status status = WRING_OK;
    for (const struct wring_bucket *at = session->buckets; at != NULL && status == WRING_OK;
         at = at->next)
        status = wring_session_reach(session, &at->group->members);
    return status;
}

enum wring_status wring_commit_compare(struct wring_session *session)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;
    char text[WRING_TEXT_MAX] = "";

    enum wring_status status = reach_members(session);
    if (status != WRING_OK)
        return status;
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        at->placed = at->mapped = true;
        set_abilities(at, abilities_of(at));
    }
    write_own(session, &writer);
    status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; i < session->size && status == WRING_OK; i++) {
        struct list list;
        if (i == session->rank)
            continue;
        status = read_list(wring_blobs_reader(&blobs, i), &list);
        if (status != WRING_OK)
            break;
        if (!compare_with(session, i, &list, text))
            status = WRING_ERR_MISMATCH;
        free(list.entries);
    }
    wring_blobs_finish(&blobs);
    return wring_session_agree(session, status, text);
}
