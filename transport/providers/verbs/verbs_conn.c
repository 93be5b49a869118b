/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "transport/providers/verbs/verbs.h"
#include "transport/providers/verbs/verbs_post.h"

#define WRING_MODULE "verbs"
#define CREDIT_LOOK_NS WRING_NS_PER_MS /* nothing wakes who sleeps until credits come */

struct verbs_conn *wring_verbs_conn_create(struct verbs_provider *verbs, bool accepted, int fd,
                                           const void *hello, size_t hello_bytes)
{
    struct verbs_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return NULL;
    conn->base.provider = &verbs->base;
    conn->state = accepted ? VERBS_AUTH : VERBS_CONNECTING;
    conn->accepted = accepted;
    conn->surfaced = !accepted;
    conn->stream.fd = fd;
    conn->stream.watch = (struct verbs_watch){VERBS_WATCH_STREAM, conn};
    conn->since_ns = wring_now_ns();
    conn->deadline_ns = wring_deadline_in(verbs->settings.handshake_ns);
    wring_auth_init(&conn->stream.auth, !accepted, WRING_AUTH_VERBS, verbs->secret, hello,
                    hello_bytes);
    return conn;
}

void wring_verbs_conn_destroy(struct verbs_conn *conn)
{
    struct verbs_provider *verbs = wring_verbs_of(conn);
    bool had_paths = conn->n_paths > 0;
    for (unsigned i = 0; i < conn->n_paths; i++)
        wring_verbs_path_destroy(conn->paths[i]);
    for (unsigned i = 0; i < verbs->n_rails && had_paths; i++)
        wring_verbs_rail_empty(&verbs->rails[i]);
    wring_verbs_stream_close(conn);
    wring_verbs_unpin(verbs->memory, conn->pin);
    free(conn->buffers);
    free(conn);
}

void wring_verbs_conn_stop(struct verbs_conn *conn)
{
    conn->state = VERBS_DEAD;
    for (unsigned i = 0; i < conn->n_paths; i++) {
        conn->paths[i]->dead = true;
        wring_verbs_path_stop(conn->paths[i]);
    }
    wring_verbs_stream_close(conn);
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
    wring_verbs_conn_stop(conn);
}

void wring_verbs_path_fatal(struct verbs_path *path, enum wring_status status, const char *why)
{
    char text[VERBS_TEXT / 2];
    if (path->conn->state == VERBS_DRAINING)
        return; /* the peer has left: what it said before is what counts */
    wring_verbs_path_text(path, text, sizeof(text));
    wring_verbs_conn_fail(path->conn, status, "%s; peer %s, %s", why, path->conn->peer_name, text);
}

void wring_verbs_path_fail(struct verbs_path *path, enum wring_status status, const char *why)
{
    struct verbs_conn *conn = path->conn;
    char text[VERBS_TEXT / 2];
    if (path->dead)
        return;
    path->dead = true;
    conn->dead |= 1u << path->index;
    conn->revived &= ~(1u << path->index);
    wring_verbs_revive_plan(path);
    wring_verbs_of(conn)->counters.paths_lost++;
    bool none_left = conn->dead == wring_verbs_all_paths(conn);
    if ((conn->state == VERBS_OPEN || conn->state == VERBS_RESYNC) &&
        wring_verbs_stream_ended(conn))
        return; /* no wonder */
    if ((conn->state != VERBS_OPEN && conn->state != VERBS_RESYNC) ||
        (none_left && wring_verbs_of(conn)->settings.recover_ns == 0)) {
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
    wring_verbs_resync_begin(conn);
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
    if ((conn->state < VERBS_OPEN || conn->state == VERBS_RESYNC) &&
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
