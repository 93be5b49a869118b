/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of an arena never overlap, whatever is taken and given back, and say what is stale. */
#include "runtime/buffer.h"

#include <string.h>

#include "tests/lib/test.h"

#define PAGE 4096u
#define PAGES 300u
#define PIECES 200u

static void random_pieces(void)
{
    static uint8_t owner[PAGES], ever[PAGES]; /* by page */
    static size_t offsets[PIECES], lengths[PIECES];
    struct wring_arena arena;
    uint32_t random = 5;
    size_t live = 0, refused = 0;

    memset(owner, 0, sizeof(owner));
    memset(ever, 0, sizeof(ever));
    wring_arena_init(&arena, PAGES * PAGE);
    for (int step = 0; step < 20000; step++) {
        uint32_t i = wring_test_random(&random) % PIECES;
        if (lengths[i] > 0) {
            CHECK(!wring_arena_give_back(&arena, offsets[i] + PAGE / 2), "in its midst");
            CHECK(wring_arena_give_back(&arena, offsets[i]), "piece %u", i);
            memset(owner + offsets[i] / PAGE, 0, lengths[i]);
            live -= lengths[i];
            lengths[i] = 0;
            continue;
        }
        size_t pages = 1 + wring_test_random(&random) % 9, stale;
        size_t align = PAGE << wring_test_random(&random) % 3;
        if (!wring_arena_take(&arena, pages * PAGE, align, &offsets[i], &stale)) {
            refused++;
            continue;
        }
        size_t first = offsets[i] / PAGE, must = 0;
        REQUIRE(offsets[i] % align == 0 && first + pages <= PAGES, "offset %zu", offsets[i]);
        for (size_t page = first; page < first + pages; page++) {
            REQUIRE(owner[page] == 0, "page %zu is somebody's", page);
            must = ever[page] ? (page + 1 - first) * PAGE : must;
            owner[page] = ever[page] = 1;
        }
        CHECK(stale >= must && stale <= pages * PAGE, "%zu bytes are stale, not %zu", must, stale);
        lengths[i] = pages;
        live += pages;
        CHECK(arena.used == live * PAGE, "%zu bytes used", arena.used);
    }
    CHECK(refused > 0, "it was never full");
    for (uint32_t i = 0; i < PIECES; i++)
        if (lengths[i] > 0)
            CHECK(wring_arena_give_back(&arena, offsets[i]), "piece %u", i);
    CHECK(arena.n == 0 && arena.used == 0, "%zu left", arena.n);
    size_t offset, stale;
    CHECK(wring_arena_take(&arena, PAGES * PAGE, PAGE, &offset, &stale) && offset == 0,
          "all of it");
    CHECK(!wring_arena_take(&arena, PAGE, PAGE, &offset, &stale), "more than there is");
    CHECK(!wring_arena_give_back(&arena, PAGE), "what was never taken");
    wring_arena_finish(&arena);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"random_pieces", random_pieces},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
