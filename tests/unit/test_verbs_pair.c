/* SPDX-License-Identifier: Apache-2.0 */
/* Which rails of two sides go together, and what is said where none do. */
#include <arpa/inet.h>
#include <string.h>

#include "tests/lib/test.h"
#include "transport/providers/verbs/select.h"

static struct verbs_end roce(const char *address)
{
    struct verbs_end end = {VERBS_LINK_ROCE, VERBS_GID_ROCE_V2, {0}, 0xffff, 4096};
    CHECK(inet_pton(AF_INET6, address, end.gid) == 1, "%s", address);
    return end;
}

static struct verbs_end infiniband(const char *address)
{
    struct verbs_end end = roce(address);
    end.link = VERBS_LINK_INFINIBAND;
    end.gid_type = VERBS_GID_INFINIBAND;
    return end;
}

/** "00 12": pairs of indices, the dialing side's first. */
static const char *pair(const struct verbs_end *a, size_t n_a, const struct verbs_end *b,
                        size_t n_b)
{
    static char text[64];
    struct verbs_pair pairs[VERBS_RAILS_MAX], again[VERBS_RAILS_MAX];
    char why[VERBS_WHY];
    size_t n = wring_verbs_pair(a, n_a, b, n_b, true, pairs, why, sizeof(why));
    size_t m = wring_verbs_pair(a, n_a, b, n_b, false, again, why, sizeof(why));
    CHECK(n == m, "the sides disagree: %zu, %zu", n, m);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u%u", i > 0 ? " " : "",
                 pairs[i].dialing, pairs[i].accepting);
        CHECK(pairs[i].dialing == again[i].dialing && pairs[i].accepting == again[i].accepting,
              "the sides disagree about pair %zu", i);
    }
    return text;
}

#define PAIRS(want, a, b)                                                                     \
    do {                                                                                      \
        const char *got = pair(a, sizeof(a) / sizeof((a)[0]), b, sizeof(b) / sizeof((b)[0])); \
        CHECK(strcmp(got, want) == 0, "'%s', not '%s'", got, want);                           \
    } while (0)

static void rails_pair_within_their_networks(void)
{
    const struct verbs_end one[] = {roce("::ffff:192.0.2.1")};
    const struct verbs_end two[] = {roce("::ffff:192.0.2.1"), roce("::ffff:198.51.100.1")};
    const struct verbs_end crossed[] = {roce("::ffff:198.51.100.2"), roce("::ffff:192.0.2.2")};
    const struct verbs_end same[] = {roce("::ffff:192.0.2.3"), roce("::ffff:192.0.2.4")};
    const struct verbs_end far[] = {roce("::ffff:203.0.113.1"), roce("::ffff:203.0.114.1")};
    const struct verbs_end some[] = {roce("::ffff:203.0.113.1"), roce("::ffff:192.0.2.9")};

    PAIRS("00", one, one);
    PAIRS("00 11", two, two);
    PAIRS("01 10", two, crossed);
    PAIRS("01 10", crossed, two);
    PAIRS("00 11", same, same);
    PAIRS("00 11", two, far); /* routed: in order */
    PAIRS("01 10", two, some);
    PAIRS("00", two, one);
    PAIRS("01", one, crossed);
    PAIRS("00", one, far);
}

static void link_layers_do_not_mix(void)
{
    const struct verbs_end mixed[] = {infiniband("fe80::1"), roce("::ffff:192.0.2.1")};
    const struct verbs_end turned[] = {roce("::ffff:192.0.2.2"), infiniband("fe80::2")};
    PAIRS("01 10", mixed, turned);
}

static void differences_are_named(void)
{
    struct verbs_pair pairs[VERBS_RAILS_MAX];
    struct verbs_end v1 = roce("::ffff:192.0.2.2"), other_key = roce("::ffff:192.0.2.2");
    struct verbs_end limited = roce("::ffff:192.0.2.2");
    v1.gid_type = VERBS_GID_ROCE_V1;
    other_key.pkey = 0x8001;
    limited.pkey = 0x7fff;
    const struct {
        struct verbs_end ours, peer;
        const char *want;
    } cases[] = {
        {infiniband("fe80::1"), roce("::ffff:192.0.2.1"), "ours is InfiniBand, the peer's RoCE"},
        {roce("::ffff:192.0.2.1"), v1, "ours speaks RoCE v2, the peer's RoCE v1"},
        {roce("::ffff:192.0.2.1"), roce("2001:db8::1"),
         "ours is in an IPv4 network (192.0.2.1), the peer's in an IPv6 one (2001:db8::1)"},
        {infiniband("fe80::1"), infiniband("fec0::1"), "another InfiniBand subnet"},
        {roce("::ffff:192.0.2.1"), other_key, "partition key 0xffff, the peer's 0x8001"},
        {limited, limited, "partition key 0x7fff, the peer's 0x7fff"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char dialing[VERBS_WHY] = "", accepting[VERBS_WHY] = "";
        size_t n = wring_verbs_pair(&cases[i].ours, 1, &cases[i].peer, 1, true, pairs, dialing,
                                    sizeof(dialing));
        CHECK(n == 0 && strstr(dialing, cases[i].want) != NULL, "%zu: '%s'", i, dialing);
        n = wring_verbs_pair(&cases[i].peer, 1, &cases[i].ours, 1, false, pairs, accepting,
                             sizeof(accepting));
        CHECK(n == 0 && strcmp(dialing, accepting) == 0, "%zu: '%s'", i, accepting);
    }
    struct verbs_end full = roce("::ffff:192.0.2.1");
    CHECK(strcmp(pair(&full, 1, &limited, 1), "00") == 0, "a limited member reaches full ones");
}

static void mtu_is_the_smaller_one(void)
{
    struct verbs_end a = roce("::ffff:192.0.2.1"), b = roce("::ffff:192.0.2.2");
    struct verbs_pair pairs[VERBS_RAILS_MAX] = {{0}};
    char why[VERBS_WHY];
    b.mtu = 1024;
    CHECK(wring_verbs_pair(&a, 1, &b, 1, true, pairs, why, sizeof(why)) == 1, "%s", why);
    CHECK(pairs[0].mtu == 1024, "%u", pairs[0].mtu);
    CHECK(wring_verbs_pair(&b, 1, &a, 1, true, pairs, why, sizeof(why)) == 1, "%s", why);
    CHECK(pairs[0].mtu == 1024, "%u", pairs[0].mtu);
}

/** Any two sides: each rail in one pair at most, only what fits, and nothing left that would. */
static void any_sides_pair(void)
{
    static const char *const addresses[] = {"::ffff:192.0.2.1", "::ffff:198.51.100.1", "fe80::1",
                                            "2001:db8::1", "::"};
    uint32_t random = 77;
    for (unsigned turn = 0; turn < 5000; turn++) {
        struct verbs_end ends[2][VERBS_RAILS_MAX];
        size_t n[2];
        for (int side = 0; side < 2; side++) {
            n[side] = 1 + wring_test_random(&random) % VERBS_RAILS_MAX;
            for (size_t i = 0; i < n[side]; i++) {
                const char *address = addresses[wring_test_random(&random) % 5];
                ends[side][i] =
                    wring_test_random(&random) % 2 ? roce(address) : infiniband(address);
            }
        }
        const char *text = pair(ends[0], n[0], ends[1], n[1]);
        bool used[2][VERBS_RAILS_MAX] = {{false}};
        for (const char *at = text; *at != '\0'; at += 2 + (at[2] == ' ')) {
            unsigned a = (unsigned)(at[0] - '0'), b = (unsigned)(at[1] - '0');
            REQUIRE(a < n[0] && b < n[1] && !used[0][a] && !used[1][b], "%s", text);
            used[0][a] = used[1][b] = true;
            CHECK(ends[0][a].link == ends[1][b].link, "%s", text);
        }
        for (size_t a = 0; a < n[0]; a++)
            for (size_t b = 0; b < n[1]; b++)
                CHECK(used[0][a] || used[1][b] || pair(&ends[0][a], 1, &ends[1][b], 1)[0] == '\0',
                      "turn %u: %zu and %zu are left", turn, a, b);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"rails_pair_within_their_networks", rails_pair_within_their_networks},
        {"link_layers_do_not_mix", link_layers_do_not_mix},
        {"differences_are_named", differences_are_named},
        {"mtu_is_the_smaller_one", mtu_is_the_smaller_one},
        {"any_sides_pair", any_sides_pair},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
