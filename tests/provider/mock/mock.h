/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A libibverbs of the tests' own: devices that are not there, for hosts that have none, and for
 * faults and limits that no device shows when asked. Queue pairs reach each other within a process
 * and between processes that share a network.
 *
 * Loaded in place of the real one (LD_LIBRARY_PATH) it is set up by MOCKVERBS, a list of
 * NAME=VALUE separated by commas; NAME@N is for device N only:
 *
 *     net      file of the network, for several processes; default: this process and its children
 *     host     0..3: processes of one host share its devices; the first one's settings hold
 *     devices  0..4, default 2: mock0, mock1, ...
 *     ports    1..2 of each, default 1
 *     link     eth or ib
 *     mtu      active MTU, 256..4096
 *     speed    Gbit/s: 10, 25, 40, 50, 100, 200, 400
 *     inline   largest inline request, 0..1024, default 256
 *     depth    largest queue, 1..1024
 *     sges     pieces of a request, 1..4
 *     cqe      entries of a completion queue, 1..32768
 *     message  largest message
 *     wr       0: no ibv_wr_*             cqex    0: no extended completion queues
 *     resize   0: no ibv_resize_cq        dmabuf  0: no ibv_reg_dmabuf_mr
 *     relaxed  0: relaxed ordering is refused
 *     late     1: the end of each write into a dma-buf stays in the adapter, until that region
 *              is written to again or the adapter reads it: what a flush is for
 *     peermem  1: memory of mock_peer_memory() may be registered by its address
 *     memlock  bytes that may be registered
 *     delay    microseconds until a request is carried out, jitter: up to so many more
 *
 * What it does as a device would: checks of attributes and states, keys and bounds, retries with
 * their times, flushes, completion queues that overflow, send queues whose room comes back only
 * when a signalled completion behind it was polled, memory ordering of completions.
 * What it does not: SRQ, UD, UC, atomics, memory windows, multicast, congestion.
 *
 * The functions below are for tests that load or link it; all are safe to call from any thread.
 */
#ifndef WRING_TESTS_MOCK_H
#define WRING_TESTS_MOCK_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/** What this process has, and has done since the library was loaded. */
struct mock_counts {
    uint64_t contexts, pds, mrs, qps, cqs, channels; /* alive */
    uint64_t opens;                                  /* of devices, closed since or not */
    uint64_t pinned_bytes;
    uint64_t registrations, relaxed_registrations, dmabuf_registrations;
    uint64_t local_registrations;               /* of these: no peer may write there */
    uint64_t send_doorbells, receive_doorbells; /* posts, of any number of requests */
    uint64_t sends, writes, reads, receives;    /* requests posted */
    uint64_t inlined, signalled;                /* of those to send */
    uint64_t moved_bytes;                       /* carried out: payload */
    uint64_t completions;                       /* polled */
    uint64_t lock_sleeps;                       /* waits for the network's lock, in the kernel */
    uint64_t lock_ends;                         /* of these, those that are over */
    uint64_t misuse; /* destroyed in use, or with events not acknowledged; each is printed */
};
void mock_get_counts(struct mock_counts *out);

/** A port goes down or comes back, with its event. Requests over it are retried in vain. */
void mock_port_state(const char *device, unsigned port, enum ibv_port_state state);

/** Nothing that is sent over the port arrives, and it does not tell. */
void mock_port_blackhole(const char *device, unsigned port, bool on);

/** As found by those who query it from now on. */
void mock_port_mtu(const char *device, unsigned port, enum ibv_mtu mtu);

/** IBV_EVENT_DEVICE_FATAL, and all its queue pairs fail. */
void mock_device_fatal(const char *device);

/* Of this process's queue pairs, by number: */

/** @return how many there are, of which the first `max` numbers were written */
unsigned mock_qp_list(uint32_t *qpns, unsigned max);

/** How it was set up. @return false where there is no such queue pair */
bool mock_qp_attributes(uint32_t qpn, struct ibv_qp_attr *out);

/** The next request of its own fails that way, and the queue pair with it. */
void mock_qp_fail(uint32_t qpn, enum ibv_wc_status status, uint32_t vendor_err);

/** The next request of its own arrives, and the answer to it does not: it fails as one that did not
 *  arrive, and the queue pair with it. */
void mock_qp_lose_answer(uint32_t qpn);

/** The next send of its own arrives twice, as no device should have it. */
void mock_qp_repeat_send(uint32_t qpn);

/** IBV_EVENT_QP_FATAL, and the queue pair fails. */
void mock_qp_fatal(uint32_t qpn);

/** The next completions of its requests are lost. */
void mock_qp_drop_completions(uint32_t qpn, unsigned n);

/** For all requests posted from now on; each queue pair keeps its order, among them it changes. */
void mock_delay(unsigned delay_us, unsigned jitter_us);

/** That call ("ibv_create_qp") fails with errno, after so many good ones, once. "" ends it. */
void mock_fail_call(const char *name, int error, unsigned after);

/** A file that stands in for a GPU's memory at an address that no core can read: devices with
 *  peermem=1 know it. @param fd  duplicated @return false: there are as many as can be */
bool mock_peer_memory(const void *base, size_t bytes, int fd);

/** An RDMA write that was carried out. */
struct mock_write {
    const void *from; /* of the first piece; inlined: as it was posted */
    void *to;
    uint32_t bytes;
    bool has_imm, inlined;
};

/** Have every write of this process's queue pairs told, as it is carried out, one at a time and
 *  with the network locked; NULL ends it. */
void mock_watch_writes(void (*see)(void *arg, const struct mock_write *write), void *arg);

#endif
