/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_revive.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "transport/providers/verbs/verbs.h"
#include "transport/providers/verbs/verbs_post.h"

#define WRING_MODULE "verbs"
#define TRIAL_NS (10 * WRING_NS_PER_S) /* for one try; longer than packets are sent again */
#define PAUSE_MOST_NS (600 * WRING_NS_PER_S)

static uint64_t longer(uint64_t pause_ns)
{
    if (pause_ns >= PAUSE_MOST_NS)
        return pause_ns; /* as it was asked for */
    return 2 * pause_ns < PAUSE_MOST_NS ? 2 * pause_ns : PAUSE_MOST_NS;
}

void wring_verbs_revive_plan(struct verbs_path *path)
{
    struct verbs_again *again = &path->again;
    uint64_t now = wring_now_ns();
    bool worked = again->pause_ns == 0 || now - again->made_ns >= again->pause_ns + TRIAL_NS;
    again->pause_ns = worked ? path->rail->provider->settings.revive_ns : longer(again->pause_ns);
    again->at_ns = now + again->pause_ns;
}

/** Dead paths on the same pair of rails, a bit each. */
static uint32_t dead_beside(const struct verbs_path *path)
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
static void postpone(const struct verbs_path *path, uint64_t pause_ns)
{
    struct verbs_conn *conn = path->conn;
    uint32_t mask = dead_beside(path);
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (wring_verbs_is_in(mask, i)) {
            conn->paths[i]->again.pause_ns = pause_ns;
            conn->paths[i]->again.at_ns = wring_deadline_in(pause_ns);
        }
}

static void fail_try(struct verbs_path *path, const char *why)
{
    struct verbs_conn *conn = path->conn;
    uint64_t pause_ns = longer(path->again.pause_ns);
    wring_verbs_revive_drop(conn);
    postpone(path, pause_ns);
    wring_info(&wring_verbs_of(conn)->log,
               "peer %s: %s port %u does not work yet: %s; tried again in %.3g s", conn->peer_name,
               path->rail->choice.device, path->rail->choice.port, why,
               (double)pause_ns / (double)WRING_NS_PER_S);
}

static void say_try(const struct verbs_path *path, uint32_t number)
{
    const struct verbs_try_word word = {number, path->index, path->card};
    uint8_t *to = wring_verbs_stream_add(path->conn, VERBS_WORD_TRY, VERBS_TRY_BYTES);
    if (to != NULL)
        wring_verbs_try_pack(&word, to);
    wring_verbs_stream_push(path->conn);
}

static void begin_try(struct verbs_path *path)
{
    struct verbs_conn *conn = path->conn;
    struct verbs_trial *trial = &conn->trial;
    wring_verbs_of(conn)->counters.trials++;
    if (wring_verbs_path_renew(path) != WRING_OK) {
        fail_try(path, "no new queue pair");
        return;
    }
    if (conn->state != VERBS_OPEN)
        return; /* another path has failed meanwhile */
    trial->path = path;
    trial->number++;
    trial->deadline_ns = wring_deadline_in(TRIAL_NS);
    say_try(path, trial->number);
}

/** Dead, and not for its port's sake. */
static bool waits(const struct verbs_conn *conn, unsigned path)
{
    return wring_verbs_is_in(conn->dead, path) && conn->paths[path]->rail->up;
}

/** The side that dialed decides, if it may. */
static bool decides(const struct verbs_conn *conn)
{
    const struct verbs_settings *settings = &wring_verbs_of(conn)->settings;
    return conn->dead != 0 && conn->state == VERBS_OPEN && !conn->accepted &&
           settings->revive_ns > 0 && settings->recover_ns > 0;
}

void wring_verbs_revive_step(struct verbs_conn *conn)
{
    const struct verbs_trial *trial = &conn->trial;
    if (!decides(conn))
        return;
    uint64_t now = wring_now_ns();
    if (trial->path != NULL && now >= trial->deadline_ns)
        fail_try(trial->path, "no answer in time");
    for (unsigned i = 0; i < conn->n_paths && trial->path == NULL && decides(conn); i++)
        if (waits(conn, i) && now >= conn->paths[i]->again.at_ns)
            begin_try(conn->paths[i]);
}

uint64_t wring_verbs_revive_deadline(const struct verbs_conn *conn)
{
    uint64_t next = WRING_NEVER;
    if (!decides(conn))
        return WRING_NEVER;
    if (conn->trial.path != NULL)
        return conn->trial.deadline_ns;
    for (unsigned i = 0; i < conn->n_paths; i++)
        if (waits(conn, i) && conn->paths[i]->again.at_ns < next)
            next = conn->paths[i]->again.at_ns;
    return next;
}

void wring_verbs_revive_drop(struct verbs_conn *conn)
{
    if (conn->trial.path != NULL)
        wring_verbs_path_stop(conn->trial.path);
    conn->trial.path = NULL;
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
    wring_verbs_revive_drop(conn);
    postpone(path, path->again.pause_ns); /* in case that the peer cannot take it back now */
    wring_verbs_resync_revive(conn, dead_beside(path));
}

/** We are asked: with nothing said, it counts as no. */
static void answer(struct verbs_path *path, const struct verbs_try_word *word)
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

static void take_answer(struct verbs_path *path, const struct verbs_try_word *word)
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

void wring_verbs_take_try(struct verbs_conn *conn, const uint8_t *data, size_t bytes)
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
        answer(path, &word);
    else if (path == conn->trial.path && word.number == conn->trial.number)
        take_answer(path, &word);
}
