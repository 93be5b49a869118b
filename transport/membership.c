/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/membership.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "transport/control_tree.h"
#include "transport/engine.h"

#define WRING_MODULE "members"
#define REPEAT_NS (10 * WRING_NS_PER_MS) /* between repetitions, on a tree of few ranks */
#define SEEK_NS (50 * WRING_NS_PER_MS)   /* between looks for ranks that have not come */
#define SEEK_FIRST_NS (5 * WRING_NS_PER_MS)
#define GRACE_NS \
    (1 * WRING_NS_PER_S)    /* for such looks to tell, before a round ends without a quorum */
#define RANKS_PER_REPEAT 64 /* so many more ranks repeat that much less often */

#define ROUNDS_AHEAD ((uint64_t)1 << 16) /* that a rank may have missed */

/* What is known of a rank, in this round. */
#define CAME 1  /* it has come to it */
#define HAS 2   /* it has built `best` */
#define DONE 4  /* it has built the plan of this round */
#define BACK 8  /* it came although it was thought to be lost */
#define LOST 16 /* in any round: nobody is to wait for it */

/** The words of a message: `a`. `b` and `c` are the halves of a round, high and low. */
enum word {
    CALL = 1, /* root to all: come to this round */
    COME,     /* to the root: I have. Body: newcomers at my door; the plan that I have built last,
                 if any */
    NAME,     /* root to all: build this together. Body: a plan */
    BUILT,    /* to the root: I have */
    AGAIN,    /* to the root: I could not */
    MISSED,   /* to the root: rank c is lost, or gives up */
    SETTLE,   /* root to all: the plan in the body is what goes on */
    END,      /* root to all: those who came are no quorum. Body: a text */
};

static struct wring_control_tree *tree_of(const struct wring_engine *engine)
{
    return engine->fabric->tree;
}

static uint32_t size_of(const struct wring_engine *engine)
{
    return engine->fabric->size;
}

static uint32_t rank_of(const struct wring_engine *engine)
{
    return engine->fabric->rank;
}

/* A session of one rank has no tree: that rank leads, and nobody hears it. */

static bool is_root(const struct wring_engine *engine)
{
    return tree_of(engine) == NULL || wring_control_tree_is_root(tree_of(engine));
}

static void spread(struct wring_engine *engine, const struct wring_control *control)
{
    if (tree_of(engine) != NULL)
        wring_control_tree_spread(tree_of(engine), control);
}

static void change(struct wring_membership *own, enum wring_membership_state state)
{
    own->state = state;
    atomic_fetch_add_explicit(&own->changes, 1, memory_order_release);
}

static uint64_t promised_round(const struct wring_membership *own)
{
    return atomic_load_explicit(&own->promised, memory_order_relaxed);
}

/* ---- plans ---- */

uint32_t wring_membership_number(const struct wring_membership_plan *plan, uint32_t rank,
                                 uint32_t ranks, uint32_t *size)
{
    uint32_t number = rank, n = ranks;
    bool behind = false;

    for (uint32_t i = 0; i < plan->n_ranges; i++) {
        const struct wring_membership_range *range = &plan->behind[i];
        uint32_t many = range->last - range->first + 1;
        n -= many;
        behind |= rank >= range->first && rank <= range->last;
        if (rank > range->last)
            number -= many;
    }
    if (size != NULL)
        *size = n;
    return behind ? UINT32_MAX : number;
}

static bool stays_behind(const struct wring_membership_plan *plan, uint32_t rank)
{
    return wring_membership_number(plan, rank, UINT32_MAX, NULL) == UINT32_MAX;
}

uint32_t wring_membership_guests(const struct wring_membership_plan *plan, uint32_t rank,
                                 uint32_t ranks, uint32_t *n)
{
    uint32_t first;

    wring_membership_number(plan, 0, ranks, &first);
    *n = 0;
    for (uint32_t i = 0; i < plan->n_hosts && *n == 0; i++)
        if (plan->hosts[i].rank == rank)
            *n = plan->hosts[i].guests;
        else
            first += plan->hosts[i].guests;
    return first;
}

/** @param guests  of the rank that says so; before the plan */
static void write_plan(uint32_t guests, const struct wring_membership_plan *plan,
                       struct wring_control *control)
{
    struct wring_writer writer = {0};

    wring_write_u32(&writer, guests);
    wring_write_u64(&writer, plan->round);
    wring_write_u64(&writer, plan->nonce);
    wring_write_sized(&writer, plan->address, strlen(plan->address));
    wring_write_u32(&writer, plan->port);
    wring_write_u32(&writer, plan->n_hosts);
    for (uint32_t i = 0; i < plan->n_hosts; i++) {
        wring_write_u32(&writer, plan->hosts[i].rank);
        wring_write_u32(&writer, plan->hosts[i].guests);
    }
    wring_write_u32(&writer, plan->n_ranges);
    for (uint32_t i = 0; i < plan->n_ranges; i++) {
        wring_write_u32(&writer, plan->behind[i].first);
        wring_write_u32(&writer, plan->behind[i].last);
    }
    if (!writer.failed && writer.bytes <= WRING_CONTROL_BODY) {
        memcpy(control->body, writer.data, writer.bytes);
        control->bytes = (uint32_t)writer.bytes;
    }
    free(writer.data);
}

/** @return false: malformed */
static bool read_hosts(struct wring_reader *reader, uint32_t ranks,
                       struct wring_membership_plan *plan)
{
    plan->n_hosts = wring_read_u32(reader);
    if (plan->n_hosts > WRING_MEMBERSHIP_HOSTS)
        return false;
    for (uint32_t i = 0; i < plan->n_hosts; i++) {
        struct wring_membership_host *host = &plan->hosts[i];
        host->rank = wring_read_u32(reader);
        host->guests = wring_read_u32(reader);
        if (host->rank >= ranks || host->guests > WRING_MEMBERSHIP_GUESTS)
            return false;
        plan->guests += host->guests;
    }
    return true;
}

/** @return false: these bytes are no plan of a session of so many ranks */
static bool read_plan(const struct wring_control *control, uint32_t ranks,
                      struct wring_membership_plan *out)
{
    struct wring_reader reader = {control->body, control->bytes, false};
    wring_read_u32(&reader);
    struct wring_membership_plan plan = {.round = wring_read_u64(&reader)};
    uint64_t next = 0;

    plan.nonce = wring_read_u64(&reader);
    wring_read_text(&reader, plan.address, sizeof(plan.address));
    uint32_t port = wring_read_u32(&reader);
    if (!read_hosts(&reader, ranks, &plan))
        return false;
    plan.n_ranges = wring_read_u32(&reader);
    if (reader.failed || port > UINT16_MAX || plan.n_ranges > WRING_MEMBERSHIP_RANGES)
        return false;
    plan.port = (uint16_t)port;
    for (uint32_t i = 0; i < plan.n_ranges; i++) {
        struct wring_membership_range *range = &plan.behind[i];
        range->first = wring_read_u32(&reader);
        range->last = wring_read_u32(&reader);
        if (range->first < next || range->last < range->first || range->last >= ranks)
            return false;
        next = (uint64_t)range->last + 1;
    }
    if (reader.failed || reader.bytes > 0)
        return false;
    *out = plan;
    return true;
}

/* ---- saying ---- */

static struct wring_control make_word(enum word word, uint64_t round)
{
    return (struct wring_control){.kind = WRING_CONTROL_MEMBER,
                                  .a = word,
                                  .b = (uint32_t)(round >> 32),
                                  .c = (uint32_t)round};
}

/** To the root, which hears it as from another one if it is us. */
static void say_to_root(struct wring_engine *engine, const struct wring_control *control)
{
    if (is_root(engine))
        wring_membership_heard(engine, rank_of(engine), control);
    else
        wring_control_tree_raise(tree_of(engine), rank_of(engine), control);
}

static void say_come(struct wring_engine *engine)
{
    const struct wring_membership *own = &engine->membership;
    struct wring_control control = make_word(COME, promised_round(own));

    write_plan(own->guests, &own->built, &control);
    say_to_root(engine, &control);
}

static void say_word(struct wring_engine *engine, enum word word)
{
    struct wring_control control = make_word(word, promised_round(&engine->membership));
    say_to_root(engine, &control);
}

static void say_lost(struct wring_engine *engine, uint32_t rank)
{
    struct wring_control control = make_word(MISSED, rank);
    say_to_root(engine, &control);
}

static void spread_plan(struct wring_engine *engine, enum word word,
                        const struct wring_membership_plan *plan)
{
    struct wring_control control = make_word(word, promised_round(&engine->membership));
    write_plan(0, plan, &control);
    spread(engine, &control);
}

/* ---- the root ---- */

/** Does a rank take part no more, as far as is known here? */
static bool is_lost(const struct wring_engine *engine, uint32_t rank)
{
    uint8_t marks = engine->membership.marks[rank];

    return (marks & BACK) == 0 &&
           ((marks & LOST) != 0 ||
            (tree_of(engine) != NULL && wring_control_tree_is_lost(tree_of(engine), rank)));
}

uint32_t wring_membership_missing(const struct wring_engine *engine)
{
    const struct wring_membership *own = &engine->membership;

    for (uint32_t i = 0; i < size_of(engine) && own->marks != NULL; i++)
        if ((own->marks[i] & CAME) == 0 && !is_lost(engine, i))
            return i;
    return UINT32_MAX;
}

static void forget_round(struct wring_engine *engine)
{
    for (uint32_t i = 0; i < size_of(engine); i++)
        engine->membership.marks[i] &= LOST;
}

static void promise_round(struct wring_membership *own, uint64_t round)
{
    atomic_store_explicit(&own->promised, round, memory_order_release);
    own->called = own->called > round ? own->called : round;
    change(own, WRING_MEMBERSHIP_WAITS);
}

/** There is room for so many doors in a message; who knocks at others waits for the next time. */
static void note_guests(struct wring_membership *own, uint32_t rank, uint32_t guests)
{
    if (guests > 0 && guests <= WRING_MEMBERSHIP_GUESTS && own->n_hosts < WRING_MEMBERSHIP_HOSTS)
        own->hosts[own->n_hosts++] = (struct wring_membership_host){rank, guests};
}

/** The last of the rounds so far is over: a new one. */
static void call_round(struct wring_engine *engine)
{
    struct wring_membership *own = &engine->membership;
    uint64_t round = ((own->called >> 32) + 1) << 32 | rank_of(engine);

    forget_round(engine);
    own->leads = true;
    own->named = false;
    own->best = own->built;
    own->n_hosts = 0;
    note_guests(own, rank_of(engine), own->guests);
    own->seek_ns = wring_now_ns() + SEEK_FIRST_NS;
    promise_round(own, round);
    own->marks[rank_of(engine)] |= CAME | (own->built.round != 0 ? HAS : 0);
    struct wring_control control = make_word(CALL, round);
    spread(engine, &control);
}

/** A rank came, and said which plan it has built last. */
static void note_built(struct wring_engine *engine, uint32_t from,
                       const struct wring_membership_plan *plan)
{
    struct wring_membership *own = &engine->membership;

    if (plan->round > own->best.round) {
        own->best = *plan;
        for (uint32_t i = 0; i < size_of(engine); i++)
            own->marks[i] &= (uint8_t)~HAS;
    }
    if (plan->round == own->best.round)
        own->marks[from] |= HAS;
    else
        own->marks[from] &= (uint8_t)~HAS;
}

/** May anybody have heard that `best` was settled? Not if one of its ranks comes without it. */
static bool may_be_settled(const struct wring_engine *engine)
{
    const struct wring_membership *own = &engine->membership;

    if (own->best.round == 0)
        return false;
    for (uint32_t i = 0; i < size_of(engine); i++)
        if ((own->marks[i] & (CAME | HAS)) == CAME && !stays_behind(&own->best, i))
            return false;
    return true;
}

/** Those who came. Errors: WRING_ERR_UNSUPPORTED: their gaps have no room in a message */
static enum wring_status plan_those_who_came(const struct wring_engine *engine,
                                             struct wring_membership_plan *plan)
{
    const struct wring_membership *own = &engine->membership;
    struct wring_membership_range *range = NULL;

    for (uint32_t i = 0; i < size_of(engine); i++) {
        if ((own->marks[i] & CAME) != 0)
            continue;
        if (range != NULL && range->last + 1 == i) {
            range->last = i;
            continue;
        }
        if (plan->n_ranges == WRING_MEMBERSHIP_RANGES)
            return WRING_ERR_UNSUPPORTED;
        range = &plan->behind[plan->n_ranges++];
        *range = (struct wring_membership_range){i, i};
    }
    return WRING_OK;
}

/** Are all who stay behind gone for certain? Asked again and again, until that is known. */
static bool are_others_gone(const struct wring_engine *engine,
                            const struct wring_membership_plan *plan)
{
    bool all = true;

    for (uint32_t i = 0; i < size_of(engine); i++)
        if (stays_behind(plan, i) && !wring_control_tree_is_gone(tree_of(engine), i)) {
            wring_control_tree_seek(tree_of(engine), i);
            all = false;
        }
    return all;
}

static bool is_quorum(const struct wring_engine *engine, const struct wring_membership_plan *plan)
{
    uint32_t n, ranks = size_of(engine);

    wring_membership_number(plan, 0, ranks, &n);
    if (2 * (uint64_t)n > ranks || (2 * (uint64_t)n == ranks && !stays_behind(plan, 0)))
        return true;
    return are_others_gone(engine, plan);
}

/** @return false: `built` is another one */
static bool settle(struct wring_membership *own, uint32_t rank,
                   const struct wring_membership_plan *plan)
{
    if (own->state == WRING_MEMBERSHIP_SETTLED || own->state == WRING_MEMBERSHIP_ENDED)
        return true;
    if (own->built.round == plan->round && plan->round != 0) {
        change(own, WRING_MEMBERSHIP_SETTLED);
        return true;
    }
    if (!stays_behind(plan, rank))
        return false;
    snprintf(own->text, sizeof(own->text),
             "the other ranks go on without rank %" PRIu32
             ": it came too late, or they had lost it",
             rank);
    change(own, WRING_MEMBERSHIP_ENDED);
    return true;
}

static void settle_all(struct wring_engine *engine, const struct wring_membership_plan *plan)
{
    spread_plan(engine, SETTLE, plan);
    settle(&engine->membership, rank_of(engine), plan);
}

/** Nobody goes on. */
static void end_all(struct wring_engine *engine, const char *why)
{
    struct wring_membership *own = &engine->membership;
    struct wring_control control = make_word(END, promised_round(own));

    snprintf(own->text, sizeof(own->text), "%s", why);
    memcpy(control.body, own->text, strlen(own->text));
    control.bytes = (uint32_t)strlen(own->text);
    spread(engine, &control);
    change(own, WRING_MEMBERSHIP_ENDED);
}

static void end_without_quorum(struct wring_engine *engine,
                               const struct wring_membership_plan *plan)
{
    char why[WRING_MEMBERSHIP_TEXT];
    uint32_t n;

    wring_membership_number(plan, 0, size_of(engine), &n);
    snprintf(why, sizeof(why),
             "%" PRIu32 " of %" PRIu32
             " ranks are here, no majority, and others may live: these could go on as well",
             n, size_of(engine));
    end_all(engine, why);
}

/** No rank is lost: newcomers may come in. */
static void add_guests(const struct wring_membership *own, struct wring_membership_plan *plan)
{
    plan->n_hosts = own->n_hosts;
    memcpy(plan->hosts, own->hosts, sizeof(plan->hosts));
    for (uint32_t i = 0; i < plan->n_hosts; i++)
        plan->guests += plan->hosts[i].guests;
}

/** All have come that are awaited: settle what may have been settled, or name those who came. */
static void close_round(struct wring_engine *engine)
{
    struct wring_membership *own = &engine->membership;
    struct wring_membership_plan plan = {.round = promised_round(own), .port = own->port};

    if (may_be_settled(engine)) {
        settle_all(engine, &own->best);
        return;
    }
    memcpy(plan.address, own->address, sizeof(plan.address));
    if (plan_those_who_came(engine, &plan) != WRING_OK) {
        end_all(engine, "the lost ranks lie in more than 8 places among the others");
        return;
    }
    if (!is_quorum(engine, &plan)) {
        if (wring_now_ns() >= own->late_ns + GRACE_NS)
            end_without_quorum(engine, &plan);
        return;
    }
    if (getrandom(&plan.nonce, sizeof(plan.nonce), 0) != sizeof(plan.nonce)) {
        end_all(engine, "the ranks' meeting cannot be named: getrandom was refused");
        return;
    }
    if (plan.n_ranges == 0)
        add_guests(own, &plan);
    own->named = true;
    own->plan = plan;
    own->built = (struct wring_membership_plan){0};
    own->guests = 0;
    spread_plan(engine, NAME, &plan);
    change(own, WRING_MEMBERSHIP_BUILDS);
}

/** Has any rank of the plan been lost? Have all built it? */
static void follow_plan(struct wring_engine *engine)
{
    struct wring_membership *own = &engine->membership;
    bool all = true;

    for (uint32_t i = 0; i < size_of(engine); i++) {
        bool done = (own->marks[i] & DONE) != 0;
        if (stays_behind(&own->plan, i))
            continue;
        if (!done && is_lost(engine, i)) {
            call_round(engine);
            return;
        }
        all &= done;
    }
    if (all)
        settle_all(engine, &own->plan);
}

/** Of a rank whose neighbours are all lost, too, nobody says that it is. */
static void seek_missing(struct wring_engine *engine)
{
    struct wring_membership *own = &engine->membership;
    uint64_t now_ns = wring_now_ns();

    if (now_ns < own->seek_ns)
        return;
    own->seek_ns = now_ns + SEEK_NS;
    for (uint32_t i = 0; i < size_of(engine); i++)
        if ((own->marks[i] & CAME) == 0 && !is_lost(engine, i))
            wring_control_tree_seek(tree_of(engine), i);
}

static bool is_over(const struct wring_membership *own)
{
    return own->state == WRING_MEMBERSHIP_SETTLED || own->state == WRING_MEMBERSHIP_ENDED;
}

/** This rank is the root, and its program has come. */
static void lead(struct wring_engine *engine)
{
    struct wring_membership *own = &engine->membership;

    if (!own->leads || own->called > promised_round(own))
        call_round(engine);
    if (!own->named &&
        (wring_membership_missing(engine) == UINT32_MAX || wring_now_ns() >= own->late_ns))
        close_round(engine);
    else if (own->named)
        follow_plan(engine);
    else
        seek_missing(engine);
}

/* ---- hearing ---- */

/** Rounds go up one by one. A number far above ours is made up, and would soon leave none. */
static bool is_made_up(const struct wring_membership *own, uint64_t round)
{
    return round >> 32 > (own->called >> 32) + ROUNDS_AHEAD;
}

/** A root calls. */
static void heard_call(struct wring_engine *engine, uint64_t round)
{
    struct wring_membership *own = &engine->membership;

    if (is_made_up(own, round))
        return;
    own->called = own->called > round ? own->called : round;
    if (own->state == WRING_MEMBERSHIP_AWAY || is_over(own) || round < promised_round(own))
        return;
    if (round > promised_round(own)) {
        own->leads = false;
        promise_round(own, round);
    }
    say_come(engine);
}

static void heard_come(struct wring_engine *engine, uint32_t from, uint64_t round,
                       const struct wring_control *control)
{
    struct wring_membership *own = &engine->membership;
    struct wring_reader reader = {control->body, control->bytes, false};
    struct wring_membership_plan plan;

    if (!own->leads || round != promised_round(own) || own->named ||
        !read_plan(control, size_of(engine), &plan))
        return;
    if ((own->marks[from] & CAME) == 0)
        note_guests(own, from, wring_read_u32(&reader));
    own->marks[from] |= CAME | (is_lost(engine, from) ? BACK : 0);
    note_built(engine, from, &plan);
}

static void heard_name(struct wring_engine *engine, uint64_t round,
                       const struct wring_control *control)
{
    struct wring_membership *own = &engine->membership;
    struct wring_membership_plan plan;

    if (own->state != WRING_MEMBERSHIP_WAITS || round != promised_round(own) ||
        own->plan.round == round || !read_plan(control, size_of(engine), &plan) ||
        plan.round != round || stays_behind(&plan, rank_of(engine)))
        return;
    own->plan = plan;
    own->built = (struct wring_membership_plan){0};
    own->guests = 0; /* they are told */
    change(own, WRING_MEMBERSHIP_BUILDS);
}

static void heard_settle(struct wring_engine *engine, const struct wring_control *control)
{
    struct wring_membership *own = &engine->membership;
    struct wring_membership_plan plan;

    if (read_plan(control, size_of(engine), &plan) && own->state != WRING_MEMBERSHIP_AWAY)
        settle(own, rank_of(engine), &plan);
}

static void heard_end(struct wring_membership *own, uint64_t round,
                      const struct wring_control *control)
{
    if (round != promised_round(own) || is_over(own) || own->state == WRING_MEMBERSHIP_AWAY)
        return;
    snprintf(own->text, sizeof(own->text), "%.*s", (int)control->bytes,
             (const char *)control->body);
    wring_text_clean(own->text);
    change(own, WRING_MEMBERSHIP_ENDED);
}

static bool has_marks(struct wring_engine *engine)
{
    struct wring_membership *own = &engine->membership;

    if (own->marks == NULL)
        own->marks = calloc(size_of(engine), sizeof(*own->marks));
    return own->marks != NULL;
}

/** To the root. */
static void heard_as_root(struct wring_engine *engine, uint32_t from, uint64_t round,
                          const struct wring_control *control)
{
    struct wring_membership *own = &engine->membership;
    bool ours = own->leads && round == promised_round(own);

    if (control->a == COME)
        heard_come(engine, from, round, control);
    else if (control->a == BUILT && ours && own->named)
        own->marks[from] |= DONE;
    else if (control->a == AGAIN && ours && own->named)
        call_round(engine);
    else if (control->a == MISSED && round < size_of(engine))
        own->marks[round] |= LOST;
}

void wring_membership_heard(struct wring_engine *engine, uint32_t from,
                            const struct wring_control *control)
{
    struct wring_membership *own = &engine->membership;
    uint64_t round = (uint64_t)control->b << 32 | control->c;

    if (!has_marks(engine))
        return;
    if (control->a == CALL)
        heard_call(engine, round);
    else if (control->a == NAME)
        heard_name(engine, round, control);
    else if (control->a == SETTLE)
        heard_settle(engine, control);
    else if (control->a == END)
        heard_end(own, round, control);
    else
        heard_as_root(engine, from, round, control);
    if (own->leads && !is_over(own) && is_root(engine))
        lead(engine);
}

/* ---- this rank ---- */

enum wring_status wring_membership_come(struct wring_engine *engine, const char *address,
                                        uint16_t port, uint32_t guests, uint64_t late_ns)
{
    struct wring_membership *own = &engine->membership;

    if (!has_marks(engine))
        return WRING_ERR_NO_MEMORY;
    snprintf(own->address, sizeof(own->address), "%s", address);
    own->port = port;
    own->guests = guests;
    own->late_ns = late_ns;
    own->plan = own->built = (struct wring_membership_plan){0};
    own->leads = false;
    own->marks[rank_of(engine)] &= (uint8_t)~LOST; /* it may have given up an earlier time */
    change(own, WRING_MEMBERSHIP_WAITS);
    if (own->called > 0 && !is_root(engine))
        heard_call(engine, own->called);
    own->said_ns = 0;
    wring_membership_poll(engine);
    return WRING_OK;
}

void wring_membership_has_built(struct wring_engine *engine, uint64_t round)
{
    struct wring_membership *own = &engine->membership;

    if (own->state != WRING_MEMBERSHIP_BUILDS || own->plan.round != round)
        return;
    own->built = own->plan;
    change(own, WRING_MEMBERSHIP_BUILT);
    say_word(engine, BUILT);
}

void wring_membership_try_again(struct wring_engine *engine, uint64_t round)
{
    struct wring_membership *own = &engine->membership;

    if (own->state != WRING_MEMBERSHIP_BUILDS || own->plan.round != round)
        return;
    change(own, WRING_MEMBERSHIP_WAITS);
    say_word(engine, AGAIN);
}

void wring_membership_quit(struct wring_engine *engine)
{
    struct wring_membership *own = &engine->membership;

    if (own->state == WRING_MEMBERSHIP_AWAY || is_over(own))
        return;
    say_lost(engine, rank_of(engine));
    change(own, WRING_MEMBERSHIP_ENDED);
}

static uint64_t repeat_ns(const struct wring_engine *engine)
{
    return REPEAT_NS * (1 + size_of(engine) / RANKS_PER_REPEAT);
}

/** Words may be lost with a rank that passed them on: what is still true is said again. */
static void say_again(struct wring_engine *engine)
{
    const struct wring_membership *own = &engine->membership;

    for (uint32_t i = 0; i < size_of(engine); i++)
        if (is_lost(engine, i))
            say_lost(engine, i);
    if (own->leads) {
        struct wring_control control = make_word(CALL, promised_round(own));
        if (own->named)
            spread_plan(engine, NAME, &own->plan);
        else
            spread(engine, &control);
    } else if (own->state == WRING_MEMBERSHIP_BUILT) {
        say_word(engine, BUILT);
    } else if (own->state == WRING_MEMBERSHIP_WAITS && promised_round(own) > 0) {
        say_come(engine);
    }
}

void wring_membership_poll(struct wring_engine *engine)
{
    struct wring_membership *own = &engine->membership;
    uint64_t now_ns = wring_now_ns();
    bool root = is_root(engine);

    if (is_over(own) || now_ns - own->said_ns < REPEAT_NS / 10)
        return;
    if (now_ns - own->said_ns >= repeat_ns(engine)) {
        own->said_ns = now_ns;
        say_again(engine);
    }
    if (root && !is_over(own))
        lead(engine);
}

uint64_t wring_membership_deadline(const struct wring_engine *engine)
{
    const struct wring_membership *own = &engine->membership;

    if (own->state == WRING_MEMBERSHIP_AWAY || is_over(own))
        return WRING_NEVER;
    return own->said_ns + repeat_ns(engine);
}

void wring_membership_finish(struct wring_membership *membership)
{
    free(membership->marks);
    membership->marks = NULL;
}
