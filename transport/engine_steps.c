/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of collectives: how they come to the engine, and end. */
#include "transport/collective/collective.h"
#include "transport/engine.h"

void wring_engine_post(struct wring_engine *engine, struct wring_collective *collective)
{
    atomic_store_explicit(&collective->status, WRING_ERR_AGAIN, memory_order_relaxed);
    struct wring_collective *head = atomic_load_explicit(&engine->posted, memory_order_relaxed);
    do {
        collective->next_posted = head;
    } while (!atomic_compare_exchange_weak_explicit(&engine->posted, &head, collective,
                                                    memory_order_release, memory_order_relaxed));
}

static void remove_active(struct wring_engine *engine, struct wring_collective *collective)
{
    struct wring_collective **at = &engine->active;
    while (*at != NULL && *at != collective)
        at = &(*at)->next_active;
    if (*at == collective) {
        *at = collective->next_active;
        engine->n_active--;
    }
}

void wring_engine_finish(struct wring_engine *engine, struct wring_collective *collective,
                         enum wring_status status)
{
    if (status == WRING_OK && wring_coding_goes_on(collective))
        return;
    wring_coding_stop(collective);
    remove_active(engine, collective);
    collective->running = false;
    if (collective->timed)
        wring_collective_add_cost(collective);
    collective->step++;
    if (collective->whole == NULL)
        wring_count(&engine->finished, 1);
    collective->ended = atomic_load_explicit(&engine->finished, memory_order_relaxed);
    void (*finished)(struct wring_collective *, enum wring_status) = collective->finished;
    atomic_store_explicit(&collective->status, status, memory_order_release);
    if (finished != NULL)
        finished(collective, status);
}

bool wring_engine_writes(const struct wring_engine *engine, const struct wring_cease *cease)
{
    const struct wring_collective *at = engine->active;
    while (at != NULL && at->cease != cease)
        at = at->next_active;
    return at != NULL || atomic_load(&cease->writing) > 0;
}
