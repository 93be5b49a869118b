/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which buckets' codecs run. Trials tell how long steps take with and without, in this group, over
 * this link, on these cores; wring_bypass_choose() is the rule. All members of a group measured the
 * same and so decide alike.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/commit/commit.h"
#include "runtime/commit/trials.h"

#define WRING_MODULE "commit"

static bool is_raw(const struct wring_bucket *bucket)
{
    return (wring_codec_info(bucket->codec)->flags & WRING_CODEC_RAW) != 0;
}

/** Is there anything to choose? Not where a step would mean another thing without the codec. */
static bool has_choice(const struct wring_bucket *bucket)
{
    return !is_raw(bucket) && !(wring_codec_info(bucket->codec)->flags & WRING_CODEC_ALTERS) &&
           bucket->elems > 0 && bucket->group->members.n > 1 &&
           bucket->whole == NULL; /* legs do as their bucket */
}

/** A bucket's way, with its codec or another. */
static struct wring_tried way_of(const struct wring_bucket *bucket, const char *spec)
{
    struct wring_tried way = {
        .ranks = bucket->group->ranks,
        .n = bucket->group->members.n,
        .group = bucket->group,
        .scheme = bucket->scheme,
        .placed = bucket->placed,
        .wanted = wring_bucket_bytes(bucket),
        .fresh = true, /* until it is found */
    };
    strncpy(way.spec, spec, sizeof(way.spec) - 1);
    memcpy(way.executor, bucket->executor, sizeof(way.executor));
    return way;
}

/** The order of trials: by the ranks first, the same for all who meet in several groups. */
static int compare_ways(const struct wring_tried *a, const struct wring_tried *b)
{
    for (uint32_t i = 0; i < a->n && i < b->n; i++)
        if (a->ranks[i] != b->ranks[i])
            return a->ranks[i] < b->ranks[i] ? -1 : 1;
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    if (a->scheme != b->scheme)
        return a->scheme < b->scheme ? -1 : 1;
    if (a->placed != b->placed)
        return a->placed < b->placed ? -1 : 1;
    int executors = strcmp(a->executor, b->executor);
    return executors != 0 ? executors : strcmp(a->spec, b->spec);
}

/** The place in the list where such a way is, or belongs. */
static struct wring_tried **place_of(struct wring_session *session, const struct wring_tried *way)
{
    struct wring_tried **at = &session->tried;
    while (*at != NULL && compare_ways(*at, way) < 0)
        at = &(*at)->next;
    return at;
}

static struct wring_tried *find(struct wring_session *session, const struct wring_tried *way)
{
    struct wring_tried *at = *place_of(session, way);
    return at != NULL && compare_ways(at, way) == 0 ? at : NULL;
}

/** Have a way measured, up to its size, unless it is. */
static enum wring_status want(struct wring_session *session, const struct wring_tried *way)
{
    struct wring_tried *known = find(session, way);
    if (known != NULL) {
        known->group = way->group;
        known->wanted = way->wanted > known->wanted ? way->wanted : known->wanted;
        known->fresh = known->wanted > known->measured;
        return WRING_OK;
    }
    struct wring_tried *tried = malloc(sizeof(*tried));
    uint32_t *ranks = malloc(way->n * sizeof(*ranks));
    if (tried == NULL || ranks == NULL) {
        free(tried);
        free(ranks);
        return WRING_ERR_NO_MEMORY;
    }
    memcpy(ranks, way->ranks, way->n * sizeof(*ranks));
    struct wring_tried **place = place_of(session, way);
    *tried = *way;
    tried->ranks = ranks;
    tried->next = *place;
    *place = tried;
    return WRING_OK;
}

/** All that is to be measured for the buckets as they are now. @param any out: is anything? */
static enum wring_status want_all(struct wring_session *session, bool *any)
{
    *any = false;
    for (struct wring_tried *at = session->tried; at != NULL; at = at->next) {
        at->wanted = 0;
        at->fresh = false;
    }
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        if (!has_choice(at))
            continue;
        struct wring_tried with = way_of(at, wring_codec_info(at->codec)->spec);
        struct wring_tried without = way_of(at, "none");
        with.wanted = at->elems * sizeof(float);
        enum wring_status status = want(session, &with);
        if (status == WRING_OK)
            status = want(session, &without);
        if (status != WRING_OK)
            return status;
    }
    for (const struct wring_tried *at = session->tried; at != NULL; at = at->next)
        *any |= at->fresh;
    return WRING_OK;
}

/** Trials are for all ranks, or for none. @param any in, ours; out */
static enum wring_status agree_on_any(struct wring_session *session, bool *any)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    wring_write_u32(&writer, *any);
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; i < session->size; i++) {
        struct wring_reader reader = wring_blobs_reader(&blobs, i);
        uint32_t theirs = wring_read_u32(&reader);
        *any |= theirs != 0;
        if (!reader.failed && theirs <= 1)
            continue;
        wring_error(&session->log, "rank %" PRIu32 " does not say whether it has trials to make",
                    i);
        status = WRING_ERR_FRAME;
    }
    wring_blobs_finish(&blobs);
    return status;
}

/** Trials are of float32, as which codecs see all elements: what a step takes of the bucket's bytes
 *  if it has fewer of them for as many elements. */
static struct wring_curve curve_of(const struct wring_tried *tried,
                                   const struct wring_bucket *bucket)
{
    struct wring_curve curve = tried->curve;
    for (uint32_t i = 0; i < curve.n; i++)
        curve.points[i].bytes =
            curve.points[i].bytes * wring_dtype_bytes(bucket->dtype) / sizeof(float);
    return curve;
}

static void choose(struct wring_session *session, struct wring_bucket *bucket)
{
    struct wring_tried with = way_of(bucket, wring_codec_info(bucket->codec)->spec);
    struct wring_tried without = way_of(bucket, "none");
    struct wring_choice *choice = &bucket->choice;

    const struct wring_curve coded = curve_of(find(session, &with), bucket);
    *choice =
        wring_bypass_choose(&coded, &find(session, &without)->curve, wring_bucket_bytes(bucket));
    wring_info(&session->log,
               "bucket '%s', %zu bytes: codec %s %s: a step is expected to take %.1f us with it, "
               "%.1f us without",
               bucket->name, wring_bucket_bytes(bucket), with.spec,
               choice->bypass ? "is left out" : "runs", (double)choice->with_ns / 1e3,
               (double)choice->without_ns / 1e3);
}

enum wring_status wring_commit_choose(struct wring_session *session)
{
    const char *how = session->plan == NULL ? session->config.bypass : "never";
    enum wring_status status = WRING_OK;
    bool any = false;

    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        at->choice = (struct wring_choice){.bypass = has_choice(at) && strcmp(how, "always") == 0};
    if (strcmp(how, "auto") == 0)
        status = want_all(session, &any);
    status = wring_session_agree(session, status, "");
    if (status == WRING_OK)
        status = agree_on_any(session, &any);
    if (status == WRING_OK && any)
        status = wring_trials_run(session);
    if (status != WRING_OK || strcmp(how, "auto") != 0)
        return status;
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (has_choice(at))
            choose(session, at);
    return WRING_OK;
}
