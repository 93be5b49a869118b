/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/providers/handshake.h"
#include "transport/providers/tcp/tcp.h"
#include "transport/providers/verbs/handshake.h"
#include "transport/providers/verbs/verbs.h"

#undef WRING_MODULE /* of the tcp provider, whose notation of addresses is used */
#define WRING_MODULE "verbs"
#define CREDIT_LOOK_NS WRING_NS_PER_MS /* nothing wakes who sleeps until credits come */

static struct verbs_conn *conn_create(struct verbs_provider *verbs, bool accepted, int fd,
                                      const void *hello, size_t hello_bytes)
{
    struct verbs_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return NULL;
    conn->base.provider = &verbs->base;
    conn->state = accepted ? VERBS_AUTH : VERBS_CONNECTING;
    conn->accepted = accepted;
    conn->surfaced = !accepted;
    conn->oob.fd = fd;
    conn->oob.watch = (struct verbs_watch){VERBS_WATCH_OOB, conn};
    conn->since_ns = wring_now_ns();
    conn->deadline_ns = wring_deadline_in(verbs->settings.handshake_ns);
    wring_auth_init(&conn->oob.auth, !accepted, WRING_AUTH_VERBS, verbs->secret, hello,
                    hello_bytes);
    return conn;
}

static void oob_close(struct verbs_conn *conn);

static void conn_destroy(struct verbs_conn *conn)
{
    struct verbs_provider *verbs = wring_verbs_of(conn);
    bool had_paths = conn->n_paths > 0;
    for (unsigned i = 0; i < conn->n_paths; i++)
        wring_verbs_path_destroy(conn->paths[i]);
    for (unsigned i = 0; i < verbs->n_rails && had_paths; i++)
        wring_verbs_rail_empty(&verbs->rails[i]);
    oob_close(conn);
    wring_verbs_unpin(verbs->memory, conn->pin);
    free(conn->buffers);
    free(conn);
}

void wring_verbs_conn_stop(struct verbs_conn *conn, enum verbs_event event)
{
    wring_verbs_conn_on(conn, event);
    oob_close(conn);
}

void wring_verbs_conn_fail(struct verbs_conn *conn, enum wring_status status, const char *format,
                           ...)
{
    if (conn->state == VERBS_DEAD)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(conn->text, sizeof(conn->text), format, args);
    va_end(args);
    conn->status = status;
    wring_verbs_conn_stop(conn, VERBS_ON_FAILED);
}

void wring_verbs_set_paths(const struct verbs_conn *conn, uint32_t without, struct verbs_set *set)
{
    set->stripes.paths = 0;
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (!wring_verbs_is_in(without, i))
            set->paths[set->stripes.paths++] = conn->paths[i];
}

bool wring_verbs_conn_arm(struct verbs_conn *conn, uint64_t *deadline_ns)
{
    if ((conn->state < VERBS_OPEN || wring_verbs_is_agreeing(conn->state)) &&
        conn->deadline_ns < *deadline_ns)
        *deadline_ns = conn->deadline_ns;
    uint64_t revive = wring_verbs_revive_deadline(conn);
    *deadline_ns = revive < *deadline_ns ? revive : *deadline_ns;
    if (conn->state == VERBS_OPEN && conn->starved) {
        uint64_t look = wring_deadline_in(CREDIT_LOOK_NS);
        if (wring_verbs_has_credits(conn))
            return true;
        *deadline_ns = look < *deadline_ns ? look : *deadline_ns;
    }
    return conn->news || conn->state == VERBS_DRAINING ||
           (conn->state == VERBS_DEAD && !conn->told_closed);
}

/* ---- setup ---- */

#define PAGE 4096

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
    uint8_t *to = wring_verbs_oob_add(conn, VERBS_WORD_OFFER, bytes);
    if (to != NULL)
        memcpy(to, packed, bytes);
}

static void say_cards(struct verbs_conn *conn)
{
    uint8_t *to =
        wring_verbs_oob_add(conn, VERBS_WORD_CARDS, conn->n_paths * (size_t)VERBS_CARD_BYTES);
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

/** Settle the values that follow from both sides' settings. @return paths per pair of rails */
static unsigned settle_settings(struct verbs_conn *conn)
{
    const struct verbs_settings *settings = &wring_verbs_of(conn)->settings;
    const struct verbs_offer *offer = &conn->offer;
    uint64_t most =
        offer->stripe_bytes > settings->stripe_bytes ? offer->stripe_bytes : settings->stripe_bytes;
    conn->in_set.stripes.threshold = conn->out_set.stripes.threshold =
        (most + VERBS_STRIPE_ALIGN - 1) / VERBS_STRIPE_ALIGN * VERBS_STRIPE_ALIGN;
    return offer->qps < settings->qps ? offer->qps : settings->qps;
}

static void take_offer(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
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
    unsigned paths = n * settle_settings(conn);
    enum wring_status status =
        make_paths(conn, pairs, n, paths < VERBS_PATHS_MAX ? paths : VERBS_PATHS_MAX);
    if (status != WRING_OK) {
        wring_verbs_conn_fail(conn, status, "no queue pairs for peer %s", conn->peer_name);
        return;
    }
    wring_verbs_set_paths(conn, 0, &conn->in_set);
    wring_verbs_set_paths(conn, 0, &conn->out_set);
    wring_verbs_conn_on(conn, VERBS_ON_OFFER);
    say_cards(conn);
}

static void take_cards(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
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
    wring_verbs_conn_on(conn, VERBS_ON_CARDS);
    wring_verbs_oob_add(conn, VERBS_WORD_READY, 0);
}

/* The peer's words; data[bytes] is hostile. */
static void take_ready(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
    (void)data;
    if (bytes != 0) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed word after the set-up");
        return;
    }
    wring_verbs_conn_on(conn, VERBS_ON_READY);
    conn->surfaced = conn->news = true;
}

/* ---- listen ---- */

#define ACCEPTS_AT_ONCE 16
#define UNPROVEN_MAX 128             /* places for those who have not proven anything */
#define SLOW_NS (1 * WRING_NS_PER_S) /* one who speaks keeps its place for so long */

static bool watch_listener(struct verbs_provider *verbs, int op)
{
    verbs->listening = (struct verbs_watch){VERBS_WATCH_LISTENER, verbs};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &verbs->listening};
    bool done = epoll_ctl(verbs->epoll, op, verbs->listener, &event) == 0;
    verbs->is_listening = done && op == EPOLL_CTL_ADD;
    return done;
}

static enum wring_status begin_listening(struct verbs_provider *verbs)
{
    char why[VERBS_TEXT];
    verbs->listener = wring_ports_listen(&verbs->ports, &verbs->bind, verbs->bind_bytes, SOMAXCONN,
                                         why, sizeof(why));
    if (verbs->listener < 0) {
        wring_error(&verbs->log, "cannot listen: %s", why);
        return WRING_ERR_ADDRESS;
    }
    if (getsockname(verbs->listener, (struct sockaddr *)&verbs->bind, &verbs->bind_bytes) == 0 &&
        fcntl(verbs->listener, F_SETFL, fcntl(verbs->listener, F_GETFL) | O_NONBLOCK) == 0 &&
        watch_listener(verbs, EPOLL_CTL_ADD))
        return WRING_OK;
    wring_error(&verbs->log, "cannot listen: %s", WRING_REFUSED("socket, bind or listen"));
    wring_descriptor_close(verbs->listener);
    verbs->listener = -1;
    return WRING_ERR_ADDRESS;
}

enum wring_status wring_verbs_listen(struct wring_provider *base, void *address, size_t *bytes)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    struct verbs_end rails[VERBS_RAILS_MAX];
    enum wring_status status = verbs->listener < 0 ? begin_listening(verbs) : WRING_ERR_BUSY;
    if (status != WRING_OK)
        return status;
    for (unsigned i = 0; i < verbs->n_rails; i++)
        rails[i] = wring_verbs_end_of(&verbs->rails[i].choice);
    *bytes = wring_verbs_address_pack(&verbs->bind, rails, verbs->n_rails, address);
    return WRING_OK;
}

static enum wring_status add_conn(struct verbs_provider *verbs, struct verbs_conn *conn)
{
    if (verbs->n_conns == verbs->max_conns) {
        size_t grown = 2 * verbs->max_conns + 8;
        struct verbs_conn **conns = realloc(verbs->conns, grown * sizeof(conns[0]));
        if (conns == NULL)
            return WRING_ERR_NO_MEMORY;
        verbs->conns = conns;
        verbs->max_conns = grown;
    }
    verbs->conns[verbs->n_conns++] = conn;
    verbs->meeting = true;
    return WRING_OK;
}

static enum wring_status start_oob(struct verbs_provider *verbs, const struct sockaddr *to,
                                   socklen_t bytes, int *out)
{
    int fd = WRING_DESCRIPTOR(socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0) {
        wring_error(&verbs->log, "no socket for a connection: %s", WRING_REFUSED("socket"));
        return WRING_ERR_SYSTEM;
    }
    *out = fd;
    if (connect(fd, to, bytes) == 0 || errno == EINPROGRESS)
        return WRING_OK;
    return WRING_ERR_ADDRESS;
}

enum wring_status wring_verbs_connect(struct wring_provider *base, const void *address,
                                      size_t address_bytes, const void *hello, size_t hello_bytes,
                                      struct wring_conn **out)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    struct verbs_address to;
    int fd;
    if (hello_bytes > WRING_HELLO_MAX)
        return WRING_ERR_INVALID;
    if (wring_verbs_address_unpack(address, address_bytes, &to) != WRING_OK)
        return WRING_ERR_FRAME;
    enum wring_status status =
        start_oob(verbs, (struct sockaddr *)&to.socket, to.socket_bytes, &fd);
    if (status == WRING_ERR_SYSTEM)
        return status;

    int refused = status == WRING_OK ? 0 : errno;
    struct verbs_conn *conn = conn_create(verbs, false, fd, hello, hello_bytes);
    if (conn == NULL) {
        wring_descriptor_close(fd);
        return WRING_ERR_NO_MEMORY;
    }
    if (add_conn(verbs, conn) != WRING_OK) {
        conn_destroy(conn);
        return WRING_ERR_NO_MEMORY;
    }
    if (refused != 0)
        wring_verbs_conn_fail(conn, WRING_ERR_ADDRESS, "connect: %s", strerror(refused));
    *out = &conn->base;
    return WRING_OK;
}

void wring_verbs_disconnect(struct wring_conn *base)
{
    if (base != NULL)
        wring_verbs_remove_conn((struct verbs_provider *)base->provider, (struct verbs_conn *)base);
}

void wring_verbs_remove_conn(struct verbs_provider *verbs, struct verbs_conn *conn)
{
    for (size_t i = 0; i < verbs->n_conns; i++)
        if (verbs->conns[i] == conn) {
            verbs->conns[i] = verbs->conns[--verbs->n_conns];
            break;
        }
    conn_destroy(conn);
}

/** The name of the other end of a socket. @param text out, [bytes] */
static void verbs_peer_name(int fd, char *text, size_t bytes)
{
    struct sockaddr_storage peer = {0};
    socklen_t size = sizeof(peer);
    snprintf(text, bytes, "?");
    if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0)
        wring_tcp_address_text(&peer, text, bytes);
}

/** All that are here and have proven nothing. @return how many */
static unsigned list_unproven(struct verbs_provider *verbs, struct verbs_conn **out)
{
    unsigned n = 0;
    for (size_t i = 0; i < verbs->n_conns && n < UNPROVEN_MAX; i++)
        if (verbs->conns[i]->accepted && verbs->conns[i]->state == VERBS_AUTH)
            out[n++] = verbs->conns[i];
    return n;
}

/** @return false when all may yet be ranks */
static bool turn_one_away(struct verbs_conn **unproven, unsigned n)
{
    struct wring_door_guest guests[UNPROVEN_MAX];
    for (unsigned i = 0; i < n; i++) {
        char byte;
        bool spoke = wring_auth_has_heard(&unproven[i]->oob.auth) ||
                     recv(unproven[i]->oob.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
        guests[i] = (struct wring_door_guest){unproven[i]->since_ns, unproven[i]->origin, !spoke};
    }
    int chosen = wring_door_choose(guests, n, wring_now_ns(), SLOW_NS);
    if (chosen < 0)
        return false;
    unproven[chosen]->turned_away = true;
    wring_verbs_conn_fail(unproven[chosen], WRING_ERR_PEER, "peer %s %s, and others wait",
                          unproven[chosen]->peer_name,
                          guests[chosen].silent ? "says nothing" : "is slow");
    return true;
}

static void admit_peer(struct verbs_provider *verbs, int fd, const struct sockaddr_storage *from)
{
    struct verbs_conn *conn = conn_create(verbs, true, fd, NULL, 0);
    if (conn == NULL) {
        wring_descriptor_close(fd);
        return;
    }
    conn->origin = wring_door_origin(from);
    if (add_conn(verbs, conn) != WRING_OK)
        conn_destroy(conn);
}

void wring_verbs_accept(struct verbs_provider *verbs)
{
    for (unsigned i = 0; i < ACCEPTS_AT_ONCE; i++) {
        struct verbs_conn *unproven[UNPROVEN_MAX];
        struct sockaddr_storage from = {0};
        unsigned n = list_unproven(verbs, unproven);
        int fd;
        if (n == UNPROVEN_MAX && !turn_one_away(unproven, n)) {
            wring_door_wait(&verbs->door);
            watch_listener(verbs, EPOLL_CTL_DEL);
            return;
        }
        switch (wring_door_accept(&verbs->door, &verbs->log, verbs->listener, 0, &fd, &from)) {
        case WRING_DOOR_NOBODY:
            return;
        case WRING_DOOR_SHORT:
            turn_one_away(unproven, list_unproven(verbs, unproven));
            watch_listener(verbs, EPOLL_CTL_DEL);
            return;
        case WRING_DOOR_ACCEPTED:
            admit_peer(verbs, fd, &from);
            break;
        }
    }
}

void wring_verbs_listen_again(struct verbs_provider *verbs)
{
    if (verbs->listener >= 0 && !verbs->is_listening &&
        wring_door_is_open(&verbs->door, wring_now_ns()))
        watch_listener(verbs, EPOLL_CTL_ADD);
}

/* ---- the out-of-band stream ---- */

static void oob_close(struct verbs_conn *conn)
{
    if (conn->oob.in_epoll) /* a child that is about to exec may have it, too */
        epoll_ctl(wring_verbs_of(conn)->epoll, EPOLL_CTL_DEL, conn->oob.fd, NULL);
    wring_descriptor_close(conn->oob.fd);
    conn->oob.fd = -1;
    conn->oob.in_epoll = false;
}

/** Have the epoll set watch the stream for input and, while output waits, for room. */
static void watch_stream(struct verbs_conn *conn)
{
    struct verbs_oob *oob = &conn->oob;
    bool room = conn->state == VERBS_CONNECTING || oob->out_at < oob->out_end ||
                (conn->state == VERBS_AUTH && wring_handshake_wants_room(&oob->auth));
    struct epoll_event event = {.events = EPOLLIN | (room ? EPOLLOUT : 0u),
                                .data.ptr = &oob->watch};
    int op = oob->in_epoll ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (oob->fd < 0 || (oob->in_epoll && oob->room_in_epoll == room))
        return;
    if (epoll_ctl(wring_verbs_of(conn)->epoll, op, oob->fd, &event) != 0) {
        wring_verbs_conn_fail(conn, WRING_ERR_SYSTEM, "%s", WRING_REFUSED("epoll_ctl"));
        return;
    }
    oob->in_epoll = true;
    oob->room_in_epoll = room;
}

/* ---- words out ---- */

static void flush_stream(struct verbs_oob *oob)
{
    if (oob->fd < 0 || oob->out_at == oob->out_end)
        return;
    ssize_t n = send(oob->fd, oob->out + oob->out_at, oob->out_end - oob->out_at,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        oob->out_at += (size_t)n;
    if (oob->out_at == oob->out_end)
        oob->out_at = oob->out_end = 0;
}

uint8_t *wring_verbs_oob_add(struct verbs_conn *conn, enum verbs_word word, size_t bytes)
{
    struct verbs_oob *oob = &conn->oob;
    if (VERBS_WORD_HEADER + bytes > sizeof(oob->out) - oob->out_end) {
        wring_verbs_conn_fail(conn, WRING_ERR_PEER, "the peer does not read what it is told");
        return NULL;
    }
    uint8_t *at = oob->out + oob->out_end;
    wring_verbs_word_pack(word, bytes, at);
    oob->out_end += VERBS_WORD_HEADER + bytes;
    return at + VERBS_WORD_HEADER;
}

void wring_verbs_oob_push(struct verbs_conn *conn)
{
    flush_stream(&conn->oob);
    watch_stream(conn);
}

/* ---- proof of the key ---- */

static void finish_connect(struct verbs_conn *conn)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof(peer);
    int error = 0;
    socklen_t error_bytes = sizeof(error);

    getsockopt(conn->oob.fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
    if (error != 0)
        wring_verbs_conn_fail(conn, WRING_ERR_ADDRESS, "connect: %s", strerror(error));
    else if (getpeername(conn->oob.fd, (struct sockaddr *)&peer, &bytes) == 0)
        wring_verbs_conn_on(conn, VERBS_ON_REACHED);
}

static void step_auth(struct verbs_conn *conn)
{
    char why[VERBS_TEXT / 2] = "";
    enum wring_status status =
        wring_handshake_step(&conn->oob.auth, conn->oob.fd, why, sizeof(why));
    if (status == WRING_ERR_AGAIN)
        return;
    if (status != WRING_OK) {
        wring_verbs_conn_fail(conn, status, "%s", why);
        return;
    }
    verbs_peer_name(conn->oob.fd, conn->peer_name, sizeof(conn->peer_name));
    wring_verbs_conn_on(conn, VERBS_ON_PROVED);
    say_offer(conn);
}

/* ---- words in ---- */

/** The stream ended or failed. Puts that were done are complete at the peer, and so are its here */
static void end_oob(struct verbs_conn *conn, const char *why)
{
    if (wring_verbs_next(conn->state, VERBS_ON_LEFT) == VERBS_DEAD) {
        wring_verbs_conn_fail(conn, WRING_ERR_PEER, "the peer closed while connecting: %s", why);
        return;
    }
    snprintf(conn->text, sizeof(conn->text), "peer %s left or died: %s", conn->peer_name, why);
    conn->status = WRING_ERR_PEER;
    wring_verbs_conn_on(conn, VERBS_ON_LEFT);
    oob_close(conn);
}

bool wring_verbs_oob_end_if_left(struct verbs_conn *conn)
{
    uint8_t byte;
    ssize_t n = conn->oob.fd >= 0 ? recv(conn->oob.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) : 1;
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return false;
    end_oob(conn, n == 0 ? "its stream ended" : strerror(errno));
    return true;
}

/** Read up to `bytes` in all into conn->stream.in; true when they are there. */
static bool read_stream(struct verbs_conn *conn, size_t bytes)
{
    if (conn->oob.in_got >= bytes)
        return true;
    ssize_t n =
        recv(conn->oob.fd, conn->oob.in + conn->oob.in_got, bytes - conn->oob.in_got, MSG_DONTWAIT);
    if (n > 0)
        conn->oob.in_got += (size_t)n;
    else if (n == 0)
        end_oob(conn, "its stream ended");
    else if (errno != EAGAIN && errno != EINTR)
        end_oob(conn, strerror(errno));
    return conn->oob.fd >= 0 && conn->oob.in_got == bytes;
}

static void take_word(struct verbs_conn *conn, unsigned word, const uint8_t *data, size_t bytes)
{
    static void (*const takes[])(struct verbs_conn * conn, const uint8_t *data, size_t bytes) = {
        [VERBS_WORD_OFFER] = take_offer,
        [VERBS_WORD_CARDS] = take_cards,
        [VERBS_WORD_READY] = take_ready,
    };
    if (wring_verbs_next(conn->state, (enum verbs_event)word) == VERBS_BREACH)
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "word %u where it has no place", word);
    else if (word <= VERBS_WORD_READY)
        takes[word](conn, data, bytes);
    else
        wring_verbs_recovery_word(conn, (enum verbs_word)word, data, bytes);
}

/** @return true if a word was taken */
static bool read_word(struct verbs_conn *conn)
{
    size_t bytes;
    if (!read_stream(conn, VERBS_WORD_HEADER))
        return false;
    unsigned word = wring_verbs_word_unpack(conn->oob.in, &bytes);
    if (word == 0) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "something that is no word");
        return false;
    }
    if (!read_stream(conn, VERBS_WORD_HEADER + bytes))
        return false;
    conn->oob.in_got = 0;
    take_word(conn, word, conn->oob.in + VERBS_WORD_HEADER, bytes);
    return true;
}

void wring_verbs_oob_service(struct verbs_conn *conn)
{
    if (conn->state == VERBS_CONNECTING)
        finish_connect(conn);
    if (conn->state == VERBS_AUTH)
        step_auth(conn);
    flush_stream(&conn->oob);
    while (conn->oob.fd >= 0 && conn->state >= VERBS_OFFER && read_word(conn))
        flush_stream(&conn->oob);
    if (conn->state < VERBS_OPEN && wring_now_ns() >= conn->deadline_ns)
        wring_verbs_conn_fail(conn, WRING_ERR_TIMEOUT,
                              "the peer did not finish connecting in time");
    watch_stream(conn);
}
