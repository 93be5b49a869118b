/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How many bytes of puts may be under way to a peer: as few as keep the link busy, because urgent
 * pieces wait behind them.
 *
 * The window finds that number by itself. Where puts are done once the peer has acknowledged them,
 * an acknowledgement may come late: it stands in line behind the peer's own pieces, and a slow
 * link's line is long. If most bytes under way are done before another put could follow one that
 * was held back, then the link has run dry, and the window widens. (Two-way traffic under a fixed
 * window: Zhang, Shenker and Clark, "Observations on the dynamics of a congestion control
 * algorithm", SIGCOMM 1991.)
 *
 * Threads: of the one that makes progress.
 */
#ifndef WRING_TRANSPORT_PUT_WINDOW_H
#define WRING_TRANSPORT_PUT_WINDOW_H

#include <stdbool.h>
#include <stddef.h>

struct wring_put_window {
    size_t bytes; /* put, not yet done */
    size_t limit; /* of these, at most */
    size_t most;  /* that the limit may become */
    bool held_back;
};

/** May a put of so many bytes begin? One alone may be longer than the window. */
static inline bool wring_put_window_admits(struct wring_put_window *window, size_t bytes)
{
    window->held_back = window->bytes > 0 && window->bytes + bytes > window->limit;
    return !window->held_back;
}

static inline void wring_put_window_begin(struct wring_put_window *window, size_t bytes)
{
    window->bytes += bytes;
}

static inline void wring_put_window_done(struct wring_put_window *window, size_t bytes)
{
    window->bytes -= bytes;
    if (!window->held_back || window->bytes > window->limit / 4)
        return;
    window->limit = 2 * window->limit < window->most ? 2 * window->limit : window->most;
    window->held_back = false;
}

#endif
