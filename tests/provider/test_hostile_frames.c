/* SPDX-License-Identifier: Apache-2.0 */
/** What a peer that has the key can do to a tcp connection: end its own with a named error. */
#include <sys/socket.h>
#include <unistd.h>

#include "tests/provider/rig_hostile.h"

#define PAYLOAD 600
#define PADDED 608 /* as it travels */

/** A put of PAYLOAD bytes that is well formed: to offset 100 of the victim's region. */
static struct tcp_frame good_put(const struct rig *rig)
{
    const struct tcp_region *region = (const struct tcp_region *)rig->victim.region;
    return (struct tcp_frame){
        .kind = TCP_FRAME_PUT,
        .region = region->index,
        .generation = region->generation,
        .offset = 100,
        .bytes = PAYLOAD,
        .imm = 7,
    };
}

static struct tcp_frame good_message(void)
{
    return (struct tcp_frame){.kind = TCP_FRAME_MESSAGE, .bytes = WRING_SEND_MAX};
}

static void expect_closed(struct rig *rig, const char *what, enum wring_status why,
                          const char *text)
{
    RIG_UNTIL(rig, rig->evil_closed == 1);
    CHECK(rig->evil_why == why && strstr(rig->evil_text, text) != NULL, "%s: %s, '%s'", what,
          wring_status_text(rig->evil_why), rig->evil_text);
    rig->evil_closed = 0;
    rig_check_friend(rig, what);
}

/** A proven peer sends a header and payload that must be refused whole. */
static void refused(struct rig *rig, const char *what, const uint8_t header[TCP_FRAME_BYTES])
{
    uint8_t payload[PAYLOAD];
    unsigned arrived = rig->evil_arrived, messages = rig->evil_messages;
    memset(payload, 0x66, sizeof(payload));
    int fd = rig_dial_proven(rig, 1);
    REQUIRE(fd >= 0, "%s: not let in", what);
    if (rig_send(rig, fd, header, TCP_FRAME_BYTES))
        rig_send(rig, fd, payload, sizeof(payload));
    expect_closed(rig, what, WRING_ERR_FRAME, "peer ");
    CHECK(rig_wait_closed(rig, fd), "%s: its stream is open", what);
    close(fd);
    CHECK(rig->evil_arrived == arrived && rig->evil_messages == messages, "%s: told", what);
    CHECK(is_all(rig->victim.base, RIG_BYTES, 0), "%s: written", what);
}

static void refused_frame(struct rig *rig, const char *what, struct tcp_frame frame)
{
    uint8_t header[TCP_FRAME_BYTES];
    wring_tcp_frame_pack(&frame, NULL, header);
    refused(rig, what, header);
}

static void puts_that_belong_nowhere_end_it(void)
{
    struct rig rig;
    REQUIRE(rig_open(&rig), "no rig");
    const struct tcp_frame good = good_put(&rig);
    const struct {
        const char *what;
        uint32_t region, generation, bytes;
        uint64_t offset;
    } bad[] = {
        {"the next region", good.region + 1, good.generation, PAYLOAD, 0},
        {"region 16", 16, good.generation, PAYLOAD, 0},
        {"region 2^32 - 1", UINT32_MAX, good.generation, PAYLOAD, 0},
        {"the next generation", good.region, good.generation + 1, PAYLOAD, 0},
        {"the generation before", good.region, good.generation - 1, PAYLOAD, 0},
        {"one beyond the end", good.region, good.generation, PAYLOAD, RIG_BYTES - PAYLOAD + 1},
        {"at the end", good.region, good.generation, 1, RIG_BYTES},
        {"nothing, beyond the end", good.region, good.generation, 0, RIG_BYTES + 1},
        {"offset 2^63", good.region, good.generation, PAYLOAD, 1ull << 63},
        {"offset -1", good.region, good.generation, PAYLOAD, UINT64_MAX},
        {"wraps to the start", good.region, good.generation, PAYLOAD, UINT64_MAX - PAYLOAD + 1},
        {"more than the region", good.region, good.generation, RIG_BYTES + 1, 0},
        {"2^30 bytes", good.region, good.generation, 1u << 30, 0},
        {"2^30 + 1 bytes", good.region, good.generation, (1u << 30) + 1, 0},
        {"2^32 - 1 bytes", good.region, good.generation, UINT32_MAX, 0},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tcp_frame frame = good;
        frame.region = bad[i].region;
        frame.generation = bad[i].generation;
        frame.bytes = bad[i].bytes;
        frame.offset = bad[i].offset;
        refused_frame(&rig, bad[i].what, frame);
    }
    rig_close(&rig);
}

static void malformed_messages_end_it(void)
{
    struct rig rig;
    struct tcp_frame frame = good_message();
    REQUIRE(rig_open(&rig), "no rig");
    frame.bytes = 0;
    refused_frame(&rig, "an empty message", frame);
    frame.bytes = WRING_SEND_MAX + 1;
    refused_frame(&rig, "a message of 257", frame);
    frame.bytes = UINT32_MAX;
    refused_frame(&rig, "a message of 2^32 - 1", frame);
    frame = good_message();
    frame.region = 1;
    refused_frame(&rig, "a message to a region", frame);
    frame = good_message();
    frame.generation = 1;
    refused_frame(&rig, "a message of a generation", frame);
    frame = good_message();
    frame.offset = 1;
    refused_frame(&rig, "a message to an offset", frame);
    frame = good_message();
    frame.imm = 1;
    refused_frame(&rig, "a message with an immediate", frame);
    rig_close(&rig);
}

/** The first eight bytes of a header: magic, kind, zero, flags. */
static void malformed_headers_end_it(void)
{
    static const struct {
        const char *what;
        unsigned at;
        uint8_t value;
    } bad[] = {
        {"magic", 0, 0},      {"magic, too", 1, 0},   {"kind 0", 2, 0},     {"kind 3", 2, 3},
        {"kind 255", 2, 255}, {"zero 1", 3, 1},       {"zero 255", 3, 255}, {"flag 1 alone", 4, 1},
        {"flag 2", 4, 2},     {"flag 2^31", 7, 0x80},
    };
    struct rig rig;
    uint8_t header[TCP_FRAME_BYTES];
    REQUIRE(rig_open(&rig), "no rig");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tcp_frame frame = i % 2 == 0 ? good_put(&rig) : good_message();
        wring_tcp_frame_pack(&frame, NULL, header);
        header[bad[i].at] = bad[i].value;
        refused(&rig, bad[i].what, header);
    }
    rig_close(&rig);
}

/** A put that stops in the middle, by an end, a reset, or half an end; it never arrives. */
static void cut_frames_end_it(void)
{
    const struct linger reset = {1, 0};
    static const size_t cuts[] = {1, 31, 32, 33, 32 + PAYLOAD - 1};
    struct rig rig;
    uint8_t bytes[TCP_FRAME_BYTES + PAYLOAD];
    REQUIRE(rig_open(&rig), "no rig");
    const struct tcp_frame frame = good_put(&rig);
    wring_tcp_frame_pack(&frame, NULL, bytes);
    memset(bytes + TCP_FRAME_BYTES, 0, PAYLOAD);
    for (unsigned i = 0; i < 3 * sizeof(cuts) / sizeof(cuts[0]); i++) {
        int fd = rig_dial_proven(&rig, 1);
        REQUIRE(fd >= 0, "not let in");
        CHECK(rig_send(&rig, fd, bytes, cuts[i / 3]), "send");
        if (i % 3 == 1)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        if (i % 3 == 2)
            shutdown(fd, SHUT_WR);
        else
            close(fd);
        expect_closed(&rig, "a cut frame", WRING_ERR_PEER, i % 3 == 1 ? "lost" : "middle");
        if (i % 3 == 2)
            close(fd);
    }
    CHECK(rig.evil_arrived == 0, "%u arrived", rig.evil_arrived);
    rig_close(&rig);
}

/** Slow is no error: good frames, a byte at a time. */
static void dribbled_frames_arrive(void)
{
    struct rig rig;
    uint8_t bytes[2 * TCP_FRAME_BYTES + PADDED + WRING_SEND_MAX];
    uint8_t *message = bytes + TCP_FRAME_BYTES + PADDED;
    REQUIRE(rig_open(&rig), "no rig");
    const struct tcp_frame put = good_put(&rig), words = good_message();
    wring_tcp_frame_pack(&put, NULL, bytes);
    fill_pattern(bytes + TCP_FRAME_BYTES, PAYLOAD, 5);
    memset(bytes + TCP_FRAME_BYTES + PAYLOAD, 0x99, PADDED - PAYLOAD); /* is not looked at */
    wring_tcp_frame_pack(&words, NULL, message);
    memset(message + TCP_FRAME_BYTES, 'x', WRING_SEND_MAX);
    int fd = rig_dial_proven(&rig, 1);
    REQUIRE(fd >= 0, "not let in");
    for (size_t i = 0; i < sizeof(bytes); i++)
        CHECK(rig_send(&rig, fd, bytes + i, 1), "byte %zu", i);
    RIG_UNTIL(&rig, rig.evil_arrived == 1 && rig.evil_messages == 1);
    CHECK(has_pattern(rig.victim.base + 100, PAYLOAD, 5), "other bytes");
    CHECK(is_all(rig.victim.base, 100, 0), "before");
    close(fd);
    expect_closed(&rig, "a slow one", WRING_ERR_PEER, "closed");
    rig_close(&rig);
}

/** The region goes between a put's header and the rest of its payload. */
static void a_region_may_go_in_the_middle(void)
{
    struct rig rig;
    uint8_t bytes[TCP_FRAME_BYTES + PAYLOAD];
    REQUIRE(rig_open(&rig), "no rig");
    const struct tcp_frame frame = good_put(&rig);
    wring_tcp_frame_pack(&frame, NULL, bytes);
    memset(bytes + TCP_FRAME_BYTES, 0x66, PAYLOAD);
    int fd = rig_dial_proven(&rig, 1);
    REQUIRE(fd >= 0, "not let in");
    CHECK(rig_send(&rig, fd, bytes, TCP_FRAME_BYTES + 10), "send");
    RIG_UNTIL(&rig, rig.victim.base[109] == 0x66);
    rig.victim.provider->ops->region_destroy(rig.victim.region);
    rig.victim.region = NULL;
    memset(rig.victim.base, 0, RIG_BYTES);
    rig_send(&rig, fd, bytes + TCP_FRAME_BYTES + 10, PAYLOAD - 10);
    RIG_UNTIL(&rig, rig.evil_closed == 1);
    CHECK(rig.evil_why == WRING_ERR_FRAME, "%s", rig.evil_text);
    CHECK(is_all(rig.victim.base, RIG_BYTES, 0) && rig.evil_arrived == 0, "written");
    close(fd);
    rig_close(&rig);
}

/** A peer that reads nothing and whose region has any size it likes; others go on. */
static void peers_that_read_nothing_block_nobody(void)
{
    struct rig rig;
    uint8_t key[TCP_REGION_KEY_BYTES];
    struct wring_remote *remote = NULL;
    REQUIRE(rig_open(&rig), "no rig");
    const struct wring_provider_ops *ops = rig.victim.provider->ops;
    int fd = rig_dial_proven(&rig, 1);
    RIG_UNTIL(&rig, rig.evil != NULL);
    REQUIRE(fd >= 0 && rig.evil != NULL, "not let in");
    memset(key, 0xFF, sizeof(key));
    REQUIRE(ops->remote_import(rig.evil, key, sizeof(key), &remote) == WRING_OK, "import");
    CHECK(ops->put(rig.evil, rig.victim.region, rig.victim.base, remote, UINT64_MAX, 1, 0, 0) ==
              WRING_ERR_INVALID,
          "wraps");
    enum wring_status status = WRING_OK;
    for (unsigned i = 0; i < 100000 && status == WRING_OK; i++) {
        status = ops->put(rig.evil, rig.victim.region, rig.victim.base, remote,
                          UINT64_MAX - RIG_BYTES, RIG_BYTES, i, i);
        rig_turn(&rig);
    }
    CHECK(status == WRING_ERR_AGAIN, "%s", wring_status_text(status));
    for (unsigned i = 0; i < 20; i++)
        rig_check_friend(&rig, "one reads nothing");
    ops->disconnect(rig.evil);
    ops->remote_release(remote);
    close(fd);
    rig_check_friend(&rig, "it is gone");
    rig_close(&rig);
}

/** Headers that are nearly right. */
static struct tcp_frame random_frame(const struct rig *rig, uint32_t *random)
{
    struct tcp_frame frame = wring_test_random(random) % 2 ? good_put(rig) : good_message();
    switch (wring_test_random(random) % 8) {
    case 0:
        frame.offset = wring_test_random(random) % (2 * RIG_BYTES);
        break;
    case 1:
        frame.bytes = wring_test_random(random) % (2 * RIG_BYTES);
        break;
    case 2:
        frame.region = wring_test_random(random) % 3;
        break;
    case 3:
        frame.offset = (uint64_t)wring_test_random(random) << 32 | wring_test_random(random);
        break;
    case 4:
        frame.kind = (uint8_t)wring_test_random(random);
        break;
    default:
        break;
    }
    return frame;
}

/** Any frames in a row, with any bits flipped: what is written lies in the region. */
static void noise_does_no_harm(void)
{
    struct rig rig;
    uint32_t random = 20261;
    REQUIRE(rig_open(&rig), "no rig");
    for (unsigned turn = 0; turn < 300; turn++) {
        int fd = rig_dial_proven(&rig, 1);
        REQUIRE(fd >= 0, "turn %u: not let in", turn);
        unsigned closed = rig.evil_closed;
        for (unsigned i = 0; i < 20 && rig.evil_closed == closed; i++) {
            uint8_t bytes[TCP_FRAME_BYTES + 2 * RIG_BYTES + TCP_FRAME_UNIT];
            struct tcp_frame frame = random_frame(&rig, &random);
            size_t payload = frame.bytes < 2 * RIG_BYTES ? frame.bytes : 2 * RIG_BYTES;
            wring_tcp_frame_pack(&frame, NULL, bytes);
            payload += tcp_padding(payload);
            memset(bytes + TCP_FRAME_BYTES, (int)i, payload);
            if (wring_test_random(&random) % 4 == 0)
                bytes[wring_test_random(&random) % TCP_FRAME_BYTES] ^=
                    (uint8_t)(1u << wring_test_random(&random) % 8);
            if (!rig_send(&rig, fd, bytes, TCP_FRAME_BYTES + payload))
                break;
        }
        close(fd);
        RIG_UNTIL(&rig, rig.evil_closed == closed + 1);
        CHECK(rig.evil_why == WRING_ERR_FRAME || rig.evil_why == WRING_ERR_PEER, "%s",
              wring_status_text(rig.evil_why));
        rig_check_friend(&rig, "noise");
    }
    CHECK(rig.evil_arrived > 0 && rig.evil_messages > 0, "nothing came through: too much noise");
    rig_close(&rig); /* looks at what lies around the region */
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"puts_that_belong_nowhere_end_it", puts_that_belong_nowhere_end_it},
        {"malformed_messages_end_it", malformed_messages_end_it},
        {"malformed_headers_end_it", malformed_headers_end_it},
        {"cut_frames_end_it", cut_frames_end_it},
        {"dribbled_frames_arrive", dribbled_frames_arrive},
        {"a_region_may_go_in_the_middle", a_region_may_go_in_the_middle},
        {"peers_that_read_nothing_block_nobody", peers_that_read_nothing_block_nobody},
        {"noise_does_no_harm", noise_does_no_harm},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
