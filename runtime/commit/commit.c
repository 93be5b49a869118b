/* SPDX-License-Identifier: Apache-2.0 */
/* Agree on all buckets, then give each its channels. */
#include "runtime/commit/commit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "planner/core/files/plan.h"
#include "runtime/buffer.h"
#include "runtime/commit/hierarchy_phases.h"
#include "runtime/stats.h"

#define WRING_MODULE "commit"
#define SHOWN_MAX 44   /* bytes of a value that a message has room for */
#define SHOWN_BEFORE 8 /* of them before the place where two long values part */

/** A piece of a signature; not NUL-terminated. */
struct piece {
    const char *text;
    size_t bytes;
};

/** Name the session's plan by the hashes of its trace and profile; "none" without a plan.
 *  @param text out, [bytes] */
static void name_plan(const struct wring_session *session, char *text, size_t bytes)
{
    const struct wring_plan *plan = session->plan;

    if (session->autotune != NULL) /* which of its plans is in force, ranks know alike */
        snprintf(text, bytes, "auto");
    else if (plan == NULL)
        snprintf(text, bytes, "none");
    else
        snprintf(text, bytes, "%016" PRIx64 "-%016" PRIx64, plan->trace_hash, plan->profile_hash);
}

/** A line `field=value` for each thing; transport/WIRE.md, "Joining". @param text out,
 *  [WRING_SIGNATURE_MAX] */
static void signature_write(const struct wring_bucket *bucket, char *text)
{
    const struct wring_config *config = &bucket->session->config;
    char plan[2 * 16 + 2] = "none";

    name_plan(bucket->session, plan, sizeof(plan));
    snprintf(text, WRING_SIGNATURE_MAX,
             "elems=%" PRIu64 "\nshape=%" PRIu64 "x%" PRIu64
             "\ntype=%s\nop=%s\ncodec=%s\nexecutor=%s\nscheme=%s\nseed=%" PRIu64
             "\nWRING_CHUNK_BYTES=%" PRIu64 "\nWRING_FLAT_BYTES=%" PRIu64 "\nWRING_WINDOW=%" PRIu64
             "\nWRING_BYPASS=%s\nWRING_PLAN=%s\n",
             bucket->elems, bucket->rows, bucket->columns, wring_dtype_name(bucket->dtype),
             wring_op_name(bucket->multiplies ? WRING_PREMUL_SUM : bucket->op),
             wring_codec_info(bucket->codec)->identity,
             bucket->executor[0] != '\0' ? bucket->executor : "session",
             wring_scheme_name(bucket->scheme), bucket->session->seed, config->chunk_bytes,
             config->flat_bytes, config->window, config->bypass, plan);
}

/** Take a line off the front, its end left out; empty where there is none. */
static struct piece next_line(const char **at)
{
    struct piece line = {*at, strcspn(*at, "\n")};
    *at += line.bytes + ((*at)[line.bytes] != '\0');
    return line;
}

static bool is_same_text(struct piece a, struct piece b)
{
    return a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0;
}

/** Cut a line at its '='; all of it is name where there is none. */
static struct piece split_field(struct piece line, struct piece *value)
{
    const char *equals = memchr(line.text, '=', line.bytes);
    size_t n = equals != NULL ? (size_t)(equals - line.text) : line.bytes;
    size_t skip = equals != NULL ? n + 1 : n;
    *value = (struct piece){line.text + skip, line.bytes - skip};
    return (struct piece){line.text, n};
}

/** Choose the part of a value to show: the place where it differs from the other one. */
static void write_excerpt(struct piece value, struct piece other, char *shown)
{
    size_t same = 0, begin = 0;
    while (same < value.bytes && same < other.bytes && value.text[same] == other.text[same])
        same++;
    if (value.bytes > SHOWN_MAX && same > SHOWN_BEFORE)
        begin = same - SHOWN_BEFORE;
    size_t left = value.bytes - begin;
    snprintf(shown, SHOWN_MAX + 8, "%s%.*s%s", begin > 0 ? "..." : "",
             (int)(left < SHOWN_MAX ? left : SHOWN_MAX), value.text + begin,
             left > SHOWN_MAX ? "..." : "");
}

static bool is_named(struct piece name, const char *text)
{
    return is_same_text(name, (struct piece){text, strlen(text)});
}

static const char *remedy_for_field(struct piece name)
{
    if (name.bytes > 6 && memcmp(name.text, "WRING_", 6) == 0)
        return "set it alike on all ranks";
    if (is_named(name, "seed"))
        return "open the session with the same seed on all ranks";
    return "register it alike on all ranks";
}

static void describe_difference(const char *bucket, struct wring_signed_by ours,
                                struct piece own_line, struct wring_signed_by theirs,
                                struct piece line, unsigned more, char *text, size_t bytes)
{
    struct piece own_value, value;
    struct piece own_name = split_field(own_line, &own_value), name = split_field(line, &value);
    char own_shown[SHOWN_MAX + 8], shown[SHOWN_MAX + 8], others[48] = "";
    char name_shown[WRING_TEXT_SHORT];

    if (!is_same_text(own_name, name)) {
        snprintf(text, bytes,
                 "bucket '%s': ranks %" PRIu32 " and %" PRIu32
                 " describe it in other terms; use one version of wring on all ranks",
                 wring_text_short(bucket, name_shown), ours.rank, theirs.rank);
        return;
    }
    write_excerpt(own_value, value, own_shown);
    write_excerpt(value, own_value, shown);
    if (more > 0)
        snprintf(others, sizeof(others), " (and %u more differ%s)", more, more == 1 ? "s" : "");
    snprintf(text, bytes,
             "bucket '%s': %.*s is %s on rank %" PRIu32 " and %s on rank %" PRIu32 "%s; %s",
             wring_text_short(bucket, name_shown),
             (int)(name.bytes < SHOWN_MAX ? name.bytes : SHOWN_MAX), name.text, own_shown,
             ours.rank, shown, theirs.rank, others, remedy_for_field(name));
}

bool wring_signature_compare(const char *bucket, struct wring_signed_by ours,
                             struct wring_signed_by theirs, char *text, size_t bytes)
{
    const char *own_at = ours.signature, *at = theirs.signature;
    struct piece own_first = {0}, first = {0};
    unsigned differing = 0;

    while (*own_at != '\0' || *at != '\0') {
        struct piece own_line = next_line(&own_at), line = next_line(&at);
        if (is_same_text(own_line, line))
            continue;
        if (differing++ == 0) {
            own_first = own_line;
            first = line;
        }
    }
    if (differing > 0)
        describe_difference(bucket, ours, own_first, theirs, first, differing - 1, text, bytes);
    return differing == 0;
}

/* ---- compare ---- */

/* Do all ranks mean the same buckets? */

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
        if (i != members->me && !wring_fabric_device(fabric, members->ranks[i])->caps.remote_map)
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

static void write_own_list(struct wring_session *session, struct wring_writer *out)
{
    char signature[WRING_SIGNATURE_MAX];
    uint32_t n = 0;
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        n++;
    wring_write_u32(out, n);
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        const struct wring_members *members = &at->group->members;
        signature_write(at, signature);
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

static const struct entry *find_entry(const struct list *list, const char *name)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (strcmp(list->entries[i].name, name) == 0)
            return &list->entries[i];
    return NULL;
}

/** "0, 1, 2" for a message; cut where it is long. @param ranks u32 each */
static void write_rank_list(const uint8_t *ranks, uint32_t n, char *text, size_t bytes)
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
    write_rank_list((const uint8_t *)members->ranks, members->n, own, sizeof(own));
    write_rank_list(entry->ranks, entry->n, other, sizeof(other));
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
    const struct entry *entry = find_entry(theirs, bucket->name);
    char own[WRING_SIGNATURE_MAX], name[WRING_TEXT_SHORT];

    if (entry == NULL) {
        snprintf(text, WRING_TEXT_MAX, "rank %" PRIu32 " has bucket '%s', rank %" PRIu32 " has not",
                 me, wring_text_short(bucket->name, name), rank);
        return false;
    }
    signature_write(bucket, own);
    if (!wring_signature_compare(bucket->name, (struct wring_signed_by){own, me},
                                 (struct wring_signed_by){entry->signature, rank}, text,
                                 WRING_TEXT_MAX) ||
        !compare_group(bucket, rank, entry, text))
        return false;
    set_abilities(bucket, entry->abilities);
    return true;
}

static bool compare_with_rank(struct wring_session *session, uint32_t rank,
                              const struct list *theirs, char *text)
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

/** Connect the members of all groups. Only then do they know each other's mappable memory: the
 *  connection may use another device than both have chosen. */
static enum wring_status connect_members(struct wring_session *session)
{
    enum wring_status status = WRING_OK;
    for (const struct wring_bucket *at = session->buckets; at != NULL && status == WRING_OK;
         at = at->next)
        if (!wring_shape_has_partners(at)) /* they connect once that is settled */
            status = wring_session_reach(session, &at->group->members);
    return status;
}

enum wring_status wring_commit_compare(struct wring_session *session)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;
    char text[WRING_TEXT_MAX] = "";

    enum wring_status status = connect_members(session);
    if (status != WRING_OK)
        return status;
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        at->placed = at->mapped = true;
        set_abilities(at, abilities_of(at));
    }
    write_own_list(session, &writer);
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
        if (!compare_with_rank(session, i, &list, text))
            status = WRING_ERR_MISMATCH;
        free(list.entries);
    }
    wring_blobs_finish(&blobs);
    return wring_session_agree(session, status, text);
}

/* ---- commit ---- */

void wring_commit_undo(struct wring_session *session)
{
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        wring_bucket_uncommit(at);
        wring_engine_remove_channel(session->engine, &at->scatter);
        wring_engine_remove_channel(session->engine, &at->gather);
        wring_channel_finish(&at->scatter);
        wring_channel_finish(&at->gather);
        wring_stats_unlist(session, at->collective.shm_flags);
        wring_coding_destroy(at->collective.work.coding);
        at->collective.work.coding = NULL;
        wring_collective_finish(&at->collective);
        wring_block_finish(&at->keys);
        wring_block_finish(&at->borrowed);
        at->revoked = 0;
        at->block = NULL;
    }
    for (struct wring_bucket *at = session->fused; at != NULL; at = at->next)
        wring_bucket_uncommit(at);
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

static enum wring_status register_data(struct wring_session *session)
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
    enum wring_status status = register_data(session);
    wring_progress_unlock(session->progress);
    return status;
}

static bool is_exchanged_with(const struct wring_bucket *bucket, uint32_t rank)
{
    uint32_t member = wring_members_find(wring_shape_members(bucket), rank);
    return member < bucket->group->members.n &&
           wring_collective_pairs_with(&bucket->collective, member);
}

/** Is a bucket exchanged with that rank? We are connected to it then. */
static bool is_any_exchanged_with(const struct wring_session *session, uint32_t rank)
{
    const struct wring_bucket *at = session->buckets;
    while (at != NULL && !is_exchanged_with(at, rank))
        at = at->next;
    return at != NULL;
}

/** Connect to the members that exchange pieces of a bucket with us. */
static enum wring_status reach_partners(struct wring_session *session,
                                        const struct wring_bucket *bucket)
{
    const struct wring_members *all = wring_shape_members(bucket);
    uint32_t *ranks = malloc(all->n * sizeof(*ranks)), n = 0;
    if (ranks == NULL)
        return WRING_ERR_NO_MEMORY;
    ranks[n++] = session->rank;
    for (uint32_t i = 0; i < all->n; i++)
        if (i != all->me && wring_collective_pairs_with(&bucket->collective, i))
            ranks[n++] = all->ranks[i];
    const struct wring_members partners = {.n = n, .ranks = ranks};
    enum wring_status status = wring_session_reach(session, &partners);
    free(ranks);
    return status;
}

/** Those who are not connected already: see connect_members(). */
static enum wring_status connect_partners(struct wring_session *session)
{
    enum wring_status status = WRING_OK;
    for (const struct wring_bucket *at = session->buckets; at != NULL && status == WRING_OK;
         at = at->next)
        status = reach_partners(session, at);
    return status;
}

static enum wring_status import_all_endpoints(struct wring_session *session,
                                              const struct wring_blobs *blobs)
{
    enum wring_status status = WRING_OK;
    for (uint32_t i = 0; i < session->size && status == WRING_OK; i++)
        if (i != session->rank && is_any_exchanged_with(session, i))
            status = wring_commit_read_endpoints(session, wring_fabric_peer(session->fabric, i),
                                                 wring_blobs_reader(blobs, i));
    return status;
}

static enum wring_status exchange_endpoints(struct wring_session *session)
{
    struct wring_writer endpoints = {0};
    struct wring_blobs blobs;

    wring_progress_lock(session->progress);
    enum wring_status status = wring_commit_make(session);
    if (status == WRING_OK)
        wring_commit_write_endpoints(session, &endpoints);
    wring_progress_unlock(session->progress);
    status = wring_session_agree(session, status, "");
    if (status == WRING_OK)
        status = connect_partners(session);
    if (status != WRING_OK) {
        free(endpoints.data);
        return status;
    }
    status = wring_session_exchange_writer(session, &endpoints, &blobs);
    if (status != WRING_OK)
        return status;
    wring_progress_lock(session->progress);
    status = wring_session_check(session);
    if (status == WRING_OK)
        status = import_all_endpoints(session, &blobs);
    wring_progress_unlock(session->progress);
    wring_blobs_finish(&blobs);
    return wring_session_agree(session, status, "");
}

static void log_bucket(const struct wring_session *session, const struct wring_bucket *bucket)
{
    const struct wring_shape *shape = &bucket->shape;
    wring_debug(&session->log,
                "bucket '%s': %" PRIu64 " elements, codec %s, %s, pieces of %" PRIu64, bucket->name,
                bucket->elems, wring_bucket_spec(bucket), wring_algorithms[shape->algorithm].name,
                shape->partition.chunk_elems);
}

enum wring_status wring_commit_connect(struct wring_session *session)
{
    enum wring_status status = exchange_endpoints(session);
    if (status != WRING_OK)
        return status;
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        wring_bucket_set_committed(at);
        log_bucket(session, at);
    }
    for (struct wring_bucket *at = session->fused; at != NULL; at = at->next)
        wring_bucket_set_committed(at);
    return WRING_OK;
}

/** Is any step in flight that goes past the engine, or has not come to it yet? */
static bool is_any_under_way(const struct wring_session *session)
{
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (wring_bucket_under_way(at))
            return true;
    for (const struct wring_bucket *at = session->fused; at != NULL; at = at->next)
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

/** Can late pieces of an aborted group still come? The commit gives their slots to others. */
static bool may_late_pieces_come(const struct wring_session *session)
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
    while (may_late_pieces_come(session) && wring_session_check(session) == WRING_OK &&
           wring_now_ns() < until_ns) {
        wring_engine_poll(session->engine);
        wring_progress_unlock(session->progress);
        nanosleep(&pause, NULL);
        wring_progress_lock(session->progress);
    }
    if (wring_engine_idle(session->engine) && !is_any_under_way(session) &&
        !may_late_pieces_come(session)) {
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
