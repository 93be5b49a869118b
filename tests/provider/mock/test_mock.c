/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the mock does that no device does when asked: faults, limits, counts. Each case is a process
 * of its own, since MOCKVERBS holds from the first call on.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/device_memory.h"
#include "tests/lib/test.h"
#include "tests/provider/mock/mock.h"
#include "tests/provider/mock/semantics_pair.h"

#define USUAL (&(struct pair_params){0})
#define DELAY_NS (500 * WRING_NS_PER_MS) /* with "delay=500000" */

/** Run it where MOCKVERBS is as given; it leaves nothing behind. */
static void with(const char *settings, void (*run)(void))
{
    unsigned before = wring_test_failures();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct mock_counts counts;
        setenv("MOCKVERBS", settings, 1);
        run();
        mock_get_counts(&counts);
        CHECK(counts.contexts + counts.pds + counts.mrs + counts.qps + counts.cqs +
                      counts.channels + counts.pinned_bytes ==
                  0,
              "left behind: %llu queue pairs, %llu regions", (unsigned long long)counts.qps,
              (unsigned long long)counts.mrs);
        CHECK(counts.misuse == 0, "misused");
        fflush(NULL);
        _exit(wring_test_failures() > before);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(status == 0, "with '%s': status %d", settings, status);
}

static int write_to(struct pair_side *from, const struct pair_side *to, uint64_t wr_id,
                    unsigned flags)
{
    struct ibv_sge piece;
    struct ibv_send_wr wr = pair_write(from, to, &piece, 0, 64);
    wr.wr_id = wr_id;
    wr.send_flags = flags;
    return pair_post(from, &wr);
}

static void expect_event(struct pair_side *side, enum ibv_event_type type)
{
    struct pollfd on = {.fd = side->context->async_fd, .events = POLLIN};
    struct ibv_async_event event;
    REQUIRE(poll(&on, 1, 5000) == 1, "no event");
    CHECK(ibv_get_async_event(side->context, &event) == 0 && event.event_type == type, "%s",
          ibv_event_type_str(event.event_type));
    ibv_ack_async_event(&event);
}

static void fill_send_queue(void)
{
    struct pair pair;
    struct ibv_wc wc;
    unsigned n = 0;
    REQUIRE(pair_open(&pair, &(struct pair_params){.depth = 16}), "no pair");
    while (n < 100 && write_to(&pair.a, &pair.b, n, 0) == 0)
        n++;
    CHECK(n == 16, "%u unsignalled requests fit", n);
    pair_close(&pair);

    REQUIRE(pair_open(&pair, &(struct pair_params){.depth = 16}), "no pair");
    for (n = 0; n < 16; n++)
        CHECK(write_to(&pair.a, &pair.b, n, n == 7 ? IBV_SEND_SIGNALED : 0u) == 0, "post");
    CHECK(write_to(&pair.a, &pair.b, 0, 0) == ENOMEM, "room before it was polled");
    pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
    for (n = 0; write_to(&pair.a, &pair.b, 0, 0) == 0;)
        n++;
    CHECK(n == 8, "%u have room behind the one that was polled", n);
    pair_close(&pair);
}

static void queues_fill_up(void)
{
    with("", fill_send_queue);
}

static void exceed_limits(void)
{
    struct pair pair;
    REQUIRE(pair_open(&pair, &(struct pair_params){.depth = 32, .inlined = 16}), "no pair");
    struct ibv_device_attr attr;
    CHECK(ibv_query_device(pair.a.context, &attr) == 0 && attr.max_qp_wr == 32 &&
              attr.max_sge == 2 && attr.max_cqe == 300,
          "%d requests, %d pieces, %d entries", attr.max_qp_wr, attr.max_sge, attr.max_cqe);
    struct ibv_qp_init_attr init = {.send_cq = pair.a.cq,
                                    .recv_cq = pair.a.cq,
                                    .cap = {33, 32, 1, 1, 0},
                                    .qp_type = IBV_QPT_RC};
    CHECK(ibv_create_qp(pair.a.pd, &init) == NULL && errno == EINVAL, "33 requests");
    init.cap = (struct ibv_qp_cap){32, 32, 1, 1, 17};
    CHECK(ibv_create_qp(pair.a.pd, &init) == NULL, "17 bytes inline");
    CHECK(ibv_create_cq(pair.a.context, 301, NULL, NULL, 0) == NULL, "301 entries");
    CHECK(pair.a.attr.max_msg_sz == 5000 && pair.a.attr.active_mtu == IBV_MTU_1024, "of the port");
    struct ibv_sge piece;
    struct ibv_wc wc;
    struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 5001);
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    pair_expect(&pair.a, IBV_WC_LOC_LEN_ERR, &wc);
    pair_close(&pair);
}

static void lack_abilities(void)
{
    struct pair pair;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    struct ibv_cq_init_attr_ex cq = {.cqe = 5};
    CHECK(ibv_create_cq_ex(pair.a.context, &cq) == NULL && errno == EOPNOTSUPP, "cqex");
    struct ibv_qp_init_attr_ex qp = {
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = pair.a.pd};
    CHECK(ibv_create_qp_ex(pair.a.context, &qp) == NULL && errno == EOPNOTSUPP, "wr");
    CHECK(ibv_qp_to_qp_ex(pair.a.qp) == NULL, "no ibv_wr_*");
    CHECK(ibv_resize_cq(pair.a.cq, 100) != 0, "resize");
    CHECK(ibv_reg_dmabuf_mr(pair.a.pd, 0, 0, 0, -1, 0) == NULL && errno == EOPNOTSUPP, "dma-buf");
    unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
    CHECK(ibv_reg_mr(pair.a.pd, pair.a.memory, 100, access) == NULL, "relaxed ordering");
    CHECK(ibv_reg_mr(pair.a.pd, pair.a.memory, 100, IBV_ACCESS_LOCAL_WRITE) == NULL &&
              errno == ENOMEM,
          "locked memory");
    pair_close(&pair);
}

static void limits_hold(void)
{
    with("depth=32,inline=16,sges=2,cqe=300,message=5000,mtu=1024", exceed_limits);
    with("wr=0,cqex=0,resize=0,dmabuf=0,relaxed=0,memlock=2097152", lack_abilities);
}

static void register_dmabuf(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    struct mock_counts counts;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    CHECK(ibv_reg_dmabuf_mr(pair.a.pd, 0, 0, 0, -1, 0) == NULL && errno == EBADF, "probe");
    int fd = memfd_create("stands in for a dma-buf", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, 1 << 16) == 0, "memfd");
    uint64_t iova = 0x700000001000 + 100;
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING;
    CHECK(ibv_reg_dmabuf_mr(pair.b.pd, 4096, 999, iova, fd, access) == NULL, "offset in the page");
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.b.pd, 4096 + 100, 8192, iova, fd, access);
    REQUIRE(mr != NULL, "dma-buf: %s", strerror(errno));
    memset(pair.a.memory, 0x77, 300);
    struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 300);
    wr.wr.rdma.rkey = mr->rkey;
    wr.wr.rdma.remote_addr = iova + 8192 - 300;
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
    uint8_t got[301] = {0};
    CHECK(pread(fd, got, 301, 4096 + 100 + 8192 - 300) == 301, "pread");
    CHECK(got[0] == 0x77 && got[299] == 0x77 && got[300] == 0, "bytes");
    mock_get_counts(&counts);
    CHECK(counts.dmabuf_registrations == 1 && counts.relaxed_registrations == 1, "counts");
    CHECK(ibv_dereg_mr(mr) == 0, "dereg");
    close(fd);
    pair_close(&pair);
}

static void device_memory_can_be_registered(void)
{
    with("", register_dmabuf);
}

/** At an address that no core can read. */
static void register_by_address(bool known)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    struct device_memory memory;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    device_memory_create(&memory, 1 << 16);
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    CHECK(ibv_reg_mr(pair.b.pd, memory.base, 1 << 16, access) == NULL && errno == EFAULT,
          "nobody has said whose memory it is");
    CHECK(mock_peer_memory(memory.base, 1 << 16, memory.fd), "mock_peer_memory");
    struct ibv_mr *mr = ibv_reg_mr(pair.b.pd, memory.base + 4196, 8192, access);
    CHECK((mr != NULL) == known && (known || errno == EFAULT), "%s", strerror(errno));
    if (mr != NULL) {
        memset(pair.a.memory, 0x77, 300);
        struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 300);
        wr.wr.rdma.rkey = mr->rkey;
        wr.wr.rdma.remote_addr = (uintptr_t)memory.base + 4196 + 8192 - 300;
        CHECK(pair_post(&pair.a, &wr) == 0, "post");
        pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
        const uint8_t *got = memory.seen + 4196 + 8192 - 300;
        CHECK(got[-1] == 0 && got[0] == 0x77 && got[299] == 0x77 && got[300] == 0, "bytes");
        CHECK(ibv_dereg_mr(mr) == 0, "dereg");
    }
    device_memory_destroy(&memory);
    pair_close(&pair);
}

static void register_known(void)
{
    register_by_address(true);
}

static void register_unknown(void)
{
    register_by_address(false);
}

static void device_memory_may_be_known_by_address(void)
{
    with("peermem=1", register_known);
    with("", register_unknown);
}

/** The last bytes that were written, and whether they are what was sent. */
static bool has_come(int fd, size_t at, size_t bytes, uint8_t sent)
{
    uint8_t got[512];
    bool read = bytes <= sizeof(got) && pread(fd, got, bytes, (off_t)at) == (ssize_t)bytes;
    CHECK(read, "pread");
    for (size_t i = 0; read && i < bytes; i++)
        if (got[i] != sent)
            return false;
    return read;
}

static void hold_writes_back(void)
{
    struct pair pair;
    struct ibv_sge piece;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    int fd = memfd_create("stands in for a dma-buf", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, 1 << 16) == 0, "memfd");
    uint64_t iova = 0x700000000000;
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.b.pd, 0, 1 << 16, iova, fd, access);
    REQUIRE(mr != NULL, "dma-buf: %s", strerror(errno));
    for (unsigned i = 0; i < 2; i++) {
        memset(pair.a.memory, 0x70 + (int)i, 300);
        struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 300);
        wr.wr.rdma.rkey = mr->rkey;
        wr.wr.rdma.remote_addr = iova + 4096 * i;
        CHECK(pair_post(&pair.a, &wr) == 0, "post");
        pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
        CHECK(has_come(fd, (size_t)4096 * i, 236, (uint8_t)(0x70 + i)) &&
                  !has_come(fd, (size_t)4096 * i + 236, 64, (uint8_t)(0x70 + i)),
              "write %u", i);
    }
    CHECK(has_come(fd, 0, 300, 0x70), "the next write pushes the one before");
    struct ibv_send_wr out = pair_write(&pair.b, &pair.a, &piece, 0, 1);
    piece.lkey = mr->lkey;
    piece.addr = iova;
    CHECK(pair_post(&pair.b, &out) == 0, "post");
    pair_expect(&pair.b, IBV_WC_SUCCESS, &wc);
    CHECK(has_come(fd, 4096, 300, 0x71), "and so does a read of the same region");
    CHECK(ibv_dereg_mr(mr) == 0, "dereg");
    close(fd);
    pair_close(&pair);
}

static void device_memory_shows_writes_late(void)
{
    with("late=1", hold_writes_back);
}

static void lose_port(void)
{
    struct pair pair;
    struct ibv_wc wc;
    REQUIRE(pair_open(&pair, &(struct pair_params){.timeout = 10}), "no pair");
    mock_port_state("mock0", 1, IBV_PORT_DOWN);
    expect_event(&pair.a, IBV_EVENT_PORT_ERR);
    CHECK(write_to(&pair.a, &pair.b, 1, 0) == 0, "post");
    pair_expect(&pair.a, IBV_WC_RETRY_EXC_ERR, &wc);
    struct ibv_port_attr attr;
    CHECK(ibv_query_port(pair.a.context, 1, &attr) == 0 && attr.state == IBV_PORT_DOWN, "state");
    mock_port_state("mock0", 1, IBV_PORT_ACTIVE);
    expect_event(&pair.a, IBV_EVENT_PORT_ACTIVE);
    pair_close(&pair);

    REQUIRE(pair_open(&pair, &(struct pair_params){.timeout = 18}), "no pair");
    mock_port_blackhole("mock1", 1, true);
    CHECK(write_to(&pair.a, &pair.b, 5, IBV_SEND_SIGNALED) == 0, "post");
    CHECK(pair_is_quiet(&pair.a), "it went through");
    mock_port_blackhole("mock1", 1, false);
    pair_expect(&pair.a, IBV_WC_SUCCESS, &wc); /* a retry made it */
    pair_close(&pair);
}

static void ports_go_and_come_back(void)
{
    with("devices=2", lose_port);
}

static void fail_things(void)
{
    struct pair pair;
    struct ibv_wc wc;
    uint32_t qpns[2];
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    CHECK(mock_qp_list(qpns, 2) == 2 && qpns[0] == pair.a.qp->qp_num, "queue pairs");
    CHECK(write_to(&pair.a, &pair.b, 1, IBV_SEND_SIGNALED) == 0, "post");
    mock_qp_fail(pair.a.qp->qp_num, IBV_WC_GENERAL_ERR, 0x42);
    CHECK(write_to(&pair.a, &pair.b, 2, 0) == 0 && write_to(&pair.a, &pair.b, 3, 0) == 0, "post");
    pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
    pair_expect(&pair.a, IBV_WC_GENERAL_ERR, &wc);
    CHECK(wc.wr_id == 2 && wc.vendor_err == 0x42, "vendor error %x", wc.vendor_err);
    pair_expect(&pair.a, IBV_WC_WR_FLUSH_ERR, &wc);
    CHECK(pair_receive(&pair.b, 1) == 0, "receive");
    mock_qp_fatal(pair.b.qp->qp_num);
    pair_expect(&pair.b, IBV_WC_WR_FLUSH_ERR, &wc);
    expect_event(&pair.b, IBV_EVENT_QP_FATAL);
    pair_close(&pair);

    REQUIRE(pair_open(&pair, USUAL), "no pair");
    mock_qp_drop_completions(pair.a.qp->qp_num, 1);
    CHECK(write_to(&pair.a, &pair.b, 1, IBV_SEND_SIGNALED) == 0, "post");
    CHECK(write_to(&pair.a, &pair.b, 2, IBV_SEND_SIGNALED) == 0, "post");
    pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
    CHECK(wc.wr_id == 2, "the first one was to be lost");
    CHECK(pair_receive(&pair.b, 1) == 0, "receive");
    mock_device_fatal("mock1");
    expect_event(&pair.b, IBV_EVENT_DEVICE_FATAL);
    pair_expect(&pair.b, IBV_WC_WR_FLUSH_ERR, &wc);
    pair_close(&pair);

    mock_fail_call("ibv_alloc_pd", EPERM, 1);
    int n;
    struct ibv_device **list = ibv_get_device_list(&n);
    struct ibv_context *context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    CHECK(pd != NULL && ibv_alloc_pd(context) == NULL && errno == EPERM, "the second one fails");
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
}

static void faults_come_when_asked_for(void)
{
    with("", fail_things);
}

/** The other side of a failure is told: by an event, or by silence. */
static void meet_strangers(void)
{
    struct pair pair;
    struct ibv_wc wc;
    struct ibv_sge piece;
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &piece, 0, 8);
    wr.wr.rdma.rkey++;
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    pair_expect(&pair.a, IBV_WC_REM_ACCESS_ERR, &wc);
    expect_event(&pair.b, IBV_EVENT_QP_ACCESS_ERR);
    pair_close(&pair);
    REQUIRE(pair_open_unconnected(&pair, USUAL), "no pair");
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .pkey_index = 1, .port_num = 1};
    CHECK(ibv_modify_qp(pair.b.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX) == 0, "P_Key");
    CHECK(pair_connect(&pair, &(struct pair_params){.timeout = 10}) == 0, "connect");
    CHECK(write_to(&pair.a, &pair.b, 1, 0) == 0, "post");
    pair_expect(&pair.a, IBV_WC_RETRY_EXC_ERR, &wc);
    pair_close(&pair);
}

static void the_other_side_knows(void)
{
    with("", meet_strangers);
}

/** @return false: this thread did not run for so long that the request may have been due */
static bool is_delayed(void)
{
    struct pair pair;
    struct ibv_wc wc;
    CHECK(pair_open(&pair, USUAL), "no pair");
    uint64_t began_ns = wring_now_ns();
    CHECK(write_to(&pair.a, &pair.b, 1, IBV_SEND_SIGNALED) == 0, "post");
    bool quiet = pair_is_quiet(&pair.a);
    bool in_time = wring_now_ns() - began_ns < DELAY_NS;
    CHECK(quiet || !in_time, "at once");
    if (quiet)
        pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
    pair_close(&pair);
    return in_time;
}

/** Requests of two queue pairs overtake each other, those of one never. */
static void delay_requests(void)
{
    struct pair one, two;
    struct ibv_wc wc;
    unsigned last[2] = {0, 0}, overtaken = 0, first = 0;
    struct pair *pairs[2] = {&one, &two};
    REQUIRE(pair_open(&one, USUAL) && pair_open(&two, USUAL), "no pairs");
    wring_test_in_time(is_delayed);
    mock_delay(0, 20000);
    for (unsigned i = 1; i <= 40; i++, usleep(1000))
        CHECK(write_to(&pairs[i % 2]->a, &pairs[i % 2]->b, i, IBV_SEND_SIGNALED) == 0, "post");
    for (unsigned i = 0; i < 40;)
        for (unsigned p = 0; p < 2; p++)
            if (ibv_poll_cq(pairs[p]->a.cq, 1, &wc) == 1) {
                CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id > last[p], "order of %u", p);
                last[p] = (unsigned)wc.wr_id;
                overtaken += wc.wr_id < first;
                first = (unsigned)wc.wr_id > first ? (unsigned)wc.wr_id : first;
                i++;
            }
    CHECK(overtaken > 0, "nothing was overtaken");
    pair_close(&one);
    pair_close(&two);
}

static void delays_keep_order_within_a_queue(void)
{
    with("delay=500000", delay_requests);
}

static void count_things(void)
{
    struct pair pair;
    struct ibv_wc wc;
    struct mock_counts before, after;
    struct ibv_sge pieces[2];
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    CHECK(pair_receive(&pair.b, 2) == 0, "receives");
    mock_get_counts(&before);
    struct ibv_send_wr second = pair_send(&pair.a, &pieces[1], 0, 50);
    struct ibv_send_wr wr = pair_write(&pair.a, &pair.b, &pieces[0], 0, 100);
    wr.send_flags = 0;
    wr.next = &second;
    CHECK(pair_post(&pair.a, &wr) == 0, "post");
    pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
    pair_expect(&pair.b, IBV_WC_SUCCESS, &wc);
    mock_get_counts(&after);
    CHECK(after.send_doorbells - before.send_doorbells == 1 && after.writes - before.writes == 1 &&
              after.sends - before.sends == 1 && after.signalled - before.signalled == 1 &&
              after.moved_bytes - before.moved_bytes == 150 &&
              after.completions - before.completions == 2 &&
              after.registrations == before.registrations,
          "counts");
    CHECK(after.qps == 2 && after.cqs == 2 && after.mrs == 2 && after.pds == 2 &&
              after.channels == 2 && after.contexts == 2 && after.pinned_bytes == 2 * PAIR_BYTES,
          "what is alive");
    pair_close(&pair);
}

static void all_is_counted(void)
{
    with("", count_things);
}

static void misuse_is_seen(void)
{
    struct pair pair;
    struct mock_counts counts;
    setenv("MOCKVERBS", "", 1);
    REQUIRE(pair_open(&pair, USUAL), "no pair");
    CHECK(ibv_destroy_cq(pair.a.cq) == EBUSY, "in use");
    CHECK(ibv_dealloc_pd(pair.a.pd) == EBUSY, "in use");
    CHECK(ibv_destroy_comp_channel(pair.a.channel) == EBUSY, "in use");
    mock_get_counts(&counts);
    CHECK(counts.misuse == 3, "%llu", (unsigned long long)counts.misuse);
    pair_close(&pair);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"queues_fill_up", queues_fill_up},
        {"limits_hold", limits_hold},
        {"device_memory_can_be_registered", device_memory_can_be_registered},
        {"device_memory_may_be_known_by_address", device_memory_may_be_known_by_address},
        {"device_memory_shows_writes_late", device_memory_shows_writes_late},
        {"ports_go_and_come_back", ports_go_and_come_back},
        {"faults_come_when_asked_for", faults_come_when_asked_for},
        {"the_other_side_knows", the_other_side_knows},
        {"delays_keep_order_within_a_queue", delays_keep_order_within_a_queue},
        {"all_is_counted", all_is_counted},
        {"misuse_is_seen", misuse_is_seen},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
