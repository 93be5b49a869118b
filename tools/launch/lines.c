/* SPDX-License-Identifier: Apache-2.0 */
/** Output of the ranks, line by line, each marked with its rank. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/launch/launch.h"

int wring_lines_init(struct wring_lines *lines, int from, int to, uint32_t rank,
                     struct wring_outputs *outputs)
{
    *lines = (struct wring_lines){.from = from, .to = to, .rank = rank, .outputs = outputs};
    lines->text = malloc(WRING_LINE_MAX);
    return lines->text != NULL ? 0 : -1;
}

void wring_lines_finish(struct wring_lines *lines)
{
    if (lines->from >= 0)
        close(lines->from);
    free(lines->text);
    *lines = (struct wring_lines){.from = -1};
}

static const char *name_of(int to)
{
    return to == STDOUT_FILENO ? "standard output" : "standard error";
}

/** An output that is gone is not the ranks' affair: what they write is dropped from here on. */
static void give_up(struct wring_outputs *outputs, int to, int why)
{
    struct wring_output_end *end = &outputs->ends[to - STDOUT_FILENO];

    end->gone = true;
    end->failed = why != EPIPE; /* a reader who has had enough is no failure */
    if (why == EPIPE)
        wring_fail(outputs->name, "%s has no reader any more: what ranks write to it is dropped",
                   name_of(to));
    else
        wring_fail(outputs->name, "%s cannot be written: %s: what ranks write to it is dropped",
                   name_of(to), strerror(why));
}

/** Others may have made it one that does not block. */
static void await_room(int to)
{
    struct pollfd room = {.fd = to, .events = POLLOUT};
    poll(&room, 1, -1);
}

/** Write all parts. */
static void write_parts(struct wring_outputs *outputs, int to, struct iovec *parts, int n)
{
    while (n > 0 && !outputs->ends[to - STDOUT_FILENO].gone) {
        ssize_t written = writev(to, parts, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && errno == EAGAIN) {
            await_room(to);
            continue;
        }
        if (written < 0) {
            give_up(outputs, to, errno);
            return;
        }
        while (n > 0 && (size_t)written >= parts->iov_len) {
            written -= (ssize_t)parts->iov_len;
            parts++;
            n--;
        }
        if (n > 0) {
            parts->iov_base = (char *)parts->iov_base + written;
            parts->iov_len -= (size_t)written;
        }
    }
}

/** One line of `bytes` bytes, its line break not included. */
static void pass_on(const struct wring_lines *lines, const char *text, size_t bytes)
{
    char mark[16];
    int mark_bytes = snprintf(mark, sizeof(mark), "[%u] ", lines->rank);
    struct iovec parts[] = {
        {mark, (size_t)mark_bytes},
        {(void *)(uintptr_t)text, bytes},
        {(void *)(uintptr_t) "\n", 1},
    };
    write_parts(lines->outputs, lines->to, parts, 3);
}

static void pass_on_whole_lines(struct wring_lines *lines)
{
    char *begin = lines->text, *end = lines->text + lines->bytes, *line_break;

    while ((line_break = memchr(begin, '\n', (size_t)(end - begin))) != NULL) {
        pass_on(lines, begin, (size_t)(line_break - begin));
        begin = line_break + 1;
    }
    lines->bytes = (size_t)(end - begin);
    memmove(lines->text, begin, lines->bytes);
}

static void pass_on_rest(struct wring_lines *lines)
{
    if (lines->bytes > 0)
        pass_on(lines, lines->text, lines->bytes);
    lines->bytes = 0;
}

void wring_lines_pump(struct wring_lines *lines)
{
    ssize_t got = read(lines->from, lines->text + lines->bytes, WRING_LINE_MAX - lines->bytes);

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0) {
        pass_on_rest(lines);
        close(lines->from);
        lines->from = -1;
        return;
    }
    lines->bytes += (size_t)got;
    pass_on_whole_lines(lines);
    if (lines->bytes == WRING_LINE_MAX)
        pass_on_rest(lines);
}
