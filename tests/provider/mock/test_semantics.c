/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What libibverbs promises, as far as the provider relies on it. The same program runs over the
 * mock here and over soft-RoCE in the virtual machines: that is what the mock is held against.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/provider/mock/verbs_pair.h"

#define USUAL (&(struct pair_params){0})

static void fill(uint8_t *at, size_t bytes, uint32_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(i * 13 + i / 255 + seed);
}

/** One completion, with that status. */
static void expect(struct pair_side *side, enum ibv_wc_status status, struct ibv_wc *wc)
{
    if (pair_wait(side, wc))
        CHECK(wc->status == status, "%s instead of %s", ibv_wc_status_str(wc->status),
              ibv_wc_status_str(status));
}

/** What is posted from now on is flushed. */
static void expect_flush(struct pair *pair, struct pair_side *side)
{
    struct ibv_sge piece;
    struct ibv_wc wc;
    struct ibv_send_wr wr = pair_write(side, &pair->b, &piece, 0, 8);
    wr.wr_id = 77;
    wr.send_flags = 0; /* failures are told all the same */
    CHECK(pair_post(side, &wr) == 0, "post");
    expect(side, IBV_WC_WR_FLUSH_ERR, &wc);
    CHECK(wc.wr_id == 77, "wr_id %llu", (unsigned long long)wc.wr_id);
}

static void writes_land(void)
{
    static const uint32_t sizes[] = {1, 8, 255, 1024, 1025, 65536, 1000003};
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        fill(pair.a.memory, sizes[i], sizes[i]);
        memset(pair.b.memory, 0, PAIR_BYTES);
        struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, sizes[i]);
        wr.wr.rdma.remote_addr += 3;
        CHECK(pair_post(&pair.a, &wr) == 0, "post");
        expect(&pair.a, IBV_WC_SUCCESS, &wc);
        CHECK(wc.opcode == IBV_WC_RDMA_WRITE && wc.wr_id == 1 && wc.qp_num == pair.a.qp->qp_num,
              "opcode %d", wc.opcode);
        CHECK(memcmp(pair.b.memory + 3, pair.a.memory, sizes[i]) == 0, "%u bytes differ", sizes[i]);
        CHECK(pair.b.memory[2] == 0 && pair.b.memory[3 + sizes[i]] == 0, "written beside");
    }
    CHECK(pair_is_quiet(&pair.b), "a plain write is told of");
    pair_close(&pair);
}

static void immediates_arrive_in_order(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    CHECK(pair_receive(&pair.b, 50) == 0, "receives");
    for (uint32_t i = 0; i < 50; i++) {
        struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, (size_t)i * 4096, i * 70);
        wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        wr.imm_data = htonl(0xa0000000 + i);
        wr.wr_id = i;
        fill(pair.a.memory + (size_t)i * 4096, i * 70, i);
        CHECK(pair_post(&pair.a, &wr) == 0, "post");
    }
    for (uint32_t i = 0; i < 50; i++) {
        expect(&pair.b, IBV_WC_SUCCESS, &wc);
        CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && (wc.wc_flags & IBV_WC_WITH_IMM) != 0 &&
                  ntohl(wc.imm_data) == 0xa0000000 + i && wc.wr_id == i && wc.byte_len == i * 70,
              "%u: opcode %d, immediate %x, %u bytes", i, wc.opcode, ntohl(wc.imm_data),
              wc.byte_len);
        CHECK(memcmp(pair.b.memory + (size_t)i * 4096, pair.a.memory + (size_t)i * 4096, i * 70) ==
                  0,
              "%u differs when told", i);
        expect(&pair.a, IBV_WC_SUCCESS, &wc);
        CHECK(wc.wr_id == i, "completion %llu, not %u", (unsigned long long)wc.wr_id, i);
    }
    pair_close(&pair);
}

static void empty_writes_need_no_key(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    CHECK(pair_receive(&pair.b, 1) == 0, "receive");
    struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 0);
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.num_sge = 0;
    wr.wr.rdma.rkey = 0;
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    expect(&pair.a, IBV_WC_SUCCESS, &wc);
    expect(&pair.b, IBV_WC_SUCCESS, &wc);
    CHECK(wc.byte_len == 0, "%u bytes", wc.byte_len);
    pair_close(&pair);
}

static void sends_fill_receives(void)
{
    struct pair pair;
    struct ibv_sge pieces[2];
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    CHECK(pair_receive(&pair.b, 2) == 0, "receives");
    fill(pair.a.memory, 200, 5);
    struct ibv_send_wr wr = pair_send(&pair.a, &pieces[0], 0, 100);
    pieces[1] = pieces[0];
    pieces[1].addr += 100;
    wr.num_sge = 2;
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = htonl(9);
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    for (unsigned i = 0; i < 2; i++) {
        expect(&pair.b, IBV_WC_SUCCESS, &wc);
        CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == 200 && wc.wr_id == i, "opcode %d, %u",
              wc.opcode, wc.byte_len);
        CHECK(((wc.wc_flags & IBV_WC_WITH_IMM) != 0) == (i == 1), "immediate");
        CHECK(memcmp(pair.b.memory + (size_t)i * PAIR_RECEIVE_BYTES, pair.a.memory, 200) == 0,
              "differs");
        expect(&pair.a, IBV_WC_SUCCESS, &wc);
        CHECK(wc.opcode == IBV_WC_SEND, "opcode %d", wc.opcode);
    }
    pair_close(&pair);
}

static void reads_fetch(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    fill(pair.b.memory, 5000, 1);
    struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 5000);
    wr.opcode = IBV_WR_RDMA_READ;
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    expect(&pair.a, IBV_WC_SUCCESS, &wc);
    CHECK(wc.opcode == IBV_WC_RDMA_READ, "opcode %d", wc.opcode);
    CHECK(memcmp(pair.b.memory, pair.a.memory, 5000) == 0, "differs");
    pair_close(&pair);
}

/** Inline data may change as soon as it is posted, and needs no key. */
static void inline_data_is_copied(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, &(struct pair_params){.inlined = 64}), "no pair");
    fill(pair.a.memory, 64, 3);
    struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 64);
    wr.send_flags |= IBV_SEND_INLINE;
    piece.lkey = 0;
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    memset(pair.a.memory, 0, 64);
    expect(&pair.a, IBV_WC_SUCCESS, &wc);
    fill(pair.a.memory, 64, 3);
    CHECK(memcmp(pair.b.memory, pair.a.memory, 64) == 0, "differs");
    piece.length = 8192;
    CHECK(pair_post(&pair.a, &wr) != 0, "inline data of 8 KiB");
    pair_close(&pair);
}

static void unsignalled_requests_are_silent(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    for (unsigned i = 0; i < 400; i++) {
        struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 16);
        wr.wr_id = i;
        wr.send_flags = i % 20 == 19 ? IBV_SEND_SIGNALED : 0u;
        CHECK(pair_post(&pair.a, &wr) == 0, "post %u", i);
        if (i % 20 != 19)
            continue;
        expect(&pair.a, IBV_WC_SUCCESS, &wc);
        CHECK(wc.wr_id == i, "completion %llu at %u", (unsigned long long)wc.wr_id, i);
    }
    CHECK(pair_is_quiet(&pair.a), "too many");
    pair_close(&pair);
}

static void nowhere_to_receive_is_an_error(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 100);
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    expect(&pair.a, IBV_WC_RNR_RETRY_EXC_ERR, &wc);
    CHECK(wc.wr_id == 1 && wc.qp_num == pair.a.qp->qp_num, "wr_id and qp_num");
    expect_flush(&pair, &pair.a);
    pair_close(&pair);
}

static void receives_may_come_late(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, &(struct pair_params){.rnr_retry = 6, .rnr_timer = 28}), "no pair");
    struct ibv_send_wr wr = pair_send(&pair.a, &piece, 0, 100);
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    usleep(30000);
    CHECK(pair_receive(&pair.b, 1) == 0, "receive");
    expect(&pair.b, IBV_WC_SUCCESS, &wc);
    expect(&pair.a, IBV_WC_SUCCESS, &wc);
    pair_close(&pair);
}

enum wrong {
    KEY,
    AFTER,
    BEFORE,
    ACCESS,
    QP_ACCESS,
    GONE,
    WRONGS
};

static void write_wrongly(enum wrong wrong)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    struct pair_params params = {.no_remote_write = wrong == QP_ACCESS};
    if (wrong == ACCESS)
        params.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    REQUIRE(pair_open(&pair, &params), "no pair");
    CHECK(pair_receive(&pair.b, 3) == 0, "receives");
    struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 100);
    wr.wr.rdma.rkey ^= wrong == KEY ? 0x100u : 0;
    wr.wr.rdma.remote_addr += wrong == AFTER ? PAIR_BYTES - 99 : 0;
    wr.wr.rdma.remote_addr -= wrong == BEFORE ? 1 : 0;
    if (wrong == GONE) {
        CHECK(ibv_dereg_mr(pair.b.mr) == 0, "dereg");
        pair.b.mr = NULL;
    }
    fill(pair.a.memory, 100, 7);
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    if (pair_wait(&pair.a, &wc))
        CHECK(wc.status == IBV_WC_REM_ACCESS_ERR ||
                  (wrong == QP_ACCESS && wc.status == IBV_WC_REM_INV_REQ_ERR),
              "%d: %s", wrong, ibv_wc_status_str(wc.status));
    CHECK(pair.b.memory[0] == 0 && pair.b.memory[99] == 0, "%d: written", wrong);
    for (unsigned i = 0; i < 3; i++) /* the other side fails too */
        expect(&pair.b, IBV_WC_WR_FLUSH_ERR, &wc);
    pair_close(&pair);
}

static void wrong_writes_are_refused(void)
{
    for (int wrong = 0; wrong < WRONGS; wrong++)
        write_wrongly((enum wrong)wrong);
}

static void wrong_sources_are_refused(void)
{
    for (unsigned wrong = 0; wrong < 2; wrong++) {
        struct pair pair;
        struct ibv_sge piece;
        struct ibv_wc wc;
        REQUIRE(pair_open(&pair, USUAL), "no pair");
        struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 100);
        piece.lkey ^= wrong == 0 ? 0x100u : 0;
        piece.addr += wrong == 1 ? PAIR_BYTES - 99 : 0;
        CHECK(pair_post(&pair.a, &wr) == 0, "post");
        if (pair_wait(&pair.a, &wc)) /* which of both, devices do not agree on */
            CHECK(wc.status == IBV_WC_LOC_PROT_ERR || wc.status == IBV_WC_LOC_QP_OP_ERR, "%s",
                  ibv_wc_status_str(wc.status));
        expect_flush(&pair, &pair.a);
        pair_close(&pair);
    }
}

static void small_receives_refuse_sends(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    CHECK(pair_receive(&pair.b, 1) == 0, "receive");
    struct ibv_send_wr wr = pair_send(&pair.a, &piece, 0, PAIR_RECEIVE_BYTES + 1);
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    if (pair_wait(&pair.a, &wc)) /* which of both, devices do not agree on */
        CHECK(wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_REM_OP_ERR, "%s",
              ibv_wc_status_str(wc.status));
    if (pair_wait(&pair.b, &wc))
        CHECK(wc.status != IBV_WC_SUCCESS, "received");
    pair_close(&pair);
}

static void stopping_flushes_in_order(void)
{
    struct pair pair;
    struct ibv_wc wc;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    CHECK(pair_receive(&pair.a, 20) == 0, "receives");
    CHECK(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE) == 0, "to ERR");
    for (unsigned i = 0; i < 20; i++) {
        expect(&pair.a, IBV_WC_WR_FLUSH_ERR, &wc);
        CHECK(wc.wr_id == i, "receive %llu, not %u", (unsigned long long)wc.wr_id, i);
    }
    expect_flush(&pair, &pair.a); /* soft-RoCE does not flush receives that are posted so late */
    pair_close(&pair);
}

/** A peer that went, never was there, or counts otherwise: no answer, and then an error. */
static void silence_ends_retries(void)
{
    static const struct pair_params params[] = {
        {.timeout = 12}, {.timeout = 12, .wrong_gid = true}, {.timeout = 12, .wrong_psn = true}};
    for (unsigned i = 0; i < 3; i++) {
        struct pair pair;
        struct ibv_sge piece;
        struct ibv_wc wc;
        REQUIRE(pair_open_unconnected(&pair, &params[i]), "no queue pairs");
        int error = pair_connect(&pair, &params[i]);
        CHECK(error == 0 || params[i].wrong_gid, "cannot connect: %s", strerror(error));
        if (error != 0) { /* on Ethernet the address cannot even be resolved */
            pair_close(&pair);
            continue;
        }
        if (i == 0) {
            CHECK(ibv_destroy_qp(pair.b.qp) == 0, "destroy");
            pair.b.qp = NULL;
        }
        struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 100);
        CHECK(pair_post(&pair.a, &wr) == 0, "post");
        expect(&pair.a, IBV_WC_RETRY_EXC_ERR, &wc);
        expect_flush(&pair, &pair.a);
        pair_close(&pair);
    }
}

static void packets_must_agree(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, &(struct pair_params){.mtu = {IBV_MTU_1024, IBV_MTU_512}}), "no pair");
    struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 5000);
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    expect(&pair.a, IBV_WC_REM_INV_REQ_ERR, &wc);
    pair_close(&pair);
}

static void steps_are_checked(void)
{
    struct pair pair;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .timeout = 14, .max_rd_atomic = 1};
    REQUIRE(pair_open_unconnected(&pair, USUAL), "no pair");
    CHECK(ibv_modify_qp(pair.a.qp, &attr,
                        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                            IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) != 0,
          "INIT to RTS");
    attr.qp_state = IBV_QPS_RTR;
    CHECK(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE) != 0, "RTR without attributes");
    CHECK(pair_receive(&pair.a, 1) == 0, "receives may be posted before");
    CHECK(pair_connect(&pair, USUAL) == 0, "still good");
    attr.qp_state = IBV_QPS_RESET;
    CHECK(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE) == 0, "to RESET");
    CHECK(pair_is_quiet(&pair.a), "RESET flushes nothing");
    pair_close(&pair);
}

/** Is there an event on the channel? Takes and acknowledges it. */
static bool notice(struct pair_side *side, int wait_ms)
{
    struct pollfd on = {.fd = side->channel->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *user;
    if (poll(&on, 1, wait_ms) != 1 || ibv_get_cq_event(side->channel, &cq, &user) != 0)
        return false;
    CHECK(cq == side->cq && (user == side || side->cq_ex != NULL), "another's event");
    ibv_ack_cq_events(cq, 1);
    return true;
}

static void notices_come_once_when_asked_for(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 8);
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    expect(&pair.a, IBV_WC_SUCCESS, &wc);
    CHECK(!notice(&pair.a, 20), "not asked");
    CHECK(ibv_req_notify_cq(pair.a.cq, 0) == 0, "ask");
    CHECK(!notice(&pair.a, 20), "nothing came yet");
    CHECK(pair_post(&pair.a, &wr) == 0 && pair_post(&pair.a, &wr) == 0, "post");
    CHECK(notice(&pair.a, 5000), "asked");
    expect(&pair.a, IBV_WC_SUCCESS, &wc);
    expect(&pair.a, IBV_WC_SUCCESS, &wc);
    CHECK(!notice(&pair.a, 20), "once");
    CHECK(fcntl(pair.a.channel->fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    struct ibv_cq *cq;
    void *user;
    CHECK(ibv_get_cq_event(pair.a.channel, &cq, &user) != 0 && errno == EAGAIN, "%d", errno);
    pair_close(&pair);
}

static void solicited_notices_wait_for_those(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    CHECK(pair_receive(&pair.b, 2) == 0 && ibv_req_notify_cq(pair.b.cq, 1) == 0, "receives");
    struct ibv_send_wr wr = pair_send(&pair.a, &piece, 0, 8);
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    expect(&pair.b, IBV_WC_SUCCESS, &wc);
    CHECK(!notice(&pair.b, 20), "not solicited");
    wr.send_flags |= IBV_SEND_SOLICITED;
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    CHECK(notice(&pair.b, 5000), "solicited");
    pair_close(&pair);
}

/** More completions than the queue holds: an event says so. */
static void overrun_completion_queues_tell(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_async_event event;
    REQUIRE(pair_open(&pair, &(struct pair_params){.cqe = 4}), "no pair");
    for (unsigned i = 0; i < 60; i++) {
        struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 8);
        CHECK(pair_post(&pair.a, &wr) == 0, "post %u", i);
    }
    struct pollfd on = {.fd = pair.a.context->async_fd, .events = POLLIN};
    CHECK(poll(&on, 1, 5000) == 1 && ibv_get_async_event(pair.a.context, &event) == 0, "no event");
    CHECK(event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == pair.a.cq, "%s",
          ibv_event_type_str(event.event_type));
    ibv_ack_async_event(&event);
    pair_close(&pair);
}

static void completion_queues_grow(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, &(struct pair_params){.cqe = 4}), "no pair");
    CHECK(ibv_resize_cq(pair.a.cq, 100) == 0 && pair.a.cq->cqe >= 100, "%d", pair.a.cq->cqe);
    for (unsigned i = 0; i < 60; i++) {
        struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 8);
        wr.wr_id = i;
        CHECK(pair_post(&pair.a, &wr) == 0, "post %u", i);
    }
    for (unsigned i = 0; i < 60; i++) {
        expect(&pair.a, IBV_WC_SUCCESS, &wc);
        CHECK(wc.wr_id == i, "order");
    }
    pair_close(&pair);
}

/** The newer interface: requests built one by one, completions read field by field. */
static void extended_interface_works(void)
{
    struct pair pair;
    struct ibv_poll_cq_attr attr = {0};
    unsigned got = 0;
    REQUIRE(pair_open(&pair, &(struct pair_params){.extended = true}), "no pair");
    CHECK(pair_receive(&pair.b, 3) == 0, "receives");
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair.a.qp);
    REQUIRE(qp != NULL, "no ibv_wr_*");
    fill(pair.a.memory, 300, 1);
    ibv_wr_start(qp);
    for (uint32_t i = 0; i < 3; i++) {
        qp->wr_id = 10 + i;
        qp->wr_flags = i == 2 ? IBV_SEND_SIGNALED : 0u;
        ibv_wr_rdma_write_imm(qp, pair.b.mr->rkey, (uintptr_t)pair.b.memory + i * 100, htonl(i));
        ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.memory + i * 100, 100);
    }
    CHECK(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
    struct ibv_cq_ex *cq = pair.b.cq_ex;
    for (unsigned i = 0; i < 100000 && got < 3; i++) {
        if (ibv_start_poll(cq, &attr) != 0) {
            usleep(100);
            continue;
        }
        do {
            CHECK(cq->status == IBV_WC_SUCCESS && cq->wr_id == got, "status %d", cq->status);
            CHECK(ibv_wc_read_opcode(cq) == IBV_WC_RECV_RDMA_WITH_IMM &&
                      ibv_wc_read_byte_len(cq) == 100 && ntohl(ibv_wc_read_imm_data(cq)) == got &&
                      ibv_wc_read_qp_num(cq) == pair.b.qp->qp_num,
                  "fields");
            got++;
        } while (ibv_next_poll(cq) == 0);
        ibv_end_poll(cq);
    }
    CHECK(got == 3, "%u came", got);
    CHECK(memcmp(pair.a.memory, pair.b.memory, 300) == 0, "differs");
    struct ibv_wc wc;
    expect(&pair.a, IBV_WC_SUCCESS, &wc); /* the older way of polling works on it, too */
    CHECK(wc.wr_id == 12, "wr_id %llu", (unsigned long long)wc.wr_id);
    pair_close(&pair);
}

static void what_is_in_use_stays(void)
{
    struct pair pair;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    if (!pair_is_mock()) /* which counts it as a fault of its user */
        CHECK(ibv_destroy_cq(pair.a.cq) == EBUSY && ibv_dealloc_pd(pair.a.pd) != 0, "in use");
    struct ibv_mr *second = ibv_reg_mr(pair.a.pd, pair.a.memory + 5, 100, IBV_ACCESS_LOCAL_WRITE);
    CHECK(second != NULL && second->lkey != pair.a.mr->lkey, "regions may overlap");
    if (second != NULL)
        CHECK(ibv_dereg_mr(second) == 0, "dereg");
    CHECK(ibv_reg_mr(pair.a.pd, (void *)(uintptr_t)4096, 4096, IBV_ACCESS_LOCAL_WRITE) == NULL,
          "memory that is not there");
    pair_close(&pair);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"writes_land", writes_land},
        {"immediates_arrive_in_order", immediates_arrive_in_order},
        {"empty_writes_need_no_key", empty_writes_need_no_key},
        {"sends_fill_receives", sends_fill_receives},
        {"reads_fetch", reads_fetch},
        {"inline_data_is_copied", inline_data_is_copied},
        {"unsignalled_requests_are_silent", unsignalled_requests_are_silent},
        {"nowhere_to_receive_is_an_error", nowhere_to_receive_is_an_error},
        {"receives_may_come_late", receives_may_come_late},
        {"wrong_writes_are_refused", wrong_writes_are_refused},
        {"wrong_sources_are_refused", wrong_sources_are_refused},
        {"small_receives_refuse_sends", small_receives_refuse_sends},
        {"stopping_flushes_in_order", stopping_flushes_in_order},
        {"silence_ends_retries", silence_ends_retries},
        {"packets_must_agree", packets_must_agree},
        {"steps_are_checked", steps_are_checked},
        {"notices_come_once_when_asked_for", notices_come_once_when_asked_for},
        {"solicited_notices_wait_for_those", solicited_notices_wait_for_those},
        {"overrun_completion_queues_tell", overrun_completion_queues_tell},
        {"completion_queues_grow", completion_queues_grow},
        {"extended_interface_works", extended_interface_works},
        {"what_is_in_use_stays", what_is_in_use_stays},
        {NULL, NULL},
    };
    char reason[256];
    if (!pair_probe(reason, sizeof(reason)))
        wring_test_skip("verbs: %s", reason);
    return wring_test_main(argc, argv, cases);
}
