/* SPDX-License-Identifier: Apache-2.0 */
/** After both sides agreed on what is dead: what came, what is sent again, over which paths. */
#include <string.h>

#include "transport/providers/verbs/verbs.h"
#include "transport/providers/verbs/verbs_post.h"

#define WRING_MODULE "verbs"
#define TRIES 16 /* to make or connect queue pairs while none is left */

/**
 * Is all known that came on the paths that are dead? What the peer's side completed, and its caller
 * was told of, may lie in our queue still: until a look that began after the stop found its end.
 */
static bool dead_are_read(const struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths; i++) {
        const struct verbs_path *path = conn->paths[i];
        if (wring_verbs_is_in(conn->dead, i) &&
            (int32_t)(path->rail->empty_look - path->stopped_look) <= 0)
            return false;
    }
    return true;
}

/** Has all come that the peer has sent on the paths that are left? */
static bool has_all(struct verbs_conn *conn)
{
    bool all = true;
    for (unsigned i = 0; i < conn->n_paths; i++) {
        const struct verbs_path *path = conn->paths[i];
        uint32_t left = conn->resync.peer.used[i] - path->taken;
        if (wring_verbs_is_in(conn->dead, i))
            continue;
        if (left > VERBS_RECEIVES) {
            wring_verbs_conn_fail(conn, WRING_ERR_FRAME,
                                  "the peer counts what cannot have come: %u messages over path "
                                  "%u, where %u came",
                                  conn->resync.peer.used[i], i, path->taken);
            return false;
        }
        all = all && left == 0;
    }
    return all;
}

/**
 * A new queue pair came to nothing: both sides agree once more, without it where others are left.
 * Where none is left all are made again, as it may have been an accident, but not for ever.
 */
static void give_up(struct verbs_path *path, const char *why)
{
    struct verbs_conn *conn = path->conn;
    if (conn->dead == wring_verbs_all_paths(conn) && ++conn->resync.in_vain == TRIES)
        wring_verbs_resync_fail(conn, why);
    else
        wring_verbs_path_fail(path, WRING_ERR_DEVICE, why);
}

/** Nothing has come in between. */
static bool holds(const struct verbs_conn *conn)
{
    return conn->state == VERBS_RESYNC && conn->resync.told;
}

/** New queue pairs in the places of dead ones. */
static void renew_paths(struct verbs_conn *conn, uint32_t mask)
{
    for (unsigned i = 0; i < conn->n_paths && holds(conn); i++) {
        if (!wring_verbs_is_in(mask, i))
            continue;
        enum wring_status status = wring_verbs_path_renew(conn->paths[i]);
        conn->paths[i]->dead = false;
        if (status != WRING_OK)
            give_up(conn->paths[i], "no new queue pair");
    }
}

/** With the cards of the paths that are new. */
static void say_resume(struct verbs_conn *conn, uint32_t renewed)
{
    const struct verbs_resync *resync = &conn->resync;
    const struct verbs_resume_word word = {resync->mine.round, resync->peer.round, conn->delivered,
                                           renewed};
    size_t cards = (size_t)__builtin_popcount(renewed) * VERBS_CARD_BYTES;
    uint8_t *to = wring_verbs_stream_add(conn, VERBS_WORD_RESUME, VERBS_RESUME_BYTES + cards);
    if (to == NULL)
        return;
    wring_verbs_resume_pack(&word, to);
    to += VERBS_RESUME_BYTES;
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (wring_verbs_is_in(renewed, i)) {
            wring_verbs_card_pack(&conn->paths[i]->card, to);
            to += VERBS_CARD_BYTES;
        }
    wring_verbs_stream_push(conn);
}

static void say_go(struct verbs_conn *conn)
{
    const struct verbs_resume_word word = {.my_round = conn->resync.mine.round,
                                           .your_round = conn->resync.peer.round};
    uint8_t *to = wring_verbs_stream_add(conn, VERBS_WORD_GO, VERBS_RESUME_BYTES);
    if (to != NULL)
        wring_verbs_resume_pack(&word, to);
    wring_verbs_stream_push(conn);
}

/** What was given out stays, what was not is forgotten; messages come over the new set. */
static void resume(struct verbs_conn *conn)
{
    uint32_t renewed = wring_verbs_resync_renewed(conn);
    for (unsigned i = 0; i < conn->n_paths; i++)
        conn->paths[i]->surfaced = conn->paths[i]->taken;
    renew_paths(conn, renewed);
    if (!holds(conn))
        return;
    wring_verbs_set_paths(conn, conn->dead & ~renewed, &conn->in_set);
    say_resume(conn, renewed);
    conn->resync.resumed = true;
}

/** Once the cards of the peer's new queue pairs are there, and ours are made. */
static void connect_renewed(struct verbs_conn *conn)
{
    uint32_t renewed = wring_verbs_resync_renewed(conn);
    const uint8_t *cards = conn->resync.cards;
    char why[VERBS_TEXT / 2];
    for (unsigned i = 0; i < conn->n_paths && holds(conn); i++) {
        struct verbs_path *path = conn->paths[i];
        if (!wring_verbs_is_in(renewed, i))
            continue;
        if (!wring_verbs_card_unpack(cards, &path->peer))
            wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed queue pair address");
        else if (wring_verbs_path_connect(path, why, sizeof(why)) != WRING_OK)
            give_up(path, why);
        cards += VERBS_CARD_BYTES;
    }
    if (!holds(conn))
        return;
    say_go(conn);
    conn->resync.connected = true;
}

/** Go back to the first message that the peer has not given out. */
static void rewind_messages(struct verbs_conn *conn)
{
    uint64_t delivered = conn->resync.delivered;
    uint32_t renewed = wring_verbs_resync_renewed(conn);
    for (uint64_t i = conn->done; i != delivered; i++)
        conn->messages[i % VERBS_MESSAGES].parts = 0;
    for (uint64_t i = delivered; i != conn->next; i++)
        conn->messages[i % VERBS_MESSAGES].parts = 1; /* until it is spread anew */
    conn->spread = delivered;
    conn->dead &= ~renewed;
    conn->revived &= conn->dead;
    for (unsigned i = 0; i < conn->n_paths; i++)
        conn->paths[i]->dead = wring_verbs_is_in(conn->dead, i);
    wring_verbs_forget_credits(conn);
    wring_verbs_set_paths(conn, conn->dead, &conn->out_set);
    conn->state = VERBS_OPEN;
    conn->first_text[0] = '\0';
    conn->status = WRING_OK;
    wring_verbs_of(conn)->counters.recoveries += renewed != 0;
    wring_warn(&wring_verbs_of(conn)->log,
               "peer %s: goes on over %u of %u queue pairs; %llu messages are sent again",
               conn->peer_name, conn->out_set.stripes.paths, conn->n_paths,
               (unsigned long long)(conn->next - delivered));
}

/** Both have resumed: connect what is new, and once the peer has done so send. */
static void go_on(struct verbs_conn *conn)
{
    const struct verbs_resync *resync = &conn->resync;
    if (conn->state == VERBS_RESYNC && wring_verbs_resync_agreed(conn) && resync->resumed &&
        resync->answered && !resync->connected)
        connect_renewed(conn);
    if (conn->state == VERBS_RESYNC && resync->connected && resync->go)
        rewind_messages(conn);
}

void wring_verbs_resume_step(struct verbs_conn *conn, bool nothing_whole)
{
    if (wring_verbs_resync_agreed(conn) && !conn->resync.resumed && dead_are_read(conn) &&
        has_all(conn) && nothing_whole)
        resume(conn);
    go_on(conn);
}

/** Does a word follow from the last RESYNC of both sides? */
static bool is_current(const struct verbs_conn *conn, const struct verbs_resume_word *word)
{
    const struct verbs_resync *resync = &conn->resync;
    return conn->state == VERBS_RESYNC && wring_verbs_resync_agreed(conn) &&
           word->my_round == resync->peer.round && word->your_round == resync->mine.round;
}

void wring_verbs_take_resume(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
    struct verbs_resume_word word;
    if (!wring_verbs_resume_unpack(data, bytes, &word)) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed word about messages");
        return;
    }
    if (!is_current(conn, &word))
        return;
    if (word.renewed != wring_verbs_resync_renewed(conn) ||
        word.delivered - conn->done > conn->next - conn->done) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "the peer resumes what cannot have been");
        return;
    }
    conn->resync.delivered = word.delivered;
    conn->resync.answered = true;
    memcpy(conn->resync.cards, data + VERBS_RESUME_BYTES,
           (size_t)__builtin_popcount(word.renewed) * VERBS_CARD_BYTES);
}

void wring_verbs_take_go(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
    struct verbs_resume_word word;
    if (bytes != VERBS_RESUME_BYTES || !wring_verbs_resume_unpack(data, bytes, &word)) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed word about going on");
        return;
    }
    if (is_current(conn, &word))
        conn->resync.go = true;
    go_on(conn); /* at once: a RESYNC that follows begins from there */
}
