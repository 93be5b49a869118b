/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_setup.h"

#include <stdlib.h>
#include <string.h>

#include "transport/providers/verbs/verbs.h"

#define PAGE 4096

void wring_verbs_say_offer(struct verbs_conn *conn)
{
    const struct verbs_provider *verbs = wring_verbs_of(conn);
    uint8_t packed[VERBS_OFFER_MAX];
    struct verbs_offer offer = {.qps = verbs->settings.qps,
                                .stripe_bytes = verbs->settings.stripe_bytes,
                                .n_rails = verbs->n_rails};
    for (unsigned i = 0; i < verbs->n_rails; i++)
        offer.rails[i] = wring_verbs_end_of(&verbs->rails[i].choice);
    size_t bytes = wring_verbs_offer_pack(&offer, packed);
    uint8_t *to = wring_verbs_stream_add(conn, VERBS_WORD_OFFER, bytes);
    if (to != NULL)
        memcpy(to, packed, bytes);
}

static void say_cards(struct verbs_conn *conn)
{
    uint8_t *to =
        wring_verbs_stream_add(conn, VERBS_WORD_CARDS, conn->n_paths * (size_t)VERBS_CARD_BYTES);
    for (unsigned i = 0; to != NULL && i < conn->n_paths; i++)
        wring_verbs_card_pack(&conn->paths[i]->card, to + i * (size_t)VERBS_CARD_BYTES);
}

static enum wring_status make_buffers(struct verbs_conn *conn, unsigned n_paths)
{
    size_t bytes = sizeof(*conn->buffers) + n_paths * sizeof(conn->buffers->receives[0]);
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    conn->buffers = aligned_alloc(PAGE, bytes);
    if (conn->buffers == NULL)
        return WRING_ERR_NO_MEMORY;
    memset(conn->buffers, 0, bytes);
    const struct wring_memory memory = {
        .base = conn->buffers, .bytes = bytes, .kind = WRING_MEMORY_HOST, .fd = -1};
    return wring_verbs_pin(wring_verbs_of(conn)->memory, &memory, VERBS_PIN_WORDS, &conn->pin);
}

/** Paths go round the pairs of rails. */
static enum wring_status make_paths(struct verbs_conn *conn, const struct verbs_pair *pairs,
                                    unsigned n_pairs, unsigned n_paths)
{
    struct verbs_provider *verbs = wring_verbs_of(conn);
    enum wring_status status = make_buffers(conn, n_paths);
    for (unsigned i = 0; status == WRING_OK && i < n_paths; i++) {
        const struct verbs_pair *pair = &pairs[i % n_pairs];
        unsigned mine = conn->accepted ? pair->accepting : pair->dialing;
        unsigned its = conn->accepted ? pair->dialing : pair->accepting;
        status = wring_verbs_path_create(conn, i, &verbs->rails[mine], its, pair->mtu);
        conn->n_paths += status == WRING_OK;
    }
    return status;
}

static unsigned pair_rails(struct verbs_conn *conn, const struct verbs_offer *offer,
                           struct verbs_pair *pairs, char *why, size_t bytes)
{
    const struct verbs_provider *verbs = wring_verbs_of(conn);
    struct verbs_end ours[VERBS_RAILS_MAX];
    for (unsigned i = 0; i < verbs->n_rails; i++)
        ours[i] = wring_verbs_end_of(&verbs->rails[i].choice);
    if (conn->accepted)
        return (unsigned)wring_verbs_pair(offer->rails, offer->n_rails, ours, verbs->n_rails, false,
                                          pairs, why, bytes);
    return (unsigned)wring_verbs_pair(ours, verbs->n_rails, offer->rails, offer->n_rails, true,
                                      pairs, why, bytes);
}

/** What both sides come to from their settings. @return paths per pair of rails */
static unsigned settle(struct verbs_conn *conn)
{
    const struct verbs_settings *settings = &wring_verbs_of(conn)->settings;
    const struct verbs_offer *offer = &conn->offer;
    uint64_t most =
        offer->stripe_bytes > settings->stripe_bytes ? offer->stripe_bytes : settings->stripe_bytes;
    conn->in_set.stripes.threshold = conn->out_set.stripes.threshold =
        (most + VERBS_STRIPE_ALIGN - 1) / VERBS_STRIPE_ALIGN * VERBS_STRIPE_ALIGN;
    return offer->qps < settings->qps ? offer->qps : settings->qps;
}

void wring_verbs_take_offer(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
    struct verbs_pair pairs[VERBS_RAILS_MAX];
    char why[VERBS_TEXT / 2];
    if (!wring_verbs_offer_unpack(data, bytes, &conn->offer)) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed list of rails");
        return;
    }
    unsigned n = pair_rails(conn, &conn->offer, pairs, why, sizeof(why));
    if (n == 0) {
        wring_verbs_conn_fail(conn, WRING_ERR_DEVICE, "no rail reaches peer %s: %s",
                              conn->peer_name, why);
        return;
    }
    unsigned paths = n * settle(conn);
    enum wring_status status =
        make_paths(conn, pairs, n, paths < VERBS_PATHS_MAX ? paths : VERBS_PATHS_MAX);
    if (status != WRING_OK) {
        wring_verbs_conn_fail(conn, status, "no queue pairs for peer %s", conn->peer_name);
        return;
    }
    wring_verbs_set_paths(conn, 0, &conn->in_set);
    wring_verbs_set_paths(conn, 0, &conn->out_set);
    conn->state = VERBS_CARDS;
    say_cards(conn);
}

void wring_verbs_take_cards(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
    char why[VERBS_TEXT];
    if (bytes != conn->n_paths * (size_t)VERBS_CARD_BYTES) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "another number of queue pairs");
        return;
    }
    for (unsigned i = 0; i < conn->n_paths; i++) {
        struct verbs_path *path = conn->paths[i];
        if (!wring_verbs_card_unpack(data + i * (size_t)VERBS_CARD_BYTES, &path->peer)) {
            wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed queue pair address");
            return;
        }
        if (wring_verbs_path_connect(path, why, sizeof(why)) != WRING_OK) {
            wring_verbs_conn_fail(conn, WRING_ERR_DEVICE, "%s", why);
            return;
        }
    }
    conn->state = VERBS_READY;
    wring_verbs_stream_add(conn, VERBS_WORD_READY, 0);
}

void wring_verbs_take_ready(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
    (void)data;
    if (bytes != 0) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed word after the set-up");
        return;
    }
    conn->state = VERBS_OPEN;
    conn->surfaced = conn->news = true;
}
