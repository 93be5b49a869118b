/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/provider/ends.h"

#include <poll.h>

#include "base/log.h"
#include "transport/memory.h"

#define MARGIN 4160 /* before and after the region; no multiple of a page */
#define CANARY 0xC5
#define IDLE_TURNS 512 /* spun through before naps */
#define MEETINGS 5     /* until both ends have time for one */

static const struct wring_provider_driver *driver;
static unsigned fewer = 1;

void ends_use(const struct wring_provider_driver *which)
{
    driver = which;
}

void ends_use_fewer(unsigned times)
{
    fewer = times;
}

unsigned ends_turns(unsigned n)
{
    return (n + fewer - 1) / fewer;
}

const struct wring_provider_driver *ends_driver(void)
{
    return driver;
}

const char *ends_name(void)
{
    return driver->name;
}

static void see(struct end *end, const struct wring_event *event)
{
    CHECK(end->closed == 0, "event %d after CLOSED", event->kind);
    CHECK(event->conn == end->conn || event->kind == WRING_EVENT_ACCEPTED, "another's event");
    switch (event->kind) {
    case WRING_EVENT_CONNECTED:
        end->connected++;
        CHECK(event->conn->user == NULL, "user is set");
        break;
    case WRING_EVENT_ACCEPTED:
        end->accepted++;
        end->conn = event->conn;
        CHECK(event->conn->user == NULL, "user is set");
        end->hello_bytes = event->bytes;
        if (event->bytes > 0)
            memcpy(end->hello, event->data, event->bytes);
        break;
    case WRING_EVENT_PUT_DONE:
        CHECK(event->cookie == end->done, "cookie %llu, not %u", (unsigned long long)event->cookie,
              end->done);
        end->done++;
        break;
    case WRING_EVENT_ARRIVED:
        CHECK(event->imm == end->arrived, "imm %u, not %u", event->imm, end->arrived);
        end->arrived++;
        end->arrived_bytes += event->bytes;
        if (end->on_arrival != NULL)
            end->on_arrival(end, event);
        break;
    case WRING_EVENT_MESSAGE:
        end->messages++;
        end->message_bytes = event->bytes;
        memcpy(end->message, event->data, event->bytes);
        break;
    case WRING_EVENT_CLOSED:
        end->closed++;
        end->why = event->status;
        snprintf(end->text, sizeof(end->text), "%s", event->text);
        break;
    }
}

/**
 * After many turns in a row that gave nothing, to any end of this thread, the processor goes to
 * whom they wait for. Fewer would keep ends from spinning, as those of users do.
 */
static void rest(size_t events)
{
    static _Thread_local unsigned idle_turns;
    const struct timespec nap = {.tv_nsec = 20000};

    idle_turns = events > 0 ? 0 : idle_turns + 1;
    if (idle_turns > IDLE_TURNS)
        nanosleep(&nap, NULL);
}

size_t end_turn(struct end *end)
{
    struct wring_event events[16];
    size_t n = end->provider->ops->poll(end->provider, events, end->batch);
    CHECK(n <= end->batch, "%zu events", n);
    for (size_t i = 0; i < n; i++)
        see(end, &events[i]);
    rest(n);
    return n;
}

bool end_sleep(struct end *end, uint64_t deadline_ns)
{
    do {
        uint64_t now = wring_now_ns();
        struct wring_wait_set set = {.deadline_ns = deadline_ns};
        end->provider->ops->arm(end->provider, &set);
        if (end_turn(end) > 0)
            return true;
        uint64_t ns = set.busy || set.deadline_ns <= now ? 0 : set.deadline_ns - now;
        struct timespec timeout = {(time_t)(ns / WRING_NS_PER_S), (long)(ns % WRING_NS_PER_S)};
        ppoll(set.fds, set.n, &timeout, NULL);
        if (end_turn(end) > 0)
            return true;
    } while (wring_now_ns() < deadline_ns);
    return false;
}

bool end_open(struct end *end, uint8_t secret, size_t bytes, size_t batch)
{
    static const struct wring_log quiet = {NULL, NULL, WRING_LOG_WARN};
    const struct wring_provider_params params = {.log = &quiet, .secret = {secret}};
    memset(end, 0, sizeof(*end));
    end->batch = batch;
    end->bytes = bytes;
    if (driver->open(&params, &end->provider) != WRING_OK ||
        wring_memory_alloc(bytes + 2 * MARGIN, &end->memory) != WRING_OK)
        return false;
    memset(end->memory.base, CANARY, end->memory.bytes);
    end->base = (uint8_t *)end->memory.base + MARGIN;
    memset(end->base, 0, bytes);
    struct wring_memory inside = end->memory;
    inside.base = end->base;
    inside.bytes = bytes;
    inside.fd_offset += MARGIN;
    return end->provider->ops->region_create(end->provider, &inside, &end->region) == WRING_OK;
}

void end_close(struct end *end)
{
    const struct wring_provider_ops *ops = end->provider->ops;
    const uint8_t *all = end->memory.base, *after = end->base + end->bytes;
    CHECK(is_all(all, MARGIN, CANARY), "written before the region");
    CHECK(is_all(after, (size_t)(all + end->memory.bytes - after), CANARY), "and after it");
    ops->remote_release(end->remote);
    ops->disconnect(end->conn);
    ops->region_destroy(end->region);
    ops->close(end->provider);
    wring_memory_free(&end->memory);
}

bool end_listen(struct end *end, uint8_t address[WRING_ADDRESS_MAX], size_t *bytes)
{
    return end->provider->ops->listen(end->provider, address, bytes) == WRING_OK &&
           *bytes <= WRING_ADDRESS_MAX;
}

bool end_connect(struct end *end, const uint8_t *address, size_t bytes, const char *hello)
{
    return end->provider->ops->connect(end->provider, address, bytes, hello, strlen(hello),
                                       &end->conn) == WRING_OK;
}

void end_import(struct end *end, const struct end *other)
{
    uint8_t key[WRING_REGION_KEY_MAX];
    size_t n = other->provider->ops->region_export(other->region, key);
    CHECK(n <= sizeof(key), "a key of %zu bytes", n);
    CHECK(end->provider->ops->remote_import(end->conn, key, n, &end->remote) == WRING_OK, "import");
}

enum wring_status end_put(struct end *from, const void *local, uint64_t offset, size_t bytes,
                          uint32_t imm, uint64_t cookie)
{
    return from->provider->ops->put(from->conn, from->region, local, from->remote, offset, bytes,
                                    imm, cookie);
}

/** What a handshake that was given up has left of both. */
static void forget_meeting(struct end *hub, struct end *end, unsigned accepted)
{
    end->provider->ops->disconnect(end->conn);
    end->conn = NULL;
    for (int i = 0; i < 100; i++)
        end_turn(hub); /* what was on its way to it */
    if (hub->accepted > accepted) {
        hub->provider->ops->disconnect(hub->conn);
        hub->conn = NULL;
    }
    hub->accepted = accepted;
    hub->closed = end->connected = end->closed = 0;
}

bool ends_meet(struct end *hub, struct end *end, const uint8_t *address, size_t bytes,
               const char *hello)
{
    unsigned before = hub->accepted;
    for (int i = 0; i < MEETINGS; i++) {
        uint64_t began_ns = wring_now_ns();
        if (i > 0)
            forget_meeting(hub, end, before);
        if (!end_connect(end, address, bytes, hello))
            return false;
        UNTIL(hub, end, (hub->accepted > before && end->connected) || end->closed);
        bool stands = hub->accepted == before + 1 && end->connected == 1 && end->closed == 0;
        if (stands || wring_now_ns() - began_ns < LATE_NS)
            return stands;
    }
    return false;
}

bool ends_join(struct end *a, struct end *b)
{
    uint8_t address[WRING_ADDRESS_MAX];
    size_t n;
    return end_listen(a, address, &n) && ends_meet(a, b, address, n, "me");
}

bool ends_open(struct end *a, struct end *b, size_t bytes, size_t batch)
{
    if (!end_open(a, 1, bytes, batch) || !end_open(b, 1, bytes, batch) || !ends_join(a, b))
        return false;
    end_import(a, b);
    end_import(b, a);
    return a->remote != NULL && b->remote != NULL;
}

void ends_close(struct end *a, struct end *b)
{
    end_close(a);
    end_close(b);
}

static uint8_t pattern_at(size_t i, uint32_t seed)
{
    return (uint8_t)(i * 7 + i / 251 + seed * 31 + seed / 256);
}

void fill_pattern(uint8_t *to, size_t bytes, uint32_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = pattern_at(i, seed);
}

bool has_pattern(const uint8_t *at, size_t bytes, uint32_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != pattern_at(i, seed))
            return false;
    return true;
}

bool has_pattern_again(const uint8_t *at, size_t bytes, uint32_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (__atomic_load_n(&at[i], __ATOMIC_RELAXED) != pattern_at(i, seed))
            return false;
    return true;
}

bool is_all(const uint8_t *at, size_t bytes, uint8_t value)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != value)
            return false;
    return true;
}
