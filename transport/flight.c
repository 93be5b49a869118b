/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks tell each other where they are. */
#include "transport/flight.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/collective/collective.h"
#include "transport/control_tree.h"
#include "transport/engine.h"
#include "transport/pairs.h"

#define WRING_MODULE "where"
#define WORLD_GENERATION 1 /* of the group of all ranks */
#define RANKS_NAMED 3
#define SEEKS 8                              /* silent ranks that the root looks for at a time */
#define SEEK_AGAIN_NS (50 * WRING_NS_PER_MS) /* between such looks */
#define SPREAD 0x9E3779B97F4A7C15u           /* odd: generations of a key have names of their own */

uint64_t wring_flight_group(const struct wring_pairs *pairs)
{
    if (pairs->generation == 0)
        return 0;
    uint64_t name = wring_get_u64(pairs->key.bytes) ^ pairs->generation * SPREAD;
    return name != 0 ? name : 1;
}

/** Calls of groups, and buckets but for their legs. */
static bool is_counted(const struct wring_collective *collective, const struct wring_cease *cease)
{
    return collective->whole == NULL && collective->cease != NULL &&
           (cease == NULL || collective->cease == cease) &&
           (collective->calls != NULL || collective->name != NULL);
}

static enum wring_status read_status(const struct wring_collective *collective)
{
    return (enum wring_status)atomic_load_explicit(&collective->status, memory_order_acquire);
}

/** How many calls or steps were begun. Steps past the engine are counted by their puts. */
static uint64_t count_begun(const struct wring_collective *collective)
{
    const struct wring_shm_flags *flags = collective->shm_flags;
    if (collective->calls != NULL)
        return collective->calls->begun;
    if (flags == NULL || flags->n_others == 0)
        return collective->begun;
    return atomic_load_explicit(&flags->puts, memory_order_relaxed) / flags->n_others;
}

/** The oldest of the most urgent collectives under way. NULL: there is none */
static const struct wring_collective *find_waiting(const struct wring_engine *engine,
                                                   const struct wring_cease *cease)
{
    for (const struct wring_collective *at = engine->active; at != NULL; at = at->next_active) {
        const struct wring_collective *whole = at->whole != NULL ? at->whole : at;
        if (is_counted(whole, cease))
            return whole;
    }
    for (const struct wring_collective *at = engine->listed; at != NULL; at = at->next_listed)
        if (is_counted(at, cease) && read_status(at) == WRING_ERR_AGAIN)
            return at;
    return NULL;
}

/** When it ended, among all that the engine ran. Steps by shm_flags end past the engine, in the
 * thread that waits: they have no such number, and 0 stands for it. */
static uint64_t ended_at(const struct wring_collective *collective)
{
    return collective->shm_flags == NULL ? collective->ended : 0;
}

/** The collective that was posted last. NULL: there is none */
static const struct wring_collective *find_ended(const struct wring_engine *engine,
                                                 const struct wring_cease *cease)
{
    const struct wring_collective *last = NULL;

    for (const struct wring_collective *at = engine->listed; at != NULL; at = at->next_listed)
        if (is_counted(at, cease) && count_begun(at) > 0 &&
            (last == NULL || ended_at(at) > ended_at(last) ||
             (ended_at(at) == ended_at(last) && count_begun(at) > count_begun(last))))
            last = at;
    return last;
}

static const struct wring_pairs *find_group_by_id(const struct wring_engine *engine, uint64_t group)
{
    const struct wring_pairs *at = engine->pairs;
    while (at != NULL && wring_flight_group(at) != group)
        at = at->next;
    return at;
}

static const struct wring_pairs *find_collective_group(const struct wring_engine *engine,
                                                       const struct wring_collective *collective)
{
    const struct wring_pairs *at = engine->pairs;
    while (at != NULL && at->cease != collective->cease)
        at = at->next;
    return at;
}

static uint64_t count_all_begun(const struct wring_engine *engine, const struct wring_cease *cease)
{
    uint64_t all = 0;
    for (const struct wring_collective *at = engine->listed; at != NULL; at = at->next_listed)
        if (is_counted(at, cease))
            all += count_begun(at);
    return all;
}

/* ---- in words ---- */

/** "all 4 ranks", "the group of ranks 0, 2, 5" */
static void name_group(const struct wring_collective *collective, uint64_t generation, char *text,
                       size_t bytes)
{
    const struct wring_members *members = &collective->members;
    size_t at;

    if (generation == WORLD_GENERATION) {
        snprintf(text, bytes, "all %" PRIu32 " ranks", members->n);
        return;
    }
    at = (size_t)snprintf(text, bytes, "the group of ranks");
    for (uint32_t i = 0; i < members->n && i < RANKS_NAMED && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s %" PRIu32, i > 0 ? "," : "",
                               members->ranks[i]);
    if (members->n > RANKS_NAMED && at < bytes)
        snprintf(text + at, bytes - at, " and %" PRIu32 " more", members->n - RANKS_NAMED);
}

/** " (4000 bytes)" of one member's contribution, where that is known. */
static void name_bytes(const struct wring_op_check *call, char *text, size_t bytes)
{
    uint64_t each = call->kind == WRING_CALL_BROADCAST ? 1 : wring_dtype_bytes(call->dtype);

    text[0] = '\0';
    if (call->kind != WRING_CALL_BARRIER && call->kind != WRING_CALL_ALLTOALLV && each > 1)
        snprintf(text, bytes, " (%" PRIu64 " bytes)", call->elems * each);
}

static void name_call(const struct wring_collective *collective, const char *group, char *text,
                      size_t bytes)
{
    const struct wring_op_history *calls = collective->calls;
    const struct wring_op_check *call =
        &calls->kept[(calls->begun - 1) % WRING_OP_HISTORY_KEPT].call;
    char what[WRING_CALL_TEXT], size[32];

    wring_call_describe(call, what);
    name_bytes(call, size, sizeof(size));
    snprintf(text, bytes, "call %" PRIu64 " of %.54s, %.54s%s", calls->begun, group, what, size);
}

static void name_step(const struct wring_collective *collective, const char *group, char *text,
                      size_t bytes)
{
    const struct wring_partition *partition = &collective->work.partition;
    char name[WRING_TEXT_SHORT];

    snprintf(text, bytes, "step %" PRIu64 " of bucket '%s' of %s (%" PRIu64 " bytes)",
             count_begun(collective), wring_text_short(collective->name, name), group,
             partition->elems * partition->elem_bytes);
}

static uint32_t waited_ms(const struct wring_collective *collective)
{
    uint64_t now_ns = wring_now_ns();
    if (collective->shm_flags != NULL || collective->started_ns == 0 ||
        collective->started_ns > now_ns)
        return 0;
    uint64_t ms = (now_ns - collective->started_ns) / WRING_NS_PER_MS;
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

static void fill_row(const struct wring_engine *engine, const struct wring_pairs *group,
                     const struct wring_collective *collective, struct wring_flight_row *row)
{
    char name[WRING_TEXT_SHORT];
    enum wring_status status = read_status(collective);

    row->group = wring_flight_group(group);
    row->posted = count_all_begun(engine, group->cease);
    name_group(collective, group->generation, name, sizeof(name));
    if (count_begun(collective) == 0)
        return; /* it is posted, and ends before it begins */
    row->state = status == WRING_ERR_AGAIN       ? WRING_FLIGHT_WAITS
                 : status == WRING_ERR_CANCELLED ? WRING_FLIGHT_ABORTED
                                                 : WRING_FLIGHT_ENDED;
    row->waited_ms = row->state == WRING_FLIGHT_WAITS ? waited_ms(collective) : 0;
    if (collective->calls != NULL)
        name_call(collective, name, row->text, sizeof(row->text));
    else
        name_step(collective, name, row->text, sizeof(row->text));
}

/** Where we are. @param group  0: in any one @param row  out */
static void flight_describe(const struct wring_engine *engine, uint64_t group,
                            struct wring_flight_row *row)
{
    const struct wring_pairs *pairs = group != 0 ? find_group_by_id(engine, group) : NULL;
    const struct wring_cease *cease = pairs != NULL ? pairs->cease : NULL;

    *row = (struct wring_flight_row){.state = WRING_FLIGHT_NOTHING, .group = group};
    if (group != 0 && pairs == NULL) {
        row->state = WRING_FLIGHT_STRANGER;
        return;
    }
    const struct wring_collective *collective = find_waiting(engine, cease);
    if (collective == NULL)
        collective = find_ended(engine, cease);
    if (collective != NULL)
        pairs = find_collective_group(engine, collective);
    if (collective != NULL && pairs != NULL)
        fill_row(engine, pairs, collective, row);
}

/* ---- table ---- */

/* The rows of all ranks, in a line and in a table. */

#define NAMED 4 /* ranks in the line */

/** How a rank stands to the ranks that wait. */
enum standing {
    BEHIND, /* it has not posted the call or step in which they wait */
    LOST,
    SILENT,
    LEFT,
    ELSEWHERE, /* it waits in another group, or its last call was there */
    WAITS,     /* it is one of them */
    PAST,      /* it has ended that */
    STRANGER,
    STANDINGS,
};

/** The call or step in which most waiting ranks wait. */
struct front {
    uint64_t group, posted; /* 0: nobody waits */
    const struct wring_flight_row *row;
};

static bool is_in_collective(const struct wring_flight_row *row)
{
    return row->state == WRING_FLIGHT_WAITS || row->state == WRING_FLIGHT_ABORTED;
}

static bool has_posted(const struct wring_flight_row *row)
{
    return is_in_collective(row) || row->state == WRING_FLIGHT_ENDED;
}

/** The group that most wait in, by Boyer and Moore's vote, which no table of groups is needed for;
 *  without a majority one of those with many. */
static uint64_t vote_for_group(const struct wring_flight_row *rows, uint32_t n)
{
    uint64_t group = 0;
    uint32_t votes = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (!is_in_collective(&rows[i]))
            continue;
        if (votes == 0)
            group = rows[i].group;
        votes = rows[i].group == group ? votes + 1 : votes - 1;
    }
    return group;
}

static struct front find_front(const struct wring_flight_row *rows, uint32_t n)
{
    struct front front = {.group = vote_for_group(rows, n)};

    for (uint32_t i = 0; i < n; i++)
        if (has_posted(&rows[i]) && rows[i].group == front.group && rows[i].posted > front.posted)
            front.posted = rows[i].posted;
    for (uint32_t i = 0; i < n && front.row == NULL; i++)
        if (is_in_collective(&rows[i]) && rows[i].group == front.group &&
            rows[i].posted == front.posted)
            front.row = &rows[i];
    return front;
}

static enum standing find_standing(const struct front *front, const struct wring_flight_row *row)
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
    return is_in_collective(row) ? WAITS : PAST;
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

/** "ranks 1, 5 and 7 more are behind; " @param one, many  the predicate, for one rank and for
 *  several */
static void add_ranks(char *line, const struct wring_flight_row *rows, uint32_t n,
                      const struct front *front, enum standing standing, const char *one,
                      const char *many)
{
    uint32_t all = 0, named = 0;

    for (uint32_t i = 0; i < n; i++)
        all += find_standing(front, &rows[i]) == standing;
    if (all == 0)
        return;
    add(line, "%s%s", line[0] != '\0' ? "; " : "", all == 1 ? "rank" : "ranks");
    for (uint32_t i = 0; i < n && named < NAMED; i++)
        if (find_standing(front, &rows[i]) == standing)
            add(line, "%s %" PRIu32, named++ > 0 ? "," : "", i);
    if (all > named)
        add(line, " and %" PRIu32 " more", all - named);
    add(line, " %s", all == 1 ? one : many);
}

static uint32_t count_standing(const struct wring_flight_row *rows, uint32_t n,
                               const struct front *front, enum standing standing)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < n; i++)
        all += find_standing(front, &rows[i]) == standing;
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
    uint32_t waiting = count_standing(rows, n, &front, WAITS);
    if (line[0] == '\0')
        add(line, "no rank is behind");
    if (front.row != NULL)
        add(line, "; %" PRIu32 " %s in %s", waiting, waiting == 1 ? "is" : "are", front.row->text);
}

/* ---- the table ---- */

static void describe_row(const struct wring_flight_row *row, uint32_t rank, char *line)
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
    uint32_t named = 0, members = n - count_standing(rows, n, &front, STRANGER);

    wring_flight_sum_up(rows, n, line);
    say(arg, line);
    for (enum standing standing = BEHIND; standing < STRANGER; standing++) {
        for (uint32_t i = 0; i < n && named < WRING_FLIGHT_NAMED; i++) {
            if (find_standing(&front, &rows[i]) != standing)
                continue;
            describe_row(&rows[i], i, line);
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
        members - named, members, count_standing(rows, n, &front, BEHIND),
        count_standing(rows, n, &front, LOST), count_standing(rows, n, &front, SILENT),
        count_standing(rows, n, &front, LEFT), count_standing(rows, n, &front, ELSEWHERE),
        count_standing(rows, n, &front, WAITS), count_standing(rows, n, &front, PAST));
    say(arg, line);
}

/* ---- flight ---- */

/** Words of a message, its `a`; `b` is the number of the question, 0: of the job's failure. */
enum word {
    ASK = 1, /* to the root: who is behind in this group? */
    CALL,    /* the root to all: where are you in it? */
    SAY,     /* to the root: there */
    TELL,    /* the root to all: this is who is behind */
};

static struct wring_control_tree *tree_of(const struct wring_engine *engine)
{
    return engine->fabric->tree;
}

static bool is_tree_root(const struct wring_engine *engine)
{
    return tree_of(engine) == NULL || wring_control_tree_is_root(tree_of(engine));
}

/* ---- what ranks have said ---- */

static void clear_rows(struct wring_engine *engine)
{
    struct wring_flight *flight = &engine->flight;
    uint32_t n = engine->fabric->size;

    if (flight->rows == NULL)
        flight->rows = calloc(n, sizeof(*flight->rows));
    for (uint32_t i = 0; i < n && flight->rows != NULL; i++)
        flight->rows[i] = (struct wring_flight_row){.state = WRING_FLIGHT_SILENT};
}

/** Have all said where they are who have not left? */
static bool has_heard_all(const struct wring_engine *engine)
{
    const struct wring_fabric *fabric = engine->fabric;

    for (uint32_t i = 0; i < fabric->size; i++)
        if (engine->flight.rows[i].state == WRING_FLIGHT_SILENT && !fabric->peers[i].left)
            return false;
    return true;
}

static void log_line(void *arg, const char *line)
{
    const struct wring_engine *engine = arg;
    wring_warn(engine->log, "%s", line);
}

/** Where nobody has posted anything, as while ranks join, there is nothing to tell. */
static bool has_any_posted(const struct wring_engine *engine)
{
    uint32_t i = 0;
    while (i < engine->fabric->size && engine->flight.rows[i].text[0] == '\0')
        i++;
    return i < engine->fabric->size;
}

static void log_table(const struct wring_engine *engine)
{
    if (!has_any_posted(engine))
        return;
    wring_flight_table(engine->flight.rows, engine->fabric->size, log_line, (void *)engine);
}

/** Of a rank that has closed its session nothing is expected. */
static void note_departed(struct wring_engine *engine)
{
    for (uint32_t i = 0; i < engine->fabric->size; i++) {
        struct wring_flight_row *row = &engine->flight.rows[i];
        if (row->state == WRING_FLIGHT_SILENT && engine->fabric->peers[i].left)
            row->state = WRING_FLIGHT_LEFT;
    }
}

/* ---- words ---- */

void wring_flight_write(const struct wring_flight_row *row, char *text, size_t bytes)
{
    snprintf(text, bytes, "%x %" PRIx64 " %" PRIx64 " %" PRIx32 "|%s", row->state, row->group,
             row->posted, row->waited_ms, row->text);
}

bool wring_flight_read(const char *text, struct wring_flight_row *row)
{
    struct wring_flight_row read = {0};
    unsigned state;
    int end = 0;
    int n = sscanf(text, "%1x %16" SCNx64 " %16" SCNx64 " %8" SCNx32 "|%n", &state, &read.group,
                   &read.posted, &read.waited_ms, &end);

    if (n != 4 || end == 0 || state >= WRING_FLIGHT_SILENT ||
        strlen(text + end) >= sizeof(read.text))
        return false;
    read.state = (enum wring_flight_state)state;
    memcpy(read.text, text + end, strlen(text + end) + 1);
    *row = read;
    return true;
}

/** Say where a rank is: us, or another one. */
static void say(struct wring_engine *engine, uint32_t rank, uint32_t number,
                const struct wring_flight_row *row)
{
    struct wring_control control = {.kind = WRING_CONTROL_FLIGHT, .a = SAY, .b = number};

    wring_flight_write(row, control.text, WRING_SEND_MAX - 16 - 8 + 1);
    if (tree_of(engine) != NULL)
        wring_control_tree_raise(tree_of(engine), rank, &control);
}

static void heard_row(struct wring_engine *engine, uint32_t from,
                      const struct wring_control *control)
{
    struct wring_flight *flight = &engine->flight;
    struct wring_flight_row row = {.state = WRING_FLIGHT_SILENT};
    bool wanted =
        flight->failed ? control->b == 0 : control->b != 0 && control->b == flight->number;

    if (wanted && flight->rows != NULL && wring_flight_read(control->text, &row) &&
        (flight->rows[from].state == WRING_FLIGHT_SILENT || row.state != WRING_FLIGHT_LOST))
        flight->rows[from] = row;
}

/* ---- a question ---- */

static void keep_answer(struct wring_engine *engine, uint64_t group, const char *line)
{
    struct wring_flight *flight = &engine->flight;

    snprintf(flight->line, sizeof(flight->line), "%s", line);
    atomic_store_explicit(&flight->told_group, group, memory_order_relaxed);
    atomic_fetch_add_explicit(&flight->told, 1, memory_order_release);
}

static bool is_logged_lately(const struct wring_flight *flight, uint64_t now_ns)
{
    return flight->logged_group == flight->group &&
           now_ns - flight->logged_ns < WRING_FLIGHT_AGAIN_NS;
}

static void begin_inquiry(struct wring_engine *engine, uint64_t group);

static void end_inquiry(struct wring_engine *engine)
{
    struct wring_flight *flight = &engine->flight;
    struct wring_control control = {.kind = WRING_CONTROL_FLIGHT, .a = TELL, .b = flight->number};
    char line[WRING_FLIGHT_LINE];
    uint64_t now_ns = wring_now_ns();

    note_departed(engine);
    wring_flight_sum_up(flight->rows, engine->fabric->size, line);
    if (!is_logged_lately(flight, now_ns))
        log_table(engine);
    flight->logged_group = flight->group;
    flight->logged_ns = now_ns;
    flight->number = 0;
    snprintf(control.text, sizeof(control.text), "%016" PRIx64 "|%s", flight->group, line);
    if (tree_of(engine) != NULL)
        wring_control_tree_spread(tree_of(engine), &control);
    keep_answer(engine, flight->group, line);
    if (flight->n_asked == 0)
        return;
    uint64_t next = flight->asked[0];
    memmove(flight->asked, flight->asked + 1, --flight->n_asked * sizeof(*flight->asked));
    begin_inquiry(engine, next);
}

static void begin_inquiry(struct wring_engine *engine, uint64_t group)
{
    struct wring_flight *flight = &engine->flight;
    struct wring_control control = {.kind = WRING_CONTROL_FLIGHT, .a = CALL};

    clear_rows(engine);
    if (flight->rows == NULL)
        return; /* the asking rank gets no answer in time */
    flight->numbers += flight->numbers + 1 == 0 ? 2 : 1;
    flight->number = control.b = flight->numbers;
    flight->group = group;
    flight->until_ns = wring_deadline_in(WRING_FLIGHT_NS);
    flight->seek_ns = wring_deadline_in(WRING_FLIGHT_SEEK_NS);
    flight_describe(engine, group, &flight->rows[engine->fabric->rank]);
    snprintf(control.text, sizeof(control.text), "%016" PRIx64, group);
    if (tree_of(engine) != NULL)
        wring_control_tree_spread(tree_of(engine), &control);
}

/** The root is asked. */
static void request_inquiry(struct wring_engine *engine, uint64_t group)
{
    struct wring_flight *flight = &engine->flight;
    bool known = flight->number != 0 && flight->group == group;

    for (uint32_t i = 0; i < flight->n_asked; i++)
        known |= flight->asked[i] == group;
    if (flight->failed || known)
        return;
    if (flight->number == 0)
        begin_inquiry(engine, group);
    else if (flight->n_asked < WRING_FLIGHT_ASKS)
        flight->asked[flight->n_asked++] = group;
}

void wring_flight_ask(struct wring_engine *engine, uint64_t group)
{
    struct wring_control control = {.kind = WRING_CONTROL_FLIGHT, .a = ASK};

    snprintf(control.text, sizeof(control.text), "%016" PRIx64, group);
    if (is_tree_root(engine))
        request_inquiry(engine, group);
    else
        wring_control_tree_raise(tree_of(engine), engine->fabric->rank, &control);
}

void wring_flight_poll(struct wring_engine *engine)
{
    struct wring_flight *flight = &engine->flight;
    if (flight->number != 0 && (has_heard_all(engine) || wring_now_ns() >= flight->until_ns))
        end_inquiry(engine);
}

uint64_t wring_flight_deadline(const struct wring_engine *engine)
{
    const struct wring_flight *flight = &engine->flight;

    if (flight->number != 0)
        return flight->until_ns;
    return flight->failed && !flight->settled && is_tree_root(engine) ? flight->seek_ns
                                                                      : WRING_NEVER;
}

/** @return the group that a message is about; 0: it is malformed */
static uint64_t read_group(const struct wring_control *control)
{
    uint64_t group = 0;
    return sscanf(control->text, "%16" SCNx64, &group) == 1 ? group : 0;
}

static void heard_call(struct wring_engine *engine, const struct wring_control *control)
{
    struct wring_flight_row row;
    uint64_t group = read_group(control);

    if (group == 0 || engine->flight.failed)
        return;
    flight_describe(engine, group, &row);
    say(engine, engine->fabric->rank, control->b, &row);
}

static void heard_answer(struct wring_engine *engine, const struct wring_control *control)
{
    const char *line = strchr(control->text, '|');
    uint64_t group = read_group(control);

    if (control->b == 0)
        engine->flight.settled = true;
    else if (group != 0 && line != NULL)
        keep_answer(engine, group, line + 1);
}

void wring_flight_heard(struct wring_engine *engine, uint32_t from,
                        const struct wring_control *control)
{
    uint64_t group;

    switch (control->a) {
    case ASK:
        group = read_group(control);
        if (group != 0 && is_tree_root(engine))
            request_inquiry(engine, group);
        return;
    case CALL:
        heard_call(engine, control);
        return;
    case SAY:
        heard_row(engine, from, control);
        return;
    case TELL:
        heard_answer(engine, control);
        return;
    default:
        return; /* of a later version */
    }
}

/* ---- the job fails ---- */

/** Say all that we know, if there is a way up. */
static void send_all_rows(struct wring_engine *engine)
{
    struct wring_flight *flight = &engine->flight;

    flight->parent = wring_control_tree_parent(tree_of(engine));
    if (flight->parent == engine->fabric->rank)
        return;
    for (uint32_t i = 0; i < engine->fabric->size; i++)
        if (flight->rows[i].state < WRING_FLIGHT_SILENT)
            say(engine, i, 0, &flight->rows[i]);
}

void wring_flight_failing(struct wring_engine *engine)
{
    struct wring_flight *flight = &engine->flight;

    if (tree_of(engine) == NULL)
        return;
    clear_rows(engine);
    if (flight->rows == NULL)
        return;
    flight->failed = true;
    flight->number = 0;
    flight->until_ns = wring_deadline_in(WRING_FLIGHT_NS);
    flight_describe(engine, 0, &flight->rows[engine->fabric->rank]);
    send_all_rows(engine);
}

void wring_flight_lost(struct wring_engine *engine, uint32_t rank)
{
    struct wring_flight *flight = &engine->flight;

    if (!flight->failed || flight->rows[rank].state != WRING_FLIGHT_SILENT)
        return;
    flight->rows[rank] = (struct wring_flight_row){.state = WRING_FLIGHT_LOST};
    say(engine, rank, 0, &flight->rows[rank]);
}

/** The root. Nobody says of a rank that it is lost if its neighbours are, too: see whether anybody
 * is at its port. A few are looked for; more are slow rather than lost. */
static void seek_silent(struct wring_engine *engine)
{
    struct wring_flight *flight = &engine->flight;
    const struct wring_fabric *fabric = engine->fabric;
    uint64_t now_ns = wring_now_ns();
    bool again = now_ns >= flight->seek_ns;

    if (again)
        flight->seek_ns = now_ns + SEEK_AGAIN_NS;
    for (uint32_t i = 0, n = 0; i < fabric->size && n < SEEKS; i++) {
        if (flight->rows[i].state != WRING_FLIGHT_SILENT || fabric->peers[i].left)
            continue;
        n++;
        if (wring_control_tree_is_gone(tree_of(engine), i))
            flight->rows[i] = (struct wring_flight_row){.state = WRING_FLIGHT_LOST};
        else if (again)
            wring_control_tree_seek(tree_of(engine), i);
    }
}

/** The root. The others need not wait for more. */
static void settle_last_table(struct wring_engine *engine)
{
    const struct wring_control control = {.kind = WRING_CONTROL_FLIGHT, .a = TELL};

    engine->flight.settled = true;
    note_departed(engine);
    log_table(engine);
    wring_control_tree_spread(tree_of(engine), &control);
}

bool wring_flight_account(struct wring_engine *engine)
{
    struct wring_flight *flight = &engine->flight;

    if (!flight->failed || flight->settled)
        return true;
    if (is_tree_root(engine))
        seek_silent(engine);
    if (is_tree_root(engine) && (has_heard_all(engine) || wring_now_ns() >= flight->until_ns))
        settle_last_table(engine);
    else if (!is_tree_root(engine) && wring_control_tree_parent(tree_of(engine)) != flight->parent)
        send_all_rows(engine);
    return flight->settled;
}

void wring_flight_finish(struct wring_flight *flight)
{
    free(flight->rows);
    flight->rows = NULL;
}
