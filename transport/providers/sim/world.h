/* SPDX-License-Identifier: Apache-2.0 */
/** The inside of a simulation: time, ranks and frames on the way. */
#ifndef WRING_TRANSPORT_PROVIDERS_SIM_WORLD_H
#define WRING_TRANSPORT_PROVIDERS_SIM_WORLD_H

#include <ucontext.h>

#include "base/clock.h"
#include "base/wait_set.h"
#include "transport/providers/sim/sim.h"

struct sim_conn;
struct sim_provider;

enum sim_frame_kind {
    SIM_CONNECT, /* to a listener: data is the hello */
    SIM_ACCEPT,  /* to the side that connects */
    SIM_REFUSE,
    SIM_PUT,
    SIM_MESSAGE,
    SIM_CLOSE,
    SIM_OTHER, /* no provider's */
};

/** Something on its way, or what a provider has yet to tell. It holds both ends of its connection.
 */
struct sim_frame {
    struct sim_frame *next;
    enum sim_frame_kind kind;
    struct sim_conn *from, *to; /* CONNECT: to is NULL */
    uint32_t from_rank, to_rank;
    size_t wire_bytes; /* that ports take time for */
    /* PUT */
    const void *source;
    uint64_t region, offset;
    struct sim_frame *done;     /* becomes PUT_DONE; NULL: nobody is told */
    uint32_t listener;          /* CONNECT */
    void (*arrived)(void *arg); /* OTHER */
    void *arg;
    struct wring_event event; /* once it is there */
    uint8_t data[];           /* CONNECT, MESSAGE */
};

/** One direction of a rank's way into the network. */
struct sim_port {
    uint64_t free_ns; /* from then on */
    struct wring_sim_counts counts;
};

enum sim_rank_state {
    SIM_RUNNABLE,
    SIM_ASLEEP,
    SIM_ENDED,
};

struct sim_rank {
    ucontext_t context;
    struct wring_sim *sim;
    enum sim_rank_state state;
    bool killed;
    uint64_t stamp; /* of its sleep: earlier wake-ups are void */
    struct sim_rank *next_runnable;
    struct sim_port out, in;
    struct sim_provider *providers; /* that it has open */
};

enum sim_timer_kind {
    SIM_WAKE,   /* a rank */
    SIM_REACH,  /* a frame, the receiver's port */
    SIM_ARRIVE, /* and now it is through */
};

struct sim_timer {
    uint64_t at_ns, order; /* the first of equal times is the first that was set */
    enum sim_timer_kind kind;
    union {
        struct sim_frame *frame;
        struct {
            uint32_t rank;
            uint64_t stamp;
        } wake;
    } of;
};

/** Where ranks tell each other something. */
struct sim_meeting;

struct wring_sim {
    struct wring_clock clock; /* this thread's while it is in here */
    struct wring_clock *outer;
    struct wring_sim_params params;
    struct sim_rank *ranks; /* [params.ranks] */
    uint8_t *stacks;
    size_t stack_bytes;
    struct sim_rank *running; /* NULL: none */
    struct sim_rank *first_runnable, **last_runnable;
    uint32_t n_ended, n_killed;
    bool stopped;
    ucontext_t scheduler;
    void (*main)(void *arg, uint32_t rank);
    void *arg;

    struct sim_timer *timers; /* [n_timers], a heap */
    size_t n_timers, timer_room;
    uint64_t order;

    struct sim_provider **listeners; /* [n_listeners], by address; NULL: closed */
    uint32_t n_listeners, listener_room;
    uint64_t next_region;
    struct sim_meeting *meeting;
};

/** @return false: no memory */
bool wring_sim_add_timer(struct wring_sim *sim, const struct sim_timer *timer);

/** Do what happens at the next time at which anything does. @return false: nothing ever will */
bool wring_sim_step(struct wring_sim *sim);

/** A rank that sleeps goes on. */
void wring_sim_wake(struct wring_sim *sim, struct sim_rank *rank);

/** It leaves by its sender's port, and is delivered once it is through the receiver's. */
void wring_sim_send(struct wring_sim *sim, struct sim_frame *frame);

/** The provider's part: a frame is there. It is the provider's now. */
void wring_sim_deliver(struct wring_sim *sim, struct sim_frame *frame);
void wring_sim_free_frame(struct sim_frame *frame);

/** The connections of all providers of a rank end, and there will be no others. */
void wring_sim_cut_off(struct sim_rank *rank);

#endif
