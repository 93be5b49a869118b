/* SPDX-License-Identifier: Apache-2.0 */
/* What all ranks have said, in a line and in a table. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "transport/flight.h"

#define NAMED 4 /* ranks in the line */

/** How a rank stands to those who wait. */
enum standing {
    BEHIND, /* it has not posted what they wait in */
    LOST,
    SILENT,
    LEFT,
    ELSEWHERE, /* it waits in another group, or its last call was there */
    WAITS,     /* it is one of them */
    PAST,      /* it has ended that */
    STRANGER,
    STANDINGS,
};

/** What most ranks that wait, wait in. */
struct front {
    uint64_t group, posted; /* 0: nobody waits */
    const struct wring_flight_row *row;
};

static bool is_in(const struct wring_flight_row *row)
{
    return row->state == WRING_FLIGHT_WAITS || row->state == WRING_FLIGHT_ABORTED;
}

static bool has_posted(const struct wring_flight_row *row)
{
    return is_in(row) || row->state == WRING_FLIGHT_ENDED;
}

/** The group that most wait in, by Boyer and Moore's vote, which no table of groups is needed for;
 *  without a majority one of those with many. */
static uint64_t vote(const struct wring_flight_row *rows, uint32_t n)
{
    uint64_t group = 0;
    uint32_t votes = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (!is_in(&rows[i]))
            continue;
        if (votes == 0)
            group = rows[i].group;
        votes = rows[i].group == group ? votes + 1 : votes - 1;
    }
    return group;
}

static struct front find_front(const struct wring_flight_row *rows, uint32_t n)
{
    struct front front = {.group = vote(rows, n)};

    for (uint32_t i = 0; i < n; i++)
        if (has_posted(&rows[i]) && rows[i].group == front.group && rows[i].posted > front.posted)
            front.posted = rows[i].posted;
    for (uint32_t i = 0; i < n && front.row == NULL; i++)
        if (is_in(&rows[i]) && rows[i].group == front.group && rows[i].posted == front.posted)
            front.row = &rows[i];
    return front;
}

static enum standing stand(const struct front *front, const struct wring_flight_row *row)
{
    switch (row->state) {
    case WRING_FLIGHT_LOST:
        return LOST;
    case WRING_FLIGHT_SILENT:
        return SILENT;
    case WRING_FLIGHT_LEFT:
        return LEFT;
    case WRING_FLIGHT_STRANGER:
        return STRANGER;
    case WRING_FLIGHT_NOTHING:
        return front->group != 0 ? BEHIND : ELSEWHERE;
    case WRING_FLIGHT_WAITS:
    case WRING_FLIGHT_ENDED:
    case WRING_FLIGHT_ABORTED:
        break;
    }
    if (front->group == 0 || row->group != front->group)
        return ELSEWHERE;
    if (row->posted < front->posted)
        return BEHIND;
    return is_in(row) ? WAITS : PAST;
}

/* ---- the line ---- */

__attribute__((format(printf, 2, 3))) static void add(char *line, const char *format, ...)
{
    size_t at = strlen(line);
    va_list args;

    va_start(args, format);
    vsnprintf(line + at, WRING_FLIGHT_LINE - at, format, args);
    va_end(args);
}

/** "ranks 1, 5 and 7 more are behind; " @param one, many  of what they do */
static void add_ranks(char *line, const struct wring_flight_row *rows, uint32_t n,
                      const struct front *front, enum standing standing, const char *one,
                      const char *many)
{
    uint32_t all = 0, named = 0;

    for (uint32_t i = 0; i < n; i++)
        all += stand(front, &rows[i]) == standing;
    if (all == 0)
        return;
    add(line, "%s%s", line[0] != '\0' ? "; " : "", all == 1 ? "rank" : "ranks");
    for (uint32_t i = 0; i < n && named < NAMED; i++)
        if (stand(front, &rows[i]) == standing)
            add(line, "%s %" PRIu32, named++ > 0 ? "," : "", i);
    if (all > named)
        add(line, " and %" PRIu32 " more", all - named);
    add(line, " %s", all == 1 ? one : many);
}

static uint32_t count(const struct wring_flight_row *rows, uint32_t n, const struct front *front,
                      enum standing standing)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < n; i++)
        all += stand(front, &rows[i]) == standing;
    return all;
}

void wring_flight_sum_up(const struct wring_flight_row *rows, uint32_t n, char *line)
{
    const struct front front = find_front(rows, n);

    line[0] = '\0';
    add_ranks(line, rows, n, &front, BEHIND, "is behind", "are behind");
    add_ranks(line, rows, n, &front, LOST, "is lost", "are lost");
    add_ranks(line, rows, n, &front, SILENT, "does not say where it is",
              "do not say where they are");
    add_ranks(line, rows, n, &front, LEFT, "has closed its session", "have closed their sessions");
    uint32_t waiting = count(rows, n, &front, WAITS);
    if (line[0] == '\0')
        add(line, "no rank is behind");
    if (front.row != NULL)
        add(line, "; %" PRIu32 " %s in %s", waiting, waiting == 1 ? "is" : "are", front.row->text);
}

/* ---- the table ---- */

static void describe(const struct wring_flight_row *row, uint32_t rank, char *line)
{
    line[0] = '\0';
    add(line, "rank %" PRIu32 " ", rank);
    switch (row->state) {
    case WRING_FLIGHT_NOTHING:
        add(line, "has posted nothing");
        return;
    case WRING_FLIGHT_WAITS:
        add(line, "waits in %s", row->text);
        if (row->waited_ms > 0)
            add(line, ", for %.3g s", row->waited_ms / 1e3);
        return;
    case WRING_FLIGHT_ENDED:
        add(line, "has posted nothing after %s, which has ended", row->text);
        return;
    case WRING_FLIGHT_ABORTED:
        add(line, "was in %s", row->text);
        return;
    case WRING_FLIGHT_LOST:
        add(line, "is lost");
        return;
    case WRING_FLIGHT_STRANGER:
        add(line, "is not in the group");
        return;
    case WRING_FLIGHT_SILENT:
        add(line, "does not say where it is");
        return;
    case WRING_FLIGHT_LEFT:
        add(line, "has closed its session");
        return;
    }
}

/** Those who are why others wait come first. */
void wring_flight_table(const struct wring_flight_row *rows, uint32_t n,
                        void (*say)(void *arg, const char *line), void *arg)
{
    const struct front front = find_front(rows, n);
    char line[WRING_FLIGHT_LINE];
    uint32_t named = 0, members = n - count(rows, n, &front, STRANGER);

    wring_flight_sum_up(rows, n, line);
    say(arg, line);
    for (enum standing standing = BEHIND; standing < STRANGER; standing++) {
        for (uint32_t i = 0; i < n && named < WRING_FLIGHT_NAMED; i++) {
            if (stand(&front, &rows[i]) != standing)
                continue;
            describe(&rows[i], i, line);
            say(arg, line);
            named++;
        }
    }
    if (members <= named)
        return;
    line[0] = '\0';
    add(line,
        "and %" PRIu32 " more; of all %" PRIu32 " are %" PRIu32 " behind, %" PRIu32
        " lost, %" PRIu32 " silent, %" PRIu32 " gone, %" PRIu32 " elsewhere, %" PRIu32
        " waiting, %" PRIu32 " past that",
        members - named, members, count(rows, n, &front, BEHIND), count(rows, n, &front, LOST),
        count(rows, n, &front, SILENT), count(rows, n, &front, LEFT),
        count(rows, n, &front, ELSEWHERE), count(rows, n, &front, WAITS),
        count(rows, n, &front, PAST));
    say(arg, line);
}
