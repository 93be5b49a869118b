/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing moves: who is waited for, whether that can ever end, and what a sleeper must watch. */
#include "transport/engine_inside.h"

#include <inttypes.h>

#include "base/clock.h"
#include "transport/collective/collective.h"
#include "transport/message/message.h"

#define PAIRS_RETRY_NS (1 * WRING_NS_PER_MS)
#define LONG_BYTES (8u << 20) /* memory alone takes a millisecond or more */

/** Nothing moves, and somebody from whom a collective needs more has left: it never will. */
static void check_departed(struct wring_engine *engine)
{
    for (struct wring_collective *at = engine->active; at != NULL; at = at->next_active)
        for (uint32_t i = 0; i < at->members.n; i++) {
            struct wring_peer *peer = &engine->fabric->peers[at->members.ranks[i]];
            bool departed = peer->state == WRING_PEER_GONE || peer->state == WRING_PEER_NONE;
            if (departed && peer->left &&
                (at->work.ops->owes(at, i) || at->work.ops->awaits(at, i))) {
                wring_engine_put_failed(engine, peer, WRING_ERR_PEER);
                return;
            }
        }
}

static void check_timeout(struct wring_engine *engine)
{
    uint64_t limit = engine->config->timeout_ns, now = engine->fabric->tick_ns;
    for (struct wring_collective *at = engine->active; limit > 0 && at != NULL;
         at = at->next_active) {
        if (now < at->started_ns || now - at->started_ns <= limit)
            continue;
        uint32_t missing = wring_collective_missing(at);
        int32_t rank = missing < at->members.n ? (int32_t)at->members.ranks[missing] : -1;
        wring_fabric_fail(
            engine->fabric, WRING_ERR_PEER, rank,
            "a step took longer than %.3g s (WRING_TIMEOUT), waiting for rank %" PRId32,
            (double)limit / 1e9, rank);
        return;
    }
}

/** Do the other members of a group call what we do? */
static void check_calls(struct wring_engine *engine)
{
    for (struct wring_collective *at = engine->active; at != NULL; at = at->next_active)
        if (at->calls != NULL && engine->fabric->state == WRING_FABRIC_WORKING)
            wring_calls_look(at, engine->fabric->tick_ns);
}

/** Is there one that nobody can go on with? */
static void check_standstill(struct wring_engine *engine)
{
    for (struct wring_collective *at = engine->active; at != NULL; at = at->next_active)
        if (engine->fabric->state == WRING_FABRIC_WORKING)
            wring_standstill_look(at, engine->fabric->tick_ns);
}

/** Collectives that wait, from now on. */
static void note_waiting(struct wring_engine *engine)
{
    uint64_t now = engine->fabric->tick_ns;
    for (struct wring_collective *at = engine->active; at != NULL; at = at->next_active) {
        if (at->waiting)
            continue;
        at->waiting = true;
        if (at->started_ns == 0)
            at->started_ns = now;
        if (at->calls != NULL)
            wring_calls_wait(at, now);
    }
}

void wring_engine_check(struct wring_engine *engine)
{
    engine->checked_ns = engine->fabric->tick_ns;
    if (engine->messenger != NULL && engine->fabric->state == WRING_FABRIC_WORKING)
        wring_messenger_check(engine->messenger);
    if (engine->active == NULL || engine->jobs_under_way > 0 ||
        engine->fabric->state != WRING_FABRIC_WORKING)
        return;
    note_waiting(engine);
    check_departed(engine);
    check_timeout(engine);
    check_calls(engine);
    check_standstill(engine);
}

bool wring_engine_works_long(const struct wring_engine *engine)
{
    bool all = engine->active != NULL;
    for (const struct wring_collective *at = engine->active; at != NULL && all;
         at = at->next_active)
        all = at->levels != NULL || /* its legs are asked */
              (wring_algorithm_is_direct(at->work.algorithm) &&
               at->work.geometry.elems >= LONG_BYTES / at->work.geometry.elem_bytes);
    return all;
}

/** Of one hop never: who gets the core instead ends its own step with what comes meanwhile. */
static bool waits_beside(const struct wring_collective *collective)
{
    const struct wring_peer *peers = collective->engine->fabric->peers;
    if (wring_algorithm_is_eager(collective->work.algorithm))
        return false;
    for (uint32_t i = 0; i < collective->members.n; i++)
        if (i != collective->members.me && !peers[collective->members.ranks[i]].beside &&
            collective->work.ops->awaits(collective, i))
            return false;
    return true;
}

bool wring_engine_waits_beside(const struct wring_engine *engine)
{
    bool all = engine->active != NULL;
    for (const struct wring_collective *at = engine->active; at != NULL && all;
         at = at->next_active)
        all = waits_beside(at);
    return all;
}

static void wake_by(struct wring_wait_set *set, uint64_t deadline_ns)
{
    if (deadline_ns < set->deadline_ns)
        set->deadline_ns = deadline_ns;
}

void wring_engine_arm(struct wring_engine *engine, struct wring_wait_set *set)
{
    if (engine->fabric->ticked)
        wring_engine_check(engine);                /* before a sleep that may be long */
    for (uint32_t i = 0; i < engine->n_lanes; i++) /* before providers, which may take all places */
        if (engine->lanes[i].jobs_under_way > 0)
            engine->lanes[i].executor->ops->arm(engine->lanes[i].executor, set);
    wring_fabric_arm(engine->fabric, set);
    wake_by(set, wring_formations_deadline(&engine->formations));
    wake_by(set, wring_flight_deadline(engine));
    if (engine->owes_pairs)
        wake_by(set, engine->fabric->tick_ns + PAIRS_RETRY_NS);
    if (engine->active != NULL && engine->config->timeout_ns > 0)
        wake_by(set, wring_now_ns() + engine->config->timeout_ns / 4);
    for (struct wring_collective *at = engine->active; at != NULL; at = at->next_active) {
        if (at->calls != NULL)
            wake_by(set, at->calls->look_ns);
        if (wring_collective_is_mapped(at))
            wring_mapped_sleep(at);
    }
    if (engine->messenger != NULL)
        wring_messenger_arm(engine->messenger);
}
