/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that holds an address is found, among pieces that lie apart, nested or across. */
#include "runtime/buffer.h"

#include "tests/lib/test.h"

#define PIECES 60
#define SPACE 500

struct piece {
    size_t begin, bytes; /* 0: none */
};

static void all_are_found(void)
{
    static char space[SPACE]; /* for addresses */
    struct piece pieces[PIECES] = {{0, 0}};
    struct wring_buffer_index index = {0};
    uint32_t random = 3;

    for (int step = 0; step < 5000; step++) {
        struct piece *piece = &pieces[wring_test_random(&random) % PIECES];
        if (piece->bytes > 0) {
            wring_buffer_index_remove(&index, space + piece->begin, piece);
            piece->bytes = 0;
        } else {
            piece->begin = wring_test_random(&random) % (SPACE - 120);
            piece->bytes = 1 + wring_test_random(&random) % (step % 3 == 0 ? 120 : 6);
            CHECK(wring_buffer_index_add(&index, space + piece->begin, piece->bytes, piece), "add");
        }
        size_t begin = wring_test_random(&random) % (SPACE - 20);
        size_t bytes = wring_test_random(&random) % 20;
        bool there = false;
        for (int i = 0; i < PIECES; i++)
            there = there || (pieces[i].bytes > 0 && begin >= pieces[i].begin &&
                              begin + bytes <= pieces[i].begin + pieces[i].bytes);
        const struct piece *found = wring_buffer_index_find(&index, space + begin, bytes);
        CHECK((found != NULL) == there, "step %d: %zu bytes at %zu", step, bytes, begin);
        if (found != NULL)
            CHECK(begin >= found->begin && begin + bytes <= found->begin + found->bytes,
                  "step %d: another piece", step);
    }
    wring_buffer_index_finish(&index);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"all_are_found", all_are_found},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
