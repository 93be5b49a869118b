/* SPDX-License-Identifier: Apache-2.0 */
/* A faulty end changes bytes: which, and what becomes of it with checksums and without. */
#include <string.h>

#include "base/config.h"
#include "tests/unit/faulty_pair.h"
#include "transport/providers/tcp/tcp.h"

/** Over shm nothing protects: the puts that the seed names, and no others, have one wrong byte. */
static void corruption_hits_what_the_seed_names(void)
{
    const struct wring_fault_schedule schedule = {.seed = 5};
    struct faulty_end a, b;
    unsigned hits = 0;
    REQUIRE(faulty_pair_open(&a, &b, "shm", "corrupt=0.1,seed=5"), "no pair");
    uint8_t *from = b.memory.base, *to = a.memory.base;
    for (unsigned i = 0; i < 300; i++) {
        for (unsigned k = 0; k < 1000; k++)
            from[k] = (uint8_t)(i * 31 + k);
        REQUIRE(faulty_end_put(&b, 1000, i) == WRING_OK, "put");
        UNTIL(&a, &b, a.arrived == i + 1 && b.done == i + 1);
        unsigned wrong = 0;
        for (unsigned k = 0; k < 1000; k++)
            wrong += to[k] != (uint8_t)(i * 31 + k);
        bool want = wring_fault_hits(&schedule, 0.1, 1, WRING_FAULT_SPOIL_PUT, i);
        CHECK(wrong == want, "put %u: %u wrong bytes, want %d", i, wrong, want);
        CHECK(from[7] == (uint8_t)(i * 31 + 7), "the source was changed");
        hits += want;
    }
    CHECK(hits > 10, "%u hits", hits);
    CHECK(a.closed == 0 && b.closed == 0, "%s", a.text);
    faulty_end_close(&a);
    faulty_end_close(&b);
}

/** One frame with one byte changed, below the checksum. @return true if it was caught */
static bool is_caught(bool message, uint64_t at, uint8_t mask)
{
    struct faulty_end a, b;
    if (!faulty_pair_open(&a, &b, "tcp", NULL))
        return false;
    memset(b.memory.base, 0x5C, 300);
    CHECK(b.provider->ops->spoil(b.conn, at, mask) == WRING_OK, "spoil");
    if (message)
        CHECK(b.provider->ops->send(b.conn, "twelve bytes", 12) == WRING_OK, "send");
    else
        CHECK(faulty_end_put(&b, 100, 0) == WRING_OK, "put");
    for (unsigned i = 1; i <= 3; i++) /* a length that grew waits for more to come */
        faulty_end_put(&b, 4096, i);
    UNTIL(&a, &b, a.closed == 1);
    bool caught = a.closed == 1 && a.why == WRING_ERR_FRAME && a.arrived == 0 && a.messages == 0;
    if (!caught)
        fprintf(stderr, "byte %u, bits 0x%02x: %s\n", (unsigned)at, mask, a.text);
    faulty_end_close(&a);
    faulty_end_close(&b);
    return caught;
}

static void checksums_catch_every_byte(void)
{
    faulty_set_checksum("on");
    for (unsigned at = 0; at < TCP_HEADER_MAX + 100; at++)
        CHECK(is_caught(false, at, (uint8_t)(1 + at * 37 % 255)), "put, byte %u", at);
    for (unsigned at = 0; at < TCP_HEADER_MAX + 12; at++)
        CHECK(is_caught(true, at, (uint8_t)(1u << at % 8)), "message, byte %u", at);
    faulty_set_checksum("off");
}

/** The bytes that WIRE.md works out. */
static void checked_frames_look_as_documented(void)
{
    static const uint8_t want[TCP_HEADER_MAX] = {
        0x52, 0x57, 0x01, 0x00, 0x01, 0x00, 0x00, 0x00, 0x02,        0x00, 0x00, 0x00, 0x41, 0x9a,
        0x0c, 0x1d, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00,        0x00, 0x00, 0x00, 0x01, 0x00,
        0x04, 0x03, 0x02, 0x01, 0xa4, 0xc4, 0xc0, 0x72, [60] = 0x03, 0x95, 0xb9, 0x73};
    static const uint8_t zeros[65536];
    struct wring_crc32c crc;
    wring_crc32c_init(&crc, WRING_CPU_SCALAR);
    const struct tcp_frame frame = {.kind = TCP_FRAME_PUT,
                                    .region = 2,
                                    .generation = 0x1d0c9a41,
                                    .offset = 0x4000,
                                    .bytes = sizeof(zeros),
                                    .imm = 0x01020304,
                                    .checked = true,
                                    .payload_crc =
                                        wring_crc32c_update(&crc, 0, zeros, sizeof(zeros))};
    uint8_t got[TCP_HEADER_MAX];
    CHECK(wring_tcp_frame_pack(&frame, &crc, got) == sizeof(want), "length");
    CHECK(memcmp(got, want, sizeof(want)) == 0, "bytes");
}

static void spoiled_bytes_arrive_without_checksums(void)
{
    struct faulty_end a, b;
    REQUIRE(faulty_pair_open(&a, &b, "tcp", NULL), "no pair");
    memset(b.memory.base, 0x5C, SPACE);
    b.provider->ops->spoil(b.conn, 32 + 40000, 0x03);
    REQUIRE(faulty_end_put(&b, 50000, 0) == WRING_OK && faulty_end_put(&b, 100, 1) == WRING_OK,
            "put");
    UNTIL(&a, &b, a.arrived == 2);
    const uint8_t *to = a.memory.base;
    CHECK(to[40000] == 0x5F && to[39999] == 0x5C && to[40001] == 0x5C, "%02x", to[40000]);
    CHECK(memcmp(to, b.memory.base, 40000) == 0 && to[49999] == 0x5C, "more was changed");
    faulty_end_close(&a);
    faulty_end_close(&b);
}

static void faults_over_checksums_end_with_a_reason(void)
{
    static const char *const says[] = {"damaged on the way", "malformed frame",
                                       "without a checksum"};
    faulty_set_checksum("on");
    for (int seed = 0; seed < 10; seed++) {
        const struct wring_fault_schedule schedule = {.seed = (uint64_t)seed};
        char text[64];
        struct faulty_end a, b;
        unsigned posted = 0, clean = 0;
        while (!wring_fault_hits(&schedule, 0.02, 1, WRING_FAULT_SPOIL_PUT, clean))
            clean++;
        snprintf(text, sizeof(text), "corrupt=0.02,seed=%d", seed);
        REQUIRE(faulty_pair_open(&a, &b, "tcp", text), "no pair");
        uint64_t limit = wring_deadline_in(WAIT_NS);
        while (a.closed == 0 && wring_now_ns() < limit) {
            while (posted < 2000 && b.closed == 0 && faulty_end_put(&b, 700, posted) == WRING_OK)
                posted++;
            faulty_end_turn(&b);
            faulty_end_turn(&a);
        }
        bool named = false;
        for (int i = 0; i < 3; i++)
            named |= strstr(a.text, says[i]) != NULL;
        CHECK(a.arrived == clean && named, "seed %d: %u arrived, %u are clean: %s", seed, a.arrived,
              clean, a.text);
        faulty_end_close(&a);
        faulty_end_close(&b);
    }
    faulty_set_checksum("off");
}

static void a_peer_without_checksums_is_told(void)
{
    struct faulty_end a, b;
    REQUIRE(faulty_pair_open(&a, &b, "tcp", NULL), "no pair");
    faulty_end_close(&a);
    faulty_end_close(&b);
    faulty_set_checksum("on");
    REQUIRE(faulty_end_open(&a, "tcp", NULL, 0), "open");
    faulty_set_checksum("off");
    REQUIRE(faulty_end_open(&b, "tcp", NULL, 1), "open");
    uint8_t address[WRING_ADDRESS_MAX];
    size_t n;
    REQUIRE(a.provider->ops->listen(a.provider, address, &n) == WRING_OK &&
                b.provider->ops->connect(b.provider, address, n, "b", 1, &b.conn) == WRING_OK,
            "connect");
    UNTIL(&a, &b, a.accepted == 1 && b.connected == 1);
    b.provider->ops->send(b.conn, "hello", 5);
    UNTIL(&a, &b, a.closed == 1);
    CHECK(strstr(a.text, "WRING_TCP_CHECKSUM=on on every rank") != NULL, "%s", a.text);
    faulty_end_close(&a);
    faulty_end_close(&b);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"corruption_hits_what_the_seed_names", corruption_hits_what_the_seed_names},
        {"checksums_catch_every_byte", checksums_catch_every_byte},
        {"checked_frames_look_as_documented", checked_frames_look_as_documented},
        {"spoiled_bytes_arrive_without_checksums", spoiled_bytes_arrive_without_checksums},
        {"faults_over_checksums_end_with_a_reason", faults_over_checksums_end_with_a_reason},
        {"a_peer_without_checksums_is_told", a_peer_without_checksums_is_told},
        {NULL, NULL},
    };
    const struct wring_log log = {NULL, NULL, WRING_LOG_ERROR};
    if (wring_config_load(&faulty_config, &log) != WRING_OK)
        return 1;
    return wring_test_main(argc, argv, cases);
}
