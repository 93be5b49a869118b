/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/twin.h"

#include <stdatomic.h>

/*
 * Of the longest stream, while the others wait. Near: half of a first cache. Far from any cache of
 * one's own: a page, at whose end processors stop to fetch ahead, so a longer run gains nothing and
 * keeps the other streams idle.
 */
#define NEAR_LINES 256
#define FAR_LINES 64
#define FAR_BYTES ((uint64_t)2 << 20) /* of all streams together: more than second caches hold */

/** Plain C, which compilers turn into the vectors that every processor of a family has. */
static uint64_t run_scalar(const struct wring_twin_block *block, unsigned store, uint64_t key)
{
    const uint64_t *read = (const uint64_t *)(const void *)block->read;
    uint64_t *update = (uint64_t *)(void *)block->update;
    uint64_t *write = (uint64_t *)(void *)block->write;
    const size_t words = WRING_TWIN_LINE / sizeof(uint64_t);
    uint64_t seen = 0;

    (void)store;
    for (size_t i = 0; i < block->n_read * words; i++)
        seen |= read[i];
    for (size_t i = 0; i < block->n_update * words; i++)
        update[i] ^= key;
    for (size_t i = 0; i < block->n_write * words; i++)
        write[i] = seen;
    return seen;
}

static void fence_scalar(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

const struct wring_twin_tier wring_twin_tiers[] = {
    {"scalar", WRING_CPU_SCALAR, false, run_scalar, fence_scalar},
#ifdef WRING_ARCH_X86
    {"avx2", WRING_CPU_AVX2, true, wring_twin_avx2, wring_twin_fence_x86},
    {"avx512", WRING_CPU_AVX512, true, wring_twin_avx512, wring_twin_fence_x86},
#endif
    {NULL, 0, false, NULL, NULL},
};

const struct wring_twin_tier *wring_twin_widest(void)
{
    const struct wring_twin_tier *widest = wring_twin_tiers;

    for (const struct wring_twin_tier *tier = wring_twin_tiers; tier->name != NULL; tier++)
        if (wring_cpu_has(tier->tier))
            widest = tier;
    return widest;
}

struct wring_twin_stream wring_twin_all(const void *base, uint64_t bytes)
{
    uint64_t lines = (bytes + WRING_TWIN_LINE - 1) / WRING_TWIN_LINE;
    return (struct wring_twin_stream){(void *)(uintptr_t)base, lines, lines};
}

/** How far n things have been dealt out before each block: 32 bits behind the point. */
struct deal {
    uint64_t step, position;
};

static struct deal deal_out(uint64_t n, uint64_t blocks)
{
    /* rounded up, so that the last block ends at n and not before it */
    return (struct deal){((n << 32) + blocks - 1) / blocks, 0};
}

/** The next block's share. */
static uint64_t deal_next(struct deal *deal)
{
    uint64_t before = deal->position >> 32;
    deal->position += deal->step;
    return (deal->position >> 32) - before;
}

/** Where streams of no lines lie: NULL has no offsets, not even 0. */
static char nothing[1];

/** A stream on its way through the blocks. */
struct walk {
    char *base;
    uint64_t end; /* in lines */
    struct deal lines, span;
};

static struct walk walk_begin(const struct wring_twin_stream *stream, uint64_t blocks)
{
    char *base = stream->span > 0 ? stream->base : nothing;
    return (struct walk){base, stream->span, deal_out(stream->lines, blocks),
                         deal_out(stream->span, blocks)};
}

/** Where the next block's lines begin. @param n out, how many they are */
static char *walk_next(struct walk *walk, size_t *n)
{
    uint64_t at = walk->span.position >> 32;

    (void)deal_next(&walk->span);
    *n = deal_next(&walk->lines);
    if (at + *n > walk->end) /* two roundings met */
        at = walk->end - *n;
    return walk->base + at * WRING_TWIN_LINE;
}

static uint64_t count_blocks(const struct wring_twin_work *work)
{
    const uint64_t spans[] = {work->read.span, work->update.span, work->write.span,
                              work->other.span};
    uint64_t longest = 0, all = 0;

    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        all += spans[i];
        if (spans[i] > longest)
            longest = spans[i];
    }
    uint64_t lines = all * WRING_TWIN_LINE > FAR_BYTES ? FAR_LINES : NEAR_LINES;
    return (longest + lines - 1) / lines;
}

static void prefetch_lines(const char *from, size_t lines)
{
    for (size_t i = 0; i < lines; i++)
        __builtin_prefetch(from + i * WRING_TWIN_LINE);
}

uint64_t wring_twin_run(const struct wring_twin_tier *tier, const struct wring_twin_work *work,
                        unsigned store)
{
    static volatile const uint64_t zero = 0; /* no compiler may know: x ^ 0 would be left out */
    uint64_t blocks = count_blocks(work), key = zero, seen = 0;

    if (blocks == 0)
        return 0;
    struct walk read = walk_begin(&work->read, blocks);
    struct walk update = walk_begin(&work->update, blocks);
    struct walk write = walk_begin(&work->write, blocks);
    struct walk other = walk_begin(&work->other, blocks);
    for (uint64_t i = 0; i < blocks; i++) {
        struct wring_twin_block block, second = {.update = nothing, .write = nothing};
        if (work->other.lines > 0) {
            second.read = walk_next(&other, &second.n_read);
            seen |= tier->run(&second, store, key);
        }
        block.read = walk_next(&read, &block.n_read);
        block.update = walk_next(&update, &block.n_update);
        block.write = walk_next(&write, &block.n_write);
        if (store & WRING_TWIN_FETCH_UPDATES)
            prefetch_lines(block.update, block.n_update);
        seen |= tier->run(&block, store, key);
    }
    if (store & WRING_TWIN_STREAMS)
        tier->fence();
    return seen;
}
