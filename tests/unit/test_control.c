/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/control.h"

#include "tests/lib/test.h"

/* A provider that keeps what is sent. */
static uint8_t sent[WRING_SEND_MAX];
static size_t sent_bytes;
static enum wring_status send_answer;

static enum wring_status keep(struct wring_conn *conn, const void *data, size_t bytes)
{
    (void)conn;
    sent_bytes = 0;
    if (send_answer != WRING_OK)
        return send_answer;
    CHECK(bytes >= 1 && bytes <= sizeof(sent), "%zu bytes", bytes);
    if (bytes > sizeof(sent))
        return WRING_ERR_INVALID;
    memcpy(sent, data, bytes);
    sent_bytes = bytes;
    return WRING_OK;
}

static const struct wring_provider_ops keeping = {.name = "keeping", .send = keep};
static struct wring_provider provider = {&keeping};
static struct wring_conn conn = {.provider = &provider};
static struct wring_fabric fabric;

/** Parse from memory that ends at an unmapped page. */
static bool parse(const uint8_t *data, size_t bytes, struct wring_control *out)
{
    uint8_t *tight = wring_test_guarded(bytes);
    memcpy(tight, data, bytes);
    return wring_control_parse(tight, bytes, out);
}

static void messages_come_back_as_they_went(void)
{
    static const struct wring_control all[] = {
        {WRING_CONTROL_HEARTBEAT, 0, 0, 0, {""}, 0},
        {WRING_CONTROL_CREDIT, 3, 1, 6, {""}, 0},
        {WRING_CONTROL_CREDIT, UINT32_MAX, UINT32_MAX, UINT32_MAX, {""}, 0},
        {WRING_CONTROL_ABORT, WRING_ERR_PEER, UINT32_MAX, 0, {"rank 3 is lost: it died"}, 0},
        {WRING_CONTROL_ABORT, WRING_ERR_FRAME, 2, 0, {""}, 0},
        {WRING_CONTROL_BYE, 0, 0, 0, {""}, 0},
        {WRING_CONTROL_BYE_ACK, 0, 0, 0, {""}, 0},
        {WRING_CONTROL_CLOCK, 0, 0, 41, {""}, 0},
        {WRING_CONTROL_CLOCK_ACK, 0xdeadbeef, 0x12, 41, {""}, 0},
        {WRING_CONTROL_CALL, 3, 1, 12, {"0123456789abcdef|barrier|seed=0"}, 0},
        {WRING_CONTROL_STANDSTILL, 3, 1, 12, {"1 5 7 0 10 8 0 0 2 1 8"}, 0},
        {WRING_CONTROL_WELCOME, 0, 0, 0, {""}, 0},
        {WRING_CONTROL_FLIGHT, 3, 0, 0, {"1 1 11 208d|call 17 of all 4 ranks, barrier"}, 0},
    };
    struct wring_peer peer = {.fabric = &fabric, .state = WRING_PEER_READY, .conn = &conn};
    send_answer = WRING_OK;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct wring_control got;
        peer.sent_ns = 0;
        CHECK(wring_control_send(&peer, &all[i]) == WRING_OK, "send %zu", i);
        CHECK(peer.sent_ns > 0, "%zu: no sign of life was noted", i);
        CHECK(sent_bytes == 16 + strlen(all[i].text), "%zu: %zu bytes", i, sent_bytes);
        CHECK(parse(sent, sent_bytes, &got), "%zu: not parsed", i);
        CHECK(got.kind == all[i].kind && got.a == all[i].a && got.b == all[i].b &&
                  got.c == all[i].c && strcmp(got.text, all[i].text) == 0,
              "%zu: another one", i);
    }
}

/** The example of WIRE.md. */
static void a_credit_has_these_bytes(void)
{
    static const uint8_t want[16] = {2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0};
    struct wring_peer peer = {.fabric = &fabric, .state = WRING_PEER_READY, .conn = &conn};
    struct wring_control credit = {WRING_CONTROL_CREDIT, 3, 1, 6, {""}, 0};
    send_answer = WRING_OK;
    CHECK(wring_control_send(&peer, &credit) == WRING_OK, "send");
    CHECK(sent_bytes == 16 && memcmp(sent, want, 16) == 0, "other bytes");
}

static void the_longest_text_fits(void)
{
    struct wring_control abort_it = {.kind = WRING_CONTROL_ABORT}, got;
    struct wring_peer peer = {.fabric = &fabric, .state = WRING_PEER_READY, .conn = &conn};
    memset(abort_it.text, 'x', sizeof(abort_it.text) - 1);
    send_answer = WRING_OK;
    CHECK(wring_control_send(&peer, &abort_it) == WRING_OK, "send");
    CHECK(sent_bytes == WRING_SEND_MAX && parse(sent, sent_bytes, &got), "%zu", sent_bytes);
    CHECK(strcmp(got.text, abort_it.text) == 0, "text");
}

/** Bytes that are no text come as they went, whatever they are. */
static void bodies_come_as_they_went(void)
{
    static const enum wring_control_kind kinds[] = {WRING_CONTROL_FORM, WRING_CONTROL_PAIR,
                                                    WRING_CONTROL_CEASE};
    struct wring_peer peer = {.fabric = &fabric, .state = WRING_PEER_READY, .conn = &conn};

    send_answer = WRING_OK;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (uint32_t n = 0; n <= WRING_CONTROL_BODY; n += 48) {
            struct wring_control out = {.kind = kinds[k], .a = 1, .b = 2, .c = 3, .bytes = n}, got;
            for (uint32_t i = 0; i < n; i++)
                out.body[i] = (uint8_t)(i * 7 + k);
            CHECK(wring_control_send(&peer, &out) == WRING_OK, "send");
            REQUIRE(parse(sent, sent_bytes, &got), "kind %d of %u bytes", (int)kinds[k], n);
            CHECK(got.bytes == n && memcmp(got.body, out.body, n) == 0 && got.a == 1 &&
                      got.b == 2 && got.c == 3,
                  "kind %d of %u bytes", (int)kinds[k], n);
            wring_test_free_guarded();
        }
}

static void what_cannot_be_sent_is_no_sign_of_life(void)
{
    struct wring_peer peer = {.fabric = &fabric, .state = WRING_PEER_READY, .conn = &conn};
    const struct wring_control beat = {.kind = WRING_CONTROL_HEARTBEAT};
    send_answer = WRING_ERR_AGAIN;
    CHECK(wring_control_send(&peer, &beat) == WRING_ERR_AGAIN && peer.sent_ns == 0, "full");
    send_answer = WRING_OK;
    peer.state = WRING_PEER_GONE;
    CHECK(wring_control_send(&peer, &beat) == WRING_ERR_CLOSED && peer.sent_ns == 0, "gone");
    peer = (struct wring_peer){.conn = NULL};
    CHECK(wring_control_send(&peer, &beat) == WRING_ERR_CLOSED && peer.sent_ns == 0, "never there");
}

/** Every kind and every length: only those that WIRE.md lists are taken. */
static void others_are_refused(void)
{
    uint8_t bytes[300];
    for (uint32_t kind = 0; kind < 24; kind++)
        for (size_t n = 0; n <= sizeof(bytes); n++) {
            struct wring_control got = {.kind = WRING_CONTROL_BYE, .a = 77};
            memset(bytes, 'a', sizeof(bytes));
            memset(bytes, 0, 16);
            bytes[0] = (uint8_t)kind;
            bool known = kind >= WRING_CONTROL_HEARTBEAT && kind < WRING_CONTROL_END &&
                         kind != WRING_CONTROL_RING;
            bool texted = (kind == WRING_CONTROL_ABORT || kind == WRING_CONTROL_CALL ||
                           kind == WRING_CONTROL_STANDSTILL || kind == WRING_CONTROL_FORM ||
                           kind == WRING_CONTROL_PAIR || kind == WRING_CONTROL_CEASE ||
                           kind == WRING_CONTROL_LINK || kind == WRING_CONTROL_LEND ||
                           kind == WRING_CONTROL_FLIGHT || kind == WRING_CONTROL_MEMBER ||
                           kind == WRING_CONTROL_LEFT) &&
                          n > 16 && n <= WRING_SEND_MAX;
            bool want = known && (n == 16 || texted);
            CHECK(parse(bytes, n, &got) == want, "kind %u of %zu bytes", kind, n);
            CHECK(want || got.a == 77, "kind %u of %zu bytes: written", kind, n);
            wring_test_free_guarded();
        }
    for (unsigned i = 1; i < 4; i++) { /* the upper bytes of the kind count as well */
        struct wring_control got;
        memset(bytes, 0, 16);
        bytes[0] = WRING_CONTROL_HEARTBEAT;
        bytes[i] = 1;
        CHECK(!parse(bytes, 16, &got), "kind with byte %u", i);
    }
}

/** The text will be logged: nothing in it can move a terminal's cursor or end a line. */
static void texts_are_tame(void)
{
    uint8_t bytes[16 + 240] = {WRING_CONTROL_ABORT};
    struct wring_control got;
    for (unsigned first = 0; first < 256; first += 240) {
        for (unsigned i = 0; i < 240; i++)
            bytes[16 + i] = (uint8_t)(first + i);
        REQUIRE(parse(bytes, sizeof(bytes), &got), "from %u", first);
        CHECK(strlen(got.text) == 240, "%zu", strlen(got.text));
        for (unsigned i = 0; i < 240; i++) {
            uint8_t c = bytes[16 + i];
            char want = c >= 32 && c < 127 ? (char)c : '?';
            CHECK(got.text[i] == want, "byte %u became %d", c, got.text[i]);
        }
    }
}

static void noise_is_no_danger(void)
{
    uint32_t random = 31337;
    for (unsigned turn = 0; turn < 5000; turn++) {
        uint8_t bytes[WRING_SEND_MAX];
        size_t n = wring_test_random(&random) % (sizeof(bytes) + 1);
        struct wring_control got;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)(wring_test_random(&random) >> 9);
        if (n >= 4 && turn % 2 == 0)
            wring_put_u32(bytes, wring_test_random(&random) % (WRING_CONTROL_END + 1));
        if (parse(bytes, n, &got))
            CHECK(got.kind >= 1 && got.kind < WRING_CONTROL_END &&
                      (wring_control_has_body(got.kind)
                           ? got.bytes <= sizeof(got.body)
                           : memchr(got.text, 0, sizeof(got.text)) != NULL),
                  "turn %u", turn);
        wring_test_free_guarded();
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"messages_come_back_as_they_went", messages_come_back_as_they_went},
        {"a_credit_has_these_bytes", a_credit_has_these_bytes},
        {"the_longest_text_fits", the_longest_text_fits},
        {"bodies_come_as_they_went", bodies_come_as_they_went},
        {"what_cannot_be_sent_is_no_sign_of_life", what_cannot_be_sent_is_no_sign_of_life},
        {"others_are_refused", others_are_refused},
        {"texts_are_tame", texts_are_tame},
        {"noise_is_no_danger", noise_is_no_danger},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
