/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "transport/providers/verbs/conn.h"
#include "transport/providers/verbs/verbs.h"

#define WRING_MODULE "verbs"
#define RESYNC_LEAST_NS (10 * WRING_NS_PER_S) /* longer than queue pairs try again by default */

/* ---- what happens ---- */

/** Requests that were not posted yet are not posted: their messages come again. */
static void drop_unposted(struct verbs_path *path)
{
    for (; path->head != path->posted; path->head--)
        path->sent -= path->requests[(path->head - 1) % VERBS_REQUESTS].kind != VERBS_CREDITS;
    if (!wring_verbs_path_is_live(path->state))
        path->tail = path->head;
}

/** Failures of all paths that follow each other without a message in between count as one. */
static void set_resync_deadline(struct verbs_conn *conn)
{
    uint64_t limit = wring_verbs_of(conn)->settings.recover_ns;
    uint64_t moved = conn->done + conn->delivered;
    if (conn->resync.none_left && moved == conn->resync.moved)
        return;
    conn->resync.none_left = false;
    conn->resync.moved = moved;
    conn->deadline_ns = wring_deadline_in(limit > 0 ? limit : RESYNC_LEAST_NS);
}

static void drop_trial(struct verbs_conn *conn);

/** It was open. */
static void stop_messages(struct verbs_conn *conn)
{
    drop_trial(conn);
    set_resync_deadline(conn);
    conn->resync.in_vain = 0;
    wring_verbs_of(conn)->counters.resyncs++;
    for (unsigned i = 0; i < conn->n_paths; i++) {
        struct verbs_path *path = conn->paths[i];
        drop_unposted(path);
        if (wring_verbs_path_is_live(path->state) && path->unsignalled > 0)
            wring_verbs_ask_completion(path);
    }
}

static void path_on(struct verbs_path *path, enum verbs_path_event event)
{
    unsigned next = wring_verbs_path_next(path->state, event);
    uint32_t bit = 1u << path->index;
    assert(next != VERBS_NEVER);
    path->state = (enum verbs_path_state)next;
    if (path->state == VERBS_PATH_WORKS)
        path->conn->dead &= ~bit;
    else
        path->conn->dead |= bit;
}

/** It has ended. */
static void stop_paths(struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths; i++) {
        path_on(conn->paths[i], VERBS_PATH_ON_FAIL);
        wring_verbs_path_stop(conn->paths[i]);
    }
}

void wring_verbs_conn_on(struct verbs_conn *conn, enum verbs_event event)
{
    bool was_open = conn->state == VERBS_OPEN;
    unsigned next = wring_verbs_next(conn->state, event);
    assert(next < VERBS_STATES); /* words are checked before they are taken */
    bool ends = next == VERBS_DEAD && conn->state != VERBS_DEAD;
    conn->state = (enum verbs_state)next;
    if (ends)
        stop_paths(conn);
    if (was_open && wring_verbs_is_agreeing(conn->state))
        stop_messages(conn);
}

void wring_verbs_path_fatal(struct verbs_path *path, enum wring_status status, const char *why)
{
    char text[VERBS_TEXT / 2];
    if (path->conn->state == VERBS_DRAINING)
        return; /* the peer has left: what it said before is what counts */
    wring_verbs_path_text(path, text, sizeof(text));
    wring_verbs_conn_fail(path->conn, status, "%s; peer %s, %s", why, path->conn->peer_name, text);
}

static void plan_try(struct verbs_path *path);

void wring_verbs_path_fail(struct verbs_path *path, enum wring_status status, const char *why)
{
    struct verbs_conn *conn = path->conn;
    bool goes_on = conn->state == VERBS_OPEN || wring_verbs_is_agreeing(conn->state);
    char text[VERBS_TEXT / 2];
    if (!wring_verbs_path_is_live(path->state))
        return;
    path_on(path, VERBS_PATH_ON_FAIL);
    plan_try(path);
    wring_verbs_of(conn)->counters.paths_lost++;
    bool none_left = conn->dead == wring_verbs_all_paths(conn);
    if (goes_on && wring_verbs_oob_end_if_left(conn))
        return; /* no wonder */
    if (!goes_on || (none_left && wring_verbs_of(conn)->settings.recover_ns == 0)) {
        wring_verbs_path_fatal(path, status, why);
        return;
    }
    wring_verbs_path_stop(path);
    wring_verbs_path_text(path, text, sizeof(text));
    wring_warn(&wring_verbs_of(conn)->log, "%s; peer %s, %s; %s", why, conn->peer_name, text,
               none_left ? "tries to connect anew" : "other queue pairs are left");
    if (conn->first_text[0] == '\0') {
        snprintf(conn->first_text, sizeof(conn->first_text), "%s; peer %s, %s", why,
                 conn->peer_name, text);
        conn->status = status;
    }
    wring_verbs_conn_on(conn, VERBS_ON_CHANGE);
}

static void hope(struct verbs_conn *conn, uint32_t paths)
{
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (wring_verbs_is_in(paths, i))
            path_on(conn->paths[i], VERBS_PATH_ON_HOPE);
}

void wring_verbs_paths_hope(struct verbs_conn *conn, uint32_t paths)
{
    if ((paths & conn->dead) == 0 || wring_verbs_of(conn)->settings.recover_ns == 0)
        return;
    hope(conn, paths);
    wring_verbs_conn_on(conn, VERBS_ON_CHANGE);
}

/* ---- agreeing ---- */

static bool has_quiet_paths(const struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (!wring_verbs_is_in(conn->dead, i) && conn->paths[i]->tail != conn->paths[i]->head)
            return false;
    return true;
}

/** The dead paths to make anew. If no path is left, all whose port is up; else those that may
 *  work again. */
static uint32_t renewable_paths(const struct verbs_conn *conn)
{
    uint32_t mask = 0;
    if (wring_verbs_of(conn)->settings.recover_ns == 0)
        return 0;
    for (unsigned i = 0; i < conn->n_paths; i++) {
        enum verbs_path_state state = conn->paths[i]->state;
        bool hoped = state == VERBS_PATH_HOPEFUL || state == VERBS_PATH_RENEWED;
        if (conn->paths[i]->rail->up && (hoped || conn->dead == wring_verbs_all_paths(conn)))
            mask |= 1u << i;
    }
    return mask;
}

static void send_resync_word(struct verbs_conn *conn)
{
    uint8_t *to = wring_verbs_oob_add(conn, VERBS_WORD_RESYNC, VERBS_RESYNC_BYTES);
    if (to != NULL)
        wring_verbs_resync_pack(&conn->resync.mine, to);
    wring_verbs_oob_push(conn);
}

static void say_dead_paths(struct verbs_conn *conn)
{
    struct verbs_resync *resync = &conn->resync;
    uint32_t number = resync->mine.number + 1;
    resync->none_left |= conn->dead == wring_verbs_all_paths(conn);
    resync->mine = (struct verbs_resync_word){
        .number = number, .dead = conn->dead, .renew = renewable_paths(conn)};
    for (unsigned i = 0; i < conn->n_paths; i++)
        resync->mine.used[i] = conn->paths[i]->sent;
    send_resync_word(conn);
    wring_verbs_conn_on(conn, VERBS_ON_TOLD);
}

static uint32_t paths_both_renew(const struct verbs_conn *conn)
{
    return wring_verbs_both_renew(&conn->resync.mine, &conn->resync.peer);
}

static bool is_resync_agreed(const struct verbs_conn *conn)
{
    return conn->state >= VERBS_BOTH_TOLD && conn->state <= VERBS_JOINED &&
           wring_verbs_words_agree(&conn->resync.mine, &conn->resync.peer,
                                   wring_verbs_all_paths(conn));
}

/** Nothing need have failed: it may have stopped to take back what works again. */
static void resync_fail(struct verbs_conn *conn, const char *why)
{
    bool failed = conn->first_text[0] != '\0';
    wring_verbs_conn_fail(conn, failed ? conn->status : WRING_ERR_DEVICE, "%s; %s",
                          failed ? conn->first_text : "queue pairs were to be taken back", why);
}

static void resume_step(struct verbs_conn *conn, bool nothing_whole);

static void resync_step(struct verbs_conn *conn, bool nothing_whole)
{
    if (!wring_verbs_is_agreeing(conn->state))
        return;
    if ((conn->state == VERBS_STOPPED || conn->state == VERBS_HEARD) && has_quiet_paths(conn))
        say_dead_paths(conn);
    resume_step(conn, nothing_whole);
    if (wring_verbs_is_agreeing(conn->state) && wring_now_ns() >= conn->deadline_ns)
        resync_fail(conn, "it could not go on in time");
}

/** Make the paths anew, too, that the peer could: the port that came back may be on its side
 *  alone. */
static void follow_peer_renewals(struct verbs_conn *conn, uint32_t renew)
{
    uint32_t before = renewable_paths(conn);
    hope(conn, renew);
    if (renewable_paths(conn) != before)
        wring_verbs_conn_on(conn, VERBS_ON_CHANGE);
}

static void take_resync(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
    struct verbs_resync_word word;
    if (!wring_verbs_resync_unpack(data, bytes, &word) ||
        !wring_verbs_resync_is_sound(&word, wring_verbs_all_paths(conn))) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed word about queue pairs");
        return;
    }
    wring_verbs_conn_on(conn, VERBS_ON_RESYNC);
    conn->resync.peer = word;
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (wring_verbs_is_in(word.dead & ~conn->dead, i)) /* new queue pairs: made once more */
            wring_verbs_path_fail(conn->paths[i], WRING_ERR_PEER, "the peer says that it failed");
    if (wring_verbs_is_agreeing(conn->state))
        follow_peer_renewals(conn, word.renew);
}

/* ---- resume ---- */

/* After both sides agreed which paths are dead: find out which messages came, and send the
 * others again over the paths that are left. */

#define TRIES 16 /* to make or connect queue pairs while none is left */

/**
 * Is all known that came on the paths that are dead? A message that the peer's caller knows to be
 * complete may lie in our queue still, until a look that began after the stop found its end.
 */
static bool are_dead_paths_read(const struct verbs_conn *conn)
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
static bool check_all_came(struct verbs_conn *conn)
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
static void give_up_path(struct verbs_path *path, const char *why)
{
    struct verbs_conn *conn = path->conn;
    if (conn->dead == wring_verbs_all_paths(conn) && ++conn->resync.in_vain == TRIES)
        resync_fail(conn, why);
    else
        wring_verbs_path_fail(path, WRING_ERR_DEVICE, why);
}

/** Nothing has come in between. */
static bool is_resync_unbroken(const struct verbs_conn *conn)
{
    return conn->state >= VERBS_BOTH_TOLD && conn->state <= VERBS_JOINED;
}

/** New queue pairs in the places of dead ones. */
static void renew_paths(struct verbs_conn *conn, uint32_t mask)
{
    for (unsigned i = 0; i < conn->n_paths && is_resync_unbroken(conn); i++) {
        if (!wring_verbs_is_in(mask, i))
            continue;
        enum wring_status status = wring_verbs_path_renew(conn->paths[i]);
        path_on(conn->paths[i], VERBS_PATH_ON_RENEW);
        if (status != WRING_OK)
            give_up_path(conn->paths[i], "no new queue pair");
    }
}

/** With the cards of the paths that are new. */
static void say_resume(struct verbs_conn *conn, uint32_t renewed)
{
    const struct verbs_resync *resync = &conn->resync;
    const struct verbs_resume_word word = {resync->mine.number, resync->peer.number,
                                           conn->delivered, renewed};
    size_t cards = (size_t)__builtin_popcount(renewed) * VERBS_CARD_BYTES;
    uint8_t *to = wring_verbs_oob_add(conn, VERBS_WORD_RESUME, VERBS_RESUME_BYTES + cards);
    if (to == NULL)
        return;
    wring_verbs_resume_pack(&word, to);
    to += VERBS_RESUME_BYTES;
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (wring_verbs_is_in(renewed, i)) {
            wring_verbs_card_pack(&conn->paths[i]->card, to);
            to += VERBS_CARD_BYTES;
        }
    wring_verbs_oob_push(conn);
}

static void say_go(struct verbs_conn *conn)
{
    const struct verbs_resume_word word = {.my_number = conn->resync.mine.number,
                                           .your_number = conn->resync.peer.number};
    uint8_t *to = wring_verbs_oob_add(conn, VERBS_WORD_GO, VERBS_RESUME_BYTES);
    if (to != NULL)
        wring_verbs_resume_pack(&word, to);
    wring_verbs_oob_push(conn);
}

/** Messages that were given out stay; all others are forgotten, and come over the new set. */
static void begin_resume(struct verbs_conn *conn)
{
    uint32_t renewed = paths_both_renew(conn);
    for (unsigned i = 0; i < conn->n_paths; i++)
        conn->paths[i]->surfaced = conn->paths[i]->taken;
    renew_paths(conn, renewed);
    if (!is_resync_unbroken(conn))
        return;
    wring_verbs_set_paths(conn, conn->dead & ~renewed, &conn->in_set);
    say_resume(conn, renewed);
    wring_verbs_conn_on(conn, VERBS_ON_RESUMED);
}

/** Once the cards of the peer's new queue pairs are there, and ours are made. */
static void connect_renewed(struct verbs_conn *conn)
{
    uint32_t renewed = paths_both_renew(conn);
    const uint8_t *cards = conn->resync.cards;
    char why[VERBS_TEXT / 2];
    for (unsigned i = 0; i < conn->n_paths && is_resync_unbroken(conn); i++) {
        struct verbs_path *path = conn->paths[i];
        if (!wring_verbs_is_in(renewed, i))
            continue;
        if (!wring_verbs_card_unpack(cards, &path->peer))
            wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed queue pair address");
        else if (wring_verbs_path_connect(path, why, sizeof(why)) != WRING_OK)
            give_up_path(path, why);
        cards += VERBS_CARD_BYTES;
    }
    if (!is_resync_unbroken(conn))
        return;
    say_go(conn);
    wring_verbs_conn_on(conn, VERBS_ON_JOINED);
}

/** Go back to the first message that the peer has not given out. */
static void rewind_messages(struct verbs_conn *conn)
{
    uint64_t delivered = conn->resync.delivered;
    uint32_t renewed = paths_both_renew(conn);
    for (uint64_t i = conn->done; i != delivered; i++)
        conn->messages[i % VERBS_MESSAGES].parts = 0;
    for (uint64_t i = delivered; i != conn->next; i++)
        conn->messages[i % VERBS_MESSAGES].parts = 1; /* until it is spread anew */
    conn->spread = delivered;
    for (unsigned i = 0; i < conn->n_paths; i++)
        path_on(conn->paths[i],
                wring_verbs_is_in(renewed, i) ? VERBS_PATH_ON_BACK : VERBS_PATH_ON_WITHOUT);
    wring_verbs_forget_credits(conn);
    wring_verbs_set_paths(conn, conn->dead, &conn->out_set);
    conn->first_text[0] = '\0';
    conn->status = WRING_OK;
    wring_verbs_of(conn)->counters.recoveries += renewed != 0;
    wring_warn(&wring_verbs_of(conn)->log,
               "peer %s: goes on over %u of %u queue pairs; %llu messages are sent again",
               conn->peer_name, conn->out_set.stripes.paths, conn->n_paths,
               (unsigned long long)(conn->next - delivered));
}

/** Steps 3 to 5, as far as they can be done now. */
static void resume_step(struct verbs_conn *conn, bool nothing_whole)
{
    bool is_to_resume = conn->state == VERBS_BOTH_TOLD || conn->state == VERBS_ANSWERED;
    if (is_to_resume && is_resync_agreed(conn) && are_dead_paths_read(conn) &&
        check_all_came(conn) && nothing_whole)
        begin_resume(conn);
    if (conn->state == VERBS_BOTH_RESUMED)
        connect_renewed(conn);
}

/** Does a word follow from the last RESYNC of both sides? */
static bool is_word_current(const struct verbs_conn *conn, const struct verbs_resume_word *word)
{
    const struct verbs_resync *resync = &conn->resync;
    return is_resync_agreed(conn) && word->my_number == resync->peer.number &&
           word->your_number == resync->mine.number;
}

static void take_resume(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
    struct verbs_resume_word word;
    if (!wring_verbs_resume_unpack(data, bytes, &word)) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed word about messages");
        return;
    }
    bool is_first = conn->state == VERBS_BOTH_TOLD || conn->state == VERBS_RESUMED;
    if (!is_first || !is_word_current(conn, &word))
        return;
    if (word.renewed != paths_both_renew(conn) ||
        word.delivered - conn->done > conn->next - conn->done) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "the peer resumes what cannot have been");
        return;
    }
    conn->resync.delivered = word.delivered;
    memcpy(conn->resync.cards, data + VERBS_RESUME_BYTES,
           (size_t)__builtin_popcount(word.renewed) * VERBS_CARD_BYTES);
    wring_verbs_conn_on(conn, VERBS_ON_RESUME);
}

/** The peer's queue pairs are connected. So are ours at once: a RESYNC that follows begins from
 *  there. */
static void take_go(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
    struct verbs_resume_word word;
    if (bytes != VERBS_RESUME_BYTES || !wring_verbs_resume_unpack(data, bytes, &word)) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed word about going on");
        return;
    }
    if (!is_word_current(conn, &word))
        return;
    if (conn->state == VERBS_BOTH_RESUMED)
        connect_renewed(conn);
    if (conn->state == VERBS_JOINED)
        rewind_messages(conn);
    wring_verbs_conn_on(conn, VERBS_ON_GO);
}

/* ---- revive ---- */

#define TRIAL_NS (10 * WRING_NS_PER_S) /* for one try; longer than packets are sent again */
#define PAUSE_MOST_NS (600 * WRING_NS_PER_S)

static uint64_t lengthen_pause(uint64_t pause_ns)
{
    if (pause_ns >= PAUSE_MOST_NS)
        return pause_ns; /* as it was asked for */
    return 2 * pause_ns < PAUSE_MOST_NS ? 2 * pause_ns : PAUSE_MOST_NS;
}

/** A path has failed: set the time to try it again. */
static void plan_try(struct verbs_path *path)
{
    struct verbs_again *again = &path->again;
    uint64_t now = wring_now_ns();
    bool worked = again->pause_ns == 0 || now - again->made_ns >= again->pause_ns + TRIAL_NS;
    again->pause_ns =
        worked ? path->rail->provider->settings.revive_ns : lengthen_pause(again->pause_ns);
    again->at_ns = now + again->pause_ns;
}

/** Dead paths on the same pair of rails, a bit each. */
static uint32_t dead_paths_beside(const struct verbs_path *path)
{
    const struct verbs_conn *conn = path->conn;
    uint32_t mask = 0;
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (wring_verbs_is_in(conn->dead, i) && conn->paths[i]->rail == path->rail &&
            conn->paths[i]->peer_rail == path->peer_rail)
            mask |= 1u << i;
    return mask;
}

/** The next try of all paths of a pair of rails. */
static void postpone_tries(const struct verbs_path *path, uint64_t pause_ns)
{
    struct verbs_conn *conn = path->conn;
    uint32_t mask = dead_paths_beside(path);
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (wring_verbs_is_in(mask, i)) {
            conn->paths[i]->again.pause_ns = pause_ns;
            conn->paths[i]->again.at_ns = wring_deadline_in(pause_ns);
        }
}

static void fail_try(struct verbs_path *path, const char *why)
{
    struct verbs_conn *conn = path->conn;
    uint64_t pause_ns = lengthen_pause(path->again.pause_ns);
    drop_trial(conn);
    postpone_tries(path, pause_ns);
    wring_info(&wring_verbs_of(conn)->log,
               "peer %s: %s port %u does not work yet: %s; tried again in %.3g s", conn->peer_name,
               path->rail->choice.device, path->rail->choice.port, why,
               (double)pause_ns / (double)WRING_NS_PER_S);
}

static void say_try(const struct verbs_path *path, uint32_t number)
{
    const struct verbs_try_word word = {number, path->index, path->card};
    uint8_t *to = wring_verbs_oob_add(path->conn, VERBS_WORD_TRY, VERBS_TRY_BYTES);
    if (to != NULL)
        wring_verbs_try_pack(&word, to);
    wring_verbs_oob_push(path->conn);
}

static void begin_try(struct verbs_path *path)
{
    struct verbs_conn *conn = path->conn;
    struct verbs_trial *trial = &conn->trial;
    wring_verbs_of(conn)->counters.trials++;
    trial->path = path;
    path_on(path, VERBS_PATH_ON_TRY);
    enum wring_status status = wring_verbs_path_renew(path);
    if (trial->path != path || conn->state != VERBS_OPEN)
        return; /* another path has failed meanwhile */
    if (status != WRING_OK) {
        fail_try(path, "no new queue pair");
        return;
    }
    trial->number++;
    trial->deadline_ns = wring_deadline_in(TRIAL_NS);
    say_try(path, trial->number);
}

/** Dead, and not for its port's sake. */
static bool may_try_path(const struct verbs_conn *conn, unsigned path)
{
    return wring_verbs_is_in(conn->dead, path) && conn->paths[path]->rail->up;
}

/** The side that dialed decides, if it may. */
static bool may_begin_tries(const struct verbs_conn *conn)
{
    const struct verbs_settings *settings = &wring_verbs_of(conn)->settings;
    return conn->dead != 0 && conn->state == VERBS_OPEN && !conn->accepted &&
           settings->revive_ns > 0 && settings->recover_ns > 0;
}

static void revive_step(struct verbs_conn *conn)
{
    const struct verbs_trial *trial = &conn->trial;
    if (!may_begin_tries(conn))
        return;
    uint64_t now = wring_now_ns();
    if (trial->path != NULL && now >= trial->deadline_ns)
        fail_try(trial->path, "no answer in time");
    for (unsigned i = 0; i < conn->n_paths && trial->path == NULL && may_begin_tries(conn); i++)
        if (may_try_path(conn, i) && now >= conn->paths[i]->again.at_ns)
            begin_try(conn->paths[i]);
}

uint64_t wring_verbs_revive_deadline(const struct verbs_conn *conn)
{
    uint64_t next = WRING_NEVER;
    if (!may_begin_tries(conn))
        return WRING_NEVER;
    if (conn->trial.path != NULL)
        return conn->trial.deadline_ns;
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (may_try_path(conn, i) && conn->paths[i]->again.at_ns < next)
            next = conn->paths[i]->again.at_ns;
    return next;
}

/** Something else comes in between. */
static void drop_trial(struct verbs_conn *conn)
{
    struct verbs_path *path = conn->trial.path;
    conn->trial.path = NULL;
    if (path == NULL)
        return;
    wring_verbs_path_stop(path);
    path_on(path, VERBS_PATH_ON_VAIN);
}

void wring_verbs_revive_complete(struct verbs_path *path, const struct verbs_completion *completion)
{
    struct verbs_conn *conn = path->conn;
    if (path != conn->trial.path || (completion->id & VERBS_RECEIVE_ID) != 0)
        return;
    if (completion->status != IBV_WC_SUCCESS) {
        fail_try(path, path->rail->provider->library.wc_status_str(completion->status));
        return;
    }
    drop_trial(conn);
    postpone_tries(path, path->again.pause_ns); /* in case that the peer cannot take it back now */
    wring_verbs_paths_hope(conn, dead_paths_beside(path));
}

/** We are asked: with nothing said, it counts as no. */
static void answer_try(struct verbs_path *path, const struct verbs_try_word *word)
{
    char why[VERBS_TEXT];
    if (!path->rail->up || wring_verbs_path_renew(path) != WRING_OK ||
        path->conn->state != VERBS_OPEN)
        return;
    path->peer = word->card;
    if (wring_verbs_path_connect(path, why, sizeof(why)) == WRING_OK)
        say_try(path, word->number);
    else
        wring_info(&wring_verbs_of(path->conn)->log, "%s", why);
}

static void take_try_answer(struct verbs_path *path, const struct verbs_try_word *word)
{
    char why[VERBS_TEXT];
    path->peer = word->card;
    if (wring_verbs_path_connect(path, why, sizeof(why)) != WRING_OK) {
        fail_try(path, why);
        return;
    }
    int error = wring_verbs_send_nothing(path);
    if (error != 0)
        fail_try(path, strerror(error));
}

static void take_try(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
{
    struct verbs_try_word word;
    if (!wring_verbs_try_unpack(data, bytes, &word) || word.path >= conn->n_paths) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed word about trying a queue pair");
        return;
    }
    struct verbs_path *path = conn->paths[word.path];
    if (conn->state != VERBS_OPEN || !wring_verbs_is_in(conn->dead, word.path))
        return; /* things have changed since */
    if (conn->accepted)
        answer_try(path, &word);
    else if (path == conn->trial.path && word.number == conn->trial.number)
        take_try_answer(path, &word);
}

/* ---- both ---- */

void wring_verbs_recovery_step(struct verbs_conn *conn, bool nothing_whole)
{
    resync_step(conn, nothing_whole);
    revive_step(conn);
}

void wring_verbs_recovery_word(struct verbs_conn *conn, enum verbs_word word, const uint8_t *data,
                               size_t bytes)
{
    if (word == VERBS_WORD_RESYNC)
        take_resync(conn, data, bytes);
    else if (word == VERBS_WORD_RESUME)
        take_resume(conn, data, bytes);
    else if (word == VERBS_WORD_GO)
        take_go(conn, data, bytes);
    else
        take_try(conn, data, bytes);
}
