/* SPDX-License-Identifier: Apache-2.0 */
/** Control messages. */
#include "tests/provider/ends.h"

static void messages_of_every_size(void)
{
    struct end a, b;
    uint8_t text[WRING_SEND_MAX];
    REQUIRE(ends_open(&a, &b, 4096, 1), "no pair");
    for (unsigned n = 1; n <= WRING_SEND_MAX; n++) {
        memset(text, (int)n, n);
        CHECK(b.provider->ops->send(b.conn, text, n) == WRING_OK, "send %u", n);
        memset(text, 0xDD, sizeof(text)); /* it was copied */
        UNTIL(&a, &b, a.messages == n);
        CHECK(a.message_bytes == n && is_all(a.message, n, (uint8_t)n), "%u bytes", n);
    }
    ends_close(&a, &b);
}

static void messages_of_other_sizes_are_invalid(void)
{
    struct end a, b;
    uint8_t text[WRING_SEND_MAX + 1] = {0};
    REQUIRE(ends_open(&a, &b, 4096, 16), "no pair");
    CHECK(b.provider->ops->send(b.conn, text, 0) == WRING_ERR_INVALID, "empty");
    CHECK(b.provider->ops->send(b.conn, text, sizeof(text)) == WRING_ERR_INVALID, "long");
    CHECK(b.provider->ops->send(b.conn, text, SIZE_MAX) == WRING_ERR_INVALID, "very long");
    CHECK(b.provider->ops->send(b.conn, text, 1) == WRING_OK, "a good one after them");
    UNTIL(&a, &b, a.messages == 1);
    ends_close(&a, &b);
}

struct count {
    unsigned next[2]; /* per end: what the next message says */
};

/** Messages in a row: each says its number, and its bytes stay valid for the whole batch. */
static void take_numbers(struct end *end, unsigned *next)
{
    struct wring_event events[16];
    size_t n = end->provider->ops->poll(end->provider, events, end->batch);
    for (size_t i = 0; i < n; i++) {
        uint32_t number;
        REQUIRE(events[i].kind == WRING_EVENT_MESSAGE && events[i].bytes == WRING_SEND_MAX,
                "event %d of %zu bytes", events[i].kind, events[i].bytes);
        memcpy(&number, events[i].data, sizeof(number));
        CHECK(number == *next, "%u, not %u", number, *next);
        (*next)++;
    }
}

/** Floods both ways until AGAIN and on. */
static void flood(size_t batch)
{
    enum {
        TOTAL = 3000
    };
    struct end ends[2];
    unsigned sent[2] = {0, 0};
    struct count count = {{0, 0}};
    uint8_t text[WRING_SEND_MAX] = {0};
    uint64_t limit = wring_deadline_in(WAIT_NS);
    REQUIRE(ends_open(&ends[0], &ends[1], 4096, batch), "no pair");
    while ((count.next[0] < TOTAL || count.next[1] < TOTAL) && wring_now_ns() < limit)
        for (int i = 0; i < 2; i++) {
            enum wring_status status = WRING_OK;
            while (sent[i] < TOTAL && status == WRING_OK) {
                uint32_t number = sent[i];
                memcpy(text, &number, sizeof(number));
                status = ends[i].provider->ops->send(ends[i].conn, text, sizeof(text));
                sent[i] += status == WRING_OK;
            }
            CHECK(status == WRING_OK || status == WRING_ERR_AGAIN, "%s", wring_status_text(status));
            take_numbers(&ends[i], &count.next[i]);
        }
    CHECK(count.next[0] == TOTAL && count.next[1] == TOTAL, "%u and %u of %d", count.next[0],
          count.next[1], TOTAL);
    ends_close(&ends[0], &ends[1]);
}

static void floods_of_messages_recover(void)
{
    flood(16);
    flood(1);
}

/** Messages pass while puts of the same connection go on, in whatever order. */
static void messages_pass_among_puts(void)
{
    enum {
        TOTAL = 400,
        BYTES = 20000
    };
    struct end a, b;
    unsigned puts = 0, messages = 0, turn = 0;
    uint64_t limit = wring_deadline_in(WAIT_NS);
    REQUIRE(ends_open(&a, &b, BYTES, 3), "no pair");
    fill_pattern(b.base, BYTES, 8);
    while ((a.arrived < TOTAL || a.messages < TOTAL || b.done < TOTAL) && wring_now_ns() < limit) {
        if (puts < TOTAL && end_put(&b, b.base, 0, BYTES, puts, puts) == WRING_OK)
            puts++;
        if (messages < TOTAL && b.provider->ops->send(b.conn, b.base, WRING_SEND_MAX) == WRING_OK)
            messages++;
        end_turn(&b);
        if (turn++ % 3 == 0)
            end_turn(&a);
    }
    CHECK(a.arrived == TOTAL && a.messages == TOTAL && b.done == TOTAL, "%u %u %u", a.arrived,
          a.messages, b.done);
    CHECK(has_pattern(a.base, BYTES, 8) && has_pattern(a.message, a.message_bytes, 8), "bytes");
    ends_close(&a, &b);
}

const struct wring_test_case suite_cases_message[] = {
    {"messages_of_every_size", messages_of_every_size},
    {"messages_of_other_sizes_are_invalid", messages_of_other_sizes_are_invalid},
    {"floods_of_messages_recover", floods_of_messages_recover},
    {"messages_pass_among_puts", messages_pass_among_puts},
    {NULL, NULL},
};
