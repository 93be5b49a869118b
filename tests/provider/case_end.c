/* SPDX-License-Identifier: Apache-2.0 */
/** Ends with puts under way: what completes, what does not, and what must not be written. */
#include "tests/provider/ends.h"

#define SLOTS 8
#define SLOT_BYTES 65536
#define GARBAGE 0x5A

static unsigned garbled;

/** The next put with the same bytes may be on its way there. */
static void look_at_slot(struct end *end, const struct wring_event *event)
{
    unsigned slot = event->imm % SLOTS;
    garbled += !has_pattern_again(end->base + (size_t)slot * SLOT_BYTES, SLOT_BYTES, slot);
}

/** A pair whose second end has filled its queue. @return puts posted, 0 where that failed */
static unsigned open_and_post(struct end *a, struct end *b)
{
    unsigned posted = 0;
    garbled = 0;
    if (!ends_open(a, b, (size_t)SLOTS * SLOT_BYTES, 4))
        return 0;
    a->on_arrival = look_at_slot;
    for (unsigned i = 0; i < SLOTS; i++)
        fill_pattern(b->base + (size_t)i * SLOT_BYTES, SLOT_BYTES, i);
    for (enum wring_status status = WRING_OK; status == WRING_OK && posted < 100000;) {
        size_t at = (size_t)(posted % SLOTS) * SLOT_BYTES;
        status = end_put(b, b->base + at, at, SLOT_BYTES, posted, posted);
        posted += status == WRING_OK;
    }
    return posted;
}

static void leaving_is_noticed(void)
{
    struct end a, b;
    REQUIRE(ends_open(&a, &b, 4096, 16), "no pair");
    b.provider->ops->disconnect(b.conn);
    b.conn = NULL;
    CHECK(end_turn(&b) == 0, "an event after disconnect");
    UNTIL(&a, &b, a.closed == 1);
    CHECK(a.why == WRING_ERR_PEER && a.text[0] != '\0', "%s", a.text);
    CHECK(end_put(&a, a.base, 0, 1, 0, 0) == WRING_ERR_CLOSED, "put after the end");
    CHECK(a.provider->ops->send(a.conn, "x", 1) == WRING_ERR_CLOSED, "send after the end");
    for (unsigned i = 0; i < 100; i++)
        end_turn(&a); /* nothing comes after CLOSED: looked at there */
    ends_close(&a, &b);
}

/** What the last words were is still heard, where the provider took them. */
static void last_words_are_heard(void)
{
    struct end a, b;
    REQUIRE(ends_open(&a, &b, 4096, 16), "no pair");
    CHECK(b.provider->ops->send(b.conn, "farewell", 8) == WRING_OK, "send");
    UNTIL(&a, &b, a.messages == 1);
    b.provider->ops->disconnect(b.conn);
    b.conn = NULL;
    UNTIL(&a, &b, a.closed == 1);
    CHECK(a.messages == 1 && memcmp(a.message, "farewell", 8) == 0, "%u messages", a.messages);
    ends_close(&a, &b);
}

/** The sender goes: what arrived is whole, and its memory is its own again at once. */
static void senders_may_leave_at_once(void)
{
    for (unsigned turns = 0; turns < 6; turns++) {
        struct end a, b;
        unsigned posted = open_and_post(&a, &b);
        REQUIRE(posted > 0, "nothing posted");
        for (unsigned i = 0; i < turns; i++) {
            end_turn(&b);
            end_turn(&a);
        }
        b.provider->ops->disconnect(b.conn);
        b.conn = NULL;
        memset(b.base, GARBAGE, b.bytes);
        unsigned done = b.done;
        UNTIL(&a, &b, a.closed == 1);
        CHECK(b.done == done, "a completion after disconnect");
        CHECK(garbled == 0 && a.arrived <= posted, "%u of %u garbled", garbled, a.arrived);
        for (size_t i = 0; i + 64 <= a.bytes; i++) /* the pattern has no such run */
            if (a.base[i] == GARBAGE && is_all(a.base + i, 64, GARBAGE)) {
                CHECK(false, "read after disconnect, at %zu", i);
                break;
            }
        ends_close(&a, &b);
    }
}

/** The sender hears CLOSED; each of its puts is done or flushed, none both, none twice. */
static void expect_flushed(struct end *a, struct end *b, unsigned posted)
{
    UNTIL(a, b, b->closed == 1);
    CHECK(b->done <= posted, "%u done of %u", b->done, posted);
    CHECK(end_put(b, b->base, 0, 1, posted, posted) == WRING_ERR_CLOSED, "put after the end");
    unsigned done = b->done;
    for (unsigned i = 0; i < 100; i++)
        end_turn(b);
    CHECK(b->done == done, "a completion after CLOSED");
}

/** The receiver goes, and uses its memory for something else: nobody writes there any more. */
static void receivers_may_leave_at_once(void)
{
    for (unsigned turns = 0; turns < 6; turns++) {
        struct end a, b;
        unsigned posted = open_and_post(&a, &b);
        REQUIRE(posted > 0, "nothing posted");
        for (unsigned i = 0; i < turns; i++) {
            end_turn(&b);
            end_turn(&a);
        }
        a.provider->ops->disconnect(a.conn);
        a.conn = NULL;
        a.provider->ops->region_destroy(a.region);
        a.region = NULL;
        memset(a.base, 0xEE, a.bytes);
        for (enum wring_status status = WRING_OK; status == WRING_OK && b.closed == 0;) {
            status = end_put(&b, b.base, 0, SLOT_BYTES, posted, posted); /* before it can know */
            posted += status == WRING_OK;
        }
        expect_flushed(&a, &b, posted);
        CHECK(is_all(a.base, a.bytes, 0xEE), "written after the end");
        CHECK(garbled == 0, "%u garbled", garbled);
        ends_close(&a, &b);
    }
}

/** One put, as soon as there is room. @return 1, or 0 where the connection has ended already */
static unsigned put_once_more(struct end *a, struct end *b, unsigned posted)
{
    uint64_t limit = wring_deadline_in(WAIT_NS);
    enum wring_status status;
    while ((status = end_put(b, b->base, 0, SLOT_BYTES, posted, posted)) == WRING_ERR_AGAIN &&
           wring_now_ns() < limit) {
        end_turn(a);
        end_turn(b);
    }
    CHECK(status == WRING_OK || status == WRING_ERR_CLOSED, "%s", wring_status_text(status));
    return status == WRING_OK;
}

/** The region goes while puts to it are under way; the connection may end by that. */
static void regions_may_go_at_once(void)
{
    for (unsigned turns = 0; turns < 6; turns++) {
        struct end a, b;
        unsigned posted = open_and_post(&a, &b);
        REQUIRE(posted > 0, "nothing posted");
        for (unsigned i = 0; i < turns; i++) {
            end_turn(&b);
            end_turn(&a);
        }
        if (turns == 5) /* all that was posted has arrived: the next one finds no region */
            UNTIL(&a, &b, a.arrived == posted && b.done == posted);
        a.provider->ops->region_destroy(a.region);
        a.region = NULL;
        memset(a.base, 0xEE, a.bytes);
        a.on_arrival = NULL;
        posted += put_once_more(&a, &b, posted);
        expect_flushed(&a, &b, posted);
        CHECK(is_all(a.base, a.bytes, 0xEE), "written after the region's end");
        ends_close(&a, &b);
    }
}

/** Both at once. */
static void both_may_leave_at_once(void)
{
    struct end a, b;
    REQUIRE(open_and_post(&a, &b) > 0, "nothing posted");
    a.provider->ops->disconnect(a.conn);
    b.provider->ops->disconnect(b.conn);
    a.conn = b.conn = NULL;
    for (unsigned i = 0; i < 100; i++)
        CHECK(end_turn(&a) == 0 && end_turn(&b) == 0, "an event after disconnect");
    ends_close(&a, &b);
}

/** One of two connections of an instance ends: the other one goes on. */
static void others_go_on(void)
{
    struct end a, b, c;
    struct wring_remote *remote;
    uint8_t address[WRING_ADDRESS_MAX], key[WRING_REGION_KEY_MAX];
    size_t n;
    REQUIRE(end_open(&a, 1, 4096, 4) && end_open(&b, 1, 4096, 4) && end_open(&c, 1, 4096, 4),
            "open");
    REQUIRE(end_listen(&a, address, &n), "listen");
    REQUIRE(ends_meet(&a, &b, address, n, "b"), "connect");
    struct wring_conn *first = a.conn;
    REQUIRE(ends_meet(&a, &c, address, n, "c"), "connect");
    n = a.provider->ops->region_export(a.region, key);
    REQUIRE(c.provider->ops->remote_import(c.conn, key, n, &remote) == WRING_OK, "import");
    c.remote = remote;
    a.provider->ops->disconnect(first);
    UNTIL(&b, &c, b.closed == 1);
    memset(c.base, 0x33, 4096);
    for (unsigned i = 0; i < 50; i++) {
        CHECK(end_put(&c, c.base, 0, 4096, i, i) == WRING_OK, "put %u", i);
        UNTIL(&a, &c, a.arrived == i + 1 && c.done == i + 1);
    }
    CHECK(is_all(a.base, 4096, 0x33), "bytes");
    ends_close(&a, &b);
    end_close(&c);
}

const struct wring_test_case suite_cases_end[] = {
    {"leaving_is_noticed", leaving_is_noticed},
    {"last_words_are_heard", last_words_are_heard},
    {"senders_may_leave_at_once", senders_may_leave_at_once},
    {"receivers_may_leave_at_once", receivers_may_leave_at_once},
    {"regions_may_go_at_once", regions_may_go_at_once},
    {"both_may_leave_at_once", both_may_leave_at_once},
    {"others_go_on", others_go_on},
    {NULL, NULL},
};
