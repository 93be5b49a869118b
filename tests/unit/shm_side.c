/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/shm_side.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "tests/lib/test.h"

static struct wring_config config;
char shm_side_log[512];

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module;
    snprintf(shm_side_log, sizeof(shm_side_log), "%s", text);
}

static const struct wring_log quiet = {keep_line, NULL, WRING_LOG_DEBUG};

bool shm_side_open(struct shm_side *side, uint8_t key)
{
    struct wring_provider_params params = {.log = &quiet, .config = &config, .secret = {key}};
    *side = (struct shm_side){0};
    return wring_config_load(&config, &quiet) == WRING_OK &&
           OPS->open(&params, &side->provider) == WRING_OK &&
           wring_memory_alloc(1 << 20, &side->memory) == WRING_OK &&
           OPS->region_create(side->provider, &side->memory, &side->region) == WRING_OK;
}

void shm_side_close(struct shm_side *side)
{
    OPS->remote_release(side->remote);
    OPS->close(side->provider);
    wring_memory_free(&side->memory);
}

size_t shm_side_poll(struct shm_side *side)
{
    struct wring_event events[8];
    size_t n = OPS->poll(side->provider, events, 8);
    for (size_t i = 0; i < n; i++) {
        side->count[events[i].kind]++;
        side->last = events[i];
        if (events[i].kind == WRING_EVENT_CONNECTED || events[i].kind == WRING_EVENT_ACCEPTED)
            side->conn = events[i].conn;
        if (events[i].kind == WRING_EVENT_MESSAGE)
            memcpy(side->data, events[i].data, events[i].bytes);
        if (events[i].kind == WRING_EVENT_CLOSED)
            snprintf(side->text, sizeof(side->text), "%s", events[i].text);
    }
    return n;
}

bool shm_side_await(struct shm_side *a, struct shm_side *b, enum wring_event_kind kind,
                    unsigned count)
{
    uint64_t deadline = wring_deadline_in(LIMIT_NS);
    while (a->count[kind] < count && wring_now_ns() < deadline) {
        shm_side_poll(a);
        if (b != NULL)
            shm_side_poll(b);
    }
    return a->count[kind] >= count;
}

bool shm_side_import(struct shm_side *to, struct shm_side *from)
{
    uint8_t key[WRING_REGION_KEY_MAX];
    size_t bytes = OPS->region_export(from->region, key);
    return OPS->remote_import(to->conn, key, bytes, &to->remote) == WRING_OK;
}

bool shm_side_begin_join(struct shm_side *a, struct shm_side *b)
{
    char address[WRING_ADDRESS_MAX];
    size_t bytes;
    struct wring_conn *conn;
    return OPS->listen(a->provider, address, &bytes) == WRING_OK &&
           OPS->connect(b->provider, address, bytes, "hello", 5, &conn) == WRING_OK;
}

bool shm_side_join(struct shm_side *a, struct shm_side *b)
{
    return shm_side_begin_join(a, b) && shm_side_await(a, b, WRING_EVENT_ACCEPTED, 1) &&
           shm_side_await(b, a, WRING_EVENT_CONNECTED, 1);
}

enum wring_status shm_side_put(struct shm_side *side, size_t offset, const char *text, uint32_t imm)
{
    return OPS->put(side->conn, NULL, text, side->remote, offset, strlen(text), imm, imm);
}
