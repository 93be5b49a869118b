/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The network of the mock: what queue pairs, completion queues and regions of all its processes
 * share. It is a piece of shared memory, anonymous or a file; whoever holds its lock may change it.
 *
 * There is no device: whoever posts a request carries it out, copying straight from its own memory
 * into the peer's, which may be another process of this host.
 */
#ifndef WRING_TESTS_MOCK_NET_H
#define WRING_TESTS_MOCK_NET_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MOCK_HOSTS 4
#define MOCK_DEVICES 4 /* of a host */
#define MOCK_PORTS 2   /* of a device */
#define MOCK_GIDS 2    /* link-local, then RoCEv2 over IPv4 */
#define MOCK_PKEYS 2
#define MOCK_QPS 4096
#define MOCK_CQS 512
#define MOCK_MRS 16384
#define MOCK_CONTEXTS 256
#define MOCK_BELLS 512
#define MOCK_WR_MAX 1024
#define MOCK_SGES 4
#define MOCK_CQE_MAX 32768 /* a power of two */
#define MOCK_EVENTS 64
#define MOCK_HELD 64 /* bytes of a write that an adapter holds back */

struct net_port {
    bool there, blackhole;
    enum ibv_port_state state;
    enum ibv_mtu mtu;
    uint8_t link_layer, width, speed;
    uint16_t lid;
    uint16_t pkeys[MOCK_PKEYS];
    union ibv_gid gids[MOCK_GIDS];
};

/* wakes who sleeps on a descriptor, which is a socket with a name made of this one's number */
struct net_bell {
    pid_t pid; /* 0: free */
    uint32_t generation;
    uint32_t pending; /* events not taken; the socket holds a datagram as long as there are any */
};

struct net_event {
    enum ibv_event_type type;
    uint32_t which; /* queue pair's number, completion queue, or port */
};

struct net_context {
    pid_t pid;
    uint32_t device, bell;
    struct net_event events[MOCK_EVENTS];
    uint32_t events_head, events_tail;
};

struct net_mr {
    pid_t pid;
    uint8_t generation; /* low byte of its key */
    uint32_t pd;
    uint64_t iova, host, bytes; /* host: where it lies in its process */
    unsigned access;
    bool late;           /* the end of each write is held back: */
    uint32_t held_bytes; /* of it; 0: nothing is */
    uint64_t held_at;    /* as host is */
    uint8_t held[MOCK_HELD];
};

struct net_cqe {
    uint64_t wr_id;
    enum ibv_wc_status status;
    enum ibv_wc_opcode opcode;
    uint32_t vendor_err, byte_len, qpn, src_qpn;
    uint32_t imm; /* network byte order */
    unsigned flags;
    uint32_t frees; /* the queue has room again up to this request */
    bool is_receive;
};

struct net_cq {
    pid_t pid;
    uint32_t context;
    int32_t bell; /* -1: none */
    uint32_t capacity, pending;
    _Atomic uint32_t head, tail; /* read without the lock to see whether there is anything */
    bool armed, armed_solicited, overrun;
    uint32_t users; /* queue pairs */
};

struct net_receive {
    uint64_t wr_id;
    uint32_t pieces;
    struct ibv_sge piece[MOCK_SGES];
};

struct net_qp {
    pid_t pid;
    uint32_t qpn, generation, context, device, pd;
    enum ibv_qp_state state;
    struct ibv_qp_attr attr;
    uint32_t send_cq, receive_cq;
    uint64_t probe;                                /* some byte of its process's memory */
    uint32_t rq_depth, rq_next, rq_tail, rq_freed; /* taken by senders, posted, polled */
};

struct net {
    uint64_t magic;
    uint32_t id;
    pthread_mutex_t lock;
    uint32_t next_pd;
    bool fatal[MOCK_HOSTS * MOCK_DEVICES];
    struct net_port ports[MOCK_HOSTS * MOCK_DEVICES][MOCK_PORTS];
    struct net_bell bells[MOCK_BELLS];
    struct net_context contexts[MOCK_CONTEXTS];
    struct net_mr mrs[MOCK_MRS];
    struct net_cq cqs[MOCK_CQS];
    struct net_qp qps[MOCK_QPS];
    struct net_receive receives[MOCK_QPS][MOCK_WR_MAX];
    struct net_cqe cqes[MOCK_CQS][MOCK_CQE_MAX];
};

/**
 * Join the network.
 * @param path  of a file that its processes share; "" for one that ends with this process and what
 *              it forks. The first to come makes it anew. @return NULL with errno
 */
struct net *net_attach(const char *path);
void net_detach(struct net *net);

void net_lock(struct net *net);
void net_unlock(struct net *net);

/** How often this process had to sleep for the lock, and how many of these sleeps are over. */
void net_lock_sleeps(uint64_t *begun, uint64_t *ended);

/** Forget what belonged to processes that are gone. Locked. */
void net_reap(struct net *net);

/* Each finds what is free and takes it for this process; -1 and ENOMEM where there is none. Locked.
 */
int32_t net_take_context(struct net *net, uint32_t device, uint32_t bell);
int32_t net_take_mr(struct net *net);
int32_t net_take_cq(struct net *net);
int32_t net_take_qp(struct net *net);

/** A bell and its descriptor, locked or not. @return -1 with errno */
int32_t net_bell_create(struct net *net, int *fd);
void net_bell_destroy(struct net *net, uint32_t bell, int fd);

/** One more event, one less. Locked. */
void net_bell_ring(struct net *net, uint32_t bell);
void net_bell_take(struct net *net, uint32_t bell, int fd);

/** The queue pair of that number, or NULL. */
struct net_qp *net_qp_find(struct net *net, uint32_t qpn);

/** The region behind a key: of that process and domain, or NULL. */
struct net_mr *net_mr_find(struct net *net, uint32_t key, pid_t pid, uint32_t pd);

/** Queue an asynchronous event for whoever has that context open. Locked. */
void net_tell(struct net *net, uint32_t context, enum ibv_event_type type, uint32_t which);

/** Tell all contexts of a device. Locked. */
void net_tell_all(struct net *net, uint32_t device, enum ibv_event_type type, uint32_t which);

/** Add a completion, and wake who asked for it. Locked. */
void net_complete(struct net *net, uint32_t cq, const struct net_cqe *cqe, bool solicited);

/** Forget completions of a queue pair that are there. Locked. */
void net_forget(struct net *net, uint32_t cq, uint32_t qpn);

/** Queue pair fails: what was posted to receive is flushed. Locked. */
void net_qp_flush_receives(struct net *net, struct net_qp *qp);

/** Copy between memory of two processes, one of which is ours. @return false: it is gone */
bool net_copy(pid_t to_pid, uint64_t to, pid_t from_pid, uint64_t from, size_t bytes);

/** The same within this process; not where they overlap. */
void net_copy_words(uint64_t to, uint64_t from, size_t bytes);

#endif
