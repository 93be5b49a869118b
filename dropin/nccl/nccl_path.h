/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What carries the messages between two processes, by a device of each: a fabric of two ranks, an
 * engine and a messenger, without a session. It has no thread: callers drive it as they test, and
 * the plugin's one thread does where they do not.
 */
#ifndef WRING_DROPIN_NCCL_PATH_H
#define WRING_DROPIN_NCCL_PATH_H

#include <pthread.h>

#include "runtime/buffer.h"
#include "transport/engine.h"
#include "transport/message/message.h"

#define WRING_NCCL_JOB 16

/** A send or a receive: of its path, until it has ended. */
struct wring_nccl_message {
    struct wring_message message;
    struct wring_nccl_message *next; /* of those that are free */
};

/** Registered memory. */
struct wring_nccl_block {
    struct wring_block block;
    struct wring_nccl_block *next;
    bool kept; /* until the path closes: a peer may still need it */
};

struct wring_nccl_path {
    const struct wring_config *config; /* of its device */
    struct wring_log log;
    const char *what; /* for log lines: "link with 10.0.0.2:4711" */
    uint32_t rank;    /* 0 has listened; the other one is 1 less that */

    pthread_mutex_t driver; /* guards all to the next line */
    struct wring_fabric *fabric;
    struct wring_engine *engine;
    struct wring_messenger *messenger;
    struct wring_message_context *context;
    struct wring_buffer_index index;
    struct wring_nccl_block *blocks;
    struct wring_nccl_messages *chunks;
    struct wring_nccl_message *free;

    _Atomic(struct wring_nccl_message *) returned; /* that are free, too */
    atomic_bool visited;                           /* a caller has driven since the thread looked */
    atomic_bool watched;                           /* the thread sleeps on its descriptors */
    struct wring_wait_set set;                     /* these; the thread's own */
    unsigned set_at;                               /* where they are among the thread's */

    pthread_mutex_t why_mutex;
    char why[256]; /* the last error that wring logged */
};

/** Nothing of it is open. */
void wring_nccl_path_init(struct wring_nccl_path *path, const struct wring_config *config,
                          const char *what, uint32_t rank);

/**
 * Open providers by which the peer may come.
 * @param key          of the handle, as text
 * @param bind         the local address by which the peer is reached
 * @param description  out, what the peer is to know; its data is the caller's
 * Errors, logged: those of wring_fabric_create().
 */
enum wring_status wring_nccl_path_open(struct wring_nccl_path *path, const char *key,
                                       const uint8_t job[WRING_NCCL_JOB], const char *bind,
                                       struct wring_writer *description);

/** Begin to connect. @param own, peers  descriptions. Errors, logged: those of
 *  wring_fabric_connect(). */
enum wring_status wring_nccl_path_join(struct wring_nccl_path *path, const struct wring_writer *own,
                                       const void *peers, size_t bytes);

/** Drive it, now and then, once the plugin's thread is gone. */
void wring_nccl_path_drive_alone(struct wring_nccl_path *path);

/** All that is under way ends. Says good-bye. */
void wring_nccl_path_part(struct wring_nccl_path *path);

/** After that: has the peer heard it, or gone? Drives it a little. */
bool wring_nccl_path_has_parted(struct wring_nccl_path *path);

/** After that: all of it is gone, messages and registered memory too. */
void wring_nccl_path_close(struct wring_nccl_path *path);

/** Can messages go? */
bool wring_nccl_path_stands(struct wring_nccl_path *path);

/** Has the peer gone, or said good-bye? */
bool wring_nccl_path_is_gone(struct wring_nccl_path *path);

/** WRING_OK, or why it has failed. */
enum wring_status wring_nccl_path_status(const struct wring_nccl_path *path);

/** It has failed, and the peer is being told. */
bool wring_nccl_path_is_failing(struct wring_nccl_path *path);

/** Why it fails, in one line. @param text out, [bytes] */
void wring_nccl_path_why(struct wring_nccl_path *path, char *text, size_t bytes);

/* Threads: all of these are safe; a message is used by one at a time. */

/** @param offered  not eager: its receive may be in device memory */
enum wring_status wring_nccl_path_send(struct wring_nccl_path *path, const void *data,
                                       uint64_t bytes, uint64_t tag, bool offered,
                                       struct wring_nccl_message **out);
enum wring_status wring_nccl_path_recv(struct wring_nccl_path *path, void *data, uint64_t bytes,
                                       uint64_t tag, struct wring_nccl_message **out);

/**
 * How a message ended; it is gone then, and NULL.
 * @param end  out, of a receive; may be NULL
 * @return WRING_ERR_AGAIN: it has not ended
 */
enum wring_status wring_nccl_path_look(struct wring_nccl_path *path,
                                       struct wring_nccl_message **message,
                                       struct wring_message_end *end);

/** Give a message up: its memory is the caller's after this. NULL is fine. */
void wring_nccl_path_cancel(struct wring_nccl_path *path, struct wring_nccl_message **message);

/** Drive it a little, if nobody else does. */
void wring_nccl_path_drive(struct wring_nccl_path *path);

/** Errors: those of wring_block_borrow_memory(). */
enum wring_status wring_nccl_path_register(struct wring_nccl_path *path,
                                           const struct wring_memory *memory,
                                           struct wring_nccl_block **out);
void wring_nccl_path_forget(struct wring_nccl_path *path, struct wring_nccl_block *block);

/** Does registered device memory hold all of that? */
bool wring_nccl_path_is_on_device(struct wring_nccl_path *path, const void *data, size_t bytes);

/** Let the device see all that was received up to a byte in a block. @return WRING_OK: it does.
 *  Errors: WRING_ERR_AGAIN until then; those of wring_provider_ops.region_flush. */
enum wring_status wring_nccl_path_flush(struct wring_nccl_path *path,
                                        const struct wring_nccl_block *block, const void *at,
                                        struct wring_block_flush *flush);

/* ---- nccl_watch.c: the thread ---- */

/** What it sleeps on. */
struct wring_nccl_watch {
    struct pollfd *fds; /* [n]; the first one wakes it; revents are of the last sleep */
    unsigned n, room;
    uint64_t deadline_ns;
    bool moves; /* it is to look again soon */
};

/** @return where it is among them; UINT_MAX: no memory, and it is looked at again soon */
unsigned wring_nccl_watch_add(struct wring_nccl_watch *watch, int fd, short events);
void wring_nccl_watch_until(struct wring_nccl_watch *watch, uint64_t deadline_ns);

/** Has something come there, in the last sleep? */
static inline bool wring_nccl_watch_saw(const struct wring_nccl_watch *watch, unsigned at, int fd)
{
    return at < watch->n && watch->fds[at].fd == fd && watch->fds[at].revents != 0;
}

/** The thread's turn: drive a path that no caller drives, and sleep on it. */
void wring_nccl_path_watch(struct wring_nccl_path *path, struct wring_nccl_watch *watch);

/** Did something come for it in the last sleep, or is it to be looked at anyway? Before the
 *  thread begins to add descriptors. */
bool wring_nccl_path_is_due(struct wring_nccl_path *path, const struct wring_nccl_watch *watch,
                            uint64_t now_ns);

/** Start the thread, if it does not run. The mutex is held. @return false: logged */
bool wring_nccl_watch_start(void);

/** The thread is gone. The mutex is held. */
void wring_nccl_watch_stop(void);

/** It is to look at everything now. Threads: safe. */
void wring_nccl_watch_wake(void);

#endif
