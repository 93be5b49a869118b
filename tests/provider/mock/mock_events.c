/* SPDX-License-Identifier: Apache-2.0 */
/** What devices tell unasked. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <time.h>

#include "tests/provider/mock/mock_inside.h"

#define ACK_NAP_NS 1000000 /* another thread may be about to acknowledge */
#define ACK_NAPS 200

/** Give the event its object. @return false: that one is gone */
static bool translate(const struct net_event *from, struct ibv_async_event *event)
{
    event->event_type = from->type;
    switch (from->type) {
    case IBV_EVENT_CQ_ERR: {
        struct mock_cq *cq = mock_self.cqs[from->which];
        event->element.cq = (struct ibv_cq *)cq;
        if (cq != NULL)
            cq->events++;
        return cq != NULL;
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR: {
        struct mock_qp *qp = mock_qp_of(from->which);
        event->element.qp = (struct ibv_qp *)qp;
        if (qp != NULL)
            qp->events++;
        return qp != NULL;
    }
    default:
        event->element.port_num = (int)from->which;
        return true;
    }
}

static bool take_event(struct mock_context *context, struct ibv_async_event *event)
{
    struct net_context *shared = &mock_self.net->contexts[context->index];
    bool found = false;
    net_lock(mock_self.net);
    while (!found && shared->events_head != shared->events_tail) {
        found = translate(&shared->events[shared->events_head++ % MOCK_EVENTS], event);
        net_bell_take(mock_self.net, context->bell, context->verbs.context.async_fd);
    }
    net_unlock(mock_self.net);
    return found;
}

/** Wait for what a descriptor tells of. @return false with EAGAIN where it must not block */
static bool wait_for(int fd)
{
    struct pollfd on = {.fd = fd, .events = POLLIN};
    if (fcntl(fd, F_GETFL) & O_NONBLOCK) {
        errno = EAGAIN;
        return false;
    }
    poll(&on, 1, -1);
    return true;
}

unsigned mock_await_acks(const unsigned *events)
{
    const struct timespec nap = {0, ACK_NAP_NS};
    unsigned left = 1;
    for (unsigned naps = 0; left > 0 && naps < ACK_NAPS; naps++) {
        net_lock(mock_self.net);
        left = *events;
        net_unlock(mock_self.net);
        if (left > 0)
            nanosleep(&nap, NULL);
    }
    return left;
}

int ibv_get_async_event(struct ibv_context *base, struct ibv_async_event *event)
{
    while (!take_event((struct mock_context *)verbs_get_ctx(base), event))
        if (!wait_for(base->async_fd))
            return -1;
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    net_lock(mock_self.net);
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        ((struct mock_cq *)event->element.cq)->events--;
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        ((struct mock_qp *)event->element.qp)->events--;
        break;
    default:
        break;
    }
    net_unlock(mock_self.net);
}
