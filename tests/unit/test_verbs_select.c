/* SPDX-License-Identifier: Apache-2.0 */
/* Which RDMA ports are chosen, out of tables that no machine has to have. */
#include "transport/providers/verbs/select.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/port_table.h"

static struct verbs_choice chosen[VERBS_RAILS_MAX];
static char why[PORTS_MAX][VERBS_WHY];

static struct verbs_wish wish(const char *devices)
{
    return (struct verbs_wish){.devices = devices, .rails = 4, .gid_index = -1, .pkey = 0xffff};
}

/** "a:1 b:2", what is chosen, in order. */
static const char *choose(struct verbs_wish asked)
{
    static char text[256];
    size_t at = 0;
    memset(why, 0, sizeof(why));
    size_t n = wring_verbs_choose(&table, &asked, chosen, why);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s:%u", i > 0 ? " " : "",
                               chosen[i].device, chosen[i].port);
    for (size_t i = 0; i < table.n; i++)
        CHECK(why[i][0] != '\0', "%s:%u has no reason", table.ports[i].device,
              table.ports[i].number);
    return text;
}

#define CHOSEN(want, ...)                                           \
    do {                                                            \
        const char *got = choose(__VA_ARGS__);                      \
        CHECK(strcmp(got, want) == 0, "'%s', not '%s'", got, want); \
    } while (0)

#define SAYS(row, part) CHECK(strstr(why[row], part) != NULL, "'%s' has no '%s'", why[row], part)

static void roce_v2_over_ipv4_is_the_usual_gid(void)
{
    clear();
    struct verbs_port *port = add_roce("rxe0", 1, "192.0.2.1");
    CHOSEN("rxe0:1", wish(""));
    CHECK(chosen[0].gid.index == 3, "GID %u", chosen[0].gid.index);
    SAYS(0, "the only one");
    SAYS(0, "GID 3: RoCE v2 192.0.2.1");

    add_gid(port, 5, VERBS_GID_ROCE_V2, "2001:db8::1");
    CHOSEN("rxe0:1", wish(""));
    CHECK(chosen[0].gid.index == 3, "GID %u", chosen[0].gid.index);
    memmove(&port->gids[2], &port->gids[4], sizeof(port->gids[0]));
    port->n_gids = 3; /* without the IPv4 ones */
    CHOSEN("rxe0:1", wish(""));
    CHECK(chosen[0].gid.index == 5, "GID %u", chosen[0].gid.index);
    port->n_gids = 2; /* link-local only */
    CHOSEN("rxe0:1", wish(""));
    CHECK(chosen[0].gid.index == 1, "GID %u", chosen[0].gid.index);
    port->n_gids = 1; /* and as v1 only */
    CHOSEN("rxe0:1", wish(""));
    CHECK(chosen[0].gid.index == 0, "GID %u", chosen[0].gid.index);
    port->n_gids = 0;
    CHOSEN("", wish(""));
    SAYS(0, "no address");
}

static void the_address_bound_to_comes_first(void)
{
    uint8_t bound[16];
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct verbs_wish asked = wish("");
    asked.bound = bound;
    clear();
    struct verbs_port *port = add_roce("a", 1, "192.0.2.1");
    add_gid(port, 4, VERBS_GID_ROCE_V1, "::ffff:198.51.100.1");
    add_gid(port, 6, VERBS_GID_ROCE_V2, "::ffff:198.51.100.1");
    add_gid(port, 8, VERBS_GID_ROCE_V2, "2001:db8::1");
    add_roce("b", 1, "192.0.2.2");

    inet_pton(AF_INET, "198.51.100.1", &v4.sin_addr);
    REQUIRE(wring_verbs_gid_of((struct sockaddr *)&v4, bound), "no GID");
    choose(asked);
    CHECK(chosen[0].gid.index == 6, "GID %u", chosen[0].gid.index);
    SAYS(0, "(bound to)");

    inet_pton(AF_INET6, "2001:db8::1", &v6.sin6_addr);
    REQUIRE(wring_verbs_gid_of((struct sockaddr *)&v6, bound), "no GID");
    choose(asked);
    CHECK(chosen[0].gid.index == 8, "GID %u", chosen[0].gid.index);

    inet_pton(AF_INET, "192.0.2.2", &v4.sin_addr); /* decides between devices, too */
    wring_verbs_gid_of((struct sockaddr *)&v4, bound);
    CHOSEN("b:1 a:1", asked);
    SAYS(1, "its address is the one bound to");

    table.ports[0].mbit *= 4; /* but not against a faster one */
    CHOSEN("a:1", asked);
    struct sockaddr other = {.sa_family = AF_UNIX};
    CHECK(!wring_verbs_gid_of(&other, bound), "an address of a file");
}

static void an_index_asked_for_is_taken_or_refused(void)
{
    struct verbs_wish asked = wish("");
    clear();
    add_roce("a", 1, "192.0.2.1");
    asked.gid_index = 0;
    CHOSEN("a:1", asked);
    CHECK(chosen[0].gid.index == 0 && chosen[0].gid.type == VERBS_GID_ROCE_V1, "another GID");
    SAYS(0, "(asked for)");
    asked.gid_index = 7;
    CHOSEN("", asked);
    SAYS(0, "entry 7 of its GID table is empty");
}

static void partitions_are_looked_up(void)
{
    struct verbs_wish asked = wish("");
    clear();
    struct verbs_port *port = add_infiniband("ib", 1);
    port->n_pkeys = 4;
    port->pkeys[0] = 0x7fff;
    port->pkeys[1] = 0; /* empty */
    port->pkeys[2] = 0x8005;
    port->pkeys[3] = 0xffff;
    CHOSEN("ib:1", asked);
    CHECK(chosen[0].pkey_index == 3 && chosen[0].pkey == 0xffff, "the limited one");
    asked.pkey = 5; /* with or without the bit for full members */
    CHOSEN("ib:1", asked);
    CHECK(chosen[0].pkey_index == 2 && chosen[0].pkey == 0x8005, "%u", chosen[0].pkey_index);
    asked.pkey = 0x8006;
    CHOSEN("", asked);
    SAYS(0, "partition 0x8006");
    asked.pkey = 0x8000; /* equals an empty entry in all that counts */
    CHOSEN("", asked);
    port->n_pkeys = 1;
    CHOSEN("ib:1", wish(""));
    CHECK(chosen[0].pkey == 0x7fff, "0x%x", chosen[0].pkey);
}

static void alike_ports_near_us_are_rails(void)
{
    clear();
    for (unsigned i = 0; i < 4; i++) {
        char name[16], address[16];
        snprintf(name, sizeof(name), "mlx5_%u", i);
        snprintf(address, sizeof(address), "192.0.2.%u", i);
        add_roce(name, 1, address)->locality = i < 2 ? VERBS_LOCALITY_FAR : VERBS_LOCALITY_NEAR;
    }
    CHOSEN("mlx5_2:1 mlx5_3:1", wish(""));
    SAYS(0, "far from the cores");
    SAYS(3, "a rail beside the first");
}

static void far_ports_stand_back(void)
{
    clear();
    add_roce("far", 1, "192.0.2.1")->locality = VERBS_LOCALITY_FAR;
    add_roce("near", 1, "192.0.2.2");
    CHOSEN("near:1", wish(""));
    SAYS(0, "far from the cores");
    SAYS(1, "far ones count half");
    table.ports[0].mbit = 400000; /* more than twice as fast: worth the way */
    CHOSEN("far:1", wish(""));
    SAYS(1, "another speed");
    table.ports[0].mbit = table.ports[1].mbit;
    table.ports[1].locality = VERBS_LOCALITY_UNKNOWN; /* nothing says that it is far */
    CHOSEN("near:1", wish(""));
    CHOSEN("far:1 near:1", wish("far,near")); /* who names them gets them */
    SAYS(0, "names it");
}

static void unlike_ports_are_no_rails(void)
{
    clear();
    add_roce("fast", 1, "192.0.2.1");
    add_roce("slow", 1, "192.0.2.2")->mbit = 25000;
    add_roce("dumb", 1, NULL);
    add_infiniband("ib", 1);
    CHOSEN("fast:1", wish(""));
    SAYS(1, "another speed");
    SAYS(2, "cannot be routed");
    SAYS(3, "another link layer");
    CHOSEN("ib:1", wish("^fast"));
    CHOSEN("slow:1", wish("^fast,ib"));
    CHOSEN("dumb:1", wish("dumb"));
    CHOSEN("slow:1 fast:1 ib:1", wish("slow,fast,ib"));
}

static void no_more_rails_than_allowed(void)
{
    struct verbs_wish asked = wish("");
    clear();
    for (unsigned i = 1; i <= 6; i++)
        add_roce("mlx5_0", i, "192.0.2.1");
    CHOSEN("mlx5_0:1 mlx5_0:2 mlx5_0:3 mlx5_0:4", asked);
    SAYS(4, "WRING_VERBS_RAILS=4");
    asked.rails = 1;
    CHOSEN("mlx5_0:1", asked);
    CHOSEN("mlx5_0:5 mlx5_0:2", wish("mlx5_0:5,mlx5_0:2"));
    SAYS(0, "WRING_VERBS_DEVICES=mlx5_0:5,mlx5_0:2 leaves it out");
}

static void what_is_refused_is_told_why(void)
{
    clear();
    add_roce("down", 1, "192.0.2.1")->state = DOWN;
    add_roce("iwarp", 1, "192.0.2.1")->link = VERBS_LINK_OTHER;
    struct verbs_port *broken = add_roce("broken", 0, NULL);
    snprintf(broken->trouble, sizeof(broken->trouble), "the device does not open: reason");
    CHOSEN("", wish(""));
    SAYS(0, "the port is down");
    SAYS(1, "neither InfiniBand nor RoCE");
    SAYS(2, "does not open: reason");
    CHOSEN("", wish("=dow"));
    SAYS(0, "WRING_VERBS_DEVICES==dow leaves it out");
}

static void smaller_mtus_are_kept(void)
{
    struct verbs_wish asked = wish("");
    clear();
    add_roce("a", 1, "192.0.2.1")->mtu = 2048;
    choose(asked);
    CHECK(chosen[0].mtu == 2048, "%u", chosen[0].mtu);
    asked.mtu = 1024;
    choose(asked);
    CHECK(chosen[0].mtu == 1024, "%u", chosen[0].mtu);
    asked.mtu = 4096;
    choose(asked);
    CHECK(chosen[0].mtu == 2048, "%u", chosen[0].mtu);
}

/** Any table and list: never out of bounds, never more than asked for, never what cannot be. */
static void any_table_is_survived(void)
{
    uint32_t random = 20260101;
    static const char *const lists[] = {"", "a", "^a", "=a,b:1", "^=b:2", "c,a:1", "^"};
    for (unsigned turn = 0; turn < 3000; turn++) {
        clear();
        size_t n = wring_test_random(&random) % (PORTS_MAX + 1);
        for (size_t i = 0; i < n; i++) {
            uint32_t bits = wring_test_random(&random);
            char name[2] = {(char)('a' + bits % 3), '\0'};
            struct verbs_port *port = (bits & 8) != 0 ? add_infiniband(name, 1 + bits / 16 % 3)
                                                      : add_roce(name, 1, "192.0.2.1");
            port->state = (uint8_t)(bits >> 8 & 7);
            port->link = (enum verbs_link)((bits >> 11) % 3);
            port->locality = (enum verbs_locality)((bits >> 13) % 3);
            port->mbit = (bits >> 15) % 3 * 50000;
            port->n_gids = (uint16_t)((bits >> 17) % (port->n_gids + 1u));
            port->pkeys[0] = (uint16_t)(bits >> 20 & 1 ? 0xffff : 0);
        }
        struct verbs_wish asked = wish(lists[wring_test_random(&random) % 7]);
        asked.rails = 1 + wring_test_random(&random) % VERBS_RAILS_MAX;
        asked.gid_index = (int)(wring_test_random(&random) % 5) - 1;
        size_t got = wring_verbs_choose(&table, &asked, chosen, why);
        CHECK(got <= asked.rails && got <= n, "%zu of %zu", got, n);
        for (size_t i = 0; i < got; i++)
            CHECK(chosen[i].link != VERBS_LINK_OTHER && chosen[i].pkey == 0xffff &&
                      wring_verbs_match(asked.devices, chosen[i].device, chosen[i].port) >= 0,
                  "turn %u, rail %zu", turn, i);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"roce_v2_over_ipv4_is_the_usual_gid", roce_v2_over_ipv4_is_the_usual_gid},
        {"the_address_bound_to_comes_first", the_address_bound_to_comes_first},
        {"an_index_asked_for_is_taken_or_refused", an_index_asked_for_is_taken_or_refused},
        {"partitions_are_looked_up", partitions_are_looked_up},
        {"alike_ports_near_us_are_rails", alike_ports_near_us_are_rails},
        {"far_ports_stand_back", far_ports_stand_back},
        {"unlike_ports_are_no_rails", unlike_ports_are_no_rails},
        {"no_more_rails_than_allowed", no_more_rails_than_allowed},
        {"what_is_refused_is_told_why", what_is_refused_is_told_why},
        {"smaller_mtus_are_kept", smaller_mtus_are_kept},
        {"any_table_is_survived", any_table_is_survived},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
