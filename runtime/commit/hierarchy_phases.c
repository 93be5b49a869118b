/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/commit/hierarchy_phases.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "runtime/group/group.h"
#include "runtime/session/session.h"

#define WRING_MODULE "commit"
#define SLICE_ELEMS                                                                 \
    (1u << 18) /* or more: of fewer there is little to overlap. Whatever is set, as \
                  who owns an element follows from it */

/** A leg's name is that of its bucket, told apart from all that an application may choose. */
static void name_leg(const struct wring_bucket *whole, uint32_t slice, enum wring_leg leg,
                     char *name)
{
    static const char *const words[] = {"in", "across", "out"};
    uint64_t hash = wring_fnv64(WRING_FNV64, whole->name, strlen(whole->name));

    snprintf(name, WRING_NAME_MAX, "%.30s (%016" PRIx64 " %s %" PRIu32 ")", whole->name, hash,
             words[leg], slice);
}

/** @param span  of the whole's elements */
static enum wring_status make_leg(struct wring_bucket *whole, uint32_t slice, enum wring_leg leg,
                                  struct wring_span span)
{
    struct wring_bucket *bucket = calloc(1, sizeof(*bucket));
    size_t offset = (size_t)span.begin * wring_dtype_bytes(whole->dtype);

    if (bucket == NULL)
        return WRING_ERR_NO_MEMORY;
    bucket->session = whole->session;
    bucket->ops = &wring_bucket_alone;
    bucket->posted_as = bucket;
    name_leg(whole, slice, leg, bucket->name);
    bucket->data = (uint8_t *)whole->data + offset;
    bucket->elems = span.end - span.begin;
    bucket->dtype = whole->dtype;
    bucket->op = whole->op;
    bucket->scheme = wring_scheme_across(whole->scheme);
    bucket->priority = whole->priority;
    bucket->group = leg == WRING_LEG_ACROSS ? whole->group->across : whole->group->node;
    memcpy(bucket->executor, whole->executor, sizeof(bucket->executor));
    bucket->queue = whole->queue;
    bucket->place = whole->place;
    bucket->codec = whole->codec;
    bucket->whole = whole;
    bucket->leg = leg;
    bucket->first = span.begin;
    whole->levels->legs[slice][leg] = bucket;
    whole->levels->driven.slices[slice].legs[leg] = &bucket->collective;
    return WRING_OK;
}

/** The shard of a slice that this rank owns in its node. */
static struct wring_span own_shard(const struct wring_bucket *whole, struct wring_span slice)
{
    const struct wring_members *node = &whole->group->node->members;
    struct wring_partition partition = {
        .elems = slice.end - slice.begin,
        .grain = wring_partition_grain(slice.end - slice.begin, whole->codec),
        .shards = node->n,
    };
    struct wring_span span = wring_partition_shard(&partition, node->me);
    return (struct wring_span){slice.begin + span.begin, slice.begin + span.end};
}

static enum wring_status make_slice(struct wring_bucket *whole, uint32_t number,
                                    struct wring_span slice)
{
    enum wring_status status = make_leg(whole, number, WRING_LEG_IN, slice);
    if (status == WRING_OK)
        status = make_leg(whole, number, WRING_LEG_ACROSS, own_shard(whole, slice));
    return status == WRING_OK ? make_leg(whole, number, WRING_LEG_OUT, slice) : status;
}

/** As many as are worth it; of a codec whose unit is the whole bucket there is one. */
static uint32_t count_slices(const struct wring_bucket *whole)
{
    uint64_t n = whole->elems / SLICE_ELEMS;

    if (n <= 1 || wring_codec_info(whole->codec)->unit == 0)
        return 1;
    return n < WRING_SLICES_MAX ? (uint32_t)n : WRING_SLICES_MAX;
}

/** The legs follow their bucket in the session's list. */
static void link_legs_after_bucket(struct wring_bucket *whole)
{
    struct wring_bucket *last = whole, *after = whole->next;

    for (uint32_t i = 0; i < whole->levels->n; i++)
        for (uint32_t leg = 0; leg < WRING_LEGS; leg++)
            last = last->next = whole->levels->legs[i][leg];
    last->next = after;
}

static void forget_legs(struct wring_bucket *whole)
{
    free(whole->levels);
    whole->levels = NULL;
}

static enum wring_status make_legs(struct wring_bucket *whole)
{
    struct wring_partition partition = {
        .elems = whole->elems,
        .grain = wring_partition_grain(whole->elems, whole->codec),
        .shards = count_slices(whole),
    };
    enum wring_status status = WRING_OK;

    whole->levels = calloc(1, sizeof(*whole->levels));
    if (whole->levels == NULL)
        return WRING_ERR_NO_MEMORY;
    whole->levels->n = whole->levels->driven.n = partition.shards;
    for (uint32_t i = 0; i < partition.shards && status == WRING_OK; i++)
        status = make_slice(whole, i, wring_partition_shard(&partition, i));
    if (status == WRING_OK) {
        link_legs_after_bucket(whole);
        return WRING_OK;
    }
    for (uint32_t i = 0; i < whole->levels->n; i++)
        for (uint32_t leg = 0; leg < WRING_LEGS; leg++)
            free(whole->levels->legs[i][leg]);
    forget_legs(whole);
    return status;
}

/** A group's nodes are not equal: say so, once, or refuse the plan that takes them to be. */
static enum wring_status go_flat_or_refuse(const struct wring_bucket *bucket,
                                           const struct wring_group_nodes *nodes)
{
    const struct wring_log *log = &bucket->session->log;
    char why[160];

    snprintf(why, sizeof(why),
             "needs equally many ranks on each node, and rank %" PRIu32 "'s has %" PRIu32
             ", rank %" PRIu32 "'s %" PRIu32,
             nodes->least_rank, nodes->least, nodes->most_rank, nodes->most);
    if (bucket->session->plan != NULL) {
        wring_error(log,
                    "WRING_PLAN=%s: '%s' goes hierarchically, which %s: start as many on each, or "
                    "plan with --without hierarchy",
                    bucket->session->config.plan, bucket->name, why);
        return WRING_ERR_MISMATCH;
    }
    if (bucket->group->members.me == 0 && !bucket->group->told_flat)
        wring_warn(log,
                   "to go hierarchically %s: '%s', and all like it, goes flat; start as many on "
                   "each, or choose a flat scheme",
                   why, bucket->name);
    bucket->group->told_flat = true;
    return WRING_OK;
}

/** Votes of ranks count, not of nodes. Said where there are nodes of several. */
static void say_that_votes_go_flat(const struct wring_bucket *bucket)
{
    const struct wring_group_nodes *nodes = &bucket->group->nodes;

    if (nodes->n < 2 || nodes->most < 2)
        return;
    if (bucket->group->members.me == 0 && !bucket->group->told_votes)
        wring_warn(&bucket->session->log,
                   "%s votes, which nodes cannot do for their ranks: '%s', and all like it, goes "
                   "flat; choose a flat scheme",
                   wring_codec_info(bucket->codec)->spec, bucket->name);
    bucket->group->told_votes = true;
}

static enum wring_status make_legs_if_wanted(struct wring_bucket *bucket)
{
    struct wring_group_nodes nodes = bucket->group->nodes;

    if (wring_codec_info(bucket->codec)->flags & WRING_CODEC_VOTES) {
        say_that_votes_go_flat(bucket);
        return WRING_OK;
    }
    if (nodes.least != nodes.most)
        return go_flat_or_refuse(bucket, &nodes);
    struct wring_operation operation = wring_shape_operation(bucket, false);
    if (wring_algorithm_order(&operation) != WRING_ORDER_NODES)
        return WRING_OK;
    enum wring_status status = wring_group_split(bucket->group);
    return status == WRING_OK ? make_legs(bucket) : status;
}

enum wring_status wring_legs_make(struct wring_session *session)
{
    enum wring_status status = WRING_OK;
    struct wring_bucket *next;

    for (struct wring_bucket *at = session->buckets; at != NULL && status == WRING_OK; at = next) {
        next = at->next; /* legs come in between */
        if (wring_scheme_is_hierarchical(at->scheme) && at->elems > 0)
            status = make_legs_if_wanted(at);
        else if (at->scheme == WRING_SCHEME_RING)
            status = wring_group_make_ring(at->group);
    }
    return status;
}

void wring_legs_remove(struct wring_session *session)
{
    for (struct wring_bucket **at = &session->buckets; *at != NULL;) {
        struct wring_bucket *bucket = *at;
        if (bucket->whole == NULL) {
            forget_legs(bucket);
            at = &bucket->next;
            continue;
        }
        *at = bucket->next;
        wring_bucket_free(bucket);
    }
}
