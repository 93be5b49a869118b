/* SPDX-License-Identifier: Apache-2.0 */
/** What mock.h offers to tests. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "tests/provider/mock/mock_inside.h"

void mock_get_counts(struct mock_counts *out)
{
    if (mock_process() == NULL)
        return;
    net_lock(mock_self.net);
    *out = mock_self.counts;
    net_unlock(mock_self.net);
    net_lock_sleeps(&out->lock_sleeps, &out->lock_ends);
}

bool mock_peer_memory(const void *base, size_t bytes, int fd)
{
    struct mock_process *self = mock_process();
    bool room = false;

    if (self == NULL)
        return false;
    net_lock(self->net);
    room = self->n_peer_memory < MOCK_PEER_MEMORIES;
    if (room)
        self->peer_memory[self->n_peer_memory++] = (struct mock_peer_memory){
            (uintptr_t)base, (uintptr_t)base + bytes, fcntl(fd, F_DUPFD_CLOEXEC, 3)};
    net_unlock(self->net);
    return room;
}

/** Locks; @return false, unlocked, where there is no such port */
static bool lock_port(const char *name, unsigned number, uint32_t *device, struct net_port **port)
{
    struct mock_process *self = mock_process();
    for (unsigned i = 0; self != NULL && i < self->options.devices; i++) {
        *device = self->devices[i].number;
        *port = mock_port(*device, number);
        if (strcmp(self->devices[i].base.name, name) != 0 || *port == NULL)
            continue;
        net_lock(self->net);
        return true;
    }
    mock_misuse("no port %u of a device %s", number, name);
    return false;
}

void mock_port_state(const char *name, unsigned number, enum ibv_port_state state)
{
    struct net_port *port;
    uint32_t device;
    if (!lock_port(name, number, &device, &port))
        return;
    bool was_up = port->state == IBV_PORT_ACTIVE, is_up = state == IBV_PORT_ACTIVE;
    port->state = state;
    if (was_up != is_up)
        net_tell_all(mock_self.net, device, is_up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR,
                     number);
    net_unlock(mock_self.net);
}

void mock_port_blackhole(const char *name, unsigned number, bool on)
{
    struct net_port *port;
    uint32_t device;
    if (!lock_port(name, number, &device, &port))
        return;
    port->blackhole = on;
    net_unlock(mock_self.net);
}

void mock_port_mtu(const char *name, unsigned number, enum ibv_mtu mtu)
{
    struct net_port *port;
    uint32_t device;
    if (!lock_port(name, number, &device, &port))
        return;
    port->mtu = mtu;
    net_unlock(mock_self.net);
}

void mock_device_fatal(const char *name)
{
    struct net_port *port;
    uint32_t device;
    if (!lock_port(name, 1, &device, &port))
        return;
    mock_self.net->fatal[device] = true;
    net_tell_all(mock_self.net, device, IBV_EVENT_DEVICE_FATAL, 0);
    for (uint32_t i = 0; i < MOCK_QPS; i++)
        if (mock_self.net->qps[i].pid != 0 && mock_self.net->qps[i].device == device)
            mock_qp_to_error(&mock_self.net->qps[i]);
    net_unlock(mock_self.net);
}

unsigned mock_qp_list(uint32_t *qpns, unsigned max)
{
    unsigned n = 0;
    if (mock_process() == NULL)
        return 0;
    net_lock(mock_self.net);
    for (uint32_t i = 0; i < MOCK_QPS; i++)
        if (mock_self.qps[i] != NULL && n++ < max)
            qpns[n - 1] = mock_self.qps[i]->ex.qp_base.qp_num;
    net_unlock(mock_self.net);
    return n;
}

/** Locks; NULL, unlocked, where there is no such queue pair of this process. */
static struct mock_qp *lock_qp(uint32_t qpn)
{
    if (mock_process() == NULL)
        return NULL;
    net_lock(mock_self.net);
    struct mock_qp *qp = mock_qp_of(qpn);
    if (qp != NULL)
        return qp;
    net_unlock(mock_self.net);
    mock_misuse("no queue pair %u", qpn);
    return NULL;
}

bool mock_qp_attributes(uint32_t qpn, struct ibv_qp_attr *out)
{
    const struct mock_qp *qp = lock_qp(qpn);
    if (qp == NULL)
        return false;
    *out = qp->net->attr;
    net_unlock(mock_self.net);
    return true;
}

void mock_qp_fail(uint32_t qpn, enum ibv_wc_status status, uint32_t vendor_err)
{
    struct mock_qp *qp = lock_qp(qpn);
    if (qp == NULL)
        return;
    qp->fails = true;
    qp->fail_status = status;
    qp->fail_vendor = vendor_err;
    net_unlock(mock_self.net);
}

void mock_qp_lose_answer(uint32_t qpn)
{
    struct mock_qp *qp = lock_qp(qpn);
    if (qp == NULL)
        return;
    qp->unanswered = true;
    net_unlock(mock_self.net);
}

void mock_qp_repeat_send(uint32_t qpn)
{
    struct mock_qp *qp = lock_qp(qpn);
    if (qp == NULL)
        return;
    qp->repeats = true;
    net_unlock(mock_self.net);
}

void mock_qp_fatal(uint32_t qpn)
{
    struct mock_qp *qp = lock_qp(qpn);
    if (qp == NULL)
        return;
    net_tell(mock_self.net, qp->net->context, IBV_EVENT_QP_FATAL, qpn);
    mock_qp_to_error(qp->net);
    net_unlock(mock_self.net);
}

void mock_qp_drop_completions(uint32_t qpn, unsigned n)
{
    struct mock_qp *qp = lock_qp(qpn);
    if (qp == NULL)
        return;
    qp->dropped = n;
    net_unlock(mock_self.net);
}

void mock_delay(unsigned delay_us, unsigned jitter_us)
{
    if (mock_process() == NULL)
        return;
    net_lock(mock_self.net);
    mock_self.options.delay_us = delay_us;
    mock_self.options.jitter_us = jitter_us;
    net_unlock(mock_self.net);
}

void mock_fail_call(const char *name, int error, unsigned after)
{
    if (mock_process() == NULL)
        return;
    net_lock(mock_self.net);
    snprintf(mock_self.fail_call, sizeof(mock_self.fail_call), "%s", name);
    mock_self.fail_error = error;
    mock_self.fail_after = after;
    net_unlock(mock_self.net);
}

void mock_watch_writes(void (*see)(void *arg, const struct mock_write *write), void *arg)
{
    if (mock_process() == NULL)
        return;
    net_lock(mock_self.net);
    mock_self.see_write = see;
    mock_self.see_arg = arg;
    net_unlock(mock_self.net);
}
