/* SPDX-License-Identifier: Apache-2.0 */
/* Do all ranks mean the same buckets? */
#include "runtime/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WRING_MODULE "commit"
#define SIGNATURE_MAX 320

/** What one rank says of one bucket. */
struct entry {
    char name[WRING_NAME_MAX];
    char signature[SIGNATURE_MAX]; /* for people and for comparing */
    bool placeable;
    const uint8_t *ranks; /* u32 each */
    uint32_t n;
};

struct list {
    struct entry *entries;
    uint32_t n;
};

uint32_t wring_window(const struct wring_config *config, uint64_t pieces)
{
    uint32_t window = 2;
    while (window * 2 <= config->window && window < pieces)
        window *= 2;
    return window;
}

static const char *scheme_name(enum wring_scheme scheme)
{
    static const char *const names[] = {"auto", "divisible", "indivisible"};
    return names[scheme];
}

static void sign(const struct wring_bucket *bucket, char *text)
{
    const struct wring_config *config = &bucket->session->config;
    snprintf(text, SIGNATURE_MAX,
             "%" PRIu64 " x %s, %s, codec %s, scheme %s, seed %" PRIu64 ", chunk %" PRIu64
             ", flat %" PRIu64 ", window %" PRIu64,
             bucket->elems, wring_dtype_name(bucket->dtype), wring_op_name(bucket->op),
             wring_codec_info(bucket->codec)->spec, scheme_name(bucket->scheme),
             bucket->session->seed, config->chunk_bytes, config->flat_bytes, config->window);
}

static void write_own(struct wring_session *session, struct wring_writer *out)
{
    char signature[SIGNATURE_MAX];
    uint32_t n = 0;
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        n++;
    wring_write_u32(out, n);
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        const struct wring_members *members = &at->group->members;
        sign(at, signature);
        wring_write_sized(out, at->name, strlen(at->name));
        wring_write_sized(out, signature, strlen(signature));
        wring_write_u32(out, at->block != NULL && wring_block_complete(at->block));
        wring_write_sized(out, members->ranks, members->n * sizeof(*members->ranks));
    }
}

static enum wring_status read_list(struct wring_reader reader, struct list *out)
{
    uint32_t n = wring_read_u32(&reader);
    if (reader.failed || n > reader.bytes) /* each takes more than a byte */
        return WRING_ERR_FRAME;
    struct list list = {calloc(n + 1, sizeof(*list.entries)), n};
    if (list.entries == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        struct entry *entry = &list.entries[i];
        size_t bytes;
        wring_read_text(&reader, entry->name, sizeof(entry->name));
        wring_read_text(&reader, entry->signature, sizeof(entry->signature));
        entry->placeable = wring_read_u32(&reader) != 0;
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

/** Compare one bucket of ours with another rank's view of it. */
static bool compare_bucket(struct wring_bucket *bucket, uint32_t rank, const struct list *theirs,
                           char *text)
{
    uint32_t me = bucket->session->rank;
    const struct wring_members *members = &bucket->group->members;
    const struct entry *entry = find(theirs, bucket->name);
    char own[SIGNATURE_MAX];

    sign(bucket, own);
    if (entry == NULL)
        snprintf(text, WRING_TEXT_MAX, "rank %" PRIu32 " has bucket '%s', rank %" PRIu32 " has not",
                 me, bucket->name, rank);
    else if (strcmp(own, entry->signature) != 0)
        snprintf(text, WRING_TEXT_MAX,
                 "bucket '%s' is [%.60s] on rank %" PRIu32 " and [%.60s] on rank %" PRIu32,
                 bucket->name, own, me, entry->signature, rank);
    else if (entry->n != members->n ||
             memcmp(entry->ranks, members->ranks, members->n * sizeof(uint32_t)) != 0)
        snprintf(text, WRING_TEXT_MAX,
                 "bucket '%s' belongs to different groups on ranks %" PRIu32 " and %" PRIu32,
                 bucket->name, me, rank);
    else {
        bucket->placed &= entry->placeable;
        return true;
    }
    return false;
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
            snprintf(text, WRING_TEXT_MAX,
                     "rank %" PRIu32 " has bucket '%s', rank %" PRIu32 " has not", rank,
                     theirs->entries[i].name, session->rank);
            return false;
        }
    }
    return true;
}

enum wring_status wring_commit_compare(struct wring_session *session)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;
    char text[WRING_TEXT_MAX] = "";

    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        at->placed = at->block != NULL && wring_block_complete(at->block);
    write_own(session, &writer);
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
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
