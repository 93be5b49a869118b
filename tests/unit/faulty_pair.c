/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/faulty_pair.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "transport/providers/providers.h"

struct wring_config faulty_config;
static const struct wring_log quiet = {NULL, NULL, WRING_LOG_ERROR};

void faulty_end_turn(struct faulty_end *end)
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

void faulty_set_checksum(const char *value)
{
    CHECK(wring_config_set(&faulty_config, &quiet, "WRING_TCP_CHECKSUM", value) == WRING_OK,
          "config");
}

bool faulty_end_open(struct faulty_end *end, const char *provider, const char *schedule,
                     uint32_t rank)
{
    const struct wring_provider_params params = {
        .log = &quiet, .config = &faulty_config, .secret = {9}, .rank = rank, .size = 2};
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

void faulty_end_close(struct faulty_end *end)
{
    const struct wring_provider_ops *ops = end->provider->ops;
    ops->remote_release(end->remote);
    ops->disconnect(end->conn);
    ops->region_destroy(end->region);
    ops->close(end->provider);
    wring_memory_free(&end->memory);
}

static bool import(struct faulty_end *end, const struct faulty_end *other)
{
    uint8_t key[WRING_REGION_KEY_MAX];
    size_t n = other->provider->ops->region_export(other->region, key);
    return end->provider->ops->remote_import(end->conn, key, n, &end->remote) == WRING_OK;
}

bool faulty_pair_open(struct faulty_end *a, struct faulty_end *b, const char *provider,
                      const char *schedule)
{
    uint8_t address[WRING_ADDRESS_MAX];
    size_t n;
    if (!faulty_end_open(a, provider, NULL, 0) || !faulty_end_open(b, provider, schedule, 1))
        return false;
    struct faulty_end *both[] = {a, b};
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

enum wring_status faulty_end_put(struct faulty_end *from, size_t bytes, uint32_t imm)
{
    return from->provider->ops->put(from->conn, from->region, from->memory.base, from->remote, 0,
                                    bytes, imm, imm);
}
