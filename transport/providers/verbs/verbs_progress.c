/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_progress.h"

#include <sys/epoll.h>

#include "base/clock.h"
#include "transport/providers/verbs/verbs.h"
#include "transport/providers/verbs/verbs_complete.h"
#include "transport/providers/verbs/verbs_listen.h"

#define WRING_MODULE "verbs"
#define SERVICE_NS (2 * WRING_NS_PER_MS) /* of silence where something is owed: look at streams */
#define QUIET_NS (100 * WRING_NS_PER_MS) /* and of any silence */
#define POLLS_PER_CLOCK 16
#define EVENTS_AT_ONCE 32

/** What came to nothing before anybody above knew of it goes without a word to them. */
static void service_meeting(struct verbs_provider *verbs)
{
    verbs->meeting = false;
    for (size_t i = verbs->n_conns; i-- > 0;) {
        struct verbs_conn *conn = verbs->conns[i];
        if (conn->state < VERBS_OPEN)
            wring_verbs_stream_service(conn);
        if (conn->state < VERBS_OPEN)
            verbs->meeting = true;
        if (conn->state == VERBS_DEAD && !conn->surfaced) {
            bool ordinary = conn->turned_away || conn->status == WRING_ERR_PEER; /* both dialled */
            wring_log_line(&verbs->log, ordinary ? WRING_LOG_INFO : WRING_LOG_WARN, WRING_MODULE,
                           "a connection came to nothing: %s", conn->text);
            wring_verbs_remove_conn(verbs, conn);
        }
    }
}

static void service_one(struct verbs_provider *verbs, const struct verbs_watch *watch)
{
    switch (watch->what) {
    case VERBS_WATCH_LISTENER:
        wring_verbs_accept(verbs);
        break;
    case VERBS_WATCH_STREAM:
        wring_verbs_stream_service(watch->owner);
        break;
    case VERBS_WATCH_NOTICES:
        wring_verbs_rail_take_notices(watch->owner);
        break;
    case VERBS_WATCH_ASYNC:
        wring_verbs_rail_take_async(watch->owner);
        break;
    }
}

static void service(struct verbs_provider *verbs)
{
    struct epoll_event ready[EVENTS_AT_ONCE];
    wring_verbs_listen_again(verbs);
    int n = epoll_wait(verbs->epoll, ready, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < n; i++)
        service_one(verbs, ready[i].data.ptr);
    if (verbs->meeting || n > 0)
        service_meeting(verbs);
    verbs->last_service_ns = wring_now_ns();
    verbs->quiet_since_ns = verbs->last_service_ns;
}

/** Completions show that a peer lives and that the ports work; its stream can wait as long. */
static bool is_silent(struct verbs_conn *conn, uint64_t now)
{
    uint64_t looked_ns = wring_verbs_of(conn)->last_service_ns;
    bool owed = false;
    if (conn->state == VERBS_RESYNC) /* its words are awaited, whatever comes besides */
        return now - looked_ns >= SERVICE_NS;
    if (conn->completions != conn->completions_seen)
        conn->heard_ns = now;
    conn->completions_seen = conn->completions;
    for (unsigned i = 0; i < conn->n_paths && !owed; i++)
        owed = wring_verbs_path_is_owed(conn->paths[i]);
    return now - (conn->heard_ns > looked_ns ? conn->heard_ns : looked_ns) >=
           (owed ? SERVICE_NS : QUIET_NS);
}

/** All peers of the job are connected, by all their paths: nobody else is awaited. */
static bool is_whole(const struct verbs_provider *verbs)
{
    bool whole = verbs->job_size > 0 && verbs->n_conns + 1 >= verbs->job_size;
    for (size_t i = 0; i < verbs->n_conns && whole; i++)
        whole = verbs->conns[i]->dead == 0;
    return whole;
}

/**
 * A look at the descriptors is a system call. None is needed while every peer of the job is heard
 * of by completions. Otherwise there may be news that come no other way: of peers that are new or
 * gone, of ports that are back.
 */
static bool service_is_due(struct verbs_provider *verbs)
{
    if (verbs->meeting || verbs->sleep > 0)
        return true;
    if (++verbs->skipped < POLLS_PER_CLOCK)
        return false;
    uint64_t now = wring_now_ns();
    verbs->skipped = 0;
    if (verbs->completions_seen != verbs->counters.completions)
        verbs->quiet_since_ns = now;
    verbs->completions_seen = verbs->counters.completions;
    bool due = !is_whole(verbs) && (now - verbs->quiet_since_ns >= SERVICE_NS ||
                                    now - verbs->last_service_ns >= QUIET_NS);
    for (size_t i = 0; i < verbs->n_conns; i++)
        due |= is_silent(verbs->conns[i], now);
    return due;
}

/** Before a sleep nothing may be left: what is there already gives no notice. */
static void poll_rails(struct verbs_provider *verbs)
{
    for (unsigned i = 0; i < verbs->n_rails; i++)
        do
            wring_verbs_rail_poll(&verbs->rails[i]);
        while (verbs->sleep > 0 && !verbs->rails[i].drained);
}

size_t wring_verbs_poll(struct wring_provider *base, struct wring_event *events, size_t max)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    size_t n = 0;

    if (service_is_due(verbs))
        service(verbs);
    for (size_t i = 0; i < verbs->n_conns; i++)
        wring_verbs_conn_begin_poll(verbs->conns[i]);
    poll_rails(verbs);
    if (verbs->sleep > 0)
        verbs->sleep--;
    verbs->first++; /* take turns, so that no connection starves */
    for (size_t i = 0; i < verbs->n_conns && n < max; i++) {
        struct verbs_conn *conn = verbs->conns[(verbs->first + i) % verbs->n_conns];
        if (conn->surfaced)
            n += wring_verbs_conn_events(conn, events + n, max - n);
    }
    return n;
}

void wring_verbs_arm(struct wring_provider *base, struct wring_wait_set *set)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    if (set->n == sizeof(set->fds) / sizeof(set->fds[0])) {
        set->busy = true;
        return;
    }
    set->fds[set->n++] = (struct pollfd){.fd = verbs->epoll, .events = POLLIN};
    if (!verbs->is_listening && verbs->door.retry_ns != 0 &&
        verbs->door.retry_ns < set->deadline_ns)
        set->deadline_ns = verbs->door.retry_ns;
    verbs->sleep = VERBS_TO_SLEEP; /* the poll before it and the one after look at the streams */
    for (size_t i = 0; i < verbs->n_conns; i++) {
        wring_verbs_conn_begin_poll(verbs->conns[i]);
        if (wring_verbs_conn_arm(verbs->conns[i], &set->deadline_ns))
            set->busy = true;
    }
    for (unsigned i = 0; i < verbs->n_rails && verbs->n_conns > 0; i++)
        if (ibv_req_notify_cq(verbs->rails[i].cq, 0) != 0)
            set->busy = true;
}
