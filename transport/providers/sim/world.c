/* SPDX-License-Identifier: Apache-2.0 */
/* Time and ranks of a simulation, and how the ranks meet. */
#include "transport/providers/sim/world.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STACK_BYTES ((size_t)256 << 10)
#define BUSY_NS WRING_NS_PER_US /* of a rank that does not sleep: else time would stand still */

/* ---- timers ---- */

static bool is_before(const struct sim_timer *a, const struct sim_timer *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

bool wring_sim_add_timer(struct wring_sim *sim, const struct sim_timer *timer)
{
    if (sim->n_timers == sim->timer_room) {
        size_t room = 2 * sim->timer_room + 64;
        struct sim_timer *timers = reallocarray(sim->timers, room, sizeof(*timers));
        if (timers == NULL)
            return false;
        sim->timers = timers;
        sim->timer_room = room;
    }
    struct sim_timer own = *timer;
    own.order = sim->order++;
    size_t at = sim->n_timers++;
    while (at > 0 && is_before(&own, &sim->timers[(at - 1) / 2])) {
        sim->timers[at] = sim->timers[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sim->timers[at] = own;
    return true;
}

/** There is one. */
static struct sim_timer take_first_timer(struct wring_sim *sim)
{
    struct sim_timer first = sim->timers[0];
    const struct sim_timer *last = &sim->timers[--sim->n_timers];
    size_t at = 0;

    for (size_t child; (child = 2 * at + 1) < sim->n_timers; at = child) {
        if (child + 1 < sim->n_timers && is_before(&sim->timers[child + 1], &sim->timers[child]))
            child++;
        if (!is_before(&sim->timers[child], last))
            break;
        sim->timers[at] = sim->timers[child];
    }
    sim->timers[at] = *last;
    return first;
}

/** A message takes a port for so long. */
static uint64_t port_ns(const struct wring_sim *sim, const struct sim_frame *frame)
{
    return sim->params.message_ns +
           (uint64_t)((double)frame->wire_bytes / sim->params.bytes_per_ns);
}

/** Behind those that came before. @return when it begins */
static uint64_t take_port(struct wring_sim *sim, struct sim_port *port,
                          const struct sim_frame *frame)
{
    uint64_t begin_ns = port->free_ns > sim->clock.now_ns ? port->free_ns : sim->clock.now_ns;

    port->free_ns = begin_ns + port_ns(sim, frame);
    if (frame->kind == SIM_PUT)
        port->counts.puts++, port->counts.put_bytes += frame->wire_bytes;
    else if (frame->kind == SIM_MESSAGE || frame->kind == SIM_OTHER)
        port->counts.messages++, port->counts.message_bytes += frame->wire_bytes;
    else if (frame->kind == SIM_CONNECT)
        port->counts.connections++;
    return begin_ns;
}

static void set_frame_timer(struct wring_sim *sim, struct sim_frame *frame,
                            enum sim_timer_kind kind, uint64_t at_ns)
{
    struct sim_timer timer = {.at_ns = at_ns, .kind = kind};

    timer.of.frame = frame;
    if (!wring_sim_add_timer(sim, &timer))
        abort(); /* a lost frame would be a fault of the network, which has none */
}

void wring_sim_send(struct wring_sim *sim, struct sim_frame *frame)
{
    uint64_t begin_ns = take_port(sim, &sim->ranks[frame->from_rank].out, frame);
    set_frame_timer(sim, frame, SIM_REACH, begin_ns + sim->params.latency_ns);
}

enum wring_status wring_sim_carry(struct wring_sim *sim, uint32_t from, uint32_t to, size_t bytes,
                                  void (*arrived)(void *arg), void *arg)
{
    struct sim_frame *frame = calloc(1, sizeof(*frame));

    if (frame == NULL)
        return WRING_ERR_NO_MEMORY;
    frame->kind = SIM_OTHER;
    frame->from_rank = from;
    frame->to_rank = to;
    frame->wire_bytes = bytes;
    frame->arrived = arrived;
    frame->arg = arg;
    wring_sim_send(sim, frame);
    return WRING_OK;
}

void wring_sim_rouse(struct wring_sim *sim, uint32_t rank)
{
    wring_sim_wake(sim, &sim->ranks[rank]);
}

/** It is cut through: its first byte may leave the port while its last one is yet to come. */
static void reach_port(struct wring_sim *sim, struct sim_frame *frame)
{
    struct sim_port *port = &sim->ranks[frame->to_rank].in;
    take_port(sim, port, frame);
    set_frame_timer(sim, frame, SIM_ARRIVE, port->free_ns);
}

static void expire(struct wring_sim *sim, const struct sim_timer *timer)
{
    if (timer->kind == SIM_REACH) {
        reach_port(sim, timer->of.frame);
    } else if (timer->kind == SIM_ARRIVE) {
        wring_sim_deliver(sim, timer->of.frame);
    } else {
        struct sim_rank *rank = &sim->ranks[timer->of.wake.rank];
        if (rank->stamp == timer->of.wake.stamp)
            wring_sim_wake(sim, rank);
    }
}

bool wring_sim_step(struct wring_sim *sim)
{
    if (sim->n_timers == 0)
        return false;
    sim->clock.now_ns = sim->timers[0].at_ns;
    while (sim->n_timers > 0 && sim->timers[0].at_ns == sim->clock.now_ns) {
        const struct sim_timer timer = take_first_timer(sim);
        expire(sim, &timer);
    }
    return true;
}

/* ---- ranks ---- */

void wring_sim_wake(struct wring_sim *sim, struct sim_rank *rank)
{
    if (rank->state != SIM_ASLEEP ||
        (rank->killed && sim->n_ended + sim->n_killed < sim->params.ranks))
        return;
    rank->state = SIM_RUNNABLE;
    rank->next_runnable = NULL;
    *sim->last_runnable = rank;
    sim->last_runnable = &rank->next_runnable;
}

void wring_sim_doze(struct wring_sim *sim, uint64_t until_ns)
{
    struct sim_rank *rank = sim->running;
    struct sim_timer timer = {.at_ns = until_ns, .kind = SIM_WAKE};

    rank->stamp++;
    timer.of.wake.rank = (uint32_t)(rank - sim->ranks);
    timer.of.wake.stamp = rank->stamp;
    if (until_ns != WRING_NEVER && !wring_sim_add_timer(sim, &timer))
        return; /* awake is as good */
    rank->state = SIM_ASLEEP;
    swapcontext(&rank->context, &sim->scheduler);
}

static void sleep_on_set(struct wring_clock *clock, const struct wring_wait_set *set)
{
    struct wring_sim *sim = (struct wring_sim *)clock;
    uint64_t soon_ns = clock->now_ns + BUSY_NS;

    if (sim->running != NULL)
        wring_sim_doze(sim, set->busy || set->deadline_ns < soon_ns ? soon_ns : set->deadline_ns);
    else if (!set->busy && sim->n_timers == 0 && set->deadline_ns != WRING_NEVER)
        clock->now_ns = set->deadline_ns;
}

void wring_sim_sleep_until(struct wring_sim *sim, uint64_t at_ns)
{
    while (sim->clock.now_ns < at_ns)
        wring_sim_doze(sim, at_ns);
}

static void rank_main(unsigned high, unsigned low)
{
    struct sim_rank *rank = (struct sim_rank *)((uintptr_t)high << 32 | low);
    struct wring_sim *sim = rank->sim;

    sim->main(sim->arg, (uint32_t)(rank - sim->ranks));
    rank->state = SIM_ENDED;
    sim->n_ended++;
    swapcontext(&rank->context, &sim->scheduler);
}

/** It begins at the next switch to it. */
static void begin_rank(struct wring_sim *sim, uint32_t i)
{
    struct sim_rank *rank = &sim->ranks[i];

    getcontext(&rank->context);
    rank->context.uc_stack.ss_sp = sim->stacks + i * sim->stack_bytes;
    rank->context.uc_stack.ss_size = sim->stack_bytes;
    rank->context.uc_link = NULL;
    makecontext(&rank->context, (void (*)(void))rank_main, 2, (unsigned)((uintptr_t)rank >> 32),
                (unsigned)(uintptr_t)rank);
    rank->killed = false;
    rank->state = SIM_ASLEEP;
    wring_sim_wake(sim, rank);
}

/** Run all that can, until none can. */
static void run_runnable(struct wring_sim *sim)
{
    while (sim->first_runnable != NULL && !sim->stopped) {
        struct sim_rank *rank = sim->first_runnable;
        sim->first_runnable = rank->next_runnable;
        if (sim->first_runnable == NULL)
            sim->last_runnable = &sim->first_runnable;
        if (rank->killed && sim->n_ended + sim->n_killed < sim->params.ranks) {
            rank->state = SIM_ASLEEP; /* killed since it was woken */
            continue;
        }
        sim->running = rank;
        swapcontext(&sim->scheduler, &rank->context);
        sim->running = NULL;
    }
}

/** The others have ended. */
static void bury_killed(struct wring_sim *sim)
{
    for (uint32_t i = 0; i < sim->params.ranks && sim->n_killed > 0; i++)
        if (sim->ranks[i].killed)
            wring_sim_wake(sim, &sim->ranks[i]);
}

static uint32_t find_sleeper(const struct wring_sim *sim)
{
    uint32_t i = 0;
    while (i < sim->params.ranks && sim->ranks[i].state == SIM_ENDED)
        i++;
    return i;
}

enum wring_status wring_sim_run(struct wring_sim *sim, void (*main)(void *arg, uint32_t rank),
                                void *arg, uint32_t *stuck)
{
    bool goes_on = true, buried = false;

    sim->main = main;
    sim->arg = arg;
    sim->n_ended = sim->n_killed = 0;
    wring_sim_enter(sim);
    for (uint32_t i = 0; i < sim->params.ranks; i++)
        begin_rank(sim, i);
    while (goes_on) {
        run_runnable(sim);
        if (!buried && sim->n_ended + sim->n_killed >= sim->params.ranks) {
            bury_killed(sim);
            buried = true;
            continue;
        }
        goes_on = sim->n_ended < sim->params.ranks && !sim->stopped && wring_sim_step(sim);
    }
    wring_sim_leave(sim);
    if (sim->n_ended == sim->params.ranks || sim->stopped)
        return WRING_OK;
    *stuck = find_sleeper(sim);
    return WRING_ERR_TIMEOUT;
}

/* ---- how ranks meet: in memory that all share, and that takes no time ---- */

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

static void forget_told(struct sim_told *told)
{
    if (told == NULL || --told->users > 0)
        return;
    free(told->storage);
    free(told);
}

static void release_blobs(struct wring_blobs *blobs)
{
    forget_told((struct sim_told *)(void *)((uint8_t *)blobs->offsets -
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
static void end_meeting_round(struct sim_meeting *meeting)
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
        end_meeting_round(meeting);
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

static void destroy_meeting(struct sim_meeting *meeting)
{
    if (meeting == NULL)
        return;
    free(meeting->ends);
    free(meeting->blobs);
    free(meeting->bytes);
    free(meeting);
}

static enum wring_status create_meeting(struct wring_sim *sim, struct sim_meeting **out)
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
        destroy_meeting(meeting);
        return WRING_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < meeting->size; i++)
        meeting->ends[i] = (struct meeting_end){{&meeting_ops, i, meeting->size, -1}, meeting};
    *out = meeting;
    return WRING_OK;
}

/** A rank is dead: nobody meets any more. */
static void break_meeting(struct sim_meeting *meeting, uint32_t rank)
{
    if (meeting->dead >= 0)
        return;
    meeting->dead = (int32_t)rank;
    for (uint32_t i = 0; i < meeting->size; i++)
        wring_sim_wake(meeting->sim, &meeting->sim->ranks[i]);
}

/* ---- the end of ranks ---- */

void wring_sim_kill(struct wring_sim *sim, uint32_t i)
{
    struct sim_rank *rank = &sim->ranks[i];

    if (rank->killed || rank->state == SIM_ENDED)
        return;
    rank->killed = true;
    sim->n_killed++;
    wring_sim_cut_off(rank);
    break_meeting(sim->meeting, i);
    if (rank == sim->running)
        wring_sim_doze(sim, WRING_NEVER);
}

void wring_sim_stop(struct wring_sim *sim)
{
    sim->stopped = true;
    wring_sim_doze(sim, WRING_NEVER);
}

uint32_t wring_sim_rank(const struct wring_sim *sim)
{
    return sim->running != NULL ? (uint32_t)(sim->running - sim->ranks) : UINT32_MAX;
}

/* ---- the simulation ---- */

void wring_sim_enter(struct wring_sim *sim)
{
    sim->outer = wring_clock_here();
    wring_clock_give(&sim->clock);
}

void wring_sim_leave(struct wring_sim *sim)
{
    wring_clock_give(sim->outer);
}

struct wring_sim *wring_sim_here(void)
{
    struct wring_clock *clock = wring_clock_here();
    return clock != NULL && clock->sleep == sleep_on_set ? (struct wring_sim *)clock : NULL;
}

uint64_t wring_sim_now_ns(const struct wring_sim *sim)
{
    return sim->clock.now_ns;
}

struct wring_sim_counts wring_sim_sent(const struct wring_sim *sim, uint32_t rank)
{
    return sim->ranks[rank].out.counts;
}

struct wring_sim_counts wring_sim_received(const struct wring_sim *sim, uint32_t rank)
{
    return sim->ranks[rank].in.counts;
}

struct wring_bootstrap *wring_sim_bootstrap(struct wring_sim *sim, uint32_t rank)
{
    return &sim->meeting->ends[rank].base;
}

/** One mapping for all, so that the kernel has one area to look after. */
static uint8_t *map_stacks(size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    return base != MAP_FAILED ? base : NULL;
}

enum wring_status wring_sim_create(const struct wring_sim_params *params, struct wring_sim **out)
{
    if (params->ranks == 0 || !(params->bytes_per_ns > 0))
        return WRING_ERR_INVALID;
    struct wring_sim *sim = calloc(1, sizeof(*sim));
    if (sim == NULL)
        return WRING_ERR_NO_MEMORY;
    sim->params = *params;
    sim->clock = (struct wring_clock){WRING_NS_PER_S, sleep_on_set}; /* 0 means never in places */
    sim->last_runnable = &sim->first_runnable;
    sim->stack_bytes = params->stack_bytes > 0 ? params->stack_bytes : STACK_BYTES;
    sim->ranks = calloc(params->ranks, sizeof(*sim->ranks));
    sim->stacks = map_stacks(params->ranks * sim->stack_bytes);
    if (sim->ranks == NULL || sim->stacks == NULL ||
        create_meeting(sim, &sim->meeting) != WRING_OK) {
        wring_sim_destroy(sim);
        return WRING_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < params->ranks; i++)
        sim->ranks[i].sim = sim;
    *out = sim;
    return WRING_OK;
}

void wring_sim_destroy(struct wring_sim *sim)
{
    if (sim == NULL)
        return;
    for (size_t i = 0; i < sim->n_timers; i++)
        if (sim->timers[i].kind != SIM_WAKE)
            wring_sim_free_frame(sim->timers[i].of.frame);
    destroy_meeting(sim->meeting);
    if (sim->stacks != NULL)
        munmap(sim->stacks, sim->params.ranks * sim->stack_bytes);
    free(sim->timers);
    free(sim->listeners);
    free(sim->ranks);
    free(sim);
}
