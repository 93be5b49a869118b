/* SPDX-License-Identifier: Apache-2.0 */
/** Events: of completions, when they were asked for, and of queues. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "tests/lib/test.h"
#include "tests/provider/mock/semantics.h"
#include "tests/provider/mock/semantics_pair.h"

#define USUAL (&(struct pair_params){0})

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
    pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
    CHECK(!notice(&pair.a, 20), "not asked");
    CHECK(ibv_req_notify_cq(pair.a.cq, 0) == 0, "ask");
    CHECK(!notice(&pair.a, 20), "nothing came yet");
    CHECK(pair_post(&pair.a, &wr) == 0 && pair_post(&pair.a, &wr) == 0, "post");
    CHECK(notice(&pair.a, 5000), "asked");
    pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
    pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
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
    pair_expect(&pair.b, IBV_WC_SUCCESS, &wc);
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
        pair_expect(&pair.a, IBV_WC_SUCCESS, &wc);
        CHECK(wc.wr_id == i, "order");
    }
    pair_close(&pair);
}

const struct wring_test_case semantics_notices[] = {
    {"notices_come_once_when_asked_for", notices_come_once_when_asked_for},
    {"solicited_notices_wait_for_those", solicited_notices_wait_for_those},
    {"overrun_completion_queues_tell", overrun_completion_queues_tell},
    {"completion_queues_grow", completion_queues_grow},
    {NULL, NULL},
};
