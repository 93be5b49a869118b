/* SPDX-License-Identifier: Apache-2.0 */
/** Where bytes land, what is refused, and queues that are full. */
#include "tests/provider/ends.h"

/** Sizes and offsets of all kinds, one way, checked with what lies around them. */
static void bytes_land_where_they_belong(void)
{
    static const size_t sizes[] = {0, 1, 7, 8, 4095, 8192, 8193, 65536, 262144, 1 << 20};
    size_t space = 2 << 20;
    struct end a, b;
    REQUIRE(ends_open(&a, &b, space, 16), "no pair");
    fill_pattern(b.base, space, 1);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t n = sizes[i], source = 13 * i + 3, offset = 17 * i + 1;
        memset(a.base, 0xEE, space);
        CHECK(end_put(&b, b.base + source, offset, n, i, i) == WRING_OK, "put %zu", n);
        UNTIL(&a, &b, a.arrived == i + 1 && b.done == i + 1);
        CHECK(memcmp(a.base + offset, b.base + source, n) == 0, "%zu bytes differ", n);
        CHECK(is_all(a.base, offset, 0xEE), "%zu: before", n);
        CHECK(is_all(a.base + offset + n, space - offset - n, 0xEE), "%zu: after", n);
    }
    ends_close(&a, &b);
}

/** Nothing at all at both rims, the last byte, the first one, and everything. */
static void the_rims_belong_to_the_region(void)
{
    size_t space = 100003;
    const struct {
        size_t offset, bytes;
    } puts[] = {{0, 0}, {space, 0}, {space - 1, 1}, {0, 1}, {0, space}};
    struct end a, b;
    REQUIRE(ends_open(&a, &b, space, 1), "no pair");
    fill_pattern(b.base, space, 2);
    for (unsigned i = 0; i < sizeof(puts) / sizeof(puts[0]); i++) {
        size_t offset = puts[i].offset, n = puts[i].bytes, before = a.arrived_bytes;
        memset(a.base, 0xEE, space);
        CHECK(end_put(&b, b.base + offset, offset, n, i, i) == WRING_OK, "put %u", i);
        UNTIL(&a, &b, a.arrived == i + 1 && b.done == i + 1);
        CHECK(a.arrived_bytes - before == n, "%u: %zu bytes", i, a.arrived_bytes - before);
        CHECK(is_all(a.base, offset, 0xEE), "%u: before", i);
        CHECK(memcmp(a.base + offset, b.base + offset, n) == 0, "%u: inside", i);
        CHECK(is_all(a.base + offset + n, space - offset - n, 0xEE), "%u: after", i);
    }
    ends_close(&a, &b);
}

static void bad_puts_are_invalid(void)
{
    struct end a, b;
    REQUIRE(ends_open(&a, &b, 4096, 16), "no pair");
    CHECK(end_put(&b, b.base, 4096, 1, 0, 0) == WRING_ERR_INVALID, "past the end");
    CHECK(end_put(&b, b.base, 4097, 0, 0, 0) == WRING_ERR_INVALID, "nothing, past the end");
    CHECK(end_put(&b, b.base, 1, 4096, 0, 0) == WRING_ERR_INVALID, "over the end");
    CHECK(end_put(&b, b.base, UINT64_MAX, 2, 0, 0) == WRING_ERR_INVALID, "wraps");
    CHECK(end_put(&b, b.base, 1, SIZE_MAX, 0, 0) == WRING_ERR_INVALID, "wraps too");
    CHECK(end_put(&b, b.base + 1, 0, 4096, 0, 0) == WRING_ERR_INVALID, "local end");
    CHECK(end_put(&b, b.base - 1, 0, 4096, 0, 0) == WRING_ERR_INVALID, "local begin");
    CHECK(end_put(&b, b.base, 0, 4096, 0, 0) == WRING_OK, "a good one after them");
    UNTIL(&a, &b, a.arrived == 1 && b.done == 1);
    ends_close(&a, &b);
}

/** The region of another connection. */
static void misdirected_puts_are_invalid(void)
{
    struct end a, b, c, d;
    REQUIRE(ends_open(&a, &b, 4096, 16) && ends_open(&c, &d, 4096, 16), "no pairs");
    const struct wring_provider_ops *ops = b.provider->ops;
    CHECK(ops->put(b.conn, b.region, b.base, d.remote, 0, 1, 0, 0) == WRING_ERR_INVALID,
          "another connection's region");
    CHECK(end_put(&b, b.base, 0, 1, 0, 0) == WRING_OK, "a good one after them");
    UNTIL(&a, &b, a.arrived == 1 && b.done == 1);
    ends_close(&a, &b);
    ends_close(&c, &d);
}

/** A sender that believes the region to be larger does no harm either. */
static void lies_about_size_do_not_write(void)
{
    struct end a, b;
    REQUIRE(ends_open(&a, &b, 4096, 16), "no pair");
    memset(b.base, 0x77, 4096);
    b.remote->bytes += 2048;
    enum wring_status status = end_put(&b, b.base, 2049, 2048, 0, 0);
    CHECK(status == WRING_OK || status == WRING_ERR_INVALID, "%s", wring_status_text(status));
    if (status == WRING_OK) {
        UNTIL(&a, &b, a.closed == 1);
        CHECK(a.why == WRING_ERR_FRAME || a.why == WRING_ERR_PEER, "%s", wring_status_text(a.why));
    }
    CHECK(a.arrived == 0 && is_all(a.base, 4096, 0), "written");
    ends_close(&a, &b);
}

/** Both ways at once, until AGAIN and on, with room for `batch` events. */
static void flood(size_t batch, size_t bytes, unsigned total)
{
    struct end ends[2];
    unsigned posted[2] = {0, 0};
    uint64_t limit = wring_deadline_in(WAIT_NS);
    REQUIRE(ends_open(&ends[0], &ends[1], bytes * 4, batch), "no pair");
    while ((ends[0].arrived < total || ends[1].arrived < total || ends[0].done < total ||
            ends[1].done < total) &&
           wring_now_ns() < limit)
        for (int i = 0; i < 2; i++) {
            enum wring_status status = WRING_OK;
            while (posted[i] < total && status == WRING_OK) {
                status = end_put(&ends[i], ends[i].base, bytes * (posted[i] % 4), bytes, posted[i],
                                 posted[i]);
                posted[i] += status == WRING_OK;
            }
            CHECK(status == WRING_OK || status == WRING_ERR_AGAIN, "%s", wring_status_text(status));
            end_turn(&ends[i]);
        }
    for (int i = 0; i < 2; i++)
        CHECK(ends[i].arrived == total && ends[i].done == total &&
                  ends[i].arrived_bytes == total * bytes,
              "end %d: %u arrived, %u done of %u", i, ends[i].arrived, ends[i].done, total);
    ends_close(&ends[0], &ends[1]);
}

static void floods_recover(void)
{
    flood(16, 8, ends_turns(5000));
    flood(1, 8, ends_turns(2000));
    flood(1, 100000, ends_turns(300));
    flood(16, 3 << 20, ends_turns(20));
}

/** As many puts as promised go without a poll in between. */
static void the_promised_depth_is_there(void)
{
    struct end a, b;
    struct wring_provider_caps caps;
    unsigned posted = 0;
    REQUIRE(ends_open(&a, &b, 4096, 1), "no pair");
    b.provider->ops->capabilities(b.provider, &caps);
    enum wring_status status = WRING_OK;
    while (status == WRING_OK && posted < 1 << 20) {
        status = end_put(&b, b.base, posted % 4096, 1, posted, posted);
        posted += status == WRING_OK;
    }
    CHECK(status == WRING_ERR_AGAIN, "%s", wring_status_text(status));
    CHECK(posted >= caps.put_depth, "%u, promised were %u", posted, caps.put_depth);
    UNTIL(&a, &b, a.arrived == posted && b.done == posted);
    ends_close(&a, &b);
}

static unsigned wrong;

static void look_at_turn(struct end *end, const struct wring_event *event)
{
    wrong += !has_pattern(end->base, event->bytes, event->imm);
}

/** After PUT_DONE the source is the caller's again: what is written there does not travel. */
static void done_sources_may_be_used_again(void)
{
    size_t bytes = 9 << 20; /* more than the way there holds */
    struct end a, b;
    struct wring_provider_caps caps;
    REQUIRE(ends_open(&a, &b, bytes, 16), "no pair");
    b.provider->ops->capabilities(b.provider, &caps);
    bytes = bytes < caps.put_max_bytes ? bytes : caps.put_max_bytes;
    a.on_arrival = look_at_turn;
    wrong = 0;
    for (unsigned i = 0; i < 4; i++) {
        fill_pattern(b.base, bytes, i);
        REQUIRE(end_put(&b, b.base, 0, bytes, i, i) == WRING_OK, "put %u", i);
        uint64_t limit = wring_deadline_in(WAIT_NS);
        while (b.done <= i && wring_now_ns() < limit) {
            end_turn(&b);
            if (b.done <= i)
                end_turn(&a);
        }
        memset(b.base, 0xBB, bytes);
        UNTIL(&a, &b, a.arrived == i + 1);
    }
    CHECK(b.done == 4 && wrong == 0, "%u of %u arrived as something else", wrong, a.arrived);
    ends_close(&a, &b);
}

/** Where puts copy, the source is the caller's as soon as they return, and nothing need be told. */
static void puts_without_a_word_copy(void)
{
    size_t bytes = 100000;
    struct end a, b;
    struct wring_provider_caps caps;
    REQUIRE(ends_open(&a, &b, bytes, 16), "no pair");
    b.provider->ops->capabilities(b.provider, &caps);
    a.on_arrival = look_at_turn;
    wrong = 0;
    for (unsigned i = 0; i < 600 && caps.put_copies; i++) { /* more than the depth of any queue */
        size_t part = i % 50 == 0 ? bytes : i % 50;
        fill_pattern(b.base, part, i);
        uint64_t cookie = i % 3 == 0 ? b.done : WRING_NO_PUT_DONE;
        REQUIRE(end_put(&b, b.base, 0, part, i, cookie) == WRING_OK, "put %u", i);
        memset(b.base, 0xBB, part);
        UNTIL(&a, &b, a.arrived == i + 1 && b.done == i / 3 + 1);
    }
    CHECK(wrong == 0, "%u of %u arrived as something else", wrong, a.arrived);
    ends_close(&a, &b);
}

/** More than leaves while the peer does not look: the last frame to leave is half sent. @return how
 *  many puts */
static unsigned put_until_stuck(struct end *from, unsigned most, size_t bytes)
{
    unsigned n = 0;
    while (n < most && end_put(from, from->base + n * bytes, n * bytes, bytes, n, n) == WRING_OK)
        n++;
    for (int i = 0; i < 100; i++)
        end_turn(from);
    return n;
}

/** Copied sources are written to at once, by then in the midst of a frame; what arrives is what was
 *  put. So it is once more, after further puts, and twice makes no difference. */
static void copied_sources_may_be_used_again(void)
{
    enum {
        BYTES = 1 << 20,
        PUTS = 16
    };
    struct end a, b;
    REQUIRE(ends_open(&a, &b, (size_t)PUTS * BYTES, 16), "no pair");
    const struct wring_provider_ops *ops = b.provider->ops;
    enum wring_status status = WRING_OK;
    unsigned put = 0;
    for (uint32_t turn = 0; turn < 3; turn++) {
        fill_pattern(b.base, (size_t)PUTS * BYTES, turn);
        unsigned n = put_until_stuck(&b, PUTS / 2, BYTES);
        status = ops->copy_sources(b.conn);
        CHECK(status == WRING_OK || status == WRING_ERR_UNSUPPORTED, "%s",
              wring_status_text(status));
        if (status == WRING_OK) { /* and of puts that come then */
            memset(b.base, 0xEE, (size_t)n * BYTES);
            for (unsigned i = n; i < n + 2; i++)
                CHECK(end_put(&b, b.base + (size_t)i * BYTES, (uint64_t)i * BYTES, BYTES, i, i) ==
                          WRING_OK,
                      "put");
            CHECK(ops->copy_sources(b.conn) == WRING_OK, "again");
            n += 2;
            memset(b.base, 0xEE, (size_t)n * BYTES);
        }
        UNTIL(&a, &b, (a.arrived == n && b.done == n) || a.closed + b.closed > 0);
        CHECK(a.closed == 0 && has_pattern(a.base, (size_t)n * BYTES, turn), "turn %u", turn);
        put += n;
        a.arrived = b.done = 0;
    }
    CHECK(put >= 3, "%u puts", put);
    put_until_stuck(&b, PUTS, BYTES); /* copies go with their connection */
    CHECK(ops->copy_sources(b.conn) == status, "at the end");
    ends_close(&a, &b);
}

const struct wring_test_case suite_cases_put[] = {
    {"bytes_land_where_they_belong", bytes_land_where_they_belong},
    {"the_rims_belong_to_the_region", the_rims_belong_to_the_region},
    {"bad_puts_are_invalid", bad_puts_are_invalid},
    {"misdirected_puts_are_invalid", misdirected_puts_are_invalid},
    {"lies_about_size_do_not_write", lies_about_size_do_not_write},
    {"floods_recover", floods_recover},
    {"the_promised_depth_is_there", the_promised_depth_is_there},
    {"done_sources_may_be_used_again", done_sources_may_be_used_again},
    {"puts_without_a_word_copy", puts_without_a_word_copy},
    {"copied_sources_may_be_used_again", copied_sources_may_be_used_again},
    {NULL, NULL},
};
