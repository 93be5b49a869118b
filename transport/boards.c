/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/boards.h"

#include <stdlib.h>

#include "transport/collective/shm_flags.h"

#define FIRST_ROOM 4 /* boards of the first block; each next one has four times as many, up to */
#define MOST_ROOM 256

static enum wring_status grow(struct wring_boards *boards, struct wring_fabric *fabric,
                              size_t bytes)
{
    struct wring_board_block *block = calloc(1, sizeof(*block));
    if (block == NULL)
        return WRING_ERR_NO_MEMORY;
    block->bytes = bytes;
    block->room = FIRST_ROOM;
    for (uint32_t i = 0; i < boards->grown && block->room < MOST_ROOM; i++)
        block->room *= 4;
    enum wring_status status = wring_block_alloc(fabric, block->room * bytes, &block->block);
    if (status != WRING_OK) {
        free(block);
        return status;
    }
    block->next = boards->newest;
    boards->newest = block;
    boards->grown++;
    return WRING_OK;
}

enum wring_status wring_boards_take(struct wring_boards *boards, struct wring_fabric *fabric,
                                    size_t bytes, struct wring_board_place *out)
{
    size_t stride = (bytes + WRING_BOARD_ALIGN - 1) / WRING_BOARD_ALIGN * WRING_BOARD_ALIGN;
    struct wring_board_block *block = boards->newest;

    if (block == NULL || block->used == block->room || block->bytes != stride) {
        enum wring_status status = grow(boards, fabric, stride);
        if (status != WRING_OK)
            return status;
        block = boards->newest;
    }
    *out = (struct wring_board_place){block, block->used++ * stride};
    block->live++;
    return WRING_OK;
}

static void free_block(struct wring_board_block *block)
{
    wring_block_finish(&block->block);
    free(block);
}

/** Nothing of it is in use, nor will be: all of its places were given out. */
static bool is_over(const struct wring_board_block *block)
{
    return block->live == 0 && block->used == block->room;
}

void wring_boards_give(struct wring_boards *boards, struct wring_board_place *place)
{
    struct wring_board_block **at = &boards->newest, *block = place->home;

    *place = (struct wring_board_place){0};
    if (block == NULL)
        return;
    block->live--;
    if (!is_over(block))
        return;
    while (*at != block)
        at = &(*at)->next;
    *at = block->next;
    free_block(block);
}

void wring_boards_finish(struct wring_boards *boards)
{
    while (boards->newest != NULL) {
        struct wring_board_block *block = boards->newest;
        boards->newest = block->next;
        free_block(block);
    }
}
