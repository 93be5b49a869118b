/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/collective/lossy.h"

#include <pthread.h>

#include "runtime/session/session.h"
#include "tests/lib/test.h"
#include "transport/control.h"

#define KINDS 2

static const char *const kinds[KINDS] = {"shm", "tcp"};
static struct wring_provider_ops lossy[KINDS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool lost;

static enum wring_status lossy_send(struct wring_conn *conn, const void *data, size_t bytes)
{
    if (bytes >= 4 && wring_get_u32(data) == WRING_CONTROL_CREDIT) {
        atomic_store(&lost, true);
        return WRING_OK;
    }
    return wring_provider_find(conn->provider->ops->name)->send(conn, data, bytes);
}

static void make_lossy(void)
{
    for (int i = 0; i < KINDS; i++) {
        lossy[i] = *wring_provider_find(kinds[i]);
        lossy[i].send = lossy_send;
    }
}

void wring_test_lose_credits(struct wring_session *session)
{
    pthread_once(&once, make_lossy);
    wring_progress_lock(session->progress);
    for (uint32_t i = 0; i < session->fabric->n_devices; i++)
        for (int k = 0; k < KINDS; k++)
            if (session->fabric->devices[i].provider->ops == wring_provider_find(kinds[k]))
                session->fabric->devices[i].provider->ops = &lossy[k];
    wring_progress_unlock(session->progress);
}

bool wring_test_lost_credits(void)
{
    return atomic_exchange(&lost, false);
}
