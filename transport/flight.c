/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks tell each other where they are. */
#include "transport/flight.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/control_tree.h"
#include "transport/engine.h"

#define WRING_MODULE "where"

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

static bool is_root(const struct wring_engine *engine)
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
static bool is_complete(const struct wring_engine *engine)
{
    const struct wring_fabric *fabric = engine->fabric;

    for (uint32_t i = 0; i < fabric->size; i++)
        if (engine->flight.rows[i].state == WRING_FLIGHT_SILENT && !fabric->peers[i].left)
            return false;
    return true;
}

static void say_line(void *arg, const char *line)
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
    wring_flight_table(engine->flight.rows, engine->fabric->size, say_line, (void *)engine);
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

/** Say where a rank is, who may be us. */
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

static bool is_logged(const struct wring_flight *flight, uint64_t now_ns)
{
    return flight->logged_group == flight->group &&
           now_ns - flight->logged_ns < WRING_FLIGHT_AGAIN_NS;
}

static void begin(struct wring_engine *engine, uint64_t group);

static void answer(struct wring_engine *engine)
{
    struct wring_flight *flight = &engine->flight;
    struct wring_control control = {.kind = WRING_CONTROL_FLIGHT, .a = TELL, .b = flight->number};
    char line[WRING_FLIGHT_LINE];
    uint64_t now_ns = wring_now_ns();

    note_departed(engine);
    wring_flight_sum_up(flight->rows, engine->fabric->size, line);
    if (!is_logged(flight, now_ns))
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
    begin(engine, next);
}

static void begin(struct wring_engine *engine, uint64_t group)
{
    struct wring_flight *flight = &engine->flight;
    struct wring_control control = {.kind = WRING_CONTROL_FLIGHT, .a = CALL};

    clear_rows(engine);
    if (flight->rows == NULL)
        return; /* whoever asks gets no answer in time */
    flight->numbers += flight->numbers + 1 == 0 ? 2 : 1;
    flight->number = control.b = flight->numbers;
    flight->group = group;
    flight->until_ns = wring_deadline_in(WRING_FLIGHT_NS);
    wring_flight_describe(engine, group, &flight->rows[engine->fabric->rank]);
    snprintf(control.text, sizeof(control.text), "%016" PRIx64, group);
    if (tree_of(engine) != NULL)
        wring_control_tree_spread(tree_of(engine), &control);
}

/** The root is asked. */
static void want(struct wring_engine *engine, uint64_t group)
{
    struct wring_flight *flight = &engine->flight;
    bool known = flight->number != 0 && flight->group == group;

    for (uint32_t i = 0; i < flight->n_asked; i++)
        known |= flight->asked[i] == group;
    if (flight->failed || known)
        return;
    if (flight->number == 0)
        begin(engine, group);
    else if (flight->n_asked < WRING_FLIGHT_ASKS)
        flight->asked[flight->n_asked++] = group;
}

void wring_flight_ask(struct wring_engine *engine, uint64_t group)
{
    struct wring_control control = {.kind = WRING_CONTROL_FLIGHT, .a = ASK};

    snprintf(control.text, sizeof(control.text), "%016" PRIx64, group);
    if (is_root(engine))
        want(engine, group);
    else
        wring_control_tree_raise(tree_of(engine), engine->fabric->rank, &control);
}

void wring_flight_poll(struct wring_engine *engine)
{
    struct wring_flight *flight = &engine->flight;
    if (flight->number != 0 && (is_complete(engine) || wring_now_ns() >= flight->until_ns))
        answer(engine);
}

uint64_t wring_flight_deadline(const struct wring_engine *engine)
{
    return engine->flight.number != 0 ? engine->flight.until_ns : WRING_NEVER;
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
    wring_flight_describe(engine, group, &row);
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
        if (group != 0 && is_root(engine))
            want(engine, group);
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
static void say_all(struct wring_engine *engine)
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
    wring_flight_describe(engine, 0, &flight->rows[engine->fabric->rank]);
    say_all(engine);
}

void wring_flight_lost(struct wring_engine *engine, uint32_t rank)
{
    struct wring_flight *flight = &engine->flight;

    if (!flight->failed || flight->rows[rank].state != WRING_FLIGHT_SILENT)
        return;
    flight->rows[rank] = (struct wring_flight_row){.state = WRING_FLIGHT_LOST};
    say(engine, rank, 0, &flight->rows[rank]);
}

/** The root. The others need not wait for more. */
static void settle(struct wring_engine *engine)
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
    if (is_root(engine) && (is_complete(engine) || wring_now_ns() >= flight->until_ns))
        settle(engine);
    else if (!is_root(engine) && wring_control_tree_parent(tree_of(engine)) != flight->parent)
        say_all(engine);
    return flight->settled;
}

void wring_flight_finish(struct wring_flight *flight)
{
    free(flight->rows);
    flight->rows = NULL;
}
