/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Carrying out requests, in their order: find the peer, check both sides' memory, copy, complete.
 * All of it is done by the process that posted them, under the network's lock.
 */
#include <string.h>
#include <unistd.h>

#include "tests/provider/mock/mock_inside.h"

#define ACK_UNIT_NS 4096ull /* a timeout of n: 4.096 us << n */
#define FOR_EVER 7          /* RNR retries */

/* kinds of failure, as some device's vendor might number them */
enum {
    VENDOR_PROTECTION = 0x51,
    VENDOR_LENGTH = 0x52,
    VENDOR_REMOTE = 0x88,
    VENDOR_RETRY = 0x81,
    VENDOR_RNR = 0x87,
    VENDOR_FLUSH = 0xf9
};

enum fate {
    DONE,
    SILENCE,   /* no answer: try again until the retries are used up */
    NOT_READY, /* the peer has nowhere to receive it: the same, with times of its own */
    FAILED,
};

struct failure {
    enum ibv_wc_status status;
    uint32_t vendor;
};

/* where the bytes of a request lie, or go */
struct span {
    uint64_t at;
    uint32_t bytes;
};

static enum fate fail(struct failure *failure, enum ibv_wc_status status, uint32_t vendor)
{
    *failure = (struct failure){status, vendor};
    return FAILED;
}

/** What the adapter holds back of a region's last write goes where it belongs. */
static void let_go(struct net_mr *mr)
{
    uint32_t bytes = mr->held_bytes;
    mr->held_bytes = 0;
    if (bytes > 0)
        net_copy(mr->pid, mr->held_at, getpid(), (uintptr_t)mr->held, bytes);
}

/** A piece of registered memory, of any process. Who is to read it reads all that was written
 *  before. @return false: it is not, or not for that */
static bool resolve(uint32_t key, pid_t pid, uint32_t pd, uint64_t address, uint32_t bytes,
                    unsigned access, uint64_t *host)
{
    const unsigned writes = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    struct net_mr *mr = net_mr_find(mock_self.net, key, pid, pd);
    if (mr == NULL || (mr->access & access) != access || address < mr->iova ||
        address - mr->iova > mr->bytes || bytes > mr->bytes - (address - mr->iova))
        return false;
    if ((access & writes) == 0)
        let_go(mr);
    *host = mr->host + (address - mr->iova);
    return true;
}

/** @return false where a piece is not registered memory */
static bool resolve_pieces(const struct ibv_sge *pieces, unsigned n, const struct net_qp *qp,
                           unsigned access, struct span *out)
{
    for (unsigned i = 0; i < n; i++) {
        out[i].bytes = pieces[i].length;
        if (pieces[i].length > 0 && !resolve(pieces[i].lkey, qp->pid, qp->pd, pieces[i].addr,
                                             pieces[i].length, access, &out[i].at))
            return false;
    }
    return true;
}

/* ---- one request ---- */

static bool takes_receive(enum ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_SEND ||
           opcode == IBV_WR_SEND_WITH_IMM;
}

static bool is_send(enum ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
}

/** The peer's next receive is used up. */
static void complete_receive(struct net_qp *peer, const struct net_qp *qp,
                             const struct mock_request *request, uint32_t bytes,
                             enum ibv_wc_status status)
{
    const struct net_receive *ring = mock_self.net->receives[peer->qpn % MOCK_QPS];
    struct net_cqe cqe = {
        .wr_id = ring[peer->rq_next++ % MOCK_WR_MAX].wr_id,
        .status = status,
        .opcode = is_send(request->opcode) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
        .vendor_err = status == IBV_WC_SUCCESS ? 0 : VENDOR_LENGTH,
        .byte_len = bytes,
        .qpn = peer->qpn,
        .src_qpn = qp->qpn,
        .is_receive = true,
    };
    cqe.frees = peer->rq_next;
    if (request->opcode != IBV_WR_SEND) {
        cqe.imm = request->imm;
        cqe.flags = IBV_WC_WITH_IMM;
    }
    net_complete(mock_self.net, peer->receive_cq, &cqe, (request->flags & IBV_SEND_SOLICITED) != 0);
}

/** The peer saw what it must not: it fails, and is told. */
static enum fate refuse(struct net_qp *peer, enum ibv_event_type event, enum ibv_wc_status status,
                        struct failure *failure)
{
    net_tell(mock_self.net, peer->context, event, peer->qpn);
    mock_qp_to_error(peer);
    return fail(failure, status, VENDOR_REMOTE);
}

/** Copy pieces to pieces, in order; there is room. @return false: the other process is gone */
static bool copy(pid_t to_pid, struct span *to, pid_t from_pid, const struct span *from,
                 unsigned n_from)
{
    for (unsigned i = 0; i < n_from; i++)
        for (uint32_t done = 0; done < from[i].bytes;) {
            while (to->bytes == 0)
                to++;
            uint32_t left = from[i].bytes - done, n = left < to->bytes ? left : to->bytes;
            if (!net_copy(to_pid, to->at, from_pid, from[i].at + done, n))
                return false;
            to->at += n;
            to->bytes -= n;
            done += n;
        }
    return true;
}

/** Where a send goes: into the peer's next receive. */
static enum fate land_send(struct mock_qp *qp, const struct mock_request *request,
                           struct net_qp *peer, uint32_t bytes, struct span *to,
                           struct failure *failure)
{
    const struct net_receive *receive =
        &mock_self.net->receives[peer->qpn % MOCK_QPS][peer->rq_next % MOCK_WR_MAX];
    uint64_t room = 0;
    for (uint32_t i = 0; i < receive->pieces; i++)
        room += receive->piece[i].length;
    if (room < bytes) {
        complete_receive(peer, qp->net, request, 0, IBV_WC_LOC_LEN_ERR);
        return refuse(peer, IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR, failure);
    }
    if (resolve_pieces(receive->piece, receive->pieces, peer, IBV_ACCESS_LOCAL_WRITE, to))
        return DONE;
    complete_receive(peer, qp->net, request, 0, IBV_WC_LOC_PROT_ERR);
    return refuse(peer, IBV_EVENT_QP_FATAL, IBV_WC_REM_OP_ERR, failure);
}

/** Where a write goes, or a read comes from. */
static enum fate land_remote(const struct mock_request *request, struct net_qp *peer,
                             uint32_t bytes, struct span *at, struct failure *failure)
{
    unsigned access =
        request->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
    at->bytes = bytes;
    if (bytes == 0)
        return DONE; /* keys do not matter then */
    if ((peer->attr.qp_access_flags & access) == access &&
        resolve(request->rkey, peer->pid, peer->pd, request->remote, bytes, access, &at->at))
        return DONE;
    return refuse(peer, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR, failure);
}

/** The bytes of a request, on this side. @return FAILED where they are not there */
static enum fate locate(struct mock_qp *qp, const struct mock_request *request, struct span *ours,
                        unsigned *n, uint32_t *bytes, struct failure *failure)
{
    unsigned access = request->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
    unsigned device = qp->net->device % MOCK_DEVICES;
    uint64_t all = 0;
    *n = request->pieces;
    if ((request->flags & IBV_SEND_INLINE) != 0) {
        size_t slot = (size_t)(request - qp->sends);
        ours[0] = (struct span){(uintptr_t)qp->inlined + slot * qp->cap.max_inline_data,
                                request->inline_bytes};
        *n = 1;
    } else if (!resolve_pieces(request->piece, request->pieces, qp->net, access, ours)) {
        return fail(failure, IBV_WC_LOC_PROT_ERR, VENDOR_PROTECTION);
    }
    for (unsigned i = 0; i < *n; i++)
        all += ours[i].bytes;
    *bytes = (uint32_t)all;
    if (all > mock_self.options.device[device].message)
        return fail(failure, IBV_WC_LOC_LEN_ERR, VENDOR_LENGTH);
    return DONE;
}

/** Write to a peer's region; where that is late, its adapter holds the end back. @return false: the
 *  peer's process is gone */
static bool write_out(const struct mock_qp *qp, const struct mock_request *request,
                      const struct net_qp *peer, struct span *to, const struct span *from,
                      unsigned n_from)
{
    const pid_t self = qp->net->pid;
    uint32_t bytes = to->bytes < MOCK_HELD ? to->bytes : MOCK_HELD;
    uint64_t at = to->at + to->bytes - bytes;
    uint8_t before[MOCK_HELD];
    struct net_mr *mr = !is_send(request->opcode) && bytes > 0
                            ? net_mr_find(mock_self.net, request->rkey, peer->pid, peer->pd)
                            : NULL;

    if (mr == NULL || !mr->late)
        return copy(peer->pid, to, self, from, n_from);
    let_go(mr);
    if (!net_copy(self, (uintptr_t)before, peer->pid, at, bytes) ||
        !copy(peer->pid, to, self, from, n_from) ||
        !net_copy(self, (uintptr_t)mr->held, peer->pid, at, bytes) ||
        !net_copy(peer->pid, at, self, (uintptr_t)before, bytes))
        return false;
    mr->held_at = at;
    mr->held_bytes = bytes;
    return true;
}

static void tell_write(const struct mock_request *request, uint64_t to, uint32_t bytes)
{
    struct mock_write write = {
        .from = (const void *)(uintptr_t)request->piece[0].addr,
        .to = (void *)(uintptr_t)to,
        .bytes = bytes,
        .has_imm = request->opcode == IBV_WR_RDMA_WRITE_WITH_IMM,
        .inlined = (request->flags & IBV_SEND_INLINE) != 0,
    };
    if (mock_self.see_write != NULL && request->opcode <= IBV_WR_RDMA_WRITE_WITH_IMM)
        mock_self.see_write(mock_self.see_arg, &write);
}

static enum fate carry_out(struct mock_qp *qp, const struct mock_request *request,
                           struct failure *failure)
{
    struct span ours[MOCK_SGES], theirs[MOCK_SGES];
    unsigned n;
    uint32_t bytes;
    enum fate fate = locate(qp, request, ours, &n, &bytes, failure);
    if (fate != DONE)
        return fate;
    struct net_qp *peer = mock_peer_of(qp->net);
    if (peer == NULL)
        return SILENCE;
    if (mock_packets_differ(qp->net, peer, bytes))
        return refuse(peer, IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR, failure);
    if (takes_receive(request->opcode) && peer->rq_next == peer->rq_tail)
        return NOT_READY;
    fate = is_send(request->opcode) ? land_send(qp, request, peer, bytes, theirs, failure)
                                    : land_remote(request, peer, bytes, theirs, failure);
    if (fate != DONE)
        return fate;
    bool read = request->opcode == IBV_WR_RDMA_READ;
    uint64_t to = bytes > 0 ? theirs[0].at : 0;
    if (read ? !copy(qp->net->pid, ours, peer->pid, theirs, 1)
             : !write_out(qp, request, peer, theirs, ours, n))
        return SILENCE;
    mock_self.counts.moved_bytes += bytes;
    tell_write(request, to, bytes);
    if (takes_receive(request->opcode))
        complete_receive(peer, qp->net, request, bytes, IBV_WC_SUCCESS);
    return DONE;
}

/* ---- the queue ---- */

static enum ibv_wc_opcode completed_as(enum ibv_wr_opcode opcode)
{
    return is_send(opcode)              ? IBV_WC_SEND
           : opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ
                                        : IBV_WC_RDMA_WRITE;
}

/** The request at the head is over. */
static void finish(struct mock_qp *qp, const struct mock_request *request, struct failure how)
{
    struct net_cqe cqe = {.wr_id = request->wr_id,
                          .status = how.status,
                          .opcode = completed_as(request->opcode),
                          .vendor_err = how.vendor,
                          .qpn = qp->net->qpn};
    bool told =
        qp->signal_all || (request->flags & IBV_SEND_SIGNALED) != 0 || how.status != IBV_WC_SUCCESS;
    cqe.frees = ++qp->sq_next;
    qp->since_ns = 0;
    if (told && qp->dropped > 0)
        qp->dropped--;
    else if (told)
        net_complete(mock_self.net, qp->net->send_cq, &cqe, false);
}

/** How long it is tried again; 0: for ever. */
static uint64_t patience(const struct net_qp *qp, enum fate fate)
{
    static const uint32_t rnr_us[32] = {
        655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
        480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
        20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};
    const struct net_qp *peer = net_qp_find(mock_self.net, qp->attr.dest_qp_num);
    if (fate == SILENCE)
        return qp->attr.timeout == 0
                   ? 0
                   : (ACK_UNIT_NS << qp->attr.timeout) * (qp->attr.retry_cnt + 1u);
    if (qp->attr.rnr_retry == FOR_EVER || peer == NULL)
        return 0;
    return rnr_us[peer->attr.min_rnr_timer] * 1000ull * (qp->attr.rnr_retry + 1u);
}

/** It did not work, and may yet. @return true when it is given up */
static bool is_given_up(struct mock_qp *qp, enum fate fate, uint64_t *again_ns)
{
    uint64_t now = mock_now_ns(), limit = patience(qp->net, fate);
    if (qp->since_ns == 0)
        qp->since_ns = now;
    *again_ns = limit == 0 ? UINT64_MAX - 1 : qp->since_ns + limit;
    return limit != 0 && now >= *again_ns;
}

static void fail_queue(struct mock_qp *qp, const struct mock_request *request, struct failure how)
{
    finish(qp, request, how);
    mock_qp_to_error(qp->net);
}

/** It arrived. @return DONE, or FAILED where its sender is not to know */
static enum fate arrive(struct mock_qp *qp, const struct mock_request *request,
                        struct failure *failure)
{
    if (qp->repeats && is_send(request->opcode)) {
        qp->repeats = false;
        carry_out(qp, request, failure);
    }
    if (!qp->unanswered)
        return DONE;
    qp->unanswered = false;
    return fail(failure, IBV_WC_RETRY_EXC_ERR, VENDOR_RETRY);
}

/** Try the request at the head. @return false: it waits until *again_ns */
static bool step(struct mock_qp *qp, uint64_t *again_ns)
{
    const struct mock_request *request = &qp->sends[qp->sq_next % qp->cap.max_send_wr];
    struct failure failure = {IBV_WC_SUCCESS, 0};
    if (qp->net->state == IBV_QPS_ERR) {
        finish(qp, request, (struct failure){IBV_WC_WR_FLUSH_ERR, VENDOR_FLUSH});
        return true;
    }
    if (request->ready_ns > 0 && mock_now_ns() < request->ready_ns) {
        *again_ns = request->ready_ns;
        return false;
    }
    enum fate fate = FAILED;
    if (qp->fails)
        failure = (struct failure){qp->fail_status, qp->fail_vendor};
    else
        fate = carry_out(qp, request, &failure);
    qp->fails = false;
    if (fate == DONE)
        fate = arrive(qp, request, &failure);
    if (fate == DONE) {
        finish(qp, request, failure);
        return true;
    }
    if (fate != FAILED && !is_given_up(qp, fate, again_ns))
        return false;
    if (fate == SILENCE)
        fail(&failure, IBV_WC_RETRY_EXC_ERR, VENDOR_RETRY);
    if (fate == NOT_READY)
        fail(&failure, IBV_WC_RNR_RETRY_EXC_ERR, VENDOR_RNR);
    fail_queue(qp, request, failure);
    return true;
}

uint64_t mock_send_progress(struct mock_qp *qp)
{
    uint64_t again_ns = UINT64_MAX;
    bool good = true;
    while (good && qp->sq_next != qp->sq_tail)
        good = step(qp, &again_ns);
    qp->waits = !good;
    if (qp->waits)
        mock_clock_start();
    return good ? UINT64_MAX : again_ns;
}
