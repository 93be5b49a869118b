/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Do all members of a group make the same immediate calls? Nothing is asked beforehand. The pieces
 * of a call carry a tag, made of it and of all calls before it, in their immediates; a piece of
 * another tag is not taken. A member that gets no further says to all others what it calls, and a
 * member that has made another call in that place ends the job with a line that names both.
 *
 * Used by the thread that makes progress.
 */
#ifndef WRING_TRANSPORT_COLLECTIVE_OP_CHECK_H
#define WRING_TRANSPORT_COLLECTIVE_OP_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/types.h>

#define WRING_CALL_TEXT 112      /* bytes of a call's description, its NUL included */
#define WRING_OP_HISTORY_KEPT 64 /* a power of two */
#define WRING_CALLS_FIRST_LOOK_NS UINT64_C(1000000) /* nearly all calls are through by then */

struct wring_collective;

enum wring_call_kind { /* values are part of the wire format */
    WRING_CALL_ALLREDUCE = 1,
    WRING_CALL_REDUCE_SCATTER = 2,
    WRING_CALL_ALLGATHER = 3,
    WRING_CALL_ALLTOALL = 4,
    WRING_CALL_BROADCAST = 5,
    WRING_CALL_BARRIER = 6,
    WRING_CALL_REDUCE = 7,
    WRING_CALL_GATHER = 8,
    WRING_CALL_SCATTER = 9,
    WRING_CALL_ALLGATHERV = 10,
    WRING_CALL_REDUCE_SCATTERV = 11,
    WRING_CALL_ALLTOALLV = 12,
};
#define WRING_CALL_KINDS 13 /* and one that is none, 0 */

/** The properties of a call that must be the same on all members. */
struct wring_op_check {
    enum wring_call_kind kind;
    enum wring_dtype dtype;
    enum wring_op op;
    uint32_t root;  /* broadcast, reduce, gather, scatter; else 0 */
    uint64_t elems; /* broadcast: bytes; allgatherv, reduce-scatterv: of all runs; alltoallv: 0 */
    uint64_t runs;  /* allgatherv, reduce-scatterv: wring_call_runs(); else 0 */
    const char *codec; /* identity, "none" for raw; lives as long as the group */
};

/** The calls of one group. Zeroed at first. */
struct wring_op_history {
    uint64_t begun;   /* how many; the one under way is call begun - 1 */
    uint64_t history; /* hash of all of them */
    struct {
        struct wring_op_check call;
        uint64_t history; /* up to and with this one */
    } kept[WRING_OP_HISTORY_KEPT];
    uint64_t look_ns; /* when to see next whether the one under way gets on */
    uint32_t stated;  /* how often it was stated */
};

/** "allreduce"; a static string. */
const char *wring_call_name(enum wring_call_kind kind);

/** Does it combine what members contribute? */
bool wring_call_reduces(enum wring_call_kind kind);

/** A number that stands for these lengths of runs. */
uint64_t wring_call_runs(const uint64_t *elems, uint32_t n);

/** "allreduce of 1000 f32, sum, bf16" */
void wring_call_describe(const struct wring_op_check *call, char text[WRING_CALL_TEXT]);

/** The collective's work is a new call: tag its pieces. @return the tag */
uint32_t wring_op_check_begin(struct wring_collective *collective);

/** The call is seen to wait for the first time. */
void wring_op_check_wait(struct wring_collective *collective, uint64_t now_ns);

/** A piece of another call has come. If ours goes on for long, that is why: look soon. */
static inline void wring_op_check_suspect(struct wring_op_history *calls, uint64_t now_ns)
{
    if (calls->stated == 0 && now_ns + WRING_CALLS_FIRST_LOOK_NS < calls->look_ns)
        calls->look_ns = now_ns + WRING_CALLS_FIRST_LOOK_NS;
}

/** The call under way is not through: state it if that takes long. It may fail the job. */
void wring_op_check_look(struct wring_collective *collective, uint64_t now_ns);

/**
 * A member says what its call of that number is. Fails the job if ours is another; a member that is
 * ahead of us is told where we are.
 * @param text  hostile, printable
 */
void wring_op_check_heard(struct wring_collective *collective, uint32_t member, uint32_t number,
                          const char *text);

#endif
