/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/collective/strict.h"

#include <pthread.h>

#include "runtime/session/session.h"
#include "tests/lib/test.h"

#define KINDS 2

static const char *const kinds[KINDS] = {"shm", "tcp"};
static struct wring_provider_ops strict[KINDS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/** What a peer maps is put where it lies already. */
static bool lies_there(struct wring_remote *remote, uint64_t offset, const void *local)
{
    const struct wring_provider_ops *ops = wring_provider_find(remote->conn->provider->ops->name);
    void *map;
    return ops->remote_map(remote, &map) == WRING_OK && local == (uint8_t *)map + offset;
}

static enum wring_status strict_put(struct wring_conn *conn, struct wring_region *region,
                                    const void *local, struct wring_remote *remote,
                                    uint64_t remote_offset, size_t bytes, uint32_t imm,
                                    uint64_t cookie)
{
    uintptr_t at = (uintptr_t)local, base = region != NULL ? (uintptr_t)region->base : 0;
    bool inside = region != NULL && region->provider == conn->provider && at >= base &&
                  at - base <= region->bytes && bytes <= region->bytes - (at - base);

    CHECK(inside || bytes == 0 || lies_there(remote, remote_offset, local),
          "%zu bytes are put from memory that is not registered", bytes);
    return wring_provider_find(conn->provider->ops->name)
        ->put(conn, region, local, remote, remote_offset, bytes, imm, cookie);
}

static void make_strict(void)
{
    for (int i = 0; i < KINDS; i++) {
        strict[i] = *wring_provider_find(kinds[i]);
        strict[i].put = strict_put;
    }
}

void wring_test_be_strict(struct wring_session *session)
{
    pthread_once(&once, make_strict);
    wring_progress_lock(session->progress);
    for (uint32_t i = 0; i < session->fabric->n_devices; i++) {
        struct wring_device *device = &session->fabric->devices[i];
        device->caps.local_any = false;
        for (int k = 0; k < KINDS; k++)
            if (device->provider->ops == wring_provider_find(kinds[k]))
                device->provider->ops = &strict[k];
    }
    wring_progress_unlock(session->progress);
}
