/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/provider/mock/semantics_pair.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"

#define WAIT_NS (20 * WRING_NS_PER_S)
#define QUIET_NS (20 * WRING_NS_PER_MS)
#define PSN 0x1234

bool pair_is_mock(void)
{
    return dlsym(RTLD_DEFAULT, "mock_get_counts") != NULL;
}

/** Link-local ones are the last choice: what routes works everywhere. */
static bool choose_gid(struct pair_side *side)
{
    static const union ibv_gid none;
    side->gid_index = -1;
    for (int i = 0; i < side->attr.gid_tbl_len; i++) {
        struct ibv_gid_entry entry;
        if (ibv_query_gid_ex(side->context, side->port, (uint32_t)i, &entry, 0) != 0 ||
            memcmp(&entry.gid, &none, sizeof(none)) == 0)
            continue;
        if (side->gid_index < 0 || entry.gid.raw[0] != 0xfe) {
            side->gid_index = i;
            side->gid = entry.gid;
        }
    }
    return side->gid_index >= 0;
}

static bool open_side(struct pair_side *side, struct ibv_device *device)
{
    memset(side, 0, sizeof(*side));
    side->port = 1;
    side->context = ibv_open_device(device);
    if (side->context == NULL)
        return false;
    if (ibv_query_port(side->context, side->port, &side->attr) == 0 &&
        side->attr.state == IBV_PORT_ACTIVE && choose_gid(side))
        return true;
    ibv_close_device(side->context);
    side->context = NULL;
    return false;
}

/** The first device that works, and the last. */
static bool open_devices(struct pair *pair)
{
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    bool good = false;
    for (int i = 0; list != NULL && i < n && !good; i++)
        good = open_side(&pair->a, list[i]);
    bool both = false;
    for (int i = n - 1; good && i >= 0 && !both; i--)
        both = open_side(&pair->b, list[i]);
    if (list != NULL)
        ibv_free_device_list(list);
    return both;
}

bool pair_probe(char *reason, size_t bytes)
{
    struct pair pair;
    if (!open_devices(&pair)) {
        snprintf(reason, bytes, "no RDMA device with an active port");
        return false;
    }
    ibv_close_device(pair.a.context);
    ibv_close_device(pair.b.context);
    return true;
}

static bool make_cq(struct pair_side *side, const struct pair_params *params)
{
    uint32_t cqe = params->cqe != 0 ? params->cqe : 256;
    struct ibv_cq_init_attr_ex attr = {
        .cqe = cqe, .channel = side->channel, .wc_flags = IBV_WC_STANDARD_FLAGS};
    if (params->extended) {
        side->cq_ex = ibv_create_cq_ex(side->context, &attr);
        side->cq = side->cq_ex != NULL ? ibv_cq_ex_to_cq(side->cq_ex) : NULL;
    } else {
        side->cq = ibv_create_cq(side->context, (int)cqe, side, side->channel, 0);
    }
    return side->cq != NULL;
}

static bool make_qp(struct pair_side *side, const struct pair_params *params)
{
    uint32_t depth = params->depth != 0 ? params->depth : 64;
    struct ibv_qp_init_attr_ex init = {
        .send_cq = side->cq,
        .recv_cq = side->cq,
        .cap = {depth, depth, 2, 2, params->inlined},
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = side->pd,
    };
    if (params->extended) {
        init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE;
    }
    side->qp = ibv_create_qp_ex(side->context, &init);
    return side->qp != NULL;
}

static int to_init(struct pair_side *side, const struct pair_params *params)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = side->port,
        .qp_access_flags = IBV_ACCESS_REMOTE_READ |
                           (params->no_remote_write ? 0u : (unsigned)IBV_ACCESS_REMOTE_WRITE),
    };
    return ibv_modify_qp(side->qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static bool make_side(struct pair_side *side, const struct pair_params *params)
{
    int access = params->access != 0
                     ? params->access
                     : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    side->memory = aligned_alloc(4096, PAIR_BYTES);
    side->pd = ibv_alloc_pd(side->context);
    side->channel = ibv_create_comp_channel(side->context);
    if (side->memory == NULL || side->pd == NULL || side->channel == NULL)
        return false;
    memset(side->memory, 0, PAIR_BYTES);
    side->mr = ibv_reg_mr(side->pd, side->memory, PAIR_BYTES, access);
    return side->mr != NULL && make_cq(side, params) && make_qp(side, params) &&
           to_init(side, params) == 0;
}

static int to_rtr(struct pair_side *side, const struct pair_side *peer,
                  const struct pair_params *params, enum ibv_mtu mtu)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = mtu != 0 ? mtu : IBV_MTU_1024,
        .dest_qp_num = peer->qp->qp_num,
        .rq_psn = PSN,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = params->rnr_timer != 0 ? params->rnr_timer : 12,
        .ah_attr = {.dlid = peer->attr.lid, .port_num = side->port},
    };
    if (side->attr.link_layer == IBV_LINK_LAYER_ETHERNET) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.dgid = peer->gid;
        attr.ah_attr.grh.sgid_index = (uint8_t)side->gid_index;
        attr.ah_attr.grh.hop_limit = 64;
    }
    if (params->wrong_gid) {
        attr.ah_attr.dlid ^= 0x5a;
        attr.ah_attr.grh.dgid.raw[15] ^= 0x5a;
    }
    return ibv_modify_qp(side->qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct pair_side *side, const struct pair_params *params)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = params->wrong_psn ? PSN + 100 : PSN,
        .timeout = params->timeout != 0 ? params->timeout : 14,
        .retry_cnt = 2,
        .rnr_retry = params->rnr_retry != 0 ? params->rnr_retry : 1,
        .max_rd_atomic = 1,
    };
    return ibv_modify_qp(side->qp, &attr,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

bool pair_open_unconnected(struct pair *pair, const struct pair_params *params)
{
    bool good = open_devices(pair) && make_side(&pair->a, params) && make_side(&pair->b, params);
    CHECK(good, "no queue pairs: %s", strerror(errno));
    return good;
}

int pair_connect(struct pair *pair, const struct pair_params *params)
{
    int error = to_rtr(&pair->a, &pair->b, params, params->mtu[0]);
    if (error == 0)
        error = to_rtr(&pair->b, &pair->a, params, params->mtu[1]);
    if (error == 0)
        error = to_rts(&pair->a, params);
    return error == 0 ? to_rts(&pair->b, params) : error;
}

bool pair_open(struct pair *pair, const struct pair_params *params)
{
    if (!pair_open_unconnected(pair, params))
        return false;
    int error = pair_connect(pair, params);
    CHECK(error == 0, "cannot connect: %s", strerror(error));
    return error == 0;
}

static void close_side(struct pair_side *side)
{
    if (side->qp != NULL)
        CHECK(ibv_destroy_qp(side->qp) == 0, "ibv_destroy_qp");
    CHECK(ibv_destroy_cq(side->cq) == 0, "ibv_destroy_cq");
    CHECK(ibv_destroy_comp_channel(side->channel) == 0, "ibv_destroy_comp_channel");
    if (side->mr != NULL)
        CHECK(ibv_dereg_mr(side->mr) == 0, "ibv_dereg_mr");
    CHECK(ibv_dealloc_pd(side->pd) == 0, "ibv_dealloc_pd");
    CHECK(ibv_close_device(side->context) == 0, "ibv_close_device");
    free(side->memory);
}

void pair_close(struct pair *pair)
{
    close_side(&pair->a);
    close_side(&pair->b);
}

int pair_receive(struct pair_side *side, unsigned n)
{
    int error = 0;
    for (unsigned i = 0; i < n && error == 0; i++) {
        struct ibv_sge piece = {(uintptr_t)side->memory + (size_t)i * PAIR_RECEIVE_BYTES,
                                PAIR_RECEIVE_BYTES, side->mr->lkey};
        struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &piece, .num_sge = 1}, *bad;
        error = ibv_post_recv(side->qp, &wr, &bad);
    }
    return error;
}

struct ibv_send_wr pair_write(const struct pair_side *from, const struct pair_side *to,
                              struct ibv_sge *piece, size_t offset, uint32_t bytes)
{
    *piece = (struct ibv_sge){(uintptr_t)from->memory + offset, bytes, from->mr->lkey};
    return (struct ibv_send_wr){
        .wr_id = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .sg_list = piece,
        .num_sge = 1,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {(uintptr_t)to->memory + offset, to->mr->rkey},
    };
}

struct ibv_send_wr pair_send(const struct pair_side *from, struct ibv_sge *piece, size_t offset,
                             uint32_t bytes)
{
    *piece = (struct ibv_sge){(uintptr_t)from->memory + offset, bytes, from->mr->lkey};
    return (struct ibv_send_wr){
        .wr_id = 2,
        .opcode = IBV_WR_SEND,
        .sg_list = piece,
        .num_sge = 1,
        .send_flags = IBV_SEND_SIGNALED,
    };
}

int pair_post(struct pair_side *side, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    return ibv_post_send(side->qp, wr, &bad);
}

bool pair_wait(struct pair_side *side, struct ibv_wc *wc)
{
    uint64_t limit = wring_deadline_in(WAIT_NS);
    int n;
    while ((n = ibv_poll_cq(side->cq, 1, wc)) == 0 && wring_now_ns() < limit)
        usleep(10);
    CHECK(n == 1, "no completion (%d)", n);
    return n == 1;
}

bool pair_is_quiet(struct pair_side *side)
{
    uint64_t limit = wring_deadline_in(QUIET_NS);
    struct ibv_wc wc;
    while (wring_now_ns() < limit)
        if (ibv_poll_cq(side->cq, 1, &wc) != 0)
            return false;
    return true;
}

void pair_fill(uint8_t *at, size_t bytes, uint32_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(i * 13 + i / 255 + seed);
}

void pair_expect(struct pair_side *side, enum ibv_wc_status status, struct ibv_wc *wc)
{
    if (pair_wait(side, wc))
        CHECK(wc->status == status, "%s instead of %s", ibv_wc_status_str(wc->status),
              ibv_wc_status_str(status));
}

void pair_expect_flush(struct pair *pair, struct pair_side *side)
{
    struct ibv_sge piece;
    struct ibv_wc wc;
    struct ibv_send_wr wr = pair_write(side, &pair->b, &piece, 0, 8);
    wr.wr_id = 77;
    wr.send_flags = 0; /* failures are told all the same */
    CHECK(pair_post(side, &wr) == 0, "post");
    pair_expect(side, IBV_WC_WR_FLUSH_ERR, &wc);
    CHECK(wc.wr_id == 77, "wr_id %llu", (unsigned long long)wc.wr_id);
}
