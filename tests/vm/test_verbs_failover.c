/* SPDX-License-Identifier: Apache-2.0 */
/** Two rails between two ends in one machine, of which one fails, or both for a while. */
#include <stdlib.h>

#include "tests/provider/verbs_losses.h"

/** What is done to the machine, and when it is undone. */
struct harm {
    const char *command, *repair;
    unsigned at, repair_at; /* arrivals; 0: never */
};

static void happen(void *arg, unsigned arrived)
{
    struct harm *harm = arg;
    if (harm->at > 0 && arrived >= harm->at) {
        CHECK(system(harm->command) == 0, "%s", harm->command);
        harm->at = 0;
    }
    if (harm->repair_at > 0 && arrived >= harm->repair_at) {
        CHECK(system(harm->repair) == 0, "%s", harm->repair);
        harm->repair_at = 0;
    }
}

static void survive(const char *qps, struct harm harm)
{
    struct losses losses = {.devices = {"=rxa,rxc", "=rxb,rxd"},
                            .qps = qps,
                            .timeout = "15", /* 0.13 s: to be lost is noticed within a second */
                            .recover = "60", /* a link comes up by programs, on a busy machine */
                            .puts = 200,
                            .happen = happen,
                            .arg = &harm};
    REQUIRE(losses_run(&losses), "no pair");
    losses_expect_survival(&losses, true);
}

/** The next case finds all of them up. */
static void await_ports(void)
{
    CHECK(system("timeout 200 sh -c 'while grep -vq ACTIVE /sys/class/infiniband/*/ports/1/state;"
                 "do sleep 0.05; done'") == 0,
          "a port stays down");
}

static void a_link_goes_down(void)
{
    survive("1", (struct harm){"ip link set cable2 down", "", 50, 0});
    CHECK(system("ip link set cable2 up") == 0, "up");
    await_ports();
}

static void a_link_of_many_queue_pairs_goes_down_and_up(void)
{
    survive("4", (struct harm){"ip link set cable3 down", "ip link set cable3 up", 50, 100});
    await_ports();
}

static void a_link_loses_everything(void)
{
    survive("1", (struct harm){"tc qdisc add dev cable2 root netem loss 100%", "", 50, 0});
    CHECK(system("tc qdisc del dev cable2 root") == 0, "del");
}

static void both_links_go_down_for_a_while(void)
{
    survive("2", (struct harm){"ip link set cable0 down; ip link set cable2 down;"
                               "(sleep 1; ip link set cable0 up; ip link set cable2 up) &",
                               "", 50, 0});
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a_link_goes_down", a_link_goes_down},
        {"a_link_of_many_queue_pairs_goes_down_and_up",
         a_link_of_many_queue_pairs_goes_down_and_up},
        {"a_link_loses_everything", a_link_loses_everything},
        {"both_links_go_down_for_a_while", both_links_go_down_for_a_while},
        {NULL, NULL},
    };
    if (system("test -e /sys/class/infiniband/rxd") != 0)
        wring_test_skip("verbs: needs the devices rxa to rxd, two rails");
    return wring_test_main(argc, argv, cases);
}
