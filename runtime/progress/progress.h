/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The session's progress thread drives the engine, or a caller that waits takes it over.
 *
 * A thread holds the driver lock while it polls the engine or changes its work. The progress thread
 * sleeps without the lock. A caller that waits asks it to stand back, drives by itself, and hands
 * back when it is done; so short collectives never cross threads.
 */
#ifndef WRING_RUNTIME_PROGRESS_PROGRESS_H
#define WRING_RUNTIME_PROGRESS_PROGRESS_H

#include "runtime/progress/completions.h"
#include "transport/engine.h"

struct wring_message;
struct wring_progress;

#define WRING_PROGRESS_DESCRIPTORS 2 /* that wake the thread and a caller who drives */

/**
 * The engine and its fabric are ready.
 * @param threaded     false: only callers drive
 * @param completions  delivered by the thread that lets go of the driver lock, within the calls
 *                     below that say so; borrowed
 */
enum wring_status wring_progress_create(struct wring_engine *engine, bool threaded,
                                        uint64_t spin_ns, struct wring_completions *completions,
                                        struct wring_progress **out);

/** A function that callers run now and then in a long wait, without any lock; NULL: none. The
 * library behind a drop-in makes progress in that way. */
struct wring_aside {
    void (*fn)(void *arg);
    void *arg;
};

/** Call it before the first wait. */
void wring_progress_set_aside(struct wring_progress *progress, struct wring_aside aside);

/**
 * For good: all that is under way ends with WRING_ERR_CLOSED, once no job touches the application's
 * memory any more, and so does all that comes later; nobody drives from now on. Between
 * wring_progress_lock() and _unlock(), after wring_fabric_turn_deaf(). Others may wait meanwhile,
 * and return.
 */
void wring_progress_stop(struct wring_progress *progress);

/** After wring_progress_stop(): the same for work posted since. Threads: safe. */
void wring_progress_drop(struct wring_progress *progress);

/** Stops the thread. NULL is fine. */
void wring_progress_destroy(struct wring_progress *progress);

/** Hold the engine still, for setup. */
void wring_progress_lock(struct wring_progress *progress);
void wring_progress_unlock(struct wring_progress *progress);

/**
 * A descriptor for an event loop: readable when something has ended since the last
 * wring_progress_serve(); where there is no thread, also when the engine is to be polled. The first
 * call makes it; the engine is locked. Errors: WRING_ERR_SYSTEM, logged.
 */
enum wring_status wring_progress_watch(struct wring_progress *progress, int *fd);

/** Do what the descriptor tells of; callbacks are delivered. Threads: safe. */
void wring_progress_serve(struct wring_progress *progress);

/** In so many ns wring_progress_serve() has something to do, whatever the descriptor tells; or
 *  WRING_NEVER. */
uint64_t wring_progress_next_ns(struct wring_progress *progress);

/** Run a collective. This thread begins it if no other drives, and it is no larger than the
 * configured flat_bytes or there is no progress thread. */
void wring_progress_post(struct wring_progress *progress, struct wring_collective *collective);

/** Give the step of a shm_flags collective that was begun without the engine to the engine; in this
 *  thread if no other drives. */
void wring_progress_hand_in(struct wring_progress *progress, struct wring_collective *collective);

/** A step of a shm_flags collective has begun: the engine gets it if it needs that, and where no
 * thread sees to the rest, we do. */
void wring_progress_attend(struct wring_progress *progress, struct wring_collective *collective);

/** Wait for a shm_flags collective that was begun without the engine, which gets it if that takes
 *  long. @return whether it has ended */
bool wring_progress_wait_alone(struct wring_progress *progress,
                               struct wring_collective *collective);

/** Drive, where nobody else does and the engine works: for wring_progress_run_held(). */
bool wring_progress_hold(struct wring_progress *progress);

/** Run a shm_flags collective of a group, which the engine gets if it takes long. @return whether
 * it has ended; `finished` was not called */
bool wring_progress_run_held(struct wring_progress *progress, struct wring_collective *collective);

void wring_progress_release(struct wring_progress *progress);

/**
 * Begin a message in this thread if no other drives; else the driving thread begins it.
 * @param waits  the caller waits for its end: it looks for it a while, without the engine
 * @return whether it has ended
 */
bool wring_progress_run_message(struct wring_progress *progress, struct wring_message *message,
                                bool waits);

/** Make a little progress if nobody else does; callbacks are delivered. */
void wring_progress_nudge(struct wring_progress *progress);

/**
 * The same for a caller that may come again and again, as one that waits would. If callers come
 * often (wring_wait_policy.visits), the thread stands back as it does for those that wait, so that
 * the two do not take turns. It drives again when they have come less often for a while. Where a
 * poll enters the kernel, this is a nudge: the thread sleeps there until something comes, and
 * a poll of each test would cost more than it brings.
 */
void wring_progress_visit(struct wring_progress *progress);

/** What a caller waits for. `reached` is asked again and again; it takes no lock. */
struct wring_goal {
    bool (*reached)(const void *arg);
    const void *arg;
};

/** Drive until the goal is reached, the deadline has come, or there is no driving any more;
 *  callbacks are delivered meanwhile. @return whether it is reached */
bool wring_progress_drive(struct wring_progress *progress, struct wring_goal goal,
                          uint64_t deadline_ns);

/** Drive until *status is no longer WRING_ERR_AGAIN or the deadline has come. @return it then;
 *  WRING_ERR_CLOSED: what it is of can no longer end otherwise */
enum wring_status wring_progress_wait(struct wring_progress *progress, const atomic_int *status,
                                      uint64_t deadline_ns);

/** CPU time of the thread, and since the first call of this, of callers while they drove, in ns.
 *  Threads: safe. */
void wring_progress_cpu(struct wring_progress *progress, uint64_t *thread_ns, uint64_t *waiter_ns);

/** How often the thread or a caller slept, or was about to, since nothing moved. Threads: safe. */
uint64_t wring_progress_sleeps(struct wring_progress *progress);

#endif
