/* SPDX-License-Identifier: Apache-2.0 */
/* How simulated ranks meet: in memory that all share, and that takes no time. */
#include <stdlib.h>
#include <string.h>

#include "transport/providers/sim/world.h"

struct meeting_end {
    struct wring_bootstrap base;
    struct sim_meeting *meeting;
};

struct sim_meeting {
    struct wring_sim *sim;
    struct meeting_end *ends; /* [size] */
    uint32_t size, arrived;
    uint64_t round;
    int32_t dead;       /* the first rank that is; -1: none */
    const void **blobs; /* [size], of this round */
    size_t *bytes;
    struct sim_told *told; /* of the last one */
};

/** What all were told, until the last one has forgotten it. */
struct sim_told {
    uint32_t users;
    uint8_t *storage;
    size_t offsets[];
};

static void forget(struct sim_told *told)
{
    if (told == NULL || --told->users > 0)
        return;
    free(told->storage);
    free(told);
}

static void release_blobs(struct wring_blobs *blobs)
{
    forget((struct sim_told *)(void *)((uint8_t *)blobs->offsets -
                                       offsetof(struct sim_told, offsets)));
}

/** All have come. @return NULL: no memory */
static struct sim_told *tell_all(const struct sim_meeting *meeting)
{
    struct sim_told *told =
        calloc(1, sizeof(*told) + (meeting->size + 1) * sizeof(told->offsets[0]));
    size_t total = 0;

    if (told == NULL)
        return NULL;
    for (uint32_t i = 0; i < meeting->size; i++)
        told->offsets[i + 1] = total += meeting->bytes[i];
    told->storage = malloc(total + 1);
    if (told->storage == NULL) {
        free(told);
        return NULL;
    }
    for (uint32_t i = 0; i < meeting->size; i++)
        if (meeting->bytes[i] > 0)
            memcpy(told->storage + told->offsets[i], meeting->blobs[i], meeting->bytes[i]);
    told->users = meeting->size;
    return told;
}

/** The last one ends the round for all. */
static void end_round(struct sim_meeting *meeting)
{
    meeting->told = tell_all(meeting);
    meeting->arrived = 0;
    meeting->round++;
    for (uint32_t i = 0; i < meeting->size; i++)
        wring_sim_wake(meeting->sim, &meeting->sim->ranks[i]);
}

static enum wring_status meeting_exchange(struct wring_bootstrap *base, const void *blob,
                                          size_t bytes, uint64_t deadline_ns,
                                          const struct wring_cancel *cancel,
                                          struct wring_blobs *out)
{
    struct sim_meeting *meeting = ((struct meeting_end *)base)->meeting;
    uint64_t round = meeting->round;

    base->at_fault = meeting->dead;
    if (meeting->dead >= 0)
        return WRING_ERR_PEER;
    meeting->blobs[base->rank] = blob;
    meeting->bytes[base->rank] = bytes;
    if (++meeting->arrived == meeting->size)
        end_round(meeting);
    while (meeting->round == round && meeting->dead < 0) {
        if (cancel != NULL && cancel->cancelled(cancel->arg))
            return WRING_ERR_CLOSED;
        if (meeting->sim->clock.now_ns >= deadline_ns)
            return WRING_ERR_PEER;
        wring_sim_doze(meeting->sim, deadline_ns);
    }
    base->at_fault = meeting->dead;
    if (meeting->round == round)
        return WRING_ERR_PEER;
    if (meeting->told == NULL)
        return WRING_ERR_NO_MEMORY;
    *out = (struct wring_blobs){meeting->size, meeting->told->offsets, meeting->told->storage,
                                release_blobs};
    return WRING_OK;
}

static enum wring_status meeting_check(struct wring_bootstrap *base)
{
    base->at_fault = ((struct meeting_end *)base)->meeting->dead;
    return base->at_fault >= 0 ? WRING_ERR_PEER : WRING_OK;
}

static const char *meeting_address(struct wring_bootstrap *base)
{
    (void)base;
    return "";
}

/** The simulation's. */
static void meeting_close(struct wring_bootstrap *base)
{
    (void)base;
}

static const struct wring_bootstrap_ops meeting_ops = {
    .name = "sim",
    .exchange = meeting_exchange,
    .check = meeting_check,
    .local_address = meeting_address,
    .close = meeting_close,
};

enum wring_status wring_sim_meeting_create(struct wring_sim *sim, struct sim_meeting **out)
{
    struct sim_meeting *meeting = calloc(1, sizeof(*meeting));
    if (meeting == NULL)
        return WRING_ERR_NO_MEMORY;
    meeting->sim = sim;
    meeting->size = sim->params.ranks;
    meeting->dead = -1;
    meeting->ends = calloc(meeting->size, sizeof(*meeting->ends));
    meeting->blobs = calloc(meeting->size, sizeof(*meeting->blobs));
    meeting->bytes = calloc(meeting->size, sizeof(*meeting->bytes));
    if (meeting->ends == NULL || meeting->blobs == NULL || meeting->bytes == NULL) {
        wring_sim_meeting_destroy(meeting);
        return WRING_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < meeting->size; i++)
        meeting->ends[i] = (struct meeting_end){{&meeting_ops, i, meeting->size, -1}, meeting};
    *out = meeting;
    return WRING_OK;
}

void wring_sim_meeting_destroy(struct sim_meeting *meeting)
{
    if (meeting == NULL)
        return;
    free(meeting->ends);
    free(meeting->blobs);
    free(meeting->bytes);
    free(meeting);
}

struct wring_bootstrap *wring_sim_meeting_end(struct sim_meeting *meeting, uint32_t rank)
{
    return &meeting->ends[rank].base;
}

void wring_sim_meeting_break(struct sim_meeting *meeting, uint32_t rank)
{
    if (meeting->dead >= 0)
        return;
    meeting->dead = (int32_t)rank;
    for (uint32_t i = 0; i < meeting->size; i++)
        wring_sim_wake(meeting->sim, &meeting->sim->ranks[i]);
}
