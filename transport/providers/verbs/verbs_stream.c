/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The stream: first the proof of the key, then words. Each side offers its rails, makes queue pairs
 * for the pairs of rails that both find, tells their addresses, and says when they are ready.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/providers/handshake.h"
#include "transport/providers/verbs/verbs.h"

#define WRING_MODULE "verbs"
#define PAGE 4096

void wring_verbs_stream_close(struct verbs_conn *conn)
{
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
    conn->in_epoll = false;
}

/** Have the epoll set watch the stream for what is awaited now. */
static void watch(struct verbs_conn *conn)
{
    bool room = conn->state == VERBS_CONNECTING || conn->out_at < conn->out_end ||
                (conn->state == VERBS_AUTH && wring_handshake_wants_room(&conn->auth));
    struct epoll_event event = {.events = EPOLLIN | (room ? EPOLLOUT : 0u),
                                .data.ptr = &conn->watch};
    int op = conn->in_epoll ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (conn->fd < 0 || (conn->in_epoll && conn->room_in_epoll == room))
        return;
    if (epoll_ctl(wring_verbs_of(conn)->epoll, op, conn->fd, &event) != 0) {
        wring_verbs_conn_fail(conn, WRING_ERR_SYSTEM, "epoll_ctl: %s", strerror(errno));
        return;
    }
    conn->in_epoll = true;
    conn->room_in_epoll = room;
}

/* ---- words out ---- */

static void flush(struct verbs_conn *conn)
{
    if (conn->fd < 0 || conn->out_at == conn->out_end)
        return;
    ssize_t n = send(conn->fd, conn->out + conn->out_at, conn->out_end - conn->out_at,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        conn->out_at += (size_t)n;
    if (conn->out_at == conn->out_end)
        conn->out_at = conn->out_end = 0;
}

/** Room for a word, its header written. @return where its bytes go; NULL: the peer takes nothing */
static uint8_t *add_word(struct verbs_conn *conn, enum verbs_word word, size_t bytes)
{
    if (VERBS_WORD_HEADER + bytes > sizeof(conn->out) - conn->out_end) {
        wring_verbs_conn_fail(conn, WRING_ERR_PEER, "the peer does not read what it is told");
        return NULL;
    }
    uint8_t *at = conn->out + conn->out_end;
    wring_verbs_word_pack(word, bytes, at);
    conn->out_end += VERBS_WORD_HEADER + bytes;
    return at + VERBS_WORD_HEADER;
}

static void say_offer(struct verbs_conn *conn)
{
    const struct verbs_provider *verbs = wring_verbs_of(conn);
    uint8_t packed[VERBS_OFFER_MAX];
    struct verbs_offer offer = {.qps = verbs->settings.qps,
                                .stripe_bytes = verbs->settings.stripe_bytes,
                                .n_rails = verbs->n_rails};
    for (unsigned i = 0; i < verbs->n_rails; i++)
        offer.rails[i] = wring_verbs_end_of(&verbs->rails[i].choice);
    size_t bytes = wring_verbs_offer_pack(&offer, packed);
    uint8_t *to = add_word(conn, VERBS_WORD_OFFER, bytes);
    if (to != NULL)
        memcpy(to, packed, bytes);
}

static void say_cards(struct verbs_conn *conn)
{
    uint8_t *to = add_word(conn, VERBS_WORD_CARDS, conn->n_paths * (size_t)VERBS_CARD_BYTES);
    for (unsigned i = 0; to != NULL && i < conn->n_paths; i++)
        wring_verbs_card_pack(&conn->paths[i]->card, to + i * (size_t)VERBS_CARD_BYTES);
}

void wring_verbs_say_resync(struct verbs_conn *conn, const struct verbs_resync_word *word)
{
    uint8_t *to = add_word(conn, VERBS_WORD_RESYNC, VERBS_RESYNC_BYTES);
    if (to != NULL)
        wring_verbs_resync_pack(word, to);
    flush(conn);
    watch(conn);
}

void wring_verbs_say_resume(struct verbs_conn *conn, const struct verbs_resume_word *word)
{
    size_t bytes =
        VERBS_RESUME_BYTES + (size_t)__builtin_popcount(word->renewed) * VERBS_CARD_BYTES;
    uint8_t *to = add_word(conn, VERBS_WORD_RESUME, bytes);
    if (to == NULL)
        return;
    wring_verbs_resume_pack(word, to);
    to += VERBS_RESUME_BYTES;
    for (unsigned i = 0; i < conn->n_paths; i++)
        if ((word->renewed >> i & 1) != 0) {
            wring_verbs_card_pack(&conn->paths[i]->card, to);
            to += VERBS_CARD_BYTES;
        }
    flush(conn);
    watch(conn);
}

void wring_verbs_say_go(struct verbs_conn *conn, const struct verbs_resume_word *word)
{
    uint8_t *to = add_word(conn, VERBS_WORD_GO, VERBS_RESUME_BYTES);
    if (to != NULL)
        wring_verbs_resume_pack(word, to);
    flush(conn);
    watch(conn);
}

/* ---- set-up ---- */

static void finish_connect(struct verbs_conn *conn)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof(peer);
    int error = 0;
    socklen_t error_bytes = sizeof(error);

    getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
    if (error != 0)
        wring_verbs_conn_fail(conn, WRING_ERR_ADDRESS, "connect: %s", strerror(error));
    else if (getpeername(conn->fd, (struct sockaddr *)&peer, &bytes) == 0)
        conn->state = VERBS_AUTH;
}

static void step_auth(struct verbs_conn *conn)
{
    char why[VERBS_TEXT / 2] = "";
    enum wring_status status = wring_handshake_step(&conn->auth, conn->fd, why, sizeof(why));
    if (status == WRING_ERR_AGAIN)
        return;
    if (status != WRING_OK) {
        wring_verbs_conn_fail(conn, status, "%s", why);
        return;
    }
    wring_verbs_peer_name(conn->fd, conn->peer_name, sizeof(conn->peer_name));
    conn->state = VERBS_OFFER;
    say_offer(conn);
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

static void take_offer(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
    const struct verbs_settings *settings = &wring_verbs_of(conn)->settings;
    struct verbs_pair pairs[VERBS_RAILS_MAX];
    struct verbs_offer *offer = &conn->offer;
    char why[VERBS_TEXT / 2];
    if (!wring_verbs_offer_unpack(data, bytes, offer)) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed list of rails");
        return;
    }
    unsigned n = pair_rails(conn, offer, pairs, why, sizeof(why));
    if (n == 0) {
        wring_verbs_conn_fail(conn, WRING_ERR_DEVICE, "no rail reaches peer %s: %s",
                              conn->peer_name, why);
        return;
    }
    unsigned paths = n * (offer->qps < settings->qps ? offer->qps : settings->qps);
    uint64_t most =
        offer->stripe_bytes > settings->stripe_bytes ? offer->stripe_bytes : settings->stripe_bytes;
    paths = paths < VERBS_PATHS_MAX ? paths : VERBS_PATHS_MAX;
    conn->in_set.stripes.threshold = conn->out_set.stripes.threshold =
        (most + VERBS_STRIPE_ALIGN - 1) / VERBS_STRIPE_ALIGN * VERBS_STRIPE_ALIGN;
    enum wring_status status = make_paths(conn, pairs, n, paths);
    if (status != WRING_OK) {
        wring_verbs_conn_fail(conn, status, "no queue pairs for peer %s", conn->peer_name);
        return;
    }
    wring_verbs_set_all(conn);
    conn->state = VERBS_CARDS;
    say_cards(conn);
}

static void take_cards(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
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
        if (wring_verbs_path_connect(path) != WRING_OK) {
            wring_verbs_conn_fail(conn, WRING_ERR_DEVICE, "queue pair %u cannot be connected",
                                  path->qp->qp_num);
            return;
        }
    }
    conn->state = VERBS_READY;
    add_word(conn, VERBS_WORD_READY, 0);
}

static void take_ready(struct verbs_conn *conn, size_t bytes)
{
    if (bytes != 0) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed word after the set-up");
        return;
    }
    conn->state = VERBS_OPEN;
    conn->surfaced = conn->news = true;
}

/* ---- words in ---- */

static void take_resync(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
    struct verbs_resync_word word;
    if (wring_verbs_resync_unpack(data, bytes, &word))
        wring_verbs_take_resync(conn, &word);
    else
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed word about queue pairs");
}

static void take_resume(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
    struct verbs_resume_word word;
    if (wring_verbs_resume_unpack(data, bytes, &word))
        wring_verbs_take_resume(conn, &word, data + VERBS_RESUME_BYTES);
    else
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed word about messages");
}

static void take_go(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
    struct verbs_resume_word word;
    if (bytes == VERBS_RESUME_BYTES && wring_verbs_resume_unpack(data, bytes, &word))
        wring_verbs_take_go(conn, &word);
    else
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed word about going on");
}

/** The stream ended or failed. Puts that were done are complete at the peer, and so are its here */
static void end_stream(struct verbs_conn *conn, const char *why)
{
    if (conn->state != VERBS_OPEN && conn->state != VERBS_RESYNC) {
        wring_verbs_conn_fail(conn, WRING_ERR_PEER, "the peer closed while connecting: %s", why);
        return;
    }
    snprintf(conn->text, sizeof(conn->text), "peer %s left or died: %s", conn->peer_name, why);
    conn->status = WRING_ERR_PEER;
    conn->state = VERBS_DRAINING;
    wring_verbs_stream_close(conn);
}

bool wring_verbs_stream_ended(struct verbs_conn *conn)
{
    uint8_t byte;
    ssize_t n = conn->fd >= 0 ? recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) : 1;
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return false;
    end_stream(conn, n == 0 ? "its stream ended" : strerror(errno));
    return true;
}

/** Read up to `bytes` in all into conn->in; true when they are there. */
static bool fill(struct verbs_conn *conn, size_t bytes)
{
    if (conn->in_got >= bytes)
        return true;
    ssize_t n = recv(conn->fd, conn->in + conn->in_got, bytes - conn->in_got, MSG_DONTWAIT);
    if (n > 0)
        conn->in_got += (size_t)n;
    else if (n == 0)
        end_stream(conn, "its stream ended");
    else if (errno != EAGAIN && errno != EINTR)
        end_stream(conn, strerror(errno));
    return conn->fd >= 0 && conn->in_got == bytes;
}

static void take_word(struct verbs_conn *conn, unsigned word, const uint8_t *data, size_t bytes)
{
    if (word == VERBS_WORD_OFFER && conn->state == VERBS_OFFER)
        take_offer(conn, data, bytes);
    else if (word == VERBS_WORD_CARDS && conn->state == VERBS_CARDS)
        take_cards(conn, data, bytes);
    else if (word == VERBS_WORD_READY && conn->state == VERBS_READY)
        take_ready(conn, bytes);
    else if (word == VERBS_WORD_RESYNC && conn->state >= VERBS_OPEN)
        take_resync(conn, data, bytes);
    else if (word == VERBS_WORD_RESUME && conn->state >= VERBS_OPEN)
        take_resume(conn, data, bytes);
    else if (word == VERBS_WORD_GO && conn->state >= VERBS_OPEN)
        take_go(conn, data, bytes);
    else
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "word %u where it has no place", word);
}

/** @return true if a word was taken */
static bool read_word(struct verbs_conn *conn)
{
    size_t bytes;
    if (!fill(conn, VERBS_WORD_HEADER))
        return false;
    unsigned word = wring_verbs_word_unpack(conn->in, &bytes);
    if (word == 0) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "something that is no word");
        return false;
    }
    if (!fill(conn, VERBS_WORD_HEADER + bytes))
        return false;
    conn->in_got = 0;
    take_word(conn, word, conn->in + VERBS_WORD_HEADER, bytes);
    return true;
}

void wring_verbs_stream_service(struct verbs_conn *conn)
{
    if (conn->state == VERBS_CONNECTING)
        finish_connect(conn);
    if (conn->state == VERBS_AUTH)
        step_auth(conn);
    flush(conn);
    while (conn->fd >= 0 && conn->state >= VERBS_OFFER && read_word(conn))
        flush(conn);
    if (conn->state < VERBS_OPEN && wring_now_ns() >= conn->deadline_ns)
        wring_verbs_conn_fail(conn, WRING_ERR_TIMEOUT,
                              "the peer did not finish connecting in time");
    watch(conn);
}
