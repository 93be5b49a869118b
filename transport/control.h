/* SPDX-License-Identifier: Apache-2.0 */
/** The small messages between ranks, as WIRE.md "Control" lays them out. */
#ifndef WRING_TRANSPORT_CONTROL_H
#define WRING_TRANSPORT_CONTROL_H

#include "transport/fabric.h"

enum wring_control_kind {
    WRING_CONTROL_HEARTBEAT = 1, /* I live */
    WRING_CONTROL_CREDIT,        /* a: channel, b: generation, c: slots consumed so far */
    WRING_CONTROL_ABORT,         /* a: status, b: rank at fault; then the text */
    WRING_CONTROL_BYE,           /* I leave and need nothing more */
    WRING_CONTROL_BYE_ACK,       /* heard */
    WRING_CONTROL_CLOCK,         /* what time is it with you? c: number of the question */
    WRING_CONTROL_CLOCK_ACK,     /* a, b: low and high half of my wring_now_ns(); c: as asked */
    WRING_CONTROL_CALL,          /* a: channel, b: generation, c: number; then what is called */
    WRING_CONTROL_STANDSTILL,    /* a: channel, b: bucket, c: step; then where it stands */
    WRING_CONTROL_WELCOME,       /* the connection that you dialled is taken */
    WRING_CONTROL_FORM,  /* a: a struct wring_formation_word, b: stage or rank; then what it says */
    WRING_CONTROL_PAIR,  /* a, b: channels; then where the slots of two members lie */
    WRING_CONTROL_CEASE, /* a, b: halves of a generation; then the key: I aborted a group */
    WRING_CONTROL_LINK = 15, /* a, b: slots, bytes of each; then where small pieces and slots lie */
    WRING_CONTROL_ASK,    /* a: channel, b: bytes, c: tag and sequence of a piece that is ready */
    WRING_CONTROL_GRANT,  /* a: channel, b: slot, c: sequence of the piece that it is for */
    WRING_CONTROL_SPARE,  /* b: a slot that is not needed */
    WRING_CONTROL_LEND,   /* a: number of slots; then which: they need not be asked for */
    WRING_CONTROL_FLIGHT, /* a: a word of flight.c, b: number of the question; then a text */
    WRING_CONTROL_MEMBER, /* a: a word of membership.c, b, c: a round of it; then what it says */
    WRING_CONTROL_LEFT,   /* first and last of ranks that have left, again and again */
    WRING_CONTROL_END,    /* of these: there is none such */
};

#define WRING_CONTROL_RING 14 /* of the rings of messages: WIRE.md "Messages"; not parsed here */

#define WRING_CONTROL_BODY (WRING_SEND_MAX - 16) /* bytes behind the head */

struct wring_control {
    enum wring_control_kind kind;
    uint32_t a, b, c;
    union {
        char text[WRING_CONTROL_BODY +
                  1]; /* ABORT, CALL, STANDSTILL, FLIGHT; NUL-terminated; others "" */
        uint8_t body[WRING_CONTROL_BODY]; /* FORM, PAIR, CEASE, LINK, LEND, MEMBER, LEFT */
    };
    uint32_t bytes; /* of body; of the other kinds 0 */
};

/** Have a text that may be logged, or bytes that their reader has to check. */
bool wring_control_is_text(enum wring_control_kind kind);
bool wring_control_has_body(enum wring_control_kind kind);

/** To a peer that no connection stands to, CALL and STANDSTILL go by the control tree.
 *  Errors: WRING_ERR_CLOSED (no connection stands), WRING_ERR_AGAIN. */
enum wring_status wring_control_send(struct wring_peer *peer, const struct wring_control *control);

/** The same, and dial where nobody has: WRING_ERR_AGAIN until the connection stands. */
enum wring_status wring_control_deliver(struct wring_fabric *fabric, struct wring_peer *peer,
                                        const struct wring_control *control);

/** @param out  [WRING_SEND_MAX] @return bytes */
size_t wring_control_pack(const struct wring_control *control, uint8_t *out);

/** Over a connection, whether it counts as standing or not. Errors: those of the provider's send.
 */
enum wring_status wring_control_say(struct wring_conn *conn, const struct wring_control *control);

/** Parse hostile bytes. False where they are no control message. */
bool wring_control_parse(const void *data, size_t bytes, struct wring_control *out);

#endif
