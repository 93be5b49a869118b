/* SPDX-License-Identifier: Apache-2.0 */
/** What arrives, in which order, told in which words. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/provider/mock/semantics.h"
#include "tests/provider/mock/semantics_pair.h"

#define USUAL (&(struct pair_params){0})

static void writes_land(void)
{
    static const uint32_t sizes[] = {1, 8, 255, 1024, 1025, 65536, 1000003};
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        pair_fill(pair.a.memory, sizes[i], sizes[i]);
        memset(pair.b.memory, 0, PAIR_BYTES);
        struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, sizes[i]);
        wr.wr.rdma.remote_addr += 3;
        CHECK(pair_post(&pair.a, &wr) == 0, "post");
        pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
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
        pair_fill(pair.a.memory + (size_t)i * 4096, i * 70, i);
        CHECK(pair_post(&pair.a, &wr) == 0, "post");
    }
    for (uint32_t i = 0; i < 50; i++) {
        pair_expect(&pair.b, IBV_WC_SUCCESS, &wc);
        CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && (wc.wc_flags & IBV_WC_WITH_IMM) != 0 &&
                  ntohl(wc.imm_data) == 0xa0000000 + i && wc.wr_id == i && wc.byte_len == i * 70,
              "%u: opcode %d, immediate %x, %u bytes", i, wc.opcode, ntohl(wc.imm_data),
              wc.byte_len);
        CHECK(memcmp(pair.b.memory + (size_t)i * 4096, pair.a.memory + (size_t)i * 4096, i * 70) ==
                  0,
              "%u differs when told", i);
        pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
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
    pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
    pair_expect(&pair.b, IBV_WC_SUCCESS, &wc);
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
    pair_fill(pair.a.memory, 200, 5);
    struct ibv_send_wr wr = pair_send(&pair.a, &pieces[0], 0, 100);
    pieces[1] = pieces[0];
    pieces[1].addr += 100;
    wr.num_sge = 2;
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = htonl(9);
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    for (unsigned i = 0; i < 2; i++) {
        pair_expect(&pair.b, IBV_WC_SUCCESS, &wc);
        CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == 200 && wc.wr_id == i, "opcode %d, %u",
              wc.opcode, wc.byte_len);
        CHECK(((wc.wc_flags & IBV_WC_WITH_IMM) != 0) == (i == 1), "immediate");
        CHECK(memcmp(pair.b.memory + (size_t)i * PAIR_RECEIVE_BYTES, pair.a.memory, 200) == 0,
              "differs");
        pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
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
    pair_fill(pair.b.memory, 5000, 1);
    struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 5000);
    wr.opcode = IBV_WR_RDMA_READ;
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
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
    pair_fill(pair.a.memory, 64, 3);
    struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 64);
    wr.send_flags |= IBV_SEND_INLINE;
    piece.lkey = 0;
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    memset(pair.a.memory, 0, 64);
    pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
    pair_fill(pair.a.memory, 64, 3);
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
        pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
        CHECK(wc.wr_id == i, "completion %llu at %u", (unsigned long long)wc.wr_id, i);
    }
    CHECK(pair_is_quiet(&pair.a), "too many");
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
    pair_fill(pair.a.memory, 300, 1);
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
    pair_expect(&pair.a, IBV_WC_SUCCESS, &wc); /* the older way of polling works on it, too */
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

const struct wring_test_case semantics_data[] = {
    {"writes_land", writes_land},
    {"immediates_arrive_in_order", immediates_arrive_in_order},
    {"empty_writes_need_no_key", empty_writes_need_no_key},
    {"sends_fill_receives", sends_fill_receives},
    {"reads_fetch", reads_fetch},
    {"inline_data_is_copied", inline_data_is_copied},
    {"unsignalled_requests_are_silent", unsignalled_requests_are_silent},
    {"extended_interface_works", extended_interface_works},
    {"what_is_in_use_stays", what_is_in_use_stays},
    {NULL, NULL},
};
