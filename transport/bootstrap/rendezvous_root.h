/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The root's door: bootstrap/rendezvous_root.c waits for the ranks and lets them in, keeps
 * connections that have not proven anything yet, and says why a job cannot begin.
 */
#ifndef WRING_TRANSPORT_BOOTSTRAP_RENDEZVOUS_ROOT_H
#define WRING_TRANSPORT_BOOTSTRAP_RENDEZVOUS_ROOT_H

#include "transport/bootstrap/rendezvous_private.h"
#include "transport/door.h"

#define WRING_RENDEZVOUS_PENDING 256 /* places for those who have not proven anything */

/** A connection that has not proven anything yet. */
struct wring_rendezvous_pending {
    int fd; /* -1: free */
    bool has_spoken;
    uint32_t origin;
    uint64_t since_ns;
    char from[WRING_RENDEZVOUS_ADDRESS];
    struct wring_auth auth;
};

/** Refusals of one kind, by strangers or by ranks that were started wrongly: who can tell? */
struct wring_rendezvous_refusals {
    unsigned n, unsaid;
    uint64_t silent_until_ns;
    char from[WRING_RENDEZVOUS_ADDRESS]; /* the last of them */
};

/** Why the job cannot begin. */
struct wring_rendezvous_verdict {
    enum wring_status status; /* WRING_OK: it still can */
    uint32_t rank;            /* at fault */
    char text[WRING_RENDEZVOUS_TEXT];
};

/** The claim of a process that knows the key. */
struct wring_rendezvous_claim {
    uint32_t rank, size;
    const char *from;                      /* its address */
    char holder[WRING_RENDEZVOUS_ADDRESS]; /* of the one who has that rank; "": nobody */
};

struct wring_rendezvous_host {
    struct wring_rendezvous *rendezvous;
    const uint8_t *secret;
    int listen_fd;
    struct wring_door door;
    bool was_short;        /* of descriptors, when last asked for one */
    uint32_t joined, told; /* told: of the verdict, without having joined */
    struct wring_rendezvous_refusals wrong_key, other_version, garbage, silence;
    struct wring_rendezvous_verdict verdict;
    int epoll; /* has all who have joined */
    struct pollfd fds[2 + WRING_RENDEZVOUS_PENDING];
    struct wring_rendezvous_pending pending[WRING_RENDEZVOUS_PENDING];
};

/** @param hello in, [bytes], hostile; what is no hello claims nothing that could be true */
void wring_rendezvous_read_claim(const uint8_t *hello, size_t bytes,
                                 struct wring_rendezvous_claim *out);

/**
 * Is it a rank that a job of `size` misses? Two that cannot both be right end the job.
 * @param out  written where it is not
 */
void wring_rendezvous_judge(const struct wring_rendezvous_claim *claim, uint32_t size,
                            struct wring_rendezvous_verdict *out);

#endif
