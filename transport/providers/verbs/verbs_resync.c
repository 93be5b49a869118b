/* SPDX-License-Identifier: Apache-2.0 */
/**
 * When a path of a connection fails and others are left, both sides agree on where they stand and
 * go on without it. Every step of it is bounded by one deadline.
 *
 *     1  stop posting, and let what was posted on the paths that are left complete
 *     2  RESYNC: the paths that are dead, and how many receives of the peer my requests have used
 *        up on each; said again whenever the dead become more, until both say the same
 *     3  take completions until that many receives of mine were used up; give out what is whole,
 *        forget the rest: parts of messages, and messages after a gap
 *     4  RESUME: how many messages I have given out. From here on I expect messages over the paths
 *        that are left
 *     5  the peer's RESUME: what it gave out is done; the rest is sent anew over those paths
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

static bool is_dead(const struct verbs_conn *conn, unsigned path)
{
    return (conn->dead >> path & 1) != 0;
}

void wring_verbs_set_paths(struct verbs_conn *conn, struct verbs_set *set)
{
    set->stripes.paths = 0;
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (!is_dead(conn, i))
            set->paths[set->stripes.paths++] = conn->paths[i];
}

/** Requests that were not posted yet are not posted: their messages come again. */
static void unpost(struct verbs_path *path)
{
    for (; path->head != path->posted; path->head--)
        path->sent -= path->requests[(path->head - 1) % VERBS_REQUESTS].kind != VERBS_CREDITS;
}

void wring_verbs_resync_begin(struct verbs_conn *conn)
{
    struct verbs_resync *resync = &conn->resync;
    uint64_t limit = wring_verbs_of(conn)->settings.recover_ns;
    if (conn->state != VERBS_OPEN)
        return;
    conn->state = VERBS_RESYNC;
    conn->deadline_ns = wring_deadline_in(limit > RESYNC_LEAST_NS ? limit : RESYNC_LEAST_NS);
    resync->told = resync->heard = resync->resumed = resync->answered = false;
    wring_verbs_of(conn)->counters.resyncs++;
    for (unsigned i = 0; i < conn->n_paths; i++) {
        unpost(conn->paths[i]);
        if (is_dead(conn, i))
            conn->paths[i]->tail = conn->paths[i]->head;
        if (!is_dead(conn, i) && conn->paths[i]->unsignalled > 0)
            wring_verbs_ask_completion(conn->paths[i]);
    }
}

static bool is_quiet(const struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (!is_dead(conn, i) && conn->paths[i]->tail != conn->paths[i]->head)
            return false;
    return true;
}

static void tell(struct verbs_conn *conn)
{
    struct verbs_resync_word word = {.dead = conn->dead};
    for (unsigned i = 0; i < conn->n_paths; i++)
        word.used[i] = conn->paths[i]->sent;
    wring_verbs_say_resync(conn, &word);
    conn->resync.told = true;
    conn->resync.told_dead = conn->dead;
    conn->resync.resumed = conn->resync.answered = false;
}

static bool is_agreed(const struct verbs_conn *conn)
{
    const struct verbs_resync *resync = &conn->resync;
    return resync->told && resync->heard && resync->told_dead == conn->dead &&
           resync->peer.dead == conn->dead;
}

/** Has all come that the peer has sent on the paths that are left? */
static bool has_all(struct verbs_conn *conn)
{
    bool all = true;
    for (unsigned i = 0; i < conn->n_paths; i++) {
        const struct verbs_path *path = conn->paths[i];
        uint32_t left = conn->resync.peer.used[i] - path->taken;
        if (!is_dead(conn, i) && left > VERBS_RECEIVES) {
            wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "the peer counts what cannot have come");
            return false;
        }
        all = all && (is_dead(conn, i) || left == 0);
    }
    return all;
}

/** What was given out stays, what was not is forgotten; messages come over the paths left now. */
static void resume(struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths; i++)
        conn->paths[i]->surfaced = conn->paths[i]->taken;
    wring_verbs_set_paths(conn, &conn->in_set);
    wring_verbs_say_resume(conn, conn->dead, conn->delivered);
    conn->resync.resumed = true;
}

/** Go back to the first message that the peer has not given out. */
static void rewind_messages(struct verbs_conn *conn)
{
    uint64_t delivered = conn->resync.delivered;
    if (delivered - conn->done > conn->next - conn->done) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "the peer gave out what cannot have come");
        return;
    }
    for (uint64_t i = conn->done; i != delivered; i++)
        conn->messages[i % VERBS_MESSAGES].parts = 0;
    for (uint64_t i = delivered; i != conn->next; i++)
        conn->messages[i % VERBS_MESSAGES].parts = 1; /* until it is spread anew */
    conn->spread = delivered;
    wring_verbs_set_paths(conn, &conn->out_set);
    conn->state = VERBS_OPEN;
    wring_info(&wring_verbs_of(conn)->log,
               "peer %s: goes on over %u of %u queue pairs, %llu messages are sent again",
               conn->peer_name, conn->out_set.stripes.paths, conn->n_paths,
               (unsigned long long)(conn->next - delivered));
}

void wring_verbs_resync_step(struct verbs_conn *conn, bool nothing_whole)
{
    struct verbs_resync *resync = &conn->resync;
    if (conn->state != VERBS_RESYNC)
        return;
    if (is_quiet(conn) && (!resync->told || resync->told_dead != conn->dead))
        tell(conn);
    if (is_agreed(conn) && !resync->resumed && has_all(conn) && nothing_whole)
        resume(conn);
    if (conn->state == VERBS_RESYNC && is_agreed(conn) && resync->resumed && resync->answered)
        rewind_messages(conn);
    if (conn->state == VERBS_RESYNC && wring_now_ns() >= conn->deadline_ns)
        wring_verbs_conn_fail(conn, conn->status, "%s; no agreement with the peer in time",
                              conn->first_text);
}

void wring_verbs_take_resync(struct verbs_conn *conn, const struct verbs_resync_word *word)
{
    uint32_t all = (1u << conn->n_paths) - 1;
    if ((word->dead & ~all) != 0 || word->dead == 0) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME,
                              "the peer counts queue pairs it does not have");
        return;
    }
    for (unsigned i = 0; i < conn->n_paths; i++)
        if ((word->dead >> i & 1) != 0)
            wring_verbs_path_fail(conn->paths[i], WRING_ERR_PEER, "the peer says that it failed");
    wring_verbs_resync_begin(conn); /* of a path that was dead here before: again from the start */
    conn->resync.peer = *word;
    conn->resync.heard = true;
}

void wring_verbs_take_resume(struct verbs_conn *conn, uint32_t dead, uint64_t delivered)
{
    if (conn->state != VERBS_RESYNC || dead != conn->dead)
        return; /* of a round that was overtaken */
    conn->resync.delivered = delivered;
    conn->resync.answered = true;
}
