/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/tree.h"

#include <stdalign.h>

#include "compress/order.h"
#include "compress/reduce.h"

#define ROOM 12288     /* bytes of all blocks: the nearest cache holds them, and a small stack */
#define BLOCK_MAX 2048 /* bytes of one: sources' blocks are to stay there, too */

struct wring_tree wring_tree_find(enum wring_dtype dtype, enum wring_op op,
                                  enum wring_cpu_tier allowed)
{
    const struct wring_reduce_tier *tier =
        wring_kernels_pick(wring_reduce_tiers, sizeof(wring_reduce_tiers[0]), allowed);
    bool sums = op <= WRING_AVG || op == WRING_PROD;
    bool wide = sums && tier->kernels->widen[dtype] != NULL;
    enum wring_dtype on_its_way = wide ? WRING_F32 : dtype;
    struct wring_tree tree = {
        .fold = wring_reduce_fold(on_its_way, op, allowed),
        .widen = wide ? tier->kernels->widen[dtype] : NULL,
        .narrow = wide ? tier->kernels->narrow[dtype] : NULL,
        .elem_bytes = wring_dtype_bytes(dtype),
        .block_bytes = wring_dtype_bytes(on_its_way),
    };
    if (tree.fold == NULL)
        tree.sum = wring_sum_find(allowed);
    return tree;
}

/** One block of the reduction: its elements [begin, begin + n). */
struct block {
    const struct wring_tree *tree;
    const struct wring_source *src;
    uint64_t begin, n;
    size_t stride;        /* bytes from slot to slot */
    unsigned char *slots; /* and behind the last one a place for what is widened */
    unsigned char *spare;
};

/** What is to be combined. @param in  where it lies, or is to be widened to */
static const void *operand(const struct block *block, uint32_t source, unsigned char *in)
{
    const struct wring_tree *tree = block->tree;
    if (source == WRING_ORDER_SLOT)
        return in;
    const unsigned char *run =
        (const unsigned char *)block->src[source].data + block->begin * tree->elem_bytes;
    if (tree->widen == NULL)
        return run;
    tree->widen((float *)(void *)in, run, block->n);
    return in;
}

/** to = a op b */
static void combine(const struct block *block, void *to, const void *a, const void *b,
                    float divisor)
{
    const struct wring_tree *tree = block->tree;

    if (tree->sum != NULL)
        tree->sum(to, (const void *const[]){a, b}, 2, block->n, divisor);
    else
        tree->fold(to, (const struct wring_source[]){{.data = a}, {.data = b}}, 2, block->n,
                   divisor);
}

/** dst = the reduction of one block. The last step has both its operands in slots: dst, which may
 *  be a source, is not written before all sources have been read. */
static void reduce_block(const struct block *block, void *dst, uint32_t n_src, float divisor)
{
    const struct wring_tree *tree = block->tree;
    struct wring_order order = wring_order_begin(n_src);
    struct wring_order_step step;

    for (uint32_t left = n_src - 1; wring_order_next(&order, &step); left--) {
        unsigned char *slot = block->slots + step.slot * block->stride;
        bool next = step.second == WRING_ORDER_SLOT, last = left == 1 && tree->narrow == NULL;
        const void *a = operand(block, step.first, slot);
        const void *b = operand(block, step.second, next ? slot + block->stride : block->spare);
        combine(block, last ? dst : slot, a, b, last ? divisor : 1);
    }
    if (tree->narrow != NULL)
        tree->narrow(dst, (const float *)(const void *)block->slots, block->n, divisor);
}

void wring_tree_run(const struct wring_tree *tree, void *dst, const struct wring_source *src,
                    size_t n_src, uint64_t begin, uint64_t n, float divisor)
{
    alignas(64) unsigned char room[ROOM];
    uint32_t slots = wring_order_slots((uint32_t)n_src);
    size_t stride = BLOCK_MAX;
    while ((slots + 1) * stride > ROOM)
        stride /= 2;
    struct block block = {
        .tree = tree, .src = src, .stride = stride, .slots = room, .spare = room + slots * stride};
    uint64_t length = stride / tree->block_bytes;

    for (uint64_t done = 0; done < n; done += length) {
        block.begin = begin + done;
        block.n = n - done < length ? n - done : length;
        reduce_block(&block, (unsigned char *)dst + done * tree->elem_bytes, (uint32_t)n_src,
                     divisor);
    }
}
