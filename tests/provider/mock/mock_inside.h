/* SPDX-License-Identifier: Apache-2.0 */
/** What a process on the mock's network has of its own: its settings, and objects it was given. */
#ifndef WRING_TESTS_MOCK_INSIDE_H
#define WRING_TESTS_MOCK_INSIDE_H

#include <infiniband/verbs.h>

#include "tests/provider/mock/mock.h"
#include "tests/provider/mock/mock_net.h"

#define MOCK_INLINE_MAX 1024
#define MOCK_PEER_MEMORIES 8

struct mock_options {
    char net[108];
    unsigned host, devices, ports;
    struct {
        unsigned link_layer, mtu, speed, inline_bytes, depth, sges, cqe, message;
        unsigned wr, cqex, resize, dmabuf, relaxed, late, peermem;
    } device[MOCK_DEVICES];
    uint64_t memlock;
    unsigned delay_us, jitter_us;
};

struct mock_device {
    struct ibv_device base;
    unsigned index;  /* of this host */
    uint32_t number; /* of the network */
};

struct mock_context {
    struct verbs_context verbs;
    struct mock_device *device;
    uint32_t index; /* in the network, as in all that follow */
    uint32_t bell;
};

struct mock_pd {
    struct ibv_pd base;
    unsigned users;
};

struct mock_mr {
    struct ibv_mr base;
    uint32_t index;
    void *mapping; /* of a dma-buf; NULL otherwise */
    size_t mapping_bytes;
};

struct mock_channel {
    struct ibv_comp_channel base;
    uint32_t bell;
    unsigned users;
};

struct mock_cq {
    struct ibv_cq_ex ex; /* ibv_cq is its beginning */
    uint32_t index;
    unsigned events; /* taken, and not acknowledged */
    struct net_cqe current;
};

/* a request to send */
struct mock_request {
    uint64_t wr_id;
    enum ibv_wr_opcode opcode;
    unsigned flags, pieces;
    uint32_t imm, rkey;
    uint64_t remote, ready_ns;
    uint32_t inline_bytes;
    struct ibv_sge piece[MOCK_SGES];
};

struct mock_qp {
    struct ibv_qp_ex ex; /* ibv_qp is its beginning */
    bool has_wr, signal_all, waits;
    struct ibv_qp_cap cap;
    struct net_qp *net;
    struct mock_request *sends; /* [cap.max_send_wr] */
    uint8_t *inlined;           /* [cap.max_send_wr][cap.max_inline_data] */
    uint32_t sq_next, sq_tail;  /* to carry out, posted */
    _Atomic uint32_t sq_freed;  /* polled, or before one that was */
    uint32_t draft;             /* requests between ibv_wr_start and ibv_wr_complete */
    int draft_error;
    uint64_t since_ns; /* of the request that is being retried; 0: none is */
    uint64_t ready_ns; /* of the last request posted */
    unsigned events, dropped;
    bool unanswered, repeats; /* of the next request, of the next send */
    bool fails;               /* the next request does, so: */
    enum ibv_wc_status fail_status;
    uint32_t fail_vendor;
};

struct mock_process {
    struct mock_options options;
    struct net *net;
    struct mock_device devices[MOCK_DEVICES];
    struct mock_counts counts;
    struct mock_qp *qps[MOCK_QPS]; /* by their place in the network */
    struct mock_cq *cqs[MOCK_CQS];
    char fail_call[48];
    int fail_error;
    unsigned fail_after;
    void (*see_write)(void *arg, const struct mock_write *write); /* NULL: nobody looks */
    void *see_arg;
    struct mock_peer_memory {
        uintptr_t from, to;
        int fd;
    } peer_memory[MOCK_PEER_MEMORIES];
    unsigned n_peer_memory;
};

/** The one of this process, on its network; set up at the first call. NULL with errno. */
struct mock_process *mock_process(void);

/** The same, which is there. */
extern struct mock_process mock_self;

/** Read MOCKVERBS. @return false, having said why, where it is malformed */
bool mock_options_read(const char *text, struct mock_options *out);

/** Is this call to fail? Sets errno. */
bool mock_call_fails(const char *name);

/** Something was used wrong: count, and say so. */
__attribute__((format(printf, 1, 2))) void mock_misuse(const char *format, ...);

/** Wait until events that were given out are acknowledged. @return how many are not */
unsigned mock_await_acks(const unsigned *events);

/** The port of a device of the network, ports from 1; NULL where there is none. */
struct net_port *mock_port(uint32_t device, unsigned port);

/* mock_qp.c: of a process's own queue pairs, all locked */
struct mock_qp *mock_qp_of(uint32_t qpn); /* NULL: gone, or another process's */
void mock_qp_to_error(struct net_qp *qp); /* whose ever it is; flushes */

/* mock_send.c, locked */

/** Carry out what can be. @return when to try again, UINT64_MAX where nothing waits */
uint64_t mock_send_progress(struct mock_qp *qp);

/* mock_peer.c, locked */

/** The queue pair that answers to this one, or NULL. Each must know the other. */
struct net_qp *mock_peer_of(const struct net_qp *qp);

/** Are packets of a size that the peer does not expect? A message of one packet has none. */
bool mock_packets_differ(const struct net_qp *qp, const struct net_qp *peer, uint32_t bytes);

/* mock_post.c */
void mock_post_install(struct mock_qp *qp, uint64_t send_ops);
int mock_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int mock_post_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* mock_poll.c */
int mock_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs);
void mock_poll_install(struct ibv_cq_ex *cq, uint64_t wc_flags);

/* mock_cq.c */
int mock_req_notify(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *mock_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);

/* mock_qp.c */
struct ibv_qp *mock_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init);

/* mock_clock.c */

/** Have requests that wait retried in time. Locked. */
void mock_clock_start(void);

/** As the library is unloaded. Not locked. */
void mock_clock_stop(void);
uint64_t mock_now_ns(void);

#endif
