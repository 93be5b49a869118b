/* SPDX-License-Identifier: Apache-2.0 */
/* How buckets come to travel as one, and part again. */
#include <stdlib.h>

#include "runtime/plan/joined.h"
#include "runtime/residual.h"
#include "runtime/session/session.h"

#define WRING_MODULE "bucket"

/** Do they lie one after another? */
static bool is_contiguous(struct wring_bucket *const *members, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if ((uint8_t *)members[i]->data !=
            (uint8_t *)members[i - 1]->data + wring_bucket_bytes(members[i - 1]))
            return false;
    return true;
}

/** The carrier's memory: the members' own, or a buffer. */
static enum wring_status find_room(struct wring_session *session, struct wring_joined *joined,
                                   uint64_t elems, void **out)
{
    joined->in_place = is_contiguous(joined->members, joined->n);
    if (joined->in_place) {
        *out = joined->members[0]->data;
        return WRING_OK;
    }
    size_t bytes = (size_t)elems * wring_dtype_bytes(joined->members[0]->dtype);
    enum wring_status status = wring_buffer_alloc(session, bytes > 0 ? bytes : 1, out);
    joined->owns_data = status == WRING_OK;
    return status;
}

/** Take a bucket out of the session's list. */
static void unlist(struct wring_session *session, const struct wring_bucket *bucket)
{
    struct wring_bucket **at = &session->buckets;

    while (*at != bucket)
        at = &(*at)->next;
    *at = bucket->next;
}

static void append(struct wring_bucket **list, struct wring_bucket *bucket)
{
    while (*list != NULL)
        list = &(*list)->next;
    *list = bucket;
    bucket->next = NULL;
}

/** What a member held back goes into the carrier's residual. */
static void carry_residual(const struct wring_bucket *carrier, struct wring_bucket *member)
{
    wring_residual_loosen(member);
    if (member->residual != NULL)
        memcpy(carrier->residual + member->joined_at, member->residual,
               member->elems * sizeof(*member->residual));
    wring_residual_free(member);
}

/** A carrier whose codec holds nothing back sends on what its members did. */
static enum wring_status make_room_for_residuals(const struct wring_joined *joined)
{
    struct wring_bucket *carrier = joined->carrier;
    bool any = false;

    for (uint32_t i = 0; i < joined->n; i++)
        any |= joined->members[i]->residual != NULL;
    if (!any || carrier->residual != NULL || carrier->elems == 0)
        return WRING_OK;
    carrier->residual = wring_residual_alloc(carrier);
    return carrier->residual != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

static void take_members(struct wring_session *session, struct wring_joined *joined)
{
    uint64_t at = 0;

    joined->carrier->collective.step = joined->members[0]->collective.step;
    joined->carrier->loose = true;
    for (uint32_t i = 0; i < joined->n; i++) {
        struct wring_bucket *member = joined->members[i];
        unlist(session, member);
        append(&session->joined, member);
        member->joined = joined;
        member->carrier = joined->carrier;
        member->ops = &wring_bucket_joined;
        member->joined_at = at;
        member->joined_step = 0;
        at += member->elems;
        carry_residual(joined->carrier, member);
    }
}

/** An array of state belongs to one bucket, and to one codec. */
static enum wring_status check_states(const struct wring_session *session,
                                      const struct wring_joined *joined)
{
    const struct wring_bucket *with = joined->carrier->states != NULL ? joined->members[0] : NULL;

    for (uint32_t i = 0; i < joined->n; i++)
        if (joined->members[i]->states != NULL)
            with = joined->members[i];
    if (with == NULL)
        return WRING_OK;
    wring_error(
        &session->log,
        "bucket '%s': a plan cannot carry what codec %s keeps between steps; plan without "
        "that codec, or without the bucket",
        with->name,
        wring_codec_info(with->states != NULL ? with->codec : joined->carrier->codec)->spec);
    return WRING_ERR_UNSUPPORTED;
}

static enum wring_status make_carrier(struct wring_session *session, struct wring_joined *joined,
                                      const struct wring_joined_way *way)
{
    const struct wring_bucket *first = joined->members[0];
    struct wring_bucket_params params = {
        .name = way->name,
        .dtype = first->dtype,
        .op = first->op,
        .codec = way->codec,
        .scheme = way->scheme,
        .priority = way->priority,
        .group = first->group,
        .executor = way->executor != NULL ? way->executor : first->executor,
    };

    if (joined->n == 1) {
        params.shape.rows = first->rows;
        params.shape.columns = first->columns;
    }
    for (uint32_t i = 0; i < joined->n; i++)
        params.elems += joined->members[i]->elems;
    enum wring_status status = find_room(session, joined, params.elems, &params.data);
    if (status != WRING_OK)
        return status;
    status = wring_bucket_make(session, &params, &joined->carrier);
    if (status != WRING_OK)
        goto free_data;
    status = check_states(session, joined);
    if (status == WRING_OK)
        status = make_room_for_residuals(joined);
    if (status == WRING_OK)
        return WRING_OK;

    wring_bucket_free(joined->carrier);
free_data:
    if (joined->owns_data)
        wring_buffer_free(session, params.data);
    return status;
}

static void free_joined(struct wring_joined *joined)
{
    if (joined != NULL)
        free(joined->members);
    free(joined);
}

enum wring_status wring_join(struct wring_session *session, struct wring_bucket *const *members,
                             uint32_t n, const struct wring_joined_way *way)
{
    struct wring_joined *joined = calloc(1, sizeof(*joined));

    if (joined != NULL)
        joined->members = calloc(n, sizeof(*joined->members));
    if (joined == NULL || joined->members == NULL) {
        free_joined(joined);
        return WRING_ERR_NO_MEMORY;
    }
    memcpy(joined->members, members, n * sizeof(*members));
    joined->n = n;
    enum wring_status status = make_carrier(session, joined, way);
    if (status != WRING_OK) {
        free_joined(joined);
        return status;
    }
    joined->carrier->carries = joined;
    take_members(session, joined);
    append(&session->buckets, joined->carrier);
    return WRING_OK;
}

/** Its part of what the carrier held back, for a member whose own codec may not hold anything. */
static enum wring_status return_residual(const struct wring_bucket *carrier,
                                         struct wring_bucket *member)
{
    enum wring_status status = wring_bucket_make_residual(member);

    member->loose = true;
    if (status != WRING_OK || carrier->residual == NULL || member->elems == 0)
        return status;
    if (member->residual == NULL)
        member->residual = wring_residual_alloc(member);
    if (member->residual == NULL)
        return WRING_ERR_NO_MEMORY;
    memcpy(member->residual, carrier->residual + member->joined_at,
           member->elems * sizeof(*member->residual));
    return WRING_OK;
}

/** All members are without the carrier from then on, which is gone. */
static enum wring_status part(struct wring_session *session, struct wring_bucket *carrier)
{
    struct wring_joined *joined = carrier->carries;
    enum wring_status status = WRING_OK;

    wring_residual_loosen(carrier);
    for (uint32_t i = 0; i < joined->n; i++) {
        struct wring_bucket *member = joined->members[i];
        if (status == WRING_OK)
            status = return_residual(carrier, member);
        member->collective.step = carrier->collective.step;
        member->joined = NULL;
        member->carrier = member;
        member->ops = &wring_bucket_alone;
        member->joined_at = 0;
    }
    unlist(session, carrier);
    if (joined->owns_data)
        wring_buffer_free(session, carrier->data);
    wring_bucket_free(carrier); /* and `joined` with it */
    return status;
}

enum wring_status wring_part_all(struct wring_session *session)
{
    enum wring_status status = WRING_OK;

    for (struct wring_bucket *at = session->buckets, *next; at != NULL; at = next) {
        next = at->next;
        if (at->carries == NULL)
            continue;
        enum wring_status parted = part(session, at);
        status = status == WRING_OK ? parted : status;
    }
    while (session->joined != NULL) {
        struct wring_bucket *member = session->joined;
        session->joined = member->next;
        append(&session->buckets, member);
    }
    return status;
}
