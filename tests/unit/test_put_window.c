/* SPDX-License-Identifier: Apache-2.0 */
/** Windows of puts, beside links that a small model plays. */
#include "transport/put_window.h"

#include "tests/lib/test.h"

#define PIECE ((size_t)256 << 10)
#define PIECES 64 /* that a link has to carry */

static void it_admits_up_to_its_limit(void)
{
    struct wring_put_window window = {.limit = 2 * PIECE, .most = 2 * PIECE};
    CHECK(wring_put_window_admits(&window, 3 * PIECE), "a long one alone");
    wring_put_window_begin(&window, 3 * PIECE);
    CHECK(!wring_put_window_admits(&window, 1), "more than the limit");
    wring_put_window_done(&window, 3 * PIECE);
    for (int i = 0; i < 2; i++) {
        CHECK(wring_put_window_admits(&window, PIECE), "piece %d", i);
        wring_put_window_begin(&window, PIECE);
    }
    CHECK(!wring_put_window_admits(&window, PIECE), "a third");
    CHECK(wring_put_window_admits(&window, 0), "nothing");
}

/** Put pieces as they fit; each time, so many are done at once. @return the limit in the end */
static size_t carry(size_t most, unsigned done_at_once)
{
    struct wring_put_window window = {.limit = 2 * PIECE, .most = most};
    unsigned under_way = 0;
    for (unsigned sent = 0; sent < PIECES;) {
        while (sent < PIECES && wring_put_window_admits(&window, PIECE)) {
            wring_put_window_begin(&window, PIECE);
            under_way++;
            sent++;
        }
        CHECK(window.bytes == under_way * PIECE && window.bytes <= window.limit, "%zu bytes",
              window.bytes);
        for (unsigned i = 0; i < done_at_once && under_way > 0; i++, under_way--)
            wring_put_window_done(&window, PIECE);
    }
    return window.limit;
}

static void a_link_that_runs_dry_widens_it(void)
{
    CHECK(carry(16 * PIECE, 16) == 16 * PIECE, "all done at once: %zu", carry(16 * PIECE, 16));
    CHECK(carry(6 * PIECE, 16) == 6 * PIECE, "beyond its bound: %zu", carry(6 * PIECE, 16));
    CHECK(carry(16 * PIECE, 4) == 8 * PIECE, "four at once: %zu", carry(16 * PIECE, 4));
}

static void a_link_that_is_busy_does_not(void)
{
    CHECK(carry(16 * PIECE, 1) == 2 * PIECE, "one after the other: %zu", carry(16 * PIECE, 1));
    CHECK(carry(2 * PIECE, 16) == 2 * PIECE, "a window that may not: %zu", carry(2 * PIECE, 16));
}

static void nothing_to_put_does_not(void)
{
    struct wring_put_window window = {.limit = 4 * PIECE, .most = 16 * PIECE};
    for (int i = 0; i < 4; i++) {
        CHECK(wring_put_window_admits(&window, PIECE), "piece %d", i);
        wring_put_window_begin(&window, PIECE);
    }
    for (int i = 0; i < 4; i++)
        wring_put_window_done(&window, PIECE);
    CHECK(window.limit == 4 * PIECE && window.bytes == 0, "%zu of %zu", window.bytes, window.limit);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"it_admits_up_to_its_limit", it_admits_up_to_its_limit},
        {"a_link_that_runs_dry_widens_it", a_link_that_runs_dry_widens_it},
        {"a_link_that_is_busy_does_not", a_link_that_is_busy_does_not},
        {"nothing_to_put_does_not", nothing_to_put_does_not},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
