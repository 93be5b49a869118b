/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are threads of one process meet in memory they share. */
#include <wring/bootstrap.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

struct meeting {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t size, users;
    uint32_t arrived, left; /* of this exchange */
    bool broken;            /* an end was closed or gave up: nobody can meet any more */
    const void **blobs;     /* [size] borrowed from those who wait */
    size_t *bytes;          /* [size] */
};

struct local_end {
    struct wring_bootstrap base;
    struct meeting *meeting;
};

static enum wring_status copy_blobs(const struct meeting *meeting, struct wring_blobs *out)
{
    size_t total = 0;
    struct wring_blobs blobs = {.n = meeting->size};

    blobs.offsets = calloc(meeting->size + 1, sizeof(*blobs.offsets));
    if (blobs.offsets == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < meeting->size; i++)
        blobs.offsets[i + 1] = total += meeting->bytes[i];
    blobs.storage = malloc(total + 1);
    if (blobs.storage == NULL) {
        wring_blobs_finish(&blobs);
        return WRING_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < meeting->size; i++)
        if (meeting->bytes[i] > 0)
            memcpy(blobs.storage + blobs.offsets[i], meeting->blobs[i], meeting->bytes[i]);
    *out = blobs;
    return WRING_OK;
}

/** Wait for a change, 50 ms at most, so that deadlines and cancellation are seen. */
static void wait_for_change(struct meeting *meeting)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50 * (long)WRING_NS_PER_MS;
    if (until.tv_nsec >= (long)WRING_NS_PER_S) {
        until.tv_nsec -= (long)WRING_NS_PER_S;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&meeting->changed, &meeting->mutex, &until);
}

/** Wait until *counter reaches the size, or why not. */
static enum wring_status wait_or_break_meeting(struct meeting *meeting, const uint32_t *counter,
                                               uint64_t deadline_ns,
                                               const struct wring_cancel *cancel)
{
    while (*counter < meeting->size) {
        bool called_off = cancel != NULL && cancel->cancelled(cancel->arg);
        if (called_off || wring_now_ns() > deadline_ns)
            meeting->broken = true;
        if (meeting->broken) {
            pthread_cond_broadcast(&meeting->changed);
            return called_off ? WRING_ERR_CLOSED : WRING_ERR_PEER;
        }
        wait_for_change(meeting);
    }
    return WRING_OK;
}

static enum wring_status local_exchange(struct wring_bootstrap *bootstrap, const void *blob,
                                        size_t bytes, uint64_t deadline_ns,
                                        const struct wring_cancel *cancel, struct wring_blobs *out)
{
    struct local_end *end = (struct local_end *)bootstrap;
    struct meeting *meeting = end->meeting;

    pthread_mutex_lock(&meeting->mutex);
    if (meeting->broken) { /* who gave up took its blob along */
        pthread_mutex_unlock(&meeting->mutex);
        return WRING_ERR_PEER;
    }
    enum wring_status status = WRING_OK;
    meeting->blobs[bootstrap->rank] = blob;
    meeting->bytes[bootstrap->rank] = bytes;
    if (++meeting->arrived == meeting->size) {
        meeting->left = 0;
        pthread_cond_broadcast(&meeting->changed);
    }
    status = wait_or_break_meeting(meeting, &meeting->arrived, deadline_ns, cancel);
    if (status == WRING_OK && meeting->broken) /* likewise: somebody gave up before we woke */
        status = WRING_ERR_PEER;
    if (status == WRING_OK)
        status = copy_blobs(meeting, out);
    /* nobody begins the next exchange, or frees its blob, before all have copied */
    if (++meeting->left == meeting->size) {
        meeting->arrived = 0;
        pthread_cond_broadcast(&meeting->changed);
    }
    if (status == WRING_OK) {
        status = wait_or_break_meeting(meeting, &meeting->left, deadline_ns, cancel);
        if (status != WRING_OK)
            wring_blobs_finish(out);
    }
    pthread_mutex_unlock(&meeting->mutex);
    return status;
}

static enum wring_status local_check(struct wring_bootstrap *bootstrap)
{
    struct meeting *meeting = ((struct local_end *)bootstrap)->meeting;
    pthread_mutex_lock(&meeting->mutex);
    bool broken = meeting->broken;
    pthread_mutex_unlock(&meeting->mutex);
    return broken ? WRING_ERR_PEER : WRING_OK;
}

static const char *local_address(struct wring_bootstrap *bootstrap)
{
    (void)bootstrap;
    return "";
}

static void meeting_destroy(struct meeting *meeting)
{
    pthread_cond_destroy(&meeting->changed);
    pthread_mutex_destroy(&meeting->mutex);
    free(meeting->blobs);
    free(meeting->bytes);
    free(meeting);
}

static void local_close(struct wring_bootstrap *bootstrap)
{
    if (bootstrap == NULL)
        return;
    struct local_end *end = (struct local_end *)bootstrap;
    struct meeting *meeting = end->meeting;
    pthread_mutex_lock(&meeting->mutex);
    meeting->broken = true;
    bool last = --meeting->users == 0;
    pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&meeting->mutex);
    if (last)
        meeting_destroy(meeting);
    free(end);
}

static const struct wring_bootstrap_ops local_ops = {
    .name = "local",
    .exchange = local_exchange,
    .check = local_check,
    .local_address = local_address,
    .close = local_close,
};

enum wring_status wring_bootstrap_local_create(uint32_t size, struct wring_bootstrap **ends)
{
    struct meeting *meeting = calloc(1, sizeof(*meeting));
    if (meeting == NULL)
        return WRING_ERR_NO_MEMORY;
    pthread_mutex_init(&meeting->mutex, NULL);
    pthread_cond_init(&meeting->changed, NULL);
    meeting->size = size;
    meeting->blobs = calloc(size, sizeof(*meeting->blobs));
    meeting->bytes = calloc(size, sizeof(*meeting->bytes));
    struct local_end **made = calloc(size, sizeof(*made));
    bool failed = meeting->blobs == NULL || meeting->bytes == NULL || made == NULL;
    for (uint32_t i = 0; !failed && i < size; i++) {
        made[i] = calloc(1, sizeof(**made));
        failed = made[i] == NULL;
        if (!failed)
            *made[i] = (struct local_end){{&local_ops, i, size, -1}, meeting};
    }
    if (failed) {
        for (uint32_t i = 0; made != NULL && i < size; i++)
            free(made[i]);
        free(made);
        meeting_destroy(meeting);
        return WRING_ERR_NO_MEMORY;
    }
    meeting->users = size;
    for (uint32_t i = 0; i < size; i++)
        ends[i] = &made[i]->base;
    free(made);
    return WRING_OK;
}
