/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to all members of a group, for memory that is mapped and buckets that are committed.
 */
#include "runtime/session/session.h"

#include <inttypes.h>

#include "base/clock.h"

#define REST_NS (50 * WRING_NS_PER_MS)
#define LATE_NS (10 * WRING_NS_PER_S)
#define BLAME_NS WRING_NS_PER_S /* for the bootstrap to say who has ended */

struct reaching {
    struct wring_session *session;
    unsigned seen; /* of the fabric's changes */
};

static bool has_changed(const void *arg)
{
    const struct reaching *reaching = arg;
    const struct wring_fabric *fabric = reaching->session->fabric;
    return atomic_load_explicit(&fabric->changes, memory_order_acquire) != reaching->seen ||
           wring_fabric_status(fabric) != WRING_OK;
}

static void lock(struct wring_session *session)
{
    if (session->progress != NULL) /* not yet while the session opens */
        wring_progress_lock(session->progress);
}

static void unlock(struct wring_session *session)
{
    if (session->progress != NULL)
        wring_progress_unlock(session->progress);
}

static void refuse(struct wring_fabric *fabric, const struct wring_peer *peer,
                   enum wring_status status)
{
    if (status == WRING_ERR_CLOSED)
        wring_fabric_fail(fabric, WRING_ERR_PEER, (int32_t)peer->rank,
                          "rank %" PRIu32 " closed its session while others still exchange with it",
                          peer->rank);
    else
        wring_fabric_fail(fabric, status, (int32_t)fabric->rank,
                          "rank %" PRIu32 " cannot connect to rank %" PRIu32 ": %s", fabric->rank,
                          peer->rank, wring_status_text(status));
}

/** The higher rank dials, as both come here; both do if one comes late. @return the first member
 * whose connection does not stand; NULL: all do */
static struct wring_peer *dial_all(struct wring_fabric *fabric, const struct wring_members *members,
                                   bool late)
{
    struct wring_peer *missing = NULL;
    for (uint32_t i = 0; i < members->n; i++) {
        struct wring_peer *peer = &fabric->peers[members->ranks[i]];
        if (i == members->me || peer->state == WRING_PEER_READY)
            continue;
        missing = missing == NULL ? peer : missing;
        enum wring_status status = WRING_ERR_AGAIN;
        if (peer->rank < fabric->rank || peer->left || late)
            status = wring_fabric_reach(fabric, peer);
        if (status != WRING_ERR_AGAIN)
            refuse(fabric, peer, status);
    }
    return missing;
}

/** Nobody else drives while the session opens. */
static void drive_alone(struct wring_fabric *fabric)
{
    struct wring_wait_set set = {.deadline_ns = wring_deadline_in(REST_NS)};
    if (wring_fabric_poll(fabric))
        return;
    wring_fabric_arm(fabric, &set);
    if (!wring_fabric_poll(fabric))
        wring_wait_set_sleep(&set);
}

/**
 * The job has failed while the session opens. Ranks that are connected wait for the bootstrap
 * already: it tells them who has ended, and would name us if we left before that.
 */
static void await_blame(struct wring_session *session)
{
    uint64_t until_ns = wring_deadline_in(BLAME_NS);
    while (session->bootstrap->ops->check(session->bootstrap) == WRING_OK &&
           wring_now_ns() < until_ns) {
        struct wring_wait_set pause = {.deadline_ns = wring_deadline_in(REST_NS / 10)};
        wring_wait_set_sleep(&pause);
    }
}

/** Who goes on without them would hang. */
static enum wring_status fail_missing(struct wring_session *session, uint32_t missing)
{
    lock(session);
    wring_fabric_fail(session->fabric, WRING_ERR_PEER, (int32_t)missing,
                      "rank %" PRIu32 " did not connect in time (WRING_JOIN_TIMEOUT)", missing);
    unlock(session);
    return wring_fabric_status(session->fabric);
}

static uint64_t earlier(uint64_t one_ns, uint64_t other_ns)
{
    return one_ns < other_ns ? one_ns : other_ns;
}

enum wring_status wring_session_reach_by(struct wring_session *session,
                                         const struct wring_members *members, uint64_t deadline_ns,
                                         uint32_t *out)
{
    struct wring_fabric *fabric = session->fabric;
    struct reaching reaching = {.session = session};
    uint64_t late_ns = wring_deadline_in(LATE_NS);

    for (;;) {
        lock(session);
        reaching.seen = atomic_load_explicit(&fabric->changes, memory_order_relaxed);
        const struct wring_peer *missing = dial_all(fabric, members, wring_now_ns() >= late_ns);
        unlock(session);
        enum wring_status status = wring_fabric_status(fabric);
        if (status != WRING_OK && session->progress == NULL)
            await_blame(session);
        if (status != WRING_OK || missing == NULL)
            return status;
        if (wring_callers_closing(&session->callers))
            return WRING_ERR_CLOSED;
        if (wring_now_ns() >= deadline_ns) {
            *out = missing->rank;
            return WRING_ERR_TIMEOUT;
        }
        if (session->progress == NULL)
            drive_alone(fabric);
        else
            wring_progress_drive(session->progress, (struct wring_goal){has_changed, &reaching},
                                 wring_now_ns() < late_ns ? earlier(late_ns, deadline_ns)
                                                          : deadline_ns);
    }
}

enum wring_status wring_session_reach(struct wring_session *session,
                                      const struct wring_members *members)
{
    uint64_t deadline_ns = wring_deadline_in(session->config.join_timeout_ns);
    uint32_t missing;
    enum wring_status status = wring_session_reach_by(session, members, deadline_ns, &missing);
    return status == WRING_ERR_TIMEOUT ? fail_missing(session, missing) : status;
}
