/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks learn from each other's addresses: whether their rails will pair. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "tests/lib/test.h"
#include "transport/providers/verbs/handshake.h"

#define V4_BYTES 8

static struct verbs_end end_of(enum verbs_link link, enum verbs_gid_type type, const char *gid,
                               uint16_t pkey)
{
    struct verbs_end end = {link, type, {0}, pkey, 4096};
    CHECK(inet_pton(AF_INET6, gid, end.gid) == 1, "%s", gid);
    return end;
}

static struct verbs_end some_end(uint32_t *random)
{
    static const char *const gids[] = {"::ffff:192.0.2.1", "::ffff:198.51.100.1", "fe80::1",
                                       "fe80::2",          "2001:db8::1",         "::"};
    static const uint16_t pkeys[] = {0xffff, 0xffff, 0x7fff, 0x8001};
    const char *gid = gids[wring_test_random(random) % 6];
    uint16_t pkey = pkeys[wring_test_random(random) % 4];
    if (wring_test_random(random) % 2 == 0)
        return end_of(VERBS_LINK_INFINIBAND, VERBS_GID_INFINIBAND, gid, pkey);
    return end_of(VERBS_LINK_ROCE, 1 + wring_test_random(random) % 2, gid, pkey);
}

static size_t pack(const struct verbs_end *rails, size_t n, uint8_t blob[WRING_ADDRESS_MAX])
{
    struct sockaddr_storage socket = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&socket;
    v4->sin_family = AF_INET;
    v4->sin_port = htons(4711);
    v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return wring_verbs_address_pack(&socket, rails, n, blob);
}

static void kinds_are_told_once(void)
{
    const struct verbs_end rails[] = {
        end_of(VERBS_LINK_ROCE, VERBS_GID_ROCE_V2, "::ffff:192.0.2.1", 0xffff),
        end_of(VERBS_LINK_ROCE, VERBS_GID_ROCE_V2, "::ffff:198.51.100.1", 0xffff),
        end_of(VERBS_LINK_ROCE, VERBS_GID_ROCE_V2, "2001:db8::1", 0xffff),
        end_of(VERBS_LINK_INFINIBAND, VERBS_GID_INFINIBAND, "fe80::7:1", 0xffff),
        end_of(VERBS_LINK_INFINIBAND, VERBS_GID_INFINIBAND, "fe80::7:2", 0xffff),
        end_of(VERBS_LINK_INFINIBAND, VERBS_GID_INFINIBAND, "fec0::7:2", 0xffff),
        end_of(VERBS_LINK_INFINIBAND, VERBS_GID_INFINIBAND, "fec0::7:2", 0x8001),
    };
    static const size_t of[] = {0, 2, 3, 5, 6}; /* the rail that each kind is told of */
    uint8_t blob[WRING_ADDRESS_MAX];
    struct verbs_address got;
    size_t bytes = pack(rails, 7, blob);
    CHECK(bytes == V4_BYTES + 1 + 5 * VERBS_KIND_BYTES, "%zu bytes", bytes);
    REQUIRE(wring_verbs_address_unpack(blob, bytes, &got) == WRING_OK && got.n_kinds == 5, "%u",
            got.n_kinds);
    CHECK(((struct sockaddr_in *)&got.socket)->sin_port == htons(4711), "the port");
    for (size_t i = 0; i < 5; i++)
        CHECK(wring_verbs_pairs_alike(&got.kinds[i], &rails[of[i]]), "kind %zu", i);
    CHECK(memcmp(got.kinds[0].gid, rails[0].gid, 16) == 0, "the IPv4 address");
}

/** The addresses say of any two sides what their pairing says, whoever dials. */
static void addresses_foretell_pairing(void)
{
    uint32_t random = 5;
    unsigned yes = 0;
    for (unsigned turn = 0; turn < 5000; turn++) {
        struct verbs_end ends[2][VERBS_RAILS_MAX];
        struct verbs_pair pairs[VERBS_RAILS_MAX];
        uint8_t blobs[2][WRING_ADDRESS_MAX];
        size_t n[2], bytes[2];
        char why[VERBS_WHY] = "", reason[VERBS_WHY] = "", back[VERBS_WHY] = "";
        for (int side = 0; side < 2; side++) {
            n[side] = 1 + wring_test_random(&random) % (turn % 2 ? 2 : VERBS_RAILS_MAX);
            for (size_t i = 0; i < n[side]; i++)
                ends[side][i] = some_end(&random);
            bytes[side] = pack(ends[side], n[side], blobs[side]);
        }
        bool want = wring_verbs_pair(ends[0], n[0], ends[1], n[1], true, pairs, why, sizeof(why));
        enum wring_status got = wring_verbs_reaches(NULL, blobs[0], bytes[0], blobs[1], bytes[1],
                                                    reason, sizeof(reason));
        enum wring_status turned =
            wring_verbs_reaches(NULL, blobs[1], bytes[1], blobs[0], bytes[0], back, sizeof(back));
        CHECK(got == (want ? WRING_OK : WRING_ERR_UNSUPPORTED) && turned == got,
              "turn %u: %s, pairing says '%s'", turn, wring_status_text(got), why);
        CHECK(want || (reason[0] != '\0' && back[0] != '\0'), "turn %u: no reason", turn);
        yes += want;
    }
    CHECK(yes > 500 && yes < 4500, "%u of 5000 pair: nothing is tested", yes);
}

static void differences_are_named(void)
{
    const struct {
        struct verbs_end one, other;
        const char *want;
    } cases[] = {
        {end_of(VERBS_LINK_INFINIBAND, VERBS_GID_INFINIBAND, "fe80::1", 0xffff),
         end_of(VERBS_LINK_ROCE, VERBS_GID_ROCE_V2, "::ffff:192.0.2.1", 0xffff),
         "one is InfiniBand, the other RoCE"},
        {end_of(VERBS_LINK_ROCE, VERBS_GID_ROCE_V2, "::ffff:192.0.2.1", 0xffff),
         end_of(VERBS_LINK_ROCE, VERBS_GID_ROCE_V2, "2001:db8::1", 0xffff),
         "one is in an IPv4 network (192.0.2.1), the other in an IPv6 one (2001:db8::)"},
        {end_of(VERBS_LINK_INFINIBAND, VERBS_GID_INFINIBAND, "fe80::1", 0xffff),
         end_of(VERBS_LINK_INFINIBAND, VERBS_GID_INFINIBAND, "fec0::1", 0xffff),
         "one is in another InfiniBand subnet (GID fe80::) than the other (fec0::)"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t one[WRING_ADDRESS_MAX], other[WRING_ADDRESS_MAX];
        char reason[VERBS_WHY] = "";
        enum wring_status status =
            wring_verbs_reaches(NULL, one, pack(&cases[i].one, 1, one), other,
                                pack(&cases[i].other, 1, other), reason, sizeof(reason));
        CHECK(status == WRING_ERR_UNSUPPORTED && strcmp(reason, cases[i].want) == 0, "%zu: '%s'", i,
              reason);
    }
}

/** Any other length is refused, and so is what no rail can be. */
static void malformed_addresses_are_refused(void)
{
    const struct verbs_end rail =
        end_of(VERBS_LINK_ROCE, VERBS_GID_ROCE_V2, "::ffff:192.0.2.1", 0xffff);
    static const struct {
        size_t at;
        uint8_t value;
    } wrong[] = {{0, 5},
                 {0, 6},
                 {1, 1},
                 {V4_BYTES, 0},
                 {V4_BYTES, 2},
                 {V4_BYTES, 9},
                 {V4_BYTES + 1, 0},
                 {V4_BYTES + 1, 3},
                 {V4_BYTES + 2, 3},
                 {V4_BYTES + 2, 0x83}};
    uint8_t good[WRING_ADDRESS_MAX], bad[WRING_ADDRESS_MAX];
    struct verbs_address out;
    char reason[VERBS_WHY];
    size_t bytes = pack(&rail, 1, good);
    for (size_t n = 0; n <= WRING_ADDRESS_MAX; n++)
        CHECK((wring_verbs_address_unpack(good, n, &out) == WRING_OK) == (n == bytes), "%zu", n);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        memcpy(bad, good, sizeof(bad));
        bad[wrong[i].at] = wrong[i].value;
        CHECK(wring_verbs_address_unpack(bad, bytes, &out) == WRING_ERR_FRAME, "%zu", i);
        CHECK(wring_verbs_reaches(NULL, good, bytes, bad, bytes, reason, sizeof(reason)) ==
                  WRING_ERR_FRAME,
              "%zu", i);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"kinds_are_told_once", kinds_are_told_once},
        {"addresses_foretell_pairing", addresses_foretell_pairing},
        {"differences_are_named", differences_are_named},
        {"malformed_addresses_are_refused", malformed_addresses_are_refused},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
