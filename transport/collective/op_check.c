/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/collective/op_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "transport/collective/collective.h"
#include "transport/control.h"
#include "transport/pairs.h"

#define REDUCING 4                               /* kinds of calls that reduce, at most */
#define LOOKS 8                                  /* in the time between two statements */
#define PATIENCE 5                               /* statements that may go unanswered */
#define STATEMENT_TEXT (WRING_SEND_MAX - 16 + 1) /* of a control message */

/** Of a text, eight bytes at a time, the last ones filled up with zeros. */
static uint64_t fold_text(uint64_t hash, const char *text)
{
    for (size_t left = strlen(text), n; left > 0; left -= n, text += n) {
        uint8_t bytes[8] = {0};
        n = left < sizeof(bytes) ? left : sizeof(bytes);
        memcpy(bytes, text, n);
        hash = wring_fold(hash, wring_get_u64(bytes));
    }
    return hash;
}

uint64_t wring_call_runs(const uint64_t *elems, uint32_t n)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < n; i++)
        hash = wring_fold(hash, elems[i]);
    return hash;
}

bool wring_call_reduces(enum wring_call_kind kind)
{
    return kind == WRING_CALL_ALLREDUCE || kind == WRING_CALL_REDUCE ||
           kind == WRING_CALL_REDUCE_SCATTER || kind == WRING_CALL_REDUCE_SCATTERV;
}

const char *wring_call_name(enum wring_call_kind kind)
{
    static const char *const names[] = {
        [WRING_CALL_ALLREDUCE] = "allreduce",
        [WRING_CALL_REDUCE_SCATTER] = "reduce-scatter",
        [WRING_CALL_ALLGATHER] = "allgather",
        [WRING_CALL_ALLTOALL] = "alltoall",
        [WRING_CALL_BROADCAST] = "broadcast",
        [WRING_CALL_BARRIER] = "barrier",
        [WRING_CALL_REDUCE] = "reduce",
        [WRING_CALL_GATHER] = "gather",
        [WRING_CALL_SCATTER] = "scatter",
        [WRING_CALL_ALLGATHERV] = "allgatherv",
        [WRING_CALL_REDUCE_SCATTERV] = "reduce-scatterv",
        [WRING_CALL_ALLTOALLV] = "alltoallv",
    };
    return names[kind];
}

/** Describe a call's data: " of 1000 f32". */
static void describe_data(const struct wring_op_check *call, char *text, size_t bytes)
{
    if (call->kind == WRING_CALL_BROADCAST)
        snprintf(text, bytes, " of %" PRIu64 " bytes", call->elems);
    else if (call->kind == WRING_CALL_ALLTOALLV)
        snprintf(text, bytes, " of %s", wring_dtype_name(call->dtype));
    else if (call->runs != 0)
        snprintf(text, bytes, " of %" PRIu64 " %s in runs #%08" PRIx32, call->elems,
                 wring_dtype_name(call->dtype), (uint32_t)call->runs);
    else
        snprintf(text, bytes, " of %" PRIu64 " %s", call->elems, wring_dtype_name(call->dtype));
}

/** Between which members: " from member 2". */
static void describe_root(const struct wring_op_check *call, char *text, size_t bytes)
{
    bool from = call->kind == WRING_CALL_BROADCAST || call->kind == WRING_CALL_SCATTER;
    bool to = call->kind == WRING_CALL_REDUCE || call->kind == WRING_CALL_GATHER;

    text[0] = '\0';
    if (from || to)
        snprintf(text, bytes, " %s member %" PRIu32, from ? "from" : "to", call->root);
}

void wring_call_describe(const struct wring_op_check *call, char text[WRING_CALL_TEXT])
{
    const char *name = wring_call_name(call->kind);
    bool raw = strcmp(call->codec, "none") == 0, reduces = wring_call_reduces(call->kind);
    char data[64], root[32];

    if (call->kind == WRING_CALL_BARRIER) {
        snprintf(text, WRING_CALL_TEXT, "%s", name);
        return;
    }
    describe_data(call, data, sizeof(data));
    describe_root(call, root, sizeof(root));
    snprintf(text, WRING_CALL_TEXT, "%s%s%s%s%s%s%s", name, data, root, reduces ? ", " : "",
             reduces ? wring_op_name(call->op) : "", raw ? "" : ", ", raw ? "" : call->codec);
}

/** A number of its own for each kind, and for each type and operation that matters to it. */
static uint32_t call_sort(const struct wring_op_check *call)
{
    static const uint8_t positions[] = {
        /* among those that reduce */
        [WRING_CALL_ALLREDUCE] = 0,
        [WRING_CALL_REDUCE_SCATTER] = 1,
        [WRING_CALL_REDUCE] = 2,
        [WRING_CALL_REDUCE_SCATTERV] = 3,
        /* among the others */
        [WRING_CALL_ALLGATHER] = 0,
        [WRING_CALL_ALLTOALL] = 1,
        [WRING_CALL_BROADCAST] = 2,
        [WRING_CALL_BARRIER] = 3,
        [WRING_CALL_GATHER] = 4,
        [WRING_CALL_SCATTER] = 5,
        [WRING_CALL_ALLGATHERV] = 6,
        [WRING_CALL_ALLTOALLV] = 7,
    };
    uint32_t position = positions[call->kind], dtype = (uint32_t)call->dtype,
             op = (uint32_t)call->op;
    if (wring_call_reduces(call->kind))
        return (position * WRING_DTYPES + dtype) * WRING_OPS + op;
    return REDUCING * WRING_DTYPES * WRING_OPS + position * WRING_DTYPES + dtype;
}

/**
 * Calls that differ in nothing but kind, type or operation never have the same tag; others by a
 * chance of 2^-WRING_TAG_BITS, and then the tags of all calls that follow tell.
 */
static uint32_t add_call(struct wring_op_history *calls, const struct wring_op_check *call)
{
    uint32_t sort = call_sort(call);
    uint64_t hash = wring_fold(wring_fold(calls->history, call->root), call->elems);
    if (call->runs != 0)
        hash = wring_fold(hash, call->runs);
    hash = fold_text(hash, call->codec);
    calls->history = wring_fold(hash, sort);
    return (sort ^ (uint32_t)hash) & ((1u << WRING_TAG_BITS) - 1);
}

uint32_t wring_op_check_begin(struct wring_collective *collective)
{
    struct wring_op_history *calls = collective->calls;
    uint64_t at = calls->begun++ % WRING_OP_HISTORY_KEPT;

    uint32_t tag = add_call(calls, &collective->work.call);
    calls->kept[at].call = collective->work.call;
    calls->kept[at].history = calls->history;
    calls->look_ns = WRING_NEVER;
    calls->stated = 0;
    collective->scatter->tag = collective->gather->tag = tag;
    return tag;
}

void wring_op_check_wait(struct wring_collective *collective, uint64_t now_ns)
{
    collective->calls->look_ns = now_ns + WRING_CALLS_FIRST_LOOK_NS;
}

/* ---- statements: "history|call" ---- */

static void write_statement(const struct wring_op_history *calls, uint32_t number,
                            char text[STATEMENT_TEXT])
{
    uint64_t at = number % WRING_OP_HISTORY_KEPT;
    char call[WRING_CALL_TEXT];

    wring_call_describe(&calls->kept[at].call, call);
    snprintf(text, STATEMENT_TEXT, "%016" PRIx64 "|%s", calls->kept[at].history, call);
}

/** Tell a member which our latest call is. @return false if there was no room to */
static bool send_statement(const struct wring_collective *collective, uint32_t member)
{
    const struct wring_channel_out *out = wring_channel_out(collective->scatter, member);
    struct wring_pairs *pairs = collective->scatter->pairs;
    if (out->name.id == WRING_NO_CHANNEL)
        return pairs->want(pairs, member) != WRING_ERR_AGAIN;
    struct wring_control control = {.kind = WRING_CONTROL_CALL,
                                    .a = out->name.id,
                                    .b = out->name.generation,
                                    .c = (uint32_t)collective->calls->begun - 1};
    write_statement(collective->calls, control.c, control.text);
    return wring_control_send(out->peer, &control) != WRING_ERR_AGAIN;
}

/** Those that we exchange nothing with are not told: what we wait for is one that we do, or waits
 *  for such a one in its turn. */
static bool send_statements(const struct wring_collective *collective)
{
    bool all = true;
    for (uint32_t i = wring_collective_next_pair(collective, 0); i < collective->members.n;
         i = wring_collective_next_pair(collective, i + 1))
        all &= send_statement(collective, i);
    return all;
}

/** A member that owes us a piece, and whose next piece is of another call; or members.n. */
static uint32_t find_stranger(const struct wring_collective *collective)
{
    uint32_t n = collective->members.n;
    for (uint32_t i = 0; i < n; i++)
        if (i != collective->members.me && collective->work.ops->awaits(collective, i) &&
            (wring_channel_is_foreign(collective->scatter, i) ||
             wring_channel_is_foreign(collective->gather, i) ||
             (wring_collective_uses_shm_flags(collective) &&
              wring_shm_flags_is_foreign(collective, i))))
            return i;
    return n;
}

void wring_op_check_look(struct wring_collective *collective, uint64_t now_ns)
{
    struct wring_op_history *calls = collective->calls;
    struct wring_fabric *fabric = collective->engine->fabric;
    uint64_t pause_ns = fabric->config->heartbeat_ns;

    if (now_ns < calls->look_ns)
        return;
    uint32_t stranger = find_stranger(collective);
    bool strange = stranger < collective->members.n;
    if (strange && calls->stated >= PATIENCE) {
        char text[WRING_CALL_TEXT];
        wring_call_describe(&collective->work.call, text);
        uint32_t rank = collective->members.ranks[stranger];
        wring_fabric_fail(fabric, WRING_ERR_MISMATCH, (int32_t)rank,
                          "rank %" PRIu32 " sent a piece of another call than %s, and does not say "
                          "which",
                          rank, text);
        return;
    }
    calls->look_ns = now_ns + pause_ns / LOOKS;
    if ((strange || now_ns - collective->started_ns >= pause_ns) && send_statements(collective)) {
        calls->stated++;
        calls->look_ns = now_ns + pause_ns;
    }
}

/** Another one than ours; both are statements about the same number. */
static void fail_mismatch(const struct wring_collective *collective, uint32_t theirs,
                          const char *other, const char *own)
{
    struct wring_fabric *fabric = collective->engine->fabric;
    const char *their_call = strchr(other, '|'), *own_call = strchr(own, '|');

    if (their_call == NULL)
        wring_fabric_fail(fabric, WRING_ERR_FRAME, (int32_t)theirs,
                          "rank %" PRIu32 " sent a malformed statement of its call", theirs);
    else if (strcmp(their_call, own_call) != 0)
        wring_fabric_fail(fabric, WRING_ERR_MISMATCH, -1,
                          "rank %" PRIu32 " calls %s; rank %" PRIu32
                          " %s: members of a group make the same calls",
                          theirs, their_call + 1, fabric->rank, own_call + 1);
    else
        wring_fabric_fail(fabric, WRING_ERR_MISMATCH, -1,
                          "ranks %" PRIu32 " and %" PRIu32
                          " made different calls in a group before this one: %s",
                          theirs, fabric->rank, own_call + 1);
}

static void check_statement(const struct wring_collective *collective, uint32_t theirs,
                            uint32_t number, const char *text)
{
    char own[STATEMENT_TEXT];
    write_statement(collective->calls, number, own);
    if (strcmp(own, text) != 0)
        fail_mismatch(collective, theirs, text, own);
}

void wring_op_check_heard(struct wring_collective *collective, uint32_t member, uint32_t number,
                          const char *text)
{
    const struct wring_op_history *calls = collective->calls;
    uint32_t back = (uint32_t)calls->begun - number; /* 1: our latest one */

    if (back >= 1 && back <= WRING_OP_HISTORY_KEPT && back <= calls->begun)
        check_statement(collective, collective->members.ranks[member], number, text);
    else if ((int32_t)back <= 0 && calls->begun > 0)
        send_statement(collective, member);
}
