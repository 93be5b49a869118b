/* SPDX-License-Identifier: Apache-2.0 */
/** Ends that cannot go on in time, since the other one says no more: the reason says what failed.
 */
#include <infiniband/verbs.h>
#include <string.h>

#include "tests/provider/mock/mock.h"
#include "tests/provider/verbs_losses.h"

#define QUEUE_PAIRS 2

/** @param recover  seconds in which ends go on */
static struct losses two_paths(const char *recover)
{
    return (struct losses){.devices = {"=mock0,mock2", "=mock1,mock3"},
                           .qps = "1",
                           .timeout = "8",
                           .recover = recover,
                           .revive = "0"};
}

static struct wring_verbs_counters counters_of(const struct end *end)
{
    struct wring_verbs_counters counters = {0};
    wring_verbs_counters_of(end->provider, &counters);
    return counters;
}

/** One put over each path, from one end. */
static void put_over_all(struct end *from)
{
    for (unsigned i = 0; i < QUEUE_PAIRS; i++)
        CHECK(end_put(from, from->base, 0, 1024, i, i) == WRING_OK, "put");
}

/** Only this end goes on. */
static void expect_end(struct end *end, const char *begin)
{
    UNTIL(end, end, end->closed == 1);
    CHECK(strncmp(end->text, begin, strlen(begin)) == 0, "'%s' does not begin with '%s'", end->text,
          begin);
    CHECK(strstr(end->text, "; it could not go on in time") != NULL, "'%s'", end->text);
    CHECK(end->why != WRING_OK, "no status");
}

/** Who noticed it names it; who was told of it says so. @return false: this thread did not run for
 *  so long that the one that noticed it could not go on in time, either */
static bool lose_a_path(void)
{
    struct losses losses = two_paths("1");
    struct end *a = &losses.a, *b = &losses.b;
    CHECK(losses_pair(&losses, 4096), "no pair");
    mock_port_blackhole("mock0", 1, true);
    put_over_all(a);
    UNTIL(a, a, counters_of(a).resyncs == 1 || a->closed);
    bool in_time = a->closed == 0;
    if (in_time) {
        expect_end(b, "the peer says that it failed; peer ");
        CHECK(b->why == WRING_ERR_PEER, "%s", wring_status_text(b->why));
    }
    mock_port_blackhole("mock0", 1, false);
    ends_close(a, b);
    return in_time;
}

static void what_the_peer_lost_is_the_reason(void)
{
    wring_test_in_time(lose_a_path);
}

/** A port that is back stops both to be used again: nothing has failed since they last went on.
 *  @return false: this thread did not run for so long that they could not go on in time before */
static bool overcome(void)
{
    struct losses losses = two_paths("1");
    struct end *a = &losses.a, *b = &losses.b;
    CHECK(losses_pair(&losses, 4096), "no pair");
    mock_port_state("mock1", 1, IBV_PORT_DOWN);
    put_over_all(a);
    UNTIL(a, b, (a->done == QUEUE_PAIRS && b->arrived == QUEUE_PAIRS) || a->closed || b->closed);
    bool in_time = a->closed == 0 && b->closed == 0;
    CHECK(!in_time || counters_of(b).resyncs == 1, "%llu stops",
          (unsigned long long)counters_of(b).resyncs);
    mock_port_state("mock1", 1, IBV_PORT_ACTIVE);
    if (in_time) {
        expect_end(b, "queue pairs were to be taken back");
        CHECK(b->why == WRING_ERR_DEVICE, "%s", wring_status_text(b->why));
    }
    ends_close(a, b);
    return in_time;
}

static void what_was_overcome_is_no_reason(void)
{
    wring_test_in_time(overcome);
}

/** A device that lets a message come twice: when both compare what was sent, one side says so. */
static void what_comes_twice_is_not_gone_on_from(void)
{
    struct losses losses = two_paths("60");
    struct end *a = &losses.a, *b = &losses.b;
    uint32_t all[2 * QUEUE_PAIRS];
    REQUIRE(losses_pair(&losses, 4096), "no pair");
    mock_port_state("mock1", 1, IBV_PORT_DOWN);
    put_over_all(a);
    UNTIL(a, b, a->done == QUEUE_PAIRS && b->arrived == QUEUE_PAIRS);
    REQUIRE(mock_qp_list(all, 2 * QUEUE_PAIRS) == 2 * QUEUE_PAIRS, "queue pairs");
    for (unsigned i = 0; i < 2 * QUEUE_PAIRS; i++)
        mock_qp_repeat_send(all[i]);
    CHECK(a->provider->ops->send(a->conn, "once", 4) == WRING_OK, "send");
    UNTIL(a, b, b->messages == 2);
    mock_port_state("mock1", 1, IBV_PORT_ACTIVE);
    UNTIL(a, b, a->closed == 1 && b->closed == 1);
    CHECK(strstr(b->text, "counts what cannot have come") != NULL, "'%s'", b->text);
    CHECK(b->why == WRING_ERR_FRAME, "%s", wring_status_text(b->why));
    ends_close(a, b);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"what_the_peer_lost_is_the_reason", what_the_peer_lost_is_the_reason},
        {"what_was_overcome_is_no_reason", what_was_overcome_is_no_reason},
        {"what_comes_twice_is_not_gone_on_from", what_comes_twice_is_not_gone_on_from},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
