/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The UNIX stream beside a shared-memory connection: frames of one size, some with a descriptor.
 * It carries what is rare (rings, regions, wake-ups) and, by its end, tells of the peer's end.
 * Nothing here waits; frames that find no room are queued.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_SHM_LISTEN_H
#define WRING_SHM_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/status.h>

enum shm_frame_kind {
    SHM_FRAME_RING = 1,   /* + fd: put your entries in here. Once, before all others */
    SHM_FRAME_REGION = 2, /* + fd: region `id` is `bytes` of it from `offset` on */
    SHM_FRAME_GONE = 3,   /* region `id` is no more */
    SHM_FRAME_WAKE = 4,   /* there is something in your ring */
};

struct shm_frame {
    uint32_t kind;
    uint32_t zero;
    uint64_t id;
    uint64_t offset;
    uint64_t bytes;
};

struct shm_queued;

struct shm_socket {
    int fd; /* -1: closed */
    struct shm_frame frame;
    size_t got;   /* bytes of frame */
    int frame_fd; /* that came with it, or -1 */
    struct shm_queued *first, *last;
};

void wring_shm_socket_init(struct shm_socket *sock, int fd);

/** Close all that is open, drop what is queued. */
void wring_shm_socket_finish(struct shm_socket *sock);

/**
 * Send a frame, now or later. @param fd  to go with it, borrowed; -1 for none
 * Errors: WRING_ERR_PEER (the stream is broken), WRING_ERR_NO_MEMORY, WRING_ERR_SYSTEM (no free
 * descriptor; errno says why).
 */
enum wring_status wring_shm_socket_send(struct shm_socket *sock, const struct shm_frame *frame,
                                        int fd);

/** Send a wake-up, or nothing where the socket is full: then it wakes the peer as it is. */
void wring_shm_socket_wake(struct shm_socket *sock);

/** Send what is queued, so far as there is room. Same errors. */
enum wring_status wring_shm_socket_flush(struct shm_socket *sock);

bool wring_shm_socket_wants_room(const struct shm_socket *sock);

/**
 * Take one frame. @param fd  out, owned by the caller; -1 for none
 * Errors: WRING_ERR_AGAIN, WRING_ERR_PEER (ended), WRING_ERR_FRAME, WRING_ERR_SYSTEM (no free
 * descriptor; errno says why).
 */
enum wring_status wring_shm_socket_receive(struct shm_socket *sock, struct shm_frame *frame,
                                           int *fd);

#endif
