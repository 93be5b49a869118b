/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_resync.h"

#include "base/clock.h"
#include "transport/providers/verbs/verbs.h"
#include "transport/providers/verbs/verbs_post.h"

#define RESYNC_LEAST_NS (10 * WRING_NS_PER_S) /* longer than queue pairs try again by default */

/** Requests that were not posted yet are not posted: their messages come again. */
static void unpost(struct verbs_path *path)
{
    for (; path->head != path->posted; path->head--)
        path->sent -= path->requests[(path->head - 1) % VERBS_REQUESTS].kind != VERBS_CREDITS;
    if (path->dead)
        path->tail = path->head;
}

/** Failures of all paths that follow each other without a message in between count as one. */
static void set_deadline(struct verbs_conn *conn)
{
    uint64_t limit = wring_verbs_of(conn)->settings.recover_ns;
    uint64_t moved = conn->done + conn->delivered;
    if (conn->resync.none_left && moved == conn->resync.moved)
        return;
    conn->resync.none_left = false;
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
    resync->told = false;  /* what was said is not so any more */
    if (resync->connected) /* and the peer may have gone on: it will say anew what it has sent */
        resync->heard = false;
    if (conn->state != VERBS_OPEN)
        return;
    wring_verbs_revive_drop(conn);
    conn->state = VERBS_RESYNC;
    set_deadline(conn);
    resync->heard = false;
    resync->in_vain = 0;
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
        if (!wring_verbs_is_in(conn->dead, i) && conn->paths[i]->tail != conn->paths[i]->head)
            return false;
    return true;
}

/** Where nothing is left: whatever has a port. Else what may work again. */
static uint32_t can_renew(const struct verbs_conn *conn)
{
    uint32_t mask = 0;
    if (wring_verbs_of(conn)->settings.recover_ns == 0)
        return 0;
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (conn->paths[i]->rail->up)
            mask |= 1u << i;
    return mask & conn->dead &
           (conn->dead == wring_verbs_all_paths(conn) ? conn->dead : conn->revived);
}

static void say_resync(struct verbs_conn *conn)
{
    uint8_t *to = wring_verbs_stream_add(conn, VERBS_WORD_RESYNC, VERBS_RESYNC_BYTES);
    if (to != NULL)
        wring_verbs_resync_pack(&conn->resync.mine, to);
    wring_verbs_stream_push(conn);
}

static void tell(struct verbs_conn *conn)
{
    struct verbs_resync *resync = &conn->resync;
    uint32_t round = resync->mine.round + 1;
    resync->none_left |= conn->dead == wring_verbs_all_paths(conn);
    resync->mine =
        (struct verbs_resync_word){.round = round, .dead = conn->dead, .renew = can_renew(conn)};
    for (unsigned i = 0; i < conn->n_paths; i++)
        resync->mine.used[i] = conn->paths[i]->sent;
    say_resync(conn);
    resync->told = true;
    forget_answers(resync);
}

uint32_t wring_verbs_resync_renewed(const struct verbs_conn *conn)
{
    return conn->resync.mine.renew & conn->resync.peer.renew;
}

bool wring_verbs_resync_agreed(const struct verbs_conn *conn)
{
    const struct verbs_resync *resync = &conn->resync;
    return resync->told && resync->heard && resync->mine.dead == resync->peer.dead &&
           (resync->mine.dead & ~wring_verbs_resync_renewed(conn)) != wring_verbs_all_paths(conn);
}

/** Nothing need have failed: it may have stopped to take back what works again. */
void wring_verbs_resync_fail(struct verbs_conn *conn, const char *why)
{
    bool failed = conn->first_text[0] != '\0';
    wring_verbs_conn_fail(conn, failed ? conn->status : WRING_ERR_DEVICE, "%s; %s",
                          failed ? conn->first_text : "queue pairs were to be taken back", why);
}

void wring_verbs_resync_step(struct verbs_conn *conn, bool nothing_whole)
{
    if (conn->state != VERBS_RESYNC)
        return;
    if (is_quiet(conn) && !conn->resync.told)
        tell(conn);
    wring_verbs_resume_step(conn, nothing_whole);
    if (conn->state == VERBS_RESYNC && wring_now_ns() >= conn->deadline_ns)
        wring_verbs_resync_fail(conn, "it could not go on in time");
}

void wring_verbs_resync_revive(struct verbs_conn *conn, uint32_t paths)
{
    if ((paths & conn->dead) == 0 || wring_verbs_of(conn)->settings.recover_ns == 0)
        return;
    conn->revived |= paths & conn->dead;
    wring_verbs_resync_begin(conn);
}

/** What the peer could make anew we do, too: the port that came back may be on its side alone. */
static void follow(struct verbs_conn *conn, uint32_t renew)
{
    uint32_t before = can_renew(conn);
    conn->revived |= renew & conn->dead;
    if (can_renew(conn) != before)
        conn->resync.told = false;
}

/** Paths that the connection has, at least one of them dead, and only dead ones to be made anew. */
static bool is_sound(const struct verbs_conn *conn, const struct verbs_resync_word *word)
{
    return ((word->dead | word->renew) & ~wring_verbs_all_paths(conn)) == 0 &&
           (word->renew & ~word->dead) == 0 && word->dead != 0;
}

void wring_verbs_take_resync(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
    struct verbs_resync_word word;
    if (!wring_verbs_resync_unpack(data, bytes, &word) || !is_sound(conn, &word)) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed word about queue pairs");
        return;
    }
    if (conn->state == VERBS_OPEN)
        wring_verbs_resync_begin(conn);
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (wring_verbs_is_in(word.dead & ~conn->dead, i)) /* new queue pairs: made once more */
            wring_verbs_path_fail(conn->paths[i], WRING_ERR_PEER, "the peer says that it failed");
    if (conn->state != VERBS_RESYNC)
        return;
    forget_answers(&conn->resync);
    conn->resync.peer = word;
    conn->resync.heard = true;
    follow(conn, word.renew);
}
