/* SPDX-License-Identifier: Apache-2.0 */
/* Newcomers come into a session, and get the state of the ranks that are there. */
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "runtime/bucket.h"
#include "runtime/elastic/elastic.h"
#include "runtime/versioned_struct.h"
#include "transport/bootstrap/newcomer.h"

#define WRING_MODULE "elastic"
#define DIGEST_BYTES 32

/* ---- the door ---- */

void wring_guests_admit(const struct wring_session *session, struct wring_guests *guests)
{
    const struct wring_config *config = &session->config;
    int door = config->door_fd >= 0 ? (int)config->door_fd : session->door_fd;

    while (door >= 0 && guests->n < WRING_MEMBERSHIP_GUESTS) {
        int fd = wring_newcomer_admit(&session->log, door, config->key);
        if (fd < 0)
            return;
        guests->fds[guests->n++] = fd;
    }
}

void wring_guests_turn_away(struct wring_guests *guests)
{
    while (guests->n > 0)
        wring_descriptor_close(guests->fds[--guests->n]);
}

void wring_guests_tell(const struct wring_session *session, struct wring_guests *guests,
                       const struct wring_membership_plan *plan)
{
    struct wring_newcomer_place place = {
        .nonce = plan->nonce, .seed = session->seed, .port = plan->port};
    uint32_t n;

    place.rank = wring_membership_guests(plan, session->rank, session->size, &n);
    wring_membership_number(plan, 0, session->size, &place.size);
    place.size += plan->guests;
    memcpy(place.address, plan->address, sizeof(place.address));
    for (uint32_t i = 0; i < n && i < guests->n; i++, place.rank++)
        if (!wring_newcomer_tell(guests->fds[i], &place))
            wring_warn(&session->log, "a newcomer went away before it was rank %" PRIu32,
                       place.rank);
    wring_guests_turn_away(guests);
}

/* ---- grow ---- */

static enum wring_status check_grow(struct wring_session *session)
{
    if (wring_session_is_inherited(session))
        return wring_session_refuse(session);
    if (wring_session_refuses_to_wait(session, "wring_session_grow"))
        return WRING_ERR_INVALID;
    enum wring_status status = wring_session_check(session);
    for (const struct wring_bucket *at = session->buckets; at != NULL && status == WRING_OK;
         at = at->next)
        status = wring_bucket_under_way(at) ? WRING_ERR_BUSY : WRING_OK;
    return status == WRING_OK ? wring_elastic_check(session) : status;
}

/** Does anybody wait at the door of any rank? */
static enum wring_status count_guests(struct wring_session *session, uint32_t ours, uint32_t *all)
{
    if (session->size == 1) {
        *all = ours;
        return WRING_OK;
    }
    return wring_allreduce(session->world, &ours, all, 1, WRING_U32, WRING_SUM, NULL, NULL);
}

enum wring_status wring_session_grow(struct wring_session *session, uint64_t timeout_ns,
                                     struct wring_session **out)
{
    struct wring_guests guests = {0};
    uint32_t all = 0;

    enum wring_status status = check_grow(session);
    if (status != WRING_OK)
        return status;
    if (timeout_ns == 0)
        timeout_ns = session->config.join_timeout_ns;
    uint64_t deadline_ns = wring_deadline_in(timeout_ns);
    wring_guests_admit(session, &guests);
    status = count_guests(session, guests.n, &all);
    if (status == WRING_OK && all > 0)
        status = wring_elastic_reform(session, deadline_ns, deadline_ns, &guests, out);
    else if (status == WRING_OK)
        *out = session;
    wring_guests_turn_away(&guests);
    return status;
}

/* ---- what newcomers need to know ---- */

/** What a rank says of its copy. */
struct copy_word {
    uint8_t digest[DIGEST_BYTES];
};

/** Steps and shared arrays of all buckets. */
static void write_buckets(struct wring_session *session, struct wring_writer *writer)
{
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        const struct wring_codec_states *states = at->states;
        if (at->whole != NULL)
            continue;
        wring_write_u64(writer, at->collective.step);
        for (uint32_t i = 0; states != NULL && i < states->n; i++)
            if (states->what[i].holder == WRING_CODEC_SHARED)
                wring_write(writer, states->now[i],
                            states->counts[i] * wring_codec_states_elem_bytes(states, i));
    }
}

/** The same from another rank, of buckets that are committed alike. */
static void read_buckets(struct wring_session *session, struct wring_reader *reader)
{
    for (struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        struct wring_codec_states *states = at->states;
        if (at->whole != NULL)
            continue;
        at->collective.step = wring_read_u64(reader);
        for (uint32_t i = 0; states != NULL && i < states->n; i++) {
            size_t bytes = states->counts[i] * wring_codec_states_elem_bytes(states, i);
            if (states->what[i].holder != WRING_CODEC_SHARED)
                continue;
            const void *values = wring_read(reader, bytes);
            if (values != NULL)
                memcpy(states->now[i], values, bytes);
        }
    }
}

/** SHA-256 of both. @return false: it cannot be had */
static bool digest_copy(const struct wring_writer *buckets, const void *state, size_t bytes,
                        struct copy_word *word)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool done = context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1 &&
                EVP_DigestUpdate(context, buckets->data, buckets->bytes) == 1 &&
                EVP_DigestUpdate(context, state, bytes) == 1 &&
                EVP_DigestFinal_ex(context, word->digest, NULL) == 1;

    EVP_MD_CTX_free(context);
    return done;
}

/** @param all  out, [session->size] @param alike  out: do all have what rank 0 has? */
static enum wring_status compare_copies(struct wring_session *session,
                                        const struct wring_writer *buckets, const void *state,
                                        size_t bytes, bool *alike)
{
    struct copy_word own;
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    bool done = !buckets->failed && digest_copy(buckets, state, bytes, &own);
    enum wring_status status = wring_session_agree(session, done ? WRING_OK : WRING_ERR_SYSTEM,
                                                   "libcrypto gives no SHA-256, or no memory");
    if (status != WRING_OK)
        return status;
    wring_write(&writer, own.digest, sizeof(own.digest));
    status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    *alike = true;
    for (uint32_t i = 0; i < blobs.n; i++) {
        struct wring_reader theirs = wring_blobs_reader(&blobs, i);
        *alike &= theirs.bytes == DIGEST_BYTES &&
                  memcmp(theirs.data, blobs.storage + blobs.offsets[0], DIGEST_BYTES) == 0;
    }
    wring_blobs_finish(&blobs);
    return WRING_OK;
}

static enum wring_status send_copies(struct wring_session *session, struct wring_writer *buckets,
                                     void *state, size_t bytes)
{
    enum wring_status status = WRING_OK;

    if (buckets->bytes > 0)
        status = wring_broadcast(session->world, buckets->data, buckets->bytes, 0, NULL, NULL);
    if (status == WRING_OK && bytes > 0)
        status = wring_broadcast(session->world, state, bytes, 0, NULL, NULL);
    if (status != WRING_OK)
        return status;
    struct wring_reader reader = {buckets->data, buckets->bytes, false};
    read_buckets(session, &reader);
    return reader.failed ? WRING_ERR_FRAME : WRING_OK;
}

static enum wring_status check_share(struct wring_session *session, const void *state, size_t bytes)
{
    if (wring_session_refuses_to_wait(session, "wring_session_share") ||
        (state == NULL && bytes > 0))
        return WRING_ERR_INVALID;
    enum wring_status status = wring_session_check(session);
    for (const struct wring_bucket *at = session->buckets; at != NULL && status == WRING_OK;
         at = at->next) {
        if (!at->committed)
            status = WRING_ERR_INVALID;
        else if (wring_bucket_under_way(at))
            status = WRING_ERR_BUSY;
    }
    return status;
}

static enum wring_status share(struct wring_session *session, void *state, size_t bytes)
{
    struct wring_writer buckets = {0};
    bool alike = false;

    write_buckets(session, &buckets);
    enum wring_status status = compare_copies(session, &buckets, state, bytes, &alike);
    if (status == WRING_OK && !alike) {
        status = send_copies(session, &buckets, state, bytes);
        if (status == WRING_OK)
            status = compare_copies(session, &buckets, state, bytes, &alike);
        if (status == WRING_OK && !alike) {
            wring_error(&session->log,
                        "wring_session_share: a rank has other bytes than rank 0 sent: %s",
                        "they were damaged on the way, or the memory was written to meanwhile");
            status = WRING_ERR_FRAME;
        }
    }
    free(buckets.data);
    return status;
}

enum wring_status wring_session_share(struct wring_session *session, void *state, size_t bytes)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    enum wring_status status = check_share(session, state, bytes);
    return wring_session_leave(session, status == WRING_OK ? share(session, state, bytes) : status);
}
