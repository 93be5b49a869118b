/* SPDX-License-Identifier: Apache-2.0 */
/** Two connected queue pairs, on plain libibverbs: what it promises is tested on them. */
#ifndef WRING_TESTS_VERBS_PAIR_H
#define WRING_TESTS_VERBS_PAIR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define PAIR_BYTES (1u << 20)
#define PAIR_RECEIVE_BYTES 256 /* of each receive that pair_receive() posts */

/* what differs from the usual; zeros are the usual */
struct pair_params {
    uint32_t depth;    /* of both queues; 64 */
    uint32_t cqe;      /* 256 */
    uint32_t inlined;  /* 0 */
    int access;        /* of regions; local and remote write, remote read */
    uint8_t timeout;   /* 14 */
    uint8_t rnr_retry; /* 1 */
    uint8_t rnr_timer; /* 12 */
    enum ibv_mtu mtu[2];
    bool wrong_gid, wrong_psn, no_remote_write;
    bool extended; /* completion queue; and ibv_wr_* */
};

struct pair_side {
    struct ibv_context *context;
    uint8_t port;
    int gid_index;
    union ibv_gid gid;
    struct ibv_port_attr attr;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_cq_ex *cq_ex; /* NULL unless extended */
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *memory; /* [PAIR_BYTES] */
};

struct pair {
    struct pair_side a, b; /* on different devices where there are two */
};

/** Is there a device? Otherwise says why not. */
bool pair_probe(char *reason, size_t bytes);

/** Is it the mock? */
bool pair_is_mock(void);

/** Queue pairs in state RTS, or only in INIT. @return false after a failed check */
bool pair_open(struct pair *pair, const struct pair_params *params);
bool pair_open_unconnected(struct pair *pair, const struct pair_params *params);

/** From INIT to RTS. @return 0 or an errno */
int pair_connect(struct pair *pair, const struct pair_params *params);
void pair_close(struct pair *pair);

/** Post n receives of PAIR_RECEIVE_BYTES each, one behind the other; wr_id is their number. */
int pair_receive(struct pair_side *side, unsigned n);

/** A request from the side's memory to the other's, to be changed and posted by pair_post(). */
struct ibv_send_wr pair_write(const struct pair_side *from, const struct pair_side *to,
                              struct ibv_sge *piece, size_t offset, uint32_t bytes);
struct ibv_send_wr pair_send(const struct pair_side *from, struct ibv_sge *piece, size_t offset,
                             uint32_t bytes);
int pair_post(struct pair_side *side, struct ibv_send_wr *wr);

/** The next completion. @return false, and a failed check, where none comes in time */
bool pair_wait(struct pair_side *side, struct ibv_wc *wc);

/** Nothing comes for a moment. */
bool pair_is_quiet(struct pair_side *side);

/** The next completion has that status. */
void pair_expect(struct pair_side *side, enum ibv_wc_status status, struct ibv_wc *wc);

/** What this side posts from now on is flushed. */
void pair_expect_flush(struct pair *pair, struct pair_side *side);

/** Bytes that differ by place and seed. */
void pair_fill(uint8_t *at, size_t bytes, uint32_t seed);

#endif
