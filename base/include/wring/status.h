/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Status codes. Every function that can fail returns one of these; outputs come last and are
 * written on success only.
 */
#ifndef WRING_STATUS_H
#define WRING_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the library exports what follows */

enum wring_status {
    WRING_OK = 0,

    /* the call: the caller can mend it */
    WRING_ERR_INVALID,     /* an argument is out of its stated range */
    WRING_ERR_UNSUPPORTED, /* this build, machine or object cannot do that */
    WRING_ERR_NO_MEMORY,   /* an allocation or a memory lock limit failed */
    WRING_ERR_AGAIN,       /* not now: make progress, then ask again */
    WRING_ERR_BUSY,        /* the object is in use: wait for it first */
    WRING_ERR_TIMEOUT,     /* the deadline passed; the operation goes on */
    WRING_ERR_MISMATCH,    /* ranks disagree; the log line names both sides */

    /* the frame: bytes that came from elsewhere are wrong */
    WRING_ERR_FRAME,   /* malformed, truncated or out of bounds */
    WRING_ERR_VERSION, /* another wire or format version */

    /* the connection */
    WRING_ERR_PEER,    /* a rank died, hung, left or was cut off */
    WRING_ERR_AUTH,    /* the other side does not have the job's key */
    WRING_ERR_CLOSED,  /* the object was closed or has already failed */
    WRING_ERR_ADDRESS, /* a name or port cannot be resolved, bound or reached */

    /* the device */
    WRING_ERR_DEVICE, /* a network or compute device failed */
    WRING_ERR_SYSTEM, /* the operating system refused; the log line says what */

    /* one operation, or all operations of an aborted group or session */
    WRING_ERR_CANCELLED, /* it was aborted or cancelled, on this rank or another one */
    WRING_ERR_TRUNCATED, /* a message is longer than the memory of its receive */
};

/** A short English text for a status; a static string, never NULL. Threads: safe. */
const char *wring_status_text(enum wring_status status);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
