/* SPDX-License-Identifier: Apache-2.0 */
/** What is refused or lost, and how both sides are told. */
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/provider/mock/semantics.h"
#include "tests/provider/mock/semantics_pair.h"

#define USUAL (&(struct pair_params){0})

static void nowhere_to_receive_is_an_error(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 100);
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    pair_expect(&pair.a, IBV_WC_RNR_RETRY_EXC_ERR, &wc);
    CHECK(wc.wr_id == 1 && wc.qp_num == pair.a.qp->qp_num, "wr_id and qp_num");
    pair_expect_flush(&pair, &pair.a);
    pair_close(&pair);
}

static void receives_may_come_late(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, &(struct pair_params){.rnr_retry = 6, .rnr_timer = 31}), "no pair");
    struct ibv_send_wr wr = pair_send(&pair.a, &piece, 0, 100);
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    usleep(30000);
    CHECK(pair_receive(&pair.b, 1) == 0, "receive");
    pair_expect(&pair.b, IBV_WC_SUCCESS, &wc);
    pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
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
    pair_fill(pair.a.memory, 100, 7);
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    if (pair_wait(&pair.a, &wc))
        CHECK(wc.status == IBV_WC_REM_ACCESS_ERR ||
                  (wrong == QP_ACCESS && wc.status == IBV_WC_REM_INV_REQ_ERR),
              "%d: %s", wrong, ibv_wc_status_str(wc.status));
    CHECK(pair.b.memory[0] == 0 && pair.b.memory[99] == 0, "%d: written", wrong);
    for (unsigned i = 0; i < 3; i++) /* the other side fails too */
        pair_expect(&pair.b, IBV_WC_WR_FLUSH_ERR, &wc);
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
        pair_expect_flush(&pair, &pair.a);
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
        pair_expect(&pair.a, IBV_WC_WR_FLUSH_ERR, &wc);
        CHECK(wc.wr_id == i, "receive %llu, not %u", (unsigned long long)wc.wr_id, i);
    }
    pair_expect_flush(&pair,
                      &pair.a); /* soft-RoCE does not flush receives that are posted so late */
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
        pair_expect(&pair.a, IBV_WC_RETRY_EXC_ERR, &wc);
        pair_expect_flush(&pair, &pair.a);
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
    pair_expect(&pair.a, IBV_WC_REM_INV_REQ_ERR, &wc);
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

const struct wring_test_case semantics_failure[] = {
    {"nowhere_to_receive_is_an_error", nowhere_to_receive_is_an_error},
    {"receives_may_come_late", receives_may_come_late},
    {"wrong_writes_are_refused", wrong_writes_are_refused},
    {"wrong_sources_are_refused", wrong_sources_are_refused},
    {"small_receives_refuse_sends", small_receives_refuse_sends},
    {"stopping_flushes_in_order", stopping_flushes_in_order},
    {"silence_ends_retries", silence_ends_retries},
    {"packets_must_agree", packets_must_agree},
    {"steps_are_checked", steps_are_checked},
    {NULL, NULL},
};
