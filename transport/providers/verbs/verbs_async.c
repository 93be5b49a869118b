/* SPDX-License-Identifier: Apache-2.0 */
/** What devices tell besides completions: notices that there are some, and events. */
#include "transport/providers/verbs/verbs.h"

#define WRING_MODULE "verbs"
#define NOTICES_AT_ONCE 32

void wring_verbs_rail_fail(struct verbs_rail *rail, const char *what)
{
    rail->up = false;
    for (uint32_t i = 0; i < rail->n_slots; i++)
        if (rail->slots[i].path != NULL)
            wring_verbs_path_fail(rail->slots[i].path, WRING_ERR_DEVICE, what);
}

/** Empty the channel and ask for the next notice; what there is to complete is polled for anyway */
void wring_verbs_rail_take_notices(struct verbs_rail *rail)
{
    const struct verbs_library *library = &rail->provider->library;
    struct ibv_cq *cq;
    void *context;
    unsigned taken = 0;
    while (taken < NOTICES_AT_ONCE && library->get_cq_event(rail->channel, &cq, &context) == 0)
        taken++;
    if (taken == 0)
        return;
    library->ack_cq_events(rail->cq, taken);
    if (rail->provider->sleep == VERBS_TO_SLEEP && ibv_req_notify_cq(rail->cq, 0) != 0)
        wring_verbs_rail_fail(rail, "its completion queue gives no notices");
}

static void revive_rail(struct verbs_rail *rail)
{
    rail->up = true;
    for (uint32_t i = 0; i < rail->n_slots; i++)
        if (rail->slots[i].path != NULL)
            wring_verbs_resync_revive(rail->slots[i].path->conn, 1u << rail->slots[i].path->index);
}

static void fail_queue(struct verbs_rail *rail, const struct ibv_qp *qp, const char *what)
{
    for (uint32_t i = 0; i < rail->n_slots; i++)
        if (rail->slots[i].path != NULL && rail->slots[i].path->qp == qp)
            wring_verbs_path_fail(rail->slots[i].path, WRING_ERR_DEVICE, what);
}

void wring_verbs_rail_take_async(struct verbs_rail *rail)
{
    const struct verbs_library *library = &rail->provider->library;
    struct ibv_async_event event;
    if (library->get_async_event(rail->context, &event) != 0)
        return;
    const char *what = library->event_type_str(event.event_type);
    bool ours = event.element.port_num == rail->choice.port;
    switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR: /* the completion queues are too large for this to happen */
        wring_verbs_rail_fail(rail, what);
        break;
    case IBV_EVENT_PORT_ERR:
        if (ours)
            wring_verbs_rail_fail(rail, what);
        break;
    case IBV_EVENT_PORT_ACTIVE:
        if (ours)
            revive_rail(rail);
        wring_info(&rail->provider->log, "device %s port %d: %s", rail->choice.device,
                   event.element.port_num, what);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        fail_queue(rail, event.element.qp, what);
        break;
    default: /* addresses and keys that change, path migration: nothing that we use */
        wring_debug(&rail->provider->log, "device %s: %s", rail->choice.device, what);
        break;
    }
    library->ack_async_event(&event);
}
