/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends, one of them faulty: what happens is what the schedule says, neither more nor less. */
#include "transport/providers/fault/fault.h"

#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "tests/lib/test.h"
#include "transport/memory.h"
#include "transport/providers/tcp/tcp.h"

#define WAIT_NS (20 * WRING_NS_PER_S)
#define SPACE 65536

struct end {
    struct wring_provider *provider;
    struct wring_conn *conn;
    struct wring_region *region;
    struct wring_remote *remote;
    struct wring_memory memory; /* SPACE bytes */
    unsigned accepted, connected, closed, done, arrived, messages;
    size_t arrived_bytes;
    uint64_t arrived_ns, message_ns; /* the last one's */
    enum wring_status why;
    char text[256];
};

static struct wring_config config;
static const struct wring_log quiet = {NULL, NULL, WRING_LOG_ERROR};

static void turn(struct end *end)
{
    struct wring_event events[8];
    size_t n = end->provider->ops->poll(end->provider, events, 8);
    for (size_t i = 0; i < n; i++) {
        const struct wring_event *event = &events[i];
        CHECK(end->closed == 0, "event %d after the end", (int)event->kind);
        switch (event->kind) {
        case WRING_EVENT_CONNECTED:
            end->connected++;
            break;
        case WRING_EVENT_ACCEPTED:
            end->accepted++;
            end->conn = event->conn;
            break;
        case WRING_EVENT_PUT_DONE:
            end->done++;
            break;
        case WRING_EVENT_ARRIVED:
            CHECK(event->imm == end->arrived, "put %u came as number %u", event->imm, end->arrived);
            end->arrived++;
            end->arrived_bytes += event->bytes;
            end->arrived_ns = wring_now_ns();
            break;
        case WRING_EVENT_MESSAGE:
            end->messages++;
            end->message_ns = wring_now_ns();
            break;
        case WRING_EVENT_CLOSED:
            end->closed++;
            end->why = event->status;
            snprintf(end->text, sizeof(end->text), "%s", event->text);
            break;
        }
    }
}

#define UNTIL(a, b, condition)                           \
    do {                                                 \
        uint64_t limit = wring_deadline_in(WAIT_NS);     \
        while (!(condition) && wring_now_ns() < limit) { \
            turn(a);                                     \
            turn(b);                                     \
        }                                                \
        CHECK(condition, "did not come");                \
    } while (0)

static void set_checksum(const char *value)
{
    CHECK(wring_config_set(&config, &quiet, "WRING_TCP_CHECKSUM", value) == WRING_OK, "config");
}

/** @param schedule NULL: no faults */
static bool end_open(struct end *end, const char *provider, const char *schedule, uint32_t rank)
{
    const struct wring_provider_params params = {
        .log = &quiet, .config = &config, .secret = {9}, .rank = rank, .size = 2};
    const struct wring_provider_ops *ops = wring_provider_find(provider);
    struct wring_provider *inner;
    memset(end, 0, sizeof(*end));
    if (ops->open(&params, &inner) != WRING_OK ||
        wring_memory_alloc(SPACE, &end->memory) != WRING_OK)
        return false;
    end->provider = inner;
    return schedule == NULL ||
           wring_fault_wrap(schedule, &params, inner, &end->provider) == WRING_OK;
}

static void end_close(struct end *end)
{
    const struct wring_provider_ops *ops = end->provider->ops;
    ops->remote_release(end->remote);
    ops->disconnect(end->conn);
    ops->region_destroy(end->region);
    ops->close(end->provider);
    wring_memory_free(&end->memory);
}

static bool import(struct end *end, const struct end *other)
{
    uint8_t key[WRING_REGION_KEY_MAX];
    size_t n = other->provider->ops->region_export(other->region, key);
    return end->provider->ops->remote_import(end->conn, key, n, &end->remote) == WRING_OK;
}

/** b, on which the faults are, connects to a. */
static bool pair_open(struct end *a, struct end *b, const char *provider, const char *schedule)
{
    uint8_t address[WRING_ADDRESS_MAX];
    size_t n;
    if (!end_open(a, provider, NULL, 0) || !end_open(b, provider, schedule, 1))
        return false;
    struct end *both[] = {a, b};
    for (int i = 0; i < 2; i++)
        if (both[i]->provider->ops->region_create(both[i]->provider, &both[i]->memory,
                                                  &both[i]->region) != WRING_OK)
            return false;
    if (a->provider->ops->listen(a->provider, address, &n) != WRING_OK ||
        b->provider->ops->connect(b->provider, address, n, "b", 1, &b->conn) != WRING_OK)
        return false;
    UNTIL(a, b, a->accepted == 1 && b->connected == 1);
    return a->accepted == 1 && import(a, b) && import(b, a);
}

static enum wring_status put(struct end *from, size_t bytes, uint32_t imm)
{
    return from->provider->ops->put(from->conn, 0, from->region, from->memory.base, from->remote, 0,
                                    bytes, imm, imm);
}

static const char *const providers[] = {"tcp", "shm"};

static void delay_holds_what_comes(void)
{
    for (int p = 0; p < 2; p++) {
        struct end a, b;
        REQUIRE(pair_open(&a, &b, providers[p], "delay=40ms"), "no pair");
        uint64_t began = wring_now_ns();
        CHECK(put(&a, 100, 0) == WRING_OK, "put");
        CHECK(a.provider->ops->send(a.conn, "word", 4) == WRING_OK, "send");
        UNTIL(&a, &b, b.arrived == 1 && b.messages == 1);
        CHECK(b.arrived_ns - began >= 40 * WRING_NS_PER_MS, "the put came too early");
        CHECK(b.message_ns - began >= 40 * WRING_NS_PER_MS, "the message came too early");
        began = wring_now_ns();
        CHECK(put(&b, 100, 0) == WRING_OK, "put"); /* the other way is not delayed */
        UNTIL(&a, &b, a.arrived == 1);
        put(&a, 100, 1);
        a.provider->ops->send(a.conn, "last", 4);
        UNTIL(&a, &b, a.done == 2);
        for (int i = 0; i < 1000; i++)
            turn(&a);
        a.provider->ops->disconnect(a.conn);
        a.conn = NULL;
        UNTIL(&a, &b, b.closed == 1); /* after what was sent before it */
        CHECK(b.arrived == 2 && b.messages == 2, "%u puts, %u messages", b.arrived, b.messages);
        end_close(&a);
        end_close(&b);
    }
}

static void jitter_keeps_the_order(void)
{
    struct end a, b;
    unsigned posted = 0;
    REQUIRE(pair_open(&a, &b, "tcp", "jitter=3ms,seed=4"), "no pair");
    uint64_t began = wring_now_ns();
    while (b.arrived < 500 && wring_now_ns() - began < WAIT_NS) { /* turn() checks the order */
        while (posted < 500 && put(&a, 64, posted) == WRING_OK)
            posted++;
        turn(&a);
        turn(&b);
    }
    CHECK(b.arrived == 500, "%u arrived", b.arrived);
    end_close(&a);
    end_close(&b);
}

/** One after the other, so that their delays add up to what the seed says. */
static void jitter_is_what_the_seed_says(void)
{
    const struct wring_fault_schedule schedule = {.seed = 4};
    struct end a, b;
    uint64_t least = 0, began = wring_now_ns();
    REQUIRE(pair_open(&a, &b, "shm", "jitter=6ms,seed=4"), "no pair");
    for (unsigned i = 0; i < 20; i++) {
        CHECK(put(&a, 64, i) == WRING_OK, "put");
        UNTIL(&a, &b, b.arrived == i + 1);
        least +=
            wring_fault_random(&schedule, 1, WRING_FAULT_JITTER, 2 * i) % (6 * WRING_NS_PER_MS + 1);
    }
    uint64_t took = wring_now_ns() - began;
    CHECK(least > 20 * WRING_NS_PER_MS && took >= least, "%llu ns, not at least %llu",
          (unsigned long long)took, (unsigned long long)least);
    end_close(&a);
    end_close(&b);
}

/** Put until the end. @return how many arrived whole */
static unsigned put_until_closed(const char *provider, const char *schedule, size_t bytes,
                                 char text[256])
{
    struct end a, b;
    unsigned posted = 0;
    if (!pair_open(&a, &b, provider, schedule))
        return 0;
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while ((a.closed == 0 || b.closed == 0) && wring_now_ns() < limit) {
        while (posted < 5000 && put(&b, bytes, posted) == WRING_OK)
            posted++;
        turn(&b);
        turn(&a);
    }
    CHECK(a.closed == 1 && b.closed == 1, "%s %s: no end", provider, schedule);
    CHECK(put(&b, bytes, 0) == WRING_ERR_CLOSED, "%s %s: put", provider, schedule);
    CHECK(b.provider->ops->send(b.conn, "x", 1) == WRING_ERR_CLOSED, "%s: send", provider);
    snprintf(text, 256, "%s", b.text);
    unsigned arrived = a.arrived;
    end_close(&a);
    end_close(&b);
    return arrived;
}

static void disconnects_by_count(void)
{
    char text[256];
    for (int p = 0; p < 2; p++) {
        /* what is cut may be under way: fewer may come, never more */
        unsigned came = put_until_closed(providers[p], "disconnect=after:100", 1000, text);
        CHECK(came <= 100, "%u came", came);
        CHECK(strstr(text, "cut after 100 puts") != NULL, "%s", text);
        put_until_closed(providers[p], "disconnect=after:50kb", 1000, text);
        CHECK(strstr(text, "cut after 50 puts of 50000 bytes") != NULL, "%s", text);
        put_until_closed(providers[p], "disconnect=after:500b", 1000, text);
        CHECK(strstr(text, "cut after 0 puts") != NULL, "%s", text);
    }
}

static void disconnects_by_seed(void)
{
    char first[256], again[256], other[256], want[64];
    const struct wring_fault_schedule schedule = {.seed = 21};
    unsigned n = 0;
    while (!wring_fault_hits(&schedule, 0.01, 1, WRING_FAULT_CUT, n))
        n++;
    snprintf(want, sizeof(want), "cut after %u puts", n);
    put_until_closed("shm", "disconnect=0.01,seed=21", 100, first);
    put_until_closed("tcp", "disconnect=0.01,seed=21", 100, again);
    put_until_closed("tcp", "disconnect=0.01,seed=22", 100, other);
    CHECK(strstr(first, want) != NULL, "%s, not %s", first, want);
    CHECK(strstr(again, want) != NULL, "%s, not %s", again, want);
    CHECK(strstr(other, want) == NULL, "another seed: %s", other);
}

/** Over shm nothing protects: the puts that the seed names, and no others, have one wrong byte. */
static void corruption_hits_what_the_seed_names(void)
{
    const struct wring_fault_schedule schedule = {.seed = 5};
    struct end a, b;
    unsigned hits = 0;
    REQUIRE(pair_open(&a, &b, "shm", "corrupt=0.1,seed=5"), "no pair");
    uint8_t *from = b.memory.base, *to = a.memory.base;
    for (unsigned i = 0; i < 300; i++) {
        for (unsigned k = 0; k < 1000; k++)
            from[k] = (uint8_t)(i * 31 + k);
        REQUIRE(put(&b, 1000, i) == WRING_OK, "put");
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
    end_close(&a);
    end_close(&b);
}

/** One frame with one byte changed, below the checksum. @return true if it was caught */
static bool is_caught(bool message, uint64_t at, uint8_t mask)
{
    struct end a, b;
    if (!pair_open(&a, &b, "tcp", NULL))
        return false;
    memset(b.memory.base, 0x5C, 300);
    CHECK(b.provider->ops->spoil(b.conn, at, mask) == WRING_OK, "spoil");
    if (message)
        CHECK(b.provider->ops->send(b.conn, "twelve bytes", 12) == WRING_OK, "send");
    else
        CHECK(put(&b, 100, 0) == WRING_OK, "put");
    for (unsigned i = 1; i <= 3; i++) /* a length that grew waits for more to come */
        put(&b, 4096, i);
    UNTIL(&a, &b, a.closed == 1);
    bool caught = a.closed == 1 && a.why == WRING_ERR_FRAME && a.arrived == 0 && a.messages == 0;
    if (!caught)
        fprintf(stderr, "byte %u, bits 0x%02x: %s\n", (unsigned)at, mask, a.text);
    end_close(&a);
    end_close(&b);
    return caught;
}

static void checksums_catch_every_byte(void)
{
    set_checksum("on");
    for (unsigned at = 0; at < TCP_HEADER_MAX + 100; at++)
        CHECK(is_caught(false, at, (uint8_t)(1 + at * 37 % 255)), "put, byte %u", at);
    for (unsigned at = 0; at < TCP_HEADER_MAX + 12; at++)
        CHECK(is_caught(true, at, (uint8_t)(1u << at % 8)), "message, byte %u", at);
    set_checksum("off");
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
    struct end a, b;
    REQUIRE(pair_open(&a, &b, "tcp", NULL), "no pair");
    memset(b.memory.base, 0x5C, SPACE);
    b.provider->ops->spoil(b.conn, 32 + 40000, 0x03);
    REQUIRE(put(&b, 50000, 0) == WRING_OK && put(&b, 100, 1) == WRING_OK, "put");
    UNTIL(&a, &b, a.arrived == 2);
    const uint8_t *to = a.memory.base;
    CHECK(to[40000] == 0x5F && to[39999] == 0x5C && to[40001] == 0x5C, "%02x", to[40000]);
    CHECK(memcmp(to, b.memory.base, 40000) == 0 && to[49999] == 0x5C, "more was changed");
    end_close(&a);
    end_close(&b);
}

static void faults_over_checksums_end_with_a_reason(void)
{
    static const char *const says[] = {"damaged on the way", "malformed frame",
                                       "without a checksum"};
    set_checksum("on");
    for (int seed = 0; seed < 10; seed++) {
        const struct wring_fault_schedule schedule = {.seed = (uint64_t)seed};
        char text[64];
        struct end a, b;
        unsigned posted = 0, clean = 0;
        while (!wring_fault_hits(&schedule, 0.02, 1, WRING_FAULT_SPOIL_PUT, clean))
            clean++;
        snprintf(text, sizeof(text), "corrupt=0.02,seed=%d", seed);
        REQUIRE(pair_open(&a, &b, "tcp", text), "no pair");
        uint64_t limit = wring_deadline_in(WAIT_NS);
        while (a.closed == 0 && wring_now_ns() < limit) {
            while (posted < 2000 && b.closed == 0 && put(&b, 700, posted) == WRING_OK)
                posted++;
            turn(&b);
            turn(&a);
        }
        bool named = false;
        for (int i = 0; i < 3; i++)
            named |= strstr(a.text, says[i]) != NULL;
        CHECK(a.arrived == clean && named, "seed %d: %u arrived, %u are clean: %s", seed, a.arrived,
              clean, a.text);
        end_close(&a);
        end_close(&b);
    }
    set_checksum("off");
}

static void a_peer_without_checksums_is_told(void)
{
    struct end a, b;
    REQUIRE(pair_open(&a, &b, "tcp", NULL), "no pair");
    end_close(&a);
    end_close(&b);
    set_checksum("on");
    REQUIRE(end_open(&a, "tcp", NULL, 0), "open");
    set_checksum("off");
    REQUIRE(end_open(&b, "tcp", NULL, 1), "open");
    uint8_t address[WRING_ADDRESS_MAX];
    size_t n;
    REQUIRE(a.provider->ops->listen(a.provider, address, &n) == WRING_OK &&
                b.provider->ops->connect(b.provider, address, n, "b", 1, &b.conn) == WRING_OK,
            "connect");
    UNTIL(&a, &b, a.accepted == 1 && b.connected == 1);
    b.provider->ops->send(b.conn, "hello", 5);
    UNTIL(&a, &b, a.closed == 1);
    CHECK(strstr(a.text, "WRING_TCP_CHECKSUM=on on every rank") != NULL, "%s", a.text);
    end_close(&a);
    end_close(&b);
}

static void schedules_for_others_do_nothing(void)
{
    struct end a, b;
    REQUIRE(pair_open(&a, &b, "tcp", "disconnect=after:1,corrupt=1,rank=0"), "no pair");
    for (unsigned i = 0; i < 5; i++)
        CHECK(put(&b, 10, i) == WRING_OK, "put"); /* b is rank 1 */
    UNTIL(&a, &b, a.arrived == 5);
    end_close(&a);
    end_close(&b);

    const struct wring_provider_params params = {.rank = 1, .size = 2};
    struct wring_provider *inner, *out;
    REQUIRE(wring_provider_find("tcp")->open(&params, &inner) == WRING_OK, "open");
    CHECK(wring_fault_wrap("rank=2", &params, inner, &out) == WRING_ERR_INVALID, "no such rank");
    CHECK(wring_fault_wrap("rank=1", &params, inner, &out) == WRING_OK, "rank 1");
    out->ops->close(out);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"delay_holds_what_comes", delay_holds_what_comes},
        {"jitter_keeps_the_order", jitter_keeps_the_order},
        {"jitter_is_what_the_seed_says", jitter_is_what_the_seed_says},
        {"disconnects_by_count", disconnects_by_count},
        {"disconnects_by_seed", disconnects_by_seed},
        {"corruption_hits_what_the_seed_names", corruption_hits_what_the_seed_names},
        {"checksums_catch_every_byte", checksums_catch_every_byte},
        {"checked_frames_look_as_documented", checked_frames_look_as_documented},
        {"spoiled_bytes_arrive_without_checksums", spoiled_bytes_arrive_without_checksums},
        {"faults_over_checksums_end_with_a_reason", faults_over_checksums_end_with_a_reason},
        {"a_peer_without_checksums_is_told", a_peer_without_checksums_is_told},
        {"schedules_for_others_do_nothing", schedules_for_others_do_nothing},
        {NULL, NULL},
    };
    if (wring_config_load(&config, &quiet) != WRING_OK)
        return 1;
    return wring_test_main(argc, argv, cases);
}
