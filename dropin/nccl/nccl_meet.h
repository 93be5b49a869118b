/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How two processes meet before their link stands: over a tcp connection to the address in a
 * handle. Both prove the handle's key (transport/WIRE.md, "Handshake", purpose 5; the hello is a
 * random name of the link, 16 bytes). Then each introduces itself once:
 *
 *     u32 bytes that follow, u32 status, u32 bytes and a text, u32 bytes and a description
 *
 * Status 0 goes with a description, as wring_fabric_describe() writes it; any other is why that
 * process cannot take part. The connection stays until the link stands, since its end says that the
 * other process has gone.
 *
 * Nothing here waits. Objects are used by one thread at a time.
 */
#ifndef WRING_DROPIN_NCCL_MEET_H
#define WRING_DROPIN_NCCL_MEET_H

#include "base/bytes.h"
#include "dropin/nccl/nccl_path.h"
#include "transport/auth.h"

struct wring_nccl_meeting {
    int fd;           /* -1: closed */
    bool dials;       /* it is ours to come; else somebody has come to us */
    const char *root; /* to which we come */
    const char *key;
    uint64_t deadline_ns, again_ns;
    bool connecting, proven;
    struct wring_auth auth;
    uint8_t job[WRING_NCCL_JOB];
    char local[64]; /* our address there, once that is known */
    struct wring_writer out;
    size_t sent;
    uint8_t *in;
    size_t in_bytes, in_room;
    char why[192]; /* for a log line, after an error */
};

/** Begin to come to a root. @param root, key  borrowed */
void wring_nccl_meet_dial(struct wring_nccl_meeting *meeting, const char *root, const char *key,
                          uint64_t deadline_ns);

/** Somebody has come. @param fd  becomes the meeting's */
void wring_nccl_meet_take(struct wring_nccl_meeting *meeting, int fd, const char *key,
                          uint64_t deadline_ns);

/** Go on to prove the key, again from the beginning where the other end could not take us.
 *  Errors: WRING_ERR_AGAIN; WRING_ERR_TIMEOUT, those of wring_auth_status(). */
enum wring_status wring_nccl_meet_prove(struct wring_nccl_meeting *meeting);

/** Introduce ourselves. @param text  why not @param description  empty, where status is an error */
void wring_nccl_meet_tell(struct wring_nccl_meeting *meeting, enum wring_status status,
                          const char *text, const struct wring_writer *description);

/** Go on until all is told and heard. @param description  out, borrowed. Errors: WRING_ERR_AGAIN;
 *  WRING_ERR_PEER, WRING_ERR_FRAME, WRING_ERR_TIMEOUT, WRING_ERR_NO_MEMORY; what the other end
 *  says. */
enum wring_status wring_nccl_meet_hear(struct wring_nccl_meeting *meeting, const void **description,
                                       size_t *bytes);

/** Both have told and heard: has the other end gone since? */
bool wring_nccl_meet_is_left(const struct wring_nccl_meeting *meeting);

/** Sleep on it. */
void wring_nccl_meet_watch(struct wring_nccl_meeting *meeting, struct wring_nccl_watch *watch);

/** Again is fine. */
void wring_nccl_meet_end(struct wring_nccl_meeting *meeting);

#endif
