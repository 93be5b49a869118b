/* SPDX-License-Identifier: Apache-2.0 */
/**
 * When paths of a connection fail, both sides agree on where they stand and go on: over the paths
 * that are left; over new queue pairs where none is, or where a port is back. One deadline bounds
 * all of it.
 *
 *     1  stop posting, and let what was posted on the paths that are left complete
 *     2  RESYNC: which paths are dead, which of them I could make anew, and how many receives of
 *        the peer my requests have used up on the others. Said again whenever one of these changes,
 *        with a new number, until both say that the same are dead and a path remains
 *     3  take completions until that many receives of mine were used up; give out what is whole,
 *        forget the rest: parts of messages, and messages after a gap
 *     4  RESUME: how many messages I have given out, and new queue pairs for what both can make
 *        anew. From here on I expect messages over the new set of paths
 *     5  the peer's RESUME: connect the new queue pairs, say GO. What the peer gave out is done;
 *        once its GO is there the rest is sent anew
 *
 * RESUME and GO name the numbers of the two RESYNC that they follow from: others are of a round
 * that was overtaken, and mean nothing.
 *
 * Writing a part of a message twice does no harm: the layer above there has not been told of it,
 * and here its source is not the caller's again before PUT_DONE. PUT_DONE is given in order, for
 * messages all of whose requests completed: so all of those were given out, or will be, in 3.
 */
#include <string.h>

#include "base/clock.h"
#include "transport/providers/verbs/verbs.h"

#define WRING_MODULE "verbs"
#define RESYNC_LEAST_NS (10 * WRING_NS_PER_S) /* longer than queue pairs try again by default */

static bool is_in(uint32_t mask, unsigned path)
{
    return (mask >> path & 1) != 0;
}

static uint32_t all_of(const struct verbs_conn *conn)
{
    return (1u << conn->n_paths) - 1;
}

/** All paths but those of a mask. */
static void set_paths(struct verbs_conn *conn, uint32_t without, struct verbs_set *set)
{
    set->stripes.paths = 0;
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (!is_in(without, i))
            set->paths[set->stripes.paths++] = conn->paths[i];
}

void wring_verbs_set_all(struct verbs_conn *conn)
{
    set_paths(conn, 0, &conn->in_set);
    set_paths(conn, 0, &conn->out_set);
}

/** Requests that were not posted yet are not posted: their messages come again. */
static void unpost(struct verbs_path *path)
{
    for (; path->head != path->posted; path->head--)
        path->sent -= path->requests[(path->head - 1) % VERBS_REQUESTS].kind != VERBS_CREDITS;
    if (path->dead)
        path->tail = path->head;
}

/** Failures that follow each other without a message in between count as one. */
static void set_deadline(struct verbs_conn *conn)
{
    uint64_t limit = wring_verbs_of(conn)->settings.recover_ns;
    uint64_t moved = conn->done + conn->delivered;
    if (conn->resync.ever && moved == conn->resync.moved)
        return;
    conn->resync.ever = true;
    conn->resync.moved = moved;
    conn->deadline_ns = wring_deadline_in(limit > 0 ? limit : RESYNC_LEAST_NS);
}

static void forget_answers(struct verbs_resync *resync)
{
    resync->resumed = resync->answered = resync->connected = resync->go = false;
}

void wring_verbs_resync_begin(struct verbs_conn *conn)
{
    struct verbs_resync *resync = &conn->resync;
    if (conn->state == VERBS_RESYNC) {
        resync->told = false; /* what was said is not so any more */
        return;
    }
    if (conn->state != VERBS_OPEN)
        return;
    conn->state = VERBS_RESYNC;
    set_deadline(conn);
    resync->told = resync->heard = false;
    forget_answers(resync);
    wring_verbs_of(conn)->counters.resyncs++;
    for (unsigned i = 0; i < conn->n_paths; i++) {
        unpost(conn->paths[i]);
        if (!conn->paths[i]->dead && conn->paths[i]->unsignalled > 0)
            wring_verbs_ask_completion(conn->paths[i]);
    }
}

static bool is_quiet(const struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (!is_in(conn->dead, i) && conn->paths[i]->tail != conn->paths[i]->head)
            return false;
    return true;
}

/** Where nothing is left: whatever has a port. Else what has got its port back. */
static uint32_t can_renew(const struct verbs_conn *conn)
{
    uint32_t mask = 0;
    if (wring_verbs_of(conn)->settings.recover_ns == 0)
        return 0;
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (conn->paths[i]->rail->up)
            mask |= 1u << i;
    return mask & conn->dead & (conn->dead == all_of(conn) ? conn->dead : conn->revived);
}

static void tell(struct verbs_conn *conn)
{
    struct verbs_resync *resync = &conn->resync;
    uint32_t round = resync->mine.round + 1;
    resync->mine =
        (struct verbs_resync_word){.round = round, .dead = conn->dead, .renew = can_renew(conn)};
    for (unsigned i = 0; i < conn->n_paths; i++)
        resync->mine.used[i] = conn->paths[i]->sent;
    wring_verbs_say_resync(conn, &resync->mine);
    resync->told = true;
    forget_answers(resync);
}

static uint32_t renewed(const struct verbs_conn *conn)
{
    return conn->resync.mine.renew & conn->resync.peer.renew;
}

/** Both say that the same paths are dead, and there are others or new ones. */
static bool is_agreed(const struct verbs_conn *conn)
{
    const struct verbs_resync *resync = &conn->resync;
    return resync->told && resync->heard && resync->mine.dead == resync->peer.dead &&
           (resync->mine.dead & ~renewed(conn)) != all_of(conn);
}

/**
 * Is all known that came on the paths that are dead? What the peer's side completed, and its caller
 * was told of, may lie in our queue still: until a look that began after the stop found its end.
 */
static bool dead_are_read(const struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths; i++) {
        const struct verbs_path *path = conn->paths[i];
        if (is_in(conn->dead, i) && (int32_t)(path->rail->empty_look - path->stopped_look) <= 0)
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
        if (is_in(conn->dead, i))
            continue;
        if (left > VERBS_RECEIVES) {
            wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "the peer counts what cannot have come");
            return false;
        }
        all = all && left == 0;
    }
    return all;
}

/** New queue pairs in the places of dead ones. */
static bool renew_paths(struct verbs_conn *conn, uint32_t mask)
{
    for (unsigned i = 0; i < conn->n_paths && conn->state == VERBS_RESYNC; i++) {
        if (!is_in(mask, i))
            continue;
        enum wring_status status = wring_verbs_path_renew(conn->paths[i]);
        if (status != WRING_OK)
            wring_verbs_conn_fail(conn, status, "%s; no new queue pair", conn->first_text);
    }
    return conn->state == VERBS_RESYNC;
}

/** What was given out stays, what was not is forgotten; messages come over the new set. */
static void resume(struct verbs_conn *conn)
{
    struct verbs_resync *resync = &conn->resync;
    for (unsigned i = 0; i < conn->n_paths; i++)
        conn->paths[i]->surfaced = conn->paths[i]->taken;
    if (!renew_paths(conn, renewed(conn)) || !resync->told)
        return; /* over, or another path has failed meanwhile */
    set_paths(conn, conn->dead & ~renewed(conn), &conn->in_set);
    const struct verbs_resume_word word = {resync->mine.round, resync->peer.round, conn->delivered,
                                           renewed(conn)};
    wring_verbs_say_resume(conn, &word);
    resync->resumed = true;
}

/** Once the cards of the peer's new queue pairs are there, and ours are made. */
static void connect_renewed(struct verbs_conn *conn)
{
    struct verbs_resync *resync = &conn->resync;
    const uint8_t *cards = resync->cards;
    for (unsigned i = 0; i < conn->n_paths && conn->state == VERBS_RESYNC; i++) {
        struct verbs_path *path = conn->paths[i];
        if (!is_in(renewed(conn), i))
            continue;
        if (!wring_verbs_card_unpack(cards, &path->peer))
            wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed queue pair address");
        else if (wring_verbs_path_connect(path) != WRING_OK)
            wring_verbs_conn_fail(conn, WRING_ERR_DEVICE, "%s; no new queue pair",
                                  conn->first_text);
        cards += VERBS_CARD_BYTES;
    }
    if (conn->state != VERBS_RESYNC)
        return;
    const struct verbs_resume_word word = {.my_round = resync->mine.round,
                                           .your_round = resync->peer.round};
    wring_verbs_say_go(conn, &word);
    resync->connected = true;
}

/** Go back to the first message that the peer has not given out. */
static void rewind_messages(struct verbs_conn *conn)
{
    uint64_t delivered = conn->resync.delivered;
    for (uint64_t i = conn->done; i != delivered; i++)
        conn->messages[i % VERBS_MESSAGES].parts = 0;
    for (uint64_t i = delivered; i != conn->next; i++)
        conn->messages[i % VERBS_MESSAGES].parts = 1; /* until it is spread anew */
    conn->spread = delivered;
    conn->dead &= ~renewed(conn);
    conn->revived &= conn->dead;
    set_paths(conn, conn->dead, &conn->out_set);
    conn->state = VERBS_OPEN;
    wring_verbs_of(conn)->counters.recoveries += renewed(conn) != 0;
    wring_warn(&wring_verbs_of(conn)->log,
               "peer %s: goes on over %u of %u queue pairs; %llu messages are sent again",
               conn->peer_name, conn->out_set.stripes.paths, conn->n_paths,
               (unsigned long long)(conn->next - delivered));
}

/** Both have resumed: connect what is new, and once the peer has done so send. */
static void go_on(struct verbs_conn *conn)
{
    struct verbs_resync *resync = &conn->resync;
    if (conn->state == VERBS_RESYNC && is_agreed(conn) && resync->resumed && resync->answered &&
        !resync->connected)
        connect_renewed(conn);
    if (conn->state == VERBS_RESYNC && resync->connected && resync->go)
        rewind_messages(conn);
}

void wring_verbs_resync_step(struct verbs_conn *conn, bool nothing_whole)
{
    struct verbs_resync *resync = &conn->resync;
    if (conn->state != VERBS_RESYNC)
        return;
    if (is_quiet(conn) && !resync->told)
        tell(conn);
    if (is_agreed(conn) && !resync->resumed && dead_are_read(conn) && has_all(conn) &&
        nothing_whole)
        resume(conn);
    go_on(conn);
    if (conn->state == VERBS_RESYNC && wring_now_ns() >= conn->deadline_ns)
        wring_verbs_conn_fail(conn, conn->status, "%s; it could not go on in time",
                              conn->first_text);
}

void wring_verbs_resync_port_back(struct verbs_path *path)
{
    struct verbs_conn *conn = path->conn;
    if (!path->dead || wring_verbs_of(conn)->settings.recover_ns == 0)
        return;
    conn->revived |= 1u << path->index;
    wring_verbs_resync_begin(conn);
}

void wring_verbs_take_resync(struct verbs_conn *conn, const struct verbs_resync_word *word)
{
    struct verbs_resync *resync = &conn->resync;
    if (((word->dead | word->renew) & ~all_of(conn)) != 0 || (word->renew & ~word->dead) != 0 ||
        word->dead == 0) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed list of queue pairs");
        return;
    }
    if (conn->state == VERBS_OPEN)
        wring_verbs_resync_begin(conn);
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (is_in(word->dead & ~conn->dead, i)) /* new queue pairs are made again, see resume() */
            wring_verbs_path_fail(conn->paths[i], WRING_ERR_PEER, "the peer says that it failed");
    if (conn->state != VERBS_RESYNC)
        return;
    forget_answers(resync);
    resync->peer = *word;
    resync->heard = true;
}

/** Does a word follow from the last RESYNC of both sides? */
static bool is_current(const struct verbs_conn *conn, uint32_t its_round, uint32_t our_round)
{
    const struct verbs_resync *resync = &conn->resync;
    return conn->state == VERBS_RESYNC && is_agreed(conn) && its_round == resync->peer.round &&
           our_round == resync->mine.round;
}

void wring_verbs_take_resume(struct verbs_conn *conn, const struct verbs_resume_word *word,
                             const uint8_t *cards)
{
    if (!is_current(conn, word->my_round, word->your_round))
        return;
    if (word->renewed != renewed(conn) || word->delivered - conn->done > conn->next - conn->done) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "the peer resumes what cannot have been");
        return;
    }
    conn->resync.delivered = word->delivered;
    conn->resync.answered = true;
    memcpy(conn->resync.cards, cards, (size_t)__builtin_popcount(word->renewed) * VERBS_CARD_BYTES);
}

void wring_verbs_take_go(struct verbs_conn *conn, const struct verbs_resume_word *word)
{
    if (is_current(conn, word->my_round, word->your_round))
        conn->resync.go = true;
    go_on(conn); /* at once: a RESYNC that follows begins from there */
}
