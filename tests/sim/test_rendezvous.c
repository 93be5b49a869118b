/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wring's own rendezvous among simulated ranks, over simulated sockets: all meet, rank 0 has a
 * bounded number of sockets, and what it receives grows as the ranks do.
 *
 * test_rendezvous [RANKS]: with so many alone, and prints what it took.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "tests/sim/sim_job.h"
#include "tests/sim/sockets.h"
#include "transport/bootstrap/rendezvous.h"

struct meeting {
    struct wring_sim *sim;
    uint32_t ranks, met;
    uint64_t joined_ns, met_ns; /* by the last one */
};

struct cost {
    struct sim_sockets_counts sockets;
    struct wring_sim_counts sent, received; /* rank 0's */
    uint64_t joined_ns, met_ns;
};

static void note_time(const struct meeting *meeting, uint64_t *last)
{
    if (*last < wring_sim_now_ns(meeting->sim))
        *last = wring_sim_now_ns(meeting->sim);
}

static uint64_t blob_of(uint32_t rank)
{
    return rank * 0x9E3779B97F4A7C15u + 1;
}

static bool have_all_said(const struct wring_blobs *blobs, uint32_t ranks)
{
    bool all = blobs->n == ranks;
    for (uint32_t i = 0; i < ranks && all; i++) {
        uint64_t want = blob_of(i);
        all = blobs->offsets[i + 1] - blobs->offsets[i] == sizeof(want) &&
              memcmp(blobs->storage + blobs->offsets[i], &want, sizeof(want)) == 0;
    }
    return all;
}

static void rank_main(void *arg, uint32_t rank)
{
    struct meeting *meeting = arg;
    const struct wring_log log = {NULL, NULL, WRING_LOG_WARN};
    const struct wring_rendezvous_params params = {
        .log = &log,
        .rank = rank,
        .size = meeting->ranks,
        .root = "127.0.0.1:500",
        .root_fd = -1,
        .deadline_ns = wring_deadline_in(1000 * WRING_NS_PER_S),
    };
    struct wring_bootstrap *bootstrap;
    struct wring_blobs blobs;
    uint64_t blob = blob_of(rank);
    enum wring_status status = wring_rendezvous_create(&params, &bootstrap);

    if (status != WRING_OK) {
        CHECK(status == WRING_OK, "rank %u: %s", rank, wring_status_text(status));
        return;
    }
    note_time(meeting, &meeting->joined_ns);
    for (unsigned round = 0; round < 2 && status == WRING_OK; round++) {
        status = bootstrap->ops->exchange(bootstrap, &blob, sizeof(blob), params.deadline_ns, NULL,
                                          &blobs);
        if (round == 0)
            note_time(meeting, &meeting->met_ns);
        if (status != WRING_OK)
            CHECK(status == WRING_OK, "rank %u meets: %s", rank, wring_status_text(status));
        else
            meeting->met += round == 0 && have_all_said(&blobs, meeting->ranks);
        if (status == WRING_OK)
            wring_blobs_finish(&blobs);
    }
    bootstrap->ops->close(bootstrap);
}

static struct cost meet(uint32_t ranks)
{
    struct wring_sim_params network = sim_network(ranks);
    struct meeting meeting = {.ranks = ranks};
    struct cost cost = {0};
    uint32_t stuck = 0;

    if (wring_sim_create(&network, &meeting.sim) != WRING_OK) {
        CHECK(meeting.sim != NULL, "no memory for %u ranks", ranks);
        return cost;
    }
    sim_sockets_forget(ranks);
    enum wring_status status = wring_sim_run(meeting.sim, rank_main, &meeting, &stuck);
    CHECK(status == WRING_OK, "rank %u of %u waits for ever", stuck, ranks);
    CHECK(meeting.met == ranks, "%u of %u met all", meeting.met, ranks);
    cost = (struct cost){sim_sockets_counts(), wring_sim_sent(meeting.sim, 0),
                         wring_sim_received(meeting.sim, 0), meeting.joined_ns - WRING_NS_PER_S,
                         meeting.met_ns - WRING_NS_PER_S};
    CHECK(cost.sockets.open == 0, "%u sockets are still open", cost.sockets.open);
    wring_sim_destroy(meeting.sim);
    sim_sockets_forget(0);
    return cost;
}

static void print(uint32_t ranks, const struct cost *cost)
{
    printf("%u ranks: joined after %.3f ms, met after %.3f ms; at most %u sockets of rank 0, %u of "
           "another; %u dials; rank 0 sent %llu segments of %llu bytes and received %llu of %llu\n",
           ranks, (double)cost->joined_ns / 1e6, (double)cost->met_ns / 1e6,
           cost->sockets.most_of_rank_0, cost->sockets.most_of_another, cost->sockets.dials,
           (unsigned long long)cost->sent.messages, (unsigned long long)cost->sent.message_bytes,
           (unsigned long long)cost->received.messages,
           (unsigned long long)cost->received.message_bytes);
}

static void all_meet(void)
{
    static const uint32_t ranks[] = {2, 16, 17, 100};
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
        meet(ranks[i]);
}

/** What rank 0 hears of each rank does not grow with their number, nor do the sockets of others. */
static void joining_is_linear(void)
{
    struct cost few = meet(200), many = meet(1000);

    CHECK(many.received.messages * 200 <= few.received.messages * 1000 * 11 / 10 &&
              many.received.message_bytes * 200 <= few.received.message_bytes * 1000 * 11 / 10,
          "%llu segments of 200, %llu of 1000", (unsigned long long)few.received.messages,
          (unsigned long long)many.received.messages);
    CHECK(many.sockets.most_of_another <= 8, "%u sockets", many.sockets.most_of_another);
    CHECK(many.joined_ns <= few.joined_ns * 6, "%llu ns of 200, %llu of 1000",
          (unsigned long long)few.joined_ns, (unsigned long long)many.joined_ns);
}

static const struct wring_test_case cases[] = {
    {"all_meet", all_meet},
    {"joining_is_linear", joining_is_linear},
    {0},
};

int main(int argc, char **argv)
{
    if (argc == 2 && atoi(argv[1]) > 1) {
        struct cost cost = meet((uint32_t)atoi(argv[1]));
        print((uint32_t)atoi(argv[1]), &cost);
        return wring_test_failures() > 0;
    }
    return wring_test_main(argc, argv, cases);
}
