/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/bench_p2p_moves.h"

#include "base/clock.h"
#include "tools/bench/bench_payload.h"
#include "tools/commands.h"

#define WINDOW_MAX 64
#define WINDOW_BYTES (16u << 20) /* under way at most, if more than two puts are */

static size_t stride_of(size_t bytes)
{
    return (bytes + WRING_P2P_LINE - 1) / WRING_P2P_LINE * WRING_P2P_LINE;
}

static uint32_t window_of(size_t bytes, unsigned depth)
{
    size_t fit = WINDOW_BYTES / stride_of(bytes);
    uint32_t window = fit < WINDOW_MAX ? (uint32_t)fit : WINDOW_MAX;

    if (window > depth)
        window = depth;
    return window < 2 ? 2 : window;
}

size_t wring_p2p_half_bytes(const struct wring_p2p_params *params)
{
    size_t most = WRING_P2P_LINE;

    for (size_t i = 0; i < params->n_bytes; i++) {
        size_t bytes = window_of(params->bytes[i], WINDOW_MAX) * stride_of(params->bytes[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static size_t slot_offset(const struct wring_p2p *p2p, uint64_t i)
{
    return WRING_P2P_SLOTS_AT + i % p2p->window * p2p->stride;
}

static uint8_t *slot(const struct wring_p2p *p2p, uint64_t i)
{
    return (uint8_t *)p2p->pair.memory.base + slot_offset(p2p, i);
}

static uint8_t *received_slot(const struct wring_p2p *p2p, uint64_t i)
{
    return slot(p2p, i) + wring_p2p_half_bytes(p2p->params);
}

/** Put the payload that slot i holds, its end stamped with the number of the put. */
static enum wring_status send_slot(struct wring_p2p *p2p, uint64_t i)
{
    wring_payload_stamp(slot(p2p, i), p2p->bytes, p2p->pair.sent);
    return wring_bench_pair_put(&p2p->pair, slot_offset(p2p, i),
                                wring_p2p_half_bytes(p2p->params) + slot_offset(p2p, i),
                                p2p->bytes);
}

/** A put of nothing: a sign. */
static enum wring_status send_sign(struct wring_p2p *p2p)
{
    return wring_bench_pair_put(&p2p->pair, 0, 0, 0);
}

enum wring_status wring_p2p_complain(struct wring_p2p *p2p, const char *what)
{
    wring_fail(p2p->params->name, "rank %u: a put of %zu bytes over %s came with %s",
               p2p->pair.rank, p2p->bytes, p2p->params->provider->name, what);
    return p2p->pair.status = WRING_ERR_FRAME;
}

/** Wait for the payload of slot i, and look at its end. */
static enum wring_status take_slot(struct wring_p2p *p2p, uint64_t i)
{
    uint64_t number = p2p->pair.taken;
    enum wring_status status = wring_bench_pair_take(&p2p->pair, p2p->bytes);

    if (status == WRING_OK && !wring_payload_has_stamp(received_slot(p2p, i), p2p->bytes, number))
        return wring_p2p_complain(p2p, "wrong last bytes");
    return status;
}

enum wring_status wring_p2p_check(struct wring_p2p *p2p, uint64_t n)
{
    for (uint64_t i = 0; i < n && i < p2p->window; i++)
        if (!wring_payload_is_right(received_slot(p2p, i), p2p->bytes, 1 - p2p->pair.rank))
            return wring_p2p_complain(p2p, "wrong bytes");
    return WRING_OK;
}

/** Round trip i: rank 0 begins, rank 1 answers with a payload of its own. */
static enum wring_status round_trip(struct wring_p2p *p2p, uint64_t i)
{
    bool leads = p2p->pair.rank == 0;
    enum wring_status status = leads ? send_slot(p2p, i) : take_slot(p2p, i);

    if (status == WRING_OK)
        status = leads ? take_slot(p2p, i) : send_slot(p2p, i);
    /* the slot is to be written again a window later */
    return status == WRING_OK ? wring_bench_pair_drain(&p2p->pair, p2p->window - 1) : status;
}

enum wring_status wring_p2p_time_trips(struct wring_p2p *p2p, uint64_t n, double *times)
{
    enum wring_status status = WRING_OK;

    for (uint64_t i = 0; i < n && status == WRING_OK; i++) {
        uint64_t begin = wring_now_ns();
        status = round_trip(p2p, i);
        times[i] = (double)(wring_now_ns() - begin) / 2e3;
    }
    return status == WRING_OK ? wring_bench_pair_drain(&p2p->pair, 0) : status;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/** How many puts each sign of the receiver's stands for. */
static uint64_t batch_of(const struct wring_p2p *p2p)
{
    return p2p->window >= 4 ? p2p->window / 4 : 1;
}

/** Rank 0: n puts, a window of them under way, until the receiver has seen the last. */
static enum wring_status send_stream(struct wring_p2p *p2p, uint64_t n)
{
    struct wring_bench_pair *pair = &p2p->pair;
    uint64_t batch = batch_of(p2p), seen = 0;
    enum wring_status status = WRING_OK;

    for (uint64_t i = 0; i < n && status == WRING_OK; i++) {
        while (i - seen >= p2p->window && status == WRING_OK) {
            status = wring_bench_pair_take(pair, 0);
            seen = least(seen + batch, n);
        }
        if (status == WRING_OK)
            status = wring_bench_pair_drain(pair, p2p->window - 1);
        if (status == WRING_OK)
            status = send_slot(p2p, i);
    }
    for (; seen < n && status == WRING_OK; seen = least(seen + batch, n))
        status = wring_bench_pair_take(pair, 0);
    return status == WRING_OK ? wring_bench_pair_drain(pair, 0) : status;
}

/** Rank 1: look at the end of each payload before its slot is given back. */
static enum wring_status receive_stream(struct wring_p2p *p2p, uint64_t n)
{
    uint64_t batch = batch_of(p2p);
    enum wring_status status = WRING_OK;

    for (uint64_t i = 0; i < n && status == WRING_OK; i++) {
        status = take_slot(p2p, i);
        if (status == WRING_OK && ((i + 1) % batch == 0 || i + 1 == n))
            status = send_sign(p2p);
    }
    return status == WRING_OK ? wring_bench_pair_drain(&p2p->pair, 0) : status;
}

enum wring_status wring_p2p_time_stream(struct wring_p2p *p2p, uint64_t n, double *ns)
{
    uint64_t begin = wring_now_ns();
    enum wring_status status = p2p->pair.rank == 0 ? send_stream(p2p, n) : receive_stream(p2p, n);

    *ns = (double)(wring_now_ns() - begin);
    return status;
}

enum wring_status wring_p2p_agree(struct wring_p2p *p2p, uint64_t *number)
{
    struct wring_bench_pair *pair = &p2p->pair;
    uint64_t *own = pair->memory.base, *theirs = own + WRING_P2P_LINE / sizeof(*own);
    bool leads = pair->rank == 0;
    enum wring_status status = WRING_OK;

    own[0] = *number;
    own[1] = ~*number;
    if (leads)
        status = wring_bench_pair_put(pair, 0, WRING_P2P_LINE, 2 * sizeof(*own));
    if (status == WRING_OK)
        status = wring_bench_pair_take(pair, leads ? 0 : 2 * sizeof(*own));
    if (status == WRING_OK && !leads) {
        if (theirs[0] != ~theirs[1])
            return wring_p2p_complain(p2p, "a number that was changed");
        *number = theirs[0];
        status = send_sign(p2p);
    }
    return status == WRING_OK ? wring_bench_pair_drain(pair, 0) : status;
}

void wring_p2p_prepare(struct wring_p2p *p2p, size_t bytes)
{
    p2p->bytes = bytes;
    p2p->stride = stride_of(bytes);
    p2p->window = window_of(bytes, p2p->pair.caps.put_depth);
    for (uint32_t i = 0; i < p2p->window; i++) {
        wring_payload_fill(slot(p2p, i), bytes, p2p->pair.rank);
        wring_payload_spoil(received_slot(p2p, i), bytes, 1 - p2p->pair.rank);
    }
}
