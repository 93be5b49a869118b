/* SPDX-License-Identifier: Apache-2.0 */
/** Completion queues, and channels of their events. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tests/provider/mock/mock_inside.h"

static struct net_cq *shared_of(const struct mock_cq *cq)
{
    return &mock_self.net->cqs[cq->index];
}

static const struct mock_context *context_of(struct ibv_context *context)
{
    return (const struct mock_context *)verbs_get_ctx(context);
}

/* ---- channels ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    if (mock_call_fails("ibv_create_comp_channel"))
        return NULL;
    struct mock_channel *channel = calloc(1, sizeof(*channel));
    if (channel == NULL)
        return NULL;
    channel->base.context = context;
    int32_t bell = net_bell_create(mock_self.net, &channel->base.fd);
    if (bell < 0) {
        free(channel);
        return NULL;
    }
    channel->bell = (uint32_t)bell;
    __atomic_fetch_add(&mock_self.counts.channels, 1, __ATOMIC_RELAXED);
    return &channel->base;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *base)
{
    struct mock_channel *channel = (struct mock_channel *)base;
    if (channel->users > 0) {
        mock_misuse("ibv_destroy_comp_channel with %u completion queues", channel->users);
        return EBUSY;
    }
    net_bell_destroy(mock_self.net, channel->bell, base->fd);
    __atomic_fetch_sub(&mock_self.counts.channels, 1, __ATOMIC_RELAXED);
    free(channel);
    return 0;
}

static struct mock_cq *take_event(struct mock_channel *channel)
{
    struct mock_cq *found = NULL;
    net_lock(mock_self.net);
    for (uint32_t i = 0; i < MOCK_CQS && found == NULL; i++) {
        struct mock_cq *cq = mock_self.cqs[i];
        if (cq == NULL || cq->ex.channel != &channel->base || shared_of(cq)->pending == 0)
            continue;
        shared_of(cq)->pending--;
        net_bell_take(mock_self.net, channel->bell, channel->base.fd);
        cq->events++;
        found = cq;
    }
    net_unlock(mock_self.net);
    return found;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **out, void **context)
{
    struct mock_cq *cq;
    while ((cq = take_event((struct mock_channel *)channel)) == NULL) {
        struct pollfd on = {.fd = channel->fd, .events = POLLIN};
        if (fcntl(channel->fd, F_GETFL) & O_NONBLOCK) {
            errno = EAGAIN;
            return -1;
        }
        poll(&on, 1, -1);
    }
    *out = ibv_cq_ex_to_cq(&cq->ex);
    *context = cq->ex.cq_context;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
    net_lock(mock_self.net);
    ((struct mock_cq *)cq)->events -= n;
    net_unlock(mock_self.net);
}

int mock_req_notify(struct ibv_cq *base, int solicited_only)
{
    struct net_cq *cq = shared_of((struct mock_cq *)base);
    net_lock(mock_self.net);
    cq->armed_solicited = solicited_only && (!cq->armed || cq->armed_solicited);
    cq->armed = true;
    net_unlock(mock_self.net);
    return 0;
}

/* ---- making and unmaking ---- */

static struct mock_cq *create(struct ibv_context *context, uint32_t cqe, void *user,
                              struct ibv_comp_channel *channel)
{
    const struct mock_context *mine = context_of(context);
    uint32_t most = mock_self.options.device[mine->device->index].cqe;
    struct mock_cq *cq = cqe >= 1 && cqe <= most ? calloc(1, sizeof(*cq)) : NULL;
    if (cq == NULL) {
        errno = cqe >= 1 && cqe <= most ? ENOMEM : EINVAL;
        return NULL;
    }
    cq->ex.context = context;
    cq->ex.channel = channel;
    cq->ex.cq_context = user;
    cq->ex.cqe = (int)cqe;
    net_lock(mock_self.net);
    int32_t index = net_take_cq(mock_self.net);
    if (index >= 0) { /* from here on other threads find it */
        struct net_cq *shared = &mock_self.net->cqs[index];
        shared->context = mine->index;
        shared->capacity = cqe;
        shared->bell = channel != NULL ? (int32_t)((struct mock_channel *)channel)->bell : -1;
        cq->index = (uint32_t)index;
        mock_self.cqs[index] = cq;
        mock_self.counts.cqs++;
        if (channel != NULL)
            ((struct mock_channel *)channel)->users++;
    }
    net_unlock(mock_self.net);
    if (index < 0) {
        free(cq);
        return NULL;
    }
    return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *user,
                             struct ibv_comp_channel *channel, int vector)
{
    if (mock_call_fails("ibv_create_cq"))
        return NULL;
    if (cqe < 1 || vector < 0 || vector >= context->num_comp_vectors) {
        errno = EINVAL;
        return NULL;
    }
    struct mock_cq *cq = create(context, (uint32_t)cqe, user, channel);
    return cq != NULL ? ibv_cq_ex_to_cq(&cq->ex) : NULL;
}

struct ibv_cq_ex *mock_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    if (mock_call_fails("ibv_create_cq_ex"))
        return NULL;
    if ((attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS) != 0 ||
        (attr->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    struct mock_cq *cq = create(context, attr->cqe, attr->cq_context, attr->channel);
    if (cq == NULL)
        return NULL;
    mock_poll_install(&cq->ex, attr->wc_flags);
    return &cq->ex;
}

int ibv_resize_cq(struct ibv_cq *base, int cqe)
{
    struct mock_cq *cq = (struct mock_cq *)base;
    struct net_cq *shared = shared_of(cq);
    unsigned device = context_of(base->context)->device->index;
    if (mock_call_fails("ibv_resize_cq"))
        return errno;
    if (!mock_self.options.device[device].resize)
        return EOPNOTSUPP;
    net_lock(mock_self.net);
    uint32_t held = atomic_load(&shared->tail) - atomic_load(&shared->head);
    bool good =
        cqe >= 1 && (uint32_t)cqe >= held && (uint32_t)cqe <= mock_self.options.device[device].cqe;
    if (good)
        base->cqe = (int)(shared->capacity = (uint32_t)cqe);
    net_unlock(mock_self.net);
    return good ? 0 : EINVAL;
}

int ibv_destroy_cq(struct ibv_cq *base)
{
    struct mock_cq *cq = (struct mock_cq *)base;
    struct mock_channel *channel = (struct mock_channel *)cq->ex.channel;
    net_lock(mock_self.net);
    struct net_cq *shared = shared_of(cq);
    unsigned users = shared->users;
    if (users == 0) {
        while (shared->pending > 0) {
            shared->pending--;
            net_bell_take(mock_self.net, channel->bell, channel->base.fd);
        }
        shared->pid = 0;
        mock_self.cqs[cq->index] = NULL;
        mock_self.counts.cqs--;
        if (channel != NULL)
            channel->users--;
    }
    net_unlock(mock_self.net);
    if (users > 0) {
        mock_misuse("ibv_destroy_cq with %u queue pairs", users);
        return EBUSY;
    }
    unsigned events = mock_await_acks(&cq->events);
    if (events > 0)
        mock_misuse("ibv_destroy_cq with %u events not acknowledged would never return", events);
    free(cq);
    return 0;
}
