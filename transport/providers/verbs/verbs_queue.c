/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define WRING_MODULE "verbs"
#define CREDIT_STEP (VERBS_RECEIVES / 4) /* receives between two updates */
#define ACK_TIMEOUT 14                   /* 4.096 us << 14 = 67 ms */
#define RETRIES 6                        /* finite: 7 would mean for ever on some devices */
#define POLLED_AT_ONCE 16

static struct verbs_provider *provider_of(const struct verbs_conn *conn)
{
    return (struct verbs_provider *)conn->base.provider;
}

static int post_receive(struct verbs_conn *conn, uint32_t slot)
{
    struct ibv_sge piece = {(uintptr_t)conn->buffers->receives[slot], WRING_SEND_MAX,
                            conn->mr->lkey};
    struct ibv_recv_wr request = {.wr_id = slot, .sg_list = &piece, .num_sge = 1};
    struct ibv_recv_wr *bad;
    return ibv_post_recv(conn->qp, &request, &bad);
}

static int to_init(struct verbs_conn *conn)
{
    struct verbs_provider *verbs = provider_of(conn);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = verbs->device.port,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    return verbs->library.modify_qp(
        conn->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static void fill_card(struct verbs_conn *conn)
{
    const struct verbs_device *device = &provider_of(conn)->device;
    uint32_t psn = 0;
    if (getrandom(&psn, sizeof(psn), 0) != sizeof(psn))
        psn = 0;
    conn->card = (struct verbs_card){
        .qpn = conn->qp->qp_num,
        .psn = psn & 0xffffff,
        .lid = device->attr.lid,
        .mtu = (uint8_t)device->attr.active_mtu,
        .credit_address = (uintptr_t)&conn->buffers->credits,
        .credit_rkey = conn->mr->rkey,
    };
    memcpy(conn->card.gid, device->gid.raw, sizeof(conn->card.gid));
}

static bool make_queue(struct verbs_conn *conn)
{
    struct verbs_provider *verbs = provider_of(conn);
    const struct verbs_library *library = &verbs->library;
    struct ibv_qp_init_attr init = {
        .cap = {VERBS_SENDS, VERBS_RECEIVES, 1, 1, 0},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
    };
    conn->buffers = aligned_alloc(4096, (sizeof(*conn->buffers) + 4095) / 4096 * 4096);
    if (conn->buffers == NULL)
        return false;
    memset(conn->buffers, 0, sizeof(*conn->buffers));
    conn->mr = library->reg_mr(verbs->pd, conn->buffers, sizeof(*conn->buffers),
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (conn->mr == NULL)
        return false;
    conn->cq = library->create_cq(verbs->device.context, VERBS_SENDS + VERBS_RECEIVES, conn,
                                  verbs->channel, 0);
    if (conn->cq == NULL)
        return false;
    init.send_cq = init.recv_cq = conn->cq;
    conn->qp = library->create_qp(verbs->pd, &init);
    return conn->qp != NULL && to_init(conn) == 0;
}

enum wring_status wring_verbs_queue_create(struct verbs_conn *conn)
{
    bool good = make_queue(conn);
    for (uint32_t slot = 0; good && slot < VERBS_RECEIVES; slot++)
        good = post_receive(conn, slot) == 0;
    if (!good) {
        struct verbs_provider *verbs = provider_of(conn);
        wring_error(&verbs->log, "no queue pair on %s: %s%s", verbs->device.name, strerror(errno),
                    errno == ENOMEM ? " (locked memory: see ulimit -l)" : "");
        return WRING_ERR_DEVICE;
    }
    fill_card(conn);
    return WRING_OK;
}

void wring_verbs_queue_destroy(struct verbs_conn *conn)
{
    const struct verbs_library *library = &provider_of(conn)->library;
    if (conn->qp != NULL)
        library->destroy_qp(conn->qp);
    if (conn->cq != NULL)
        library->destroy_cq(conn->cq);
    if (conn->mr != NULL)
        library->dereg_mr(conn->mr);
    free(conn->buffers);
}

void wring_verbs_queue_stop(struct verbs_conn *conn)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    if (conn->qp != NULL)
        provider_of(conn)->library.modify_qp(conn->qp, &attr, IBV_QP_STATE);
}

static int to_rtr(struct verbs_conn *conn)
{
    const struct verbs_device *device = &provider_of(conn)->device;
    const struct verbs_card *peer = &conn->peer;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = (enum ibv_mtu)(peer->mtu < conn->card.mtu ? peer->mtu : conn->card.mtu),
        .dest_qp_num = peer->qpn,
        .rq_psn = peer->psn,
        .min_rnr_timer = 12,
        .ah_attr = {.dlid = peer->lid, .port_num = device->port},
    };
    if (device->attr.link_layer == IBV_LINK_LAYER_ETHERNET) {
        attr.ah_attr.is_global = 1;
        memcpy(attr.ah_attr.grh.dgid.raw, peer->gid, sizeof(peer->gid));
        attr.ah_attr.grh.sgid_index = (uint8_t)device->gid_index;
        attr.ah_attr.grh.hop_limit = 64;
    }
    return provider_of(conn)->library.modify_qp(
        conn->qp, &attr,
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct verbs_conn *conn)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = conn->card.psn,
        .timeout = ACK_TIMEOUT,
        .retry_cnt = RETRIES,
        .rnr_retry = RETRIES,
    };
    return provider_of(conn)->library.modify_qp(conn->qp, &attr,
                                                IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                                    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                    IBV_QP_MAX_QP_RD_ATOMIC);
}

enum wring_status wring_verbs_queue_connect(struct verbs_conn *conn)
{
    int error = to_rtr(conn);
    if (error == 0)
        error = to_rts(conn);
    if (error != 0) {
        wring_error(&provider_of(conn)->log, "queue pair %u of %s cannot reach its peer's: %s",
                    conn->qp->qp_num, provider_of(conn)->device.name, strerror(error));
        return WRING_ERR_DEVICE;
    }
    return WRING_OK;
}

/** Post one send request, whose opcode and pieces are filled in. */
static enum wring_status post_send(struct verbs_conn *conn, struct ibv_send_wr *request,
                                   bool is_put, uint64_t cookie)
{
    struct ibv_send_wr *bad;
    uint32_t slot = conn->send_head % VERBS_SENDS;
    request->wr_id = conn->send_head;
    int error = ibv_post_send(conn->qp, request, &bad);
    if (error != 0) {
        wring_verbs_conn_fail(conn, WRING_ERR_DEVICE, "post to queue pair %u of %s: %s",
                              conn->qp->qp_num, provider_of(conn)->device.name, strerror(error));
        return WRING_ERR_CLOSED;
    }
    conn->pending[slot].is_put = is_put;
    conn->pending[slot].cookie = cookie;
    conn->send_head++;
    return WRING_OK;
}

/** May a request that uses up a receive of the peer be posted? */
static enum wring_status room_to_send(struct verbs_conn *conn)
{
    if (!wring_verbs_conn_stands(conn))
        return conn->state <= VERBS_OPEN ? WRING_ERR_AGAIN : WRING_ERR_CLOSED;
    uint32_t credits =
        (uint32_t)__atomic_load_n(&conn->buffers->credits, __ATOMIC_ACQUIRE); /* by the device */
    uint32_t unanswered = conn->sent - credits;
    if (unanswered > VERBS_RECEIVES) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "the peer gave credits for what was not sent");
        return WRING_ERR_CLOSED;
    }
    conn->starved = unanswered == VERBS_RECEIVES;
    bool room = !conn->starved && conn->send_head - conn->send_tail < VERBS_PUTS;
    return room ? WRING_OK : WRING_ERR_AGAIN;
}

enum wring_status wring_verbs_put(struct wring_conn *base, unsigned lane,
                                  struct wring_region *region, const void *local,
                                  struct wring_remote *remote, uint64_t remote_offset, size_t bytes,
                                  uint32_t imm, uint64_t cookie)
{
    struct verbs_conn *conn = (struct verbs_conn *)base;
    const struct verbs_remote *to = (const struct verbs_remote *)remote;
    bool there = remote->conn == base && remote_offset <= remote->bytes &&
                 bytes <= remote->bytes - remote_offset;
    if (lane != 0 || region == NULL || !there || bytes > provider_of(conn)->device.attr.max_msg_sz)
        return WRING_ERR_INVALID;
    size_t at = (size_t)((uintptr_t)local - (uintptr_t)region->base);
    if (bytes > 0 && (at > region->bytes || bytes > region->bytes - at))
        return WRING_ERR_INVALID;
    enum wring_status status = room_to_send(conn);
    if (status != WRING_OK)
        return status;

    struct ibv_sge piece = {(uintptr_t)local, (uint32_t)bytes,
                            ((struct verbs_region *)region)->mr->lkey};
    struct ibv_send_wr request = {
        .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
        .sg_list = &piece,
        .num_sge = bytes > 0,
        .imm_data = htonl(imm),
        .wr.rdma = {.remote_addr = to->address + remote_offset, .rkey = to->rkey},
    };
    status = post_send(conn, &request, true, cookie);
    if (status == WRING_OK)
        conn->sent++;
    return status;
}

enum wring_status wring_verbs_send(struct wring_conn *base, const void *data, size_t bytes)
{
    struct verbs_conn *conn = (struct verbs_conn *)base;
    if (bytes == 0 || bytes > WRING_SEND_MAX)
        return WRING_ERR_INVALID;
    enum wring_status status = room_to_send(conn);
    if (status != WRING_OK)
        return status;

    uint8_t *slot = conn->buffers->sends[conn->send_head % VERBS_SENDS];
    memcpy(slot, data, bytes);
    struct ibv_sge piece = {(uintptr_t)slot, (uint32_t)bytes, conn->mr->lkey};
    struct ibv_send_wr request = {.opcode = IBV_WR_SEND, .sg_list = &piece, .num_sge = 1};
    status = post_send(conn, &request, false, 0);
    if (status == WRING_OK)
        conn->sent++;
    return status;
}

/** Tell the peer how many receives are there anew, when enough of them are. */
static void give_credits(struct verbs_conn *conn)
{
    if (conn->state != VERBS_OPEN || conn->received - conn->told < CREDIT_STEP ||
        conn->send_head - conn->send_tail == VERBS_SENDS)
        return;
    uint8_t *slot = conn->buffers->sends[conn->send_head % VERBS_SENDS];
    uint64_t count = conn->received;
    memcpy(slot, &count, sizeof(count));
    struct ibv_sge piece = {(uintptr_t)slot, sizeof(count), conn->mr->lkey};
    struct ibv_send_wr request = {
        .opcode = IBV_WR_RDMA_WRITE,
        .sg_list = &piece,
        .num_sge = 1,
        .wr.rdma = {.remote_addr = conn->peer.credit_address, .rkey = conn->peer.credit_rkey},
    };
    if (post_send(conn, &request, false, 0) == WRING_OK)
        conn->told = conn->received;
}

static enum wring_status status_of_wc(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_WR_FLUSH_ERR:
        return WRING_ERR_PEER;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
        return WRING_ERR_FRAME;
    default:
        return WRING_ERR_DEVICE;
    }
}

static void fail_by_wc(struct verbs_conn *conn, const struct ibv_wc *wc)
{
    struct verbs_provider *verbs = provider_of(conn);
    wring_verbs_conn_fail(conn, status_of_wc(wc->status),
                          "%s (status %d, vendor error 0x%x), queue pair %u of %s to %u",
                          verbs->library.wc_status_str(wc->status), wc->status, wc->vendor_err,
                          conn->qp->qp_num, verbs->device.name, conn->peer.qpn);
}

static struct wring_event event_of_receive(struct verbs_conn *conn, const struct ibv_wc *wc)
{
    struct verbs_provider *verbs = provider_of(conn);
    struct wring_event event = {.conn = &conn->base, .bytes = wc->byte_len};
    if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        event.kind = WRING_EVENT_ARRIVED;
        event.imm = ntohl(wc->imm_data);
        return event;
    }
    uint8_t *copy = verbs->message[verbs->n_messages++];
    event.kind = WRING_EVENT_MESSAGE;
    event.bytes = wc->byte_len < WRING_SEND_MAX ? wc->byte_len : WRING_SEND_MAX;
    event.data = memcpy(copy, conn->buffers->receives[wc->wr_id], event.bytes);
    return event;
}

/** One completion. @return true if it gave an event */
static bool complete(struct verbs_conn *conn, const struct ibv_wc *wc, struct wring_event *event)
{
    if (wc->status != IBV_WC_SUCCESS) {
        fail_by_wc(conn, wc);
        return false;
    }
    if ((wc->opcode & IBV_WC_RECV) != 0) {
        *event = event_of_receive(conn, wc);
        if (conn->state == VERBS_OPEN && post_receive(conn, (uint32_t)wc->wr_id) != 0)
            wring_verbs_conn_fail(conn, WRING_ERR_DEVICE, "a receive request was refused");
        conn->received++;
        return true;
    }
    uint32_t slot = conn->send_tail++ % VERBS_SENDS;
    *event = (struct wring_event){
        .kind = WRING_EVENT_PUT_DONE, .conn = &conn->base, .cookie = conn->pending[slot].cookie};
    return conn->pending[slot].is_put;
}

/** Completions, a handful. @return events; *idle is set when there was none to take */
static size_t take_completions(struct verbs_conn *conn, struct wring_event *events, size_t max,
                               bool *idle)
{
    struct verbs_provider *verbs = provider_of(conn);
    struct ibv_wc wcs[POLLED_AT_ONCE];
    size_t room = sizeof(verbs->message) / sizeof(verbs->message[0]) - verbs->n_messages;
    size_t n = 0, ask = max < POLLED_AT_ONCE ? max : POLLED_AT_ONCE;

    int got = ibv_poll_cq(conn->cq, (int)(ask < room ? ask : room), wcs);
    for (int i = 0; i < got && conn->state != VERBS_DEAD; i++)
        n += complete(conn, &wcs[i], &events[n]);
    if (got < 0)
        wring_verbs_conn_fail(conn, WRING_ERR_DEVICE, "the completion queue of %s failed",
                              verbs->device.name);
    *idle = got <= 0 && ask > 0 && room > 0;
    return n;
}

static struct wring_event event_of_news(struct verbs_conn *conn)
{
    struct wring_event event = {.kind = WRING_EVENT_CONNECTED, .conn = &conn->base};
    if (conn->accepted) {
        event.kind = WRING_EVENT_ACCEPTED;
        event.data = wring_auth_hello(&conn->auth, &event.bytes);
    }
    conn->news = false;
    return event;
}

size_t wring_verbs_conn_events(struct verbs_conn *conn, struct wring_event *events, size_t max)
{
    size_t n = 0;
    bool idle = false;
    if (conn->news && n < max)
        events[n++] = event_of_news(conn);
    if (conn->state == VERBS_OPEN || conn->state == VERBS_DRAINING) {
        n += take_completions(conn, events + n, max - n, &idle);
        give_credits(conn);
    }
    if (conn->state == VERBS_DRAINING && idle) {
        wring_verbs_queue_stop(conn);
        conn->state = VERBS_DEAD;
    }
    if (conn->state == VERBS_DEAD && !conn->told_closed && n < max) {
        conn->told_closed = true;
        events[n++] = (struct wring_event){.kind = WRING_EVENT_CLOSED,
                                           .conn = &conn->base,
                                           .status = conn->status,
                                           .text = conn->text};
    }
    return n;
}
