/* SPDX-License-Identifier: Apache-2.0 */
/** What goes into the shared queues: completions, events, bytes. */
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/provider/mock/mock_net.h"

void net_tell(struct net *net, uint32_t context, enum ibv_event_type type, uint32_t which)
{
    struct net_context *to = &net->contexts[context];
    if (to->pid == 0 || to->events_tail - to->events_head == MOCK_EVENTS)
        return;
    to->events[to->events_tail++ % MOCK_EVENTS] = (struct net_event){type, which};
    net_bell_ring(net, to->bell);
}

void net_tell_all(struct net *net, uint32_t device, enum ibv_event_type type, uint32_t which)
{
    for (uint32_t i = 0; i < MOCK_CONTEXTS; i++)
        if (net->contexts[i].pid != 0 && net->contexts[i].device == device)
            net_tell(net, i, type, which);
}

void net_complete(struct net *net, uint32_t index, const struct net_cqe *cqe, bool solicited)
{
    struct net_cq *cq = &net->cqs[index];
    uint32_t tail = atomic_load(&cq->tail);
    if (cq->pid == 0 || cq->overrun)
        return;
    if (tail - cq->head == cq->capacity) {
        cq->overrun = true; /* what comes from now on is lost */
        net_tell(net, cq->context, IBV_EVENT_CQ_ERR, index);
        return;
    }
    net->cqes[index][tail % MOCK_CQE_MAX] = *cqe;
    atomic_store_explicit(&cq->tail, tail + 1, memory_order_release);
    if (!cq->armed || (cq->armed_solicited && !solicited && cqe->status == IBV_WC_SUCCESS))
        return;
    cq->armed = false;
    if (cq->bell >= 0) {
        cq->pending++;
        net_bell_ring(net, (uint32_t)cq->bell);
    }
}

void net_forget(struct net *net, uint32_t index, uint32_t qpn)
{
    struct net_cq *cq = &net->cqs[index];
    struct net_cqe *ring = net->cqes[index];
    uint32_t to = cq->head, tail = atomic_load(&cq->tail);
    for (uint32_t at = cq->head; at != tail; at++)
        if (ring[at % MOCK_CQE_MAX].qpn != qpn)
            ring[to++ % MOCK_CQE_MAX] = ring[at % MOCK_CQE_MAX];
    atomic_store(&cq->tail, to);
}

void net_qp_flush_receives(struct net *net, struct net_qp *qp)
{
    const struct net_receive *ring = net->receives[qp->qpn % MOCK_QPS];
    while (qp->rq_next != qp->rq_tail) {
        struct net_cqe cqe = {.wr_id = ring[qp->rq_next++ % MOCK_WR_MAX].wr_id,
                              .status = IBV_WC_WR_FLUSH_ERR,
                              .opcode = IBV_WC_RECV,
                              .vendor_err = 0xf9,
                              .qpn = qp->qpn,
                              .is_receive = true};
        cqe.frees = qp->rq_next;
        net_complete(net, qp->receive_cq, &cqe, false);
    }
}

#define COPY(type)                                                                           \
    do {                                                                                     \
        type unit = __atomic_load_n((const type *)(uintptr_t)(from + at), __ATOMIC_RELAXED); \
        __atomic_store_n((type *)(uintptr_t)(to + at), unit, __ATOMIC_RELAXED);              \
        at += sizeof(type);                                                                  \
    } while (0)

/**
 * A device reads and writes whole words, and asks no lock. So that a race detector takes no offence
 * at counters that one side polls while the other writes them, nor at bytes that a device may send
 * or write twice; it does where the library reads or writes what a device has not completed.
 */
void net_copy_words(uint64_t to, uint64_t from, size_t bytes)
{
    size_t at = 0, word = (to ^ from) % 8 == 0 ? 8 : (to ^ from) % 4 == 0 ? 4 : 1;
    while (at < bytes && (to + at) % word != 0)
        COPY(uint8_t);
    while (word == 8 && bytes - at >= 8)
        COPY(uint64_t);
    while (word >= 4 && bytes - at >= 4)
        COPY(uint32_t);
    while (at < bytes)
        COPY(uint8_t);
}

bool net_copy(pid_t to_pid, uint64_t to, pid_t from_pid, uint64_t from, size_t bytes)
{
    struct iovec ours = {(void *)(uintptr_t)from, bytes}, theirs = {(void *)(uintptr_t)to, bytes};
    ssize_t done;
    if (bytes == 0 || (from == to && from_pid == to_pid))
        return true;
    if (to_pid == from_pid) {
        net_copy_words(to, from, bytes);
        return true;
    }
    if (from_pid == getpid())
        done = process_vm_writev(to_pid, &ours, 1, &theirs, 1, 0);
    else
        done = process_vm_readv(from_pid, &theirs, 1, &ours, 1, 0);
    return done == (ssize_t)bytes;
}
