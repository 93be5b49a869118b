/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The tree. A tensor makes its stops, one communication step at each, and arrives there raw or as
 * codes:
 *
 *     arrive raw     send raw, or encode and send codes
 *     arrive coded   send the codes on, or decode and do as one that arrived raw
 *     arrive home    decode what is still coded
 *
 * With c ways to encode and d to decode, the ways home that are left are
 *
 *     before the last step       T1 = 1 + c·d           raw     T2 = d + d·T1            coded
 *     before an exchange's 2nd   T5 = T1 + c·T2         raw     T2 + d·T5                coded
 *     its first step             T3 = T1 + 2·T5         raw     T4 = T2 + 2(T2 + d·T5)   coded
 *
 * and, flat being an exchange alone, hierarchical one inside the two steps of another:
 *
 *     flat          1 + 2·T1 + c(d + 2·T2)                              63 for c = d = 2
 *     hierarchical  2(T3 + c·T4) + 2c(d(T3 + c·T4) + T4)                4278
 */
#include "planner/model/option.h"

#include <assert.h>

/** How an exchange is made: by one step, or by two of which the first fixes the second. */
struct scheme {
    enum wring_routine raw, coded; /* the first step */
    bool two_steps;
    enum wring_routine second; /* raw or coded */
};

static const struct scheme schemes[] = {
    {WRING_ROUTINE_ALLREDUCE, WRING_ROUTINE_ALLGATHER, false, WRING_ROUTINE_ALLGATHER},
    {WRING_ROUTINE_REDUCE_SCATTER, WRING_ROUTINE_ALLTOALL, true, WRING_ROUTINE_ALLGATHER},
    {WRING_ROUTINE_REDUCE, WRING_ROUTINE_GATHER, true, WRING_ROUTINE_BROADCAST},
};
#define N_SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

/** A stop on the way: the first or the second step of an exchange. */
struct stop {
    enum wring_phase phase;
    uint32_t exchange;
    bool first;
    bool divisible; /* first: its exchange takes two steps */
};

static const struct stop flat[] = {
    {WRING_PHASE_FLAT, 0, true, false},
    {WRING_PHASE_FLAT, 0, false, false},
};

static const struct stop hierarchical[] = {
    {WRING_PHASE_INTRA_IN, 0, true, true}, /* the node keeps its sum: something must go back */
    {WRING_PHASE_INTER, 1, true, false},
    {WRING_PHASE_INTER, 1, false, false},
    {WRING_PHASE_INTRA_OUT, 0, false, false},
};

struct walk {
    const struct wring_options_params *params;
    wring_option_fn each;
    void *arg;
    size_t leaves;
    const struct stop *stops;
    uint32_t n_stops;
    const struct scheme *chosen[2]; /* by exchange */
    struct wring_option option;     /* so far */
};

static void arrive(struct walk *walk, uint32_t stop, bool coded);

static void push(struct walk *walk, struct wring_step step)
{
    assert(walk->option.n < WRING_OPTION_STEPS_MAX);
    walk->option.steps[walk->option.n++] = step;
}

static void pop(struct walk *walk)
{
    walk->option.n--;
}

static void leaf(struct walk *walk)
{
    walk->leaves++;
    if (walk->each != NULL)
        walk->each(walk->arg, &walk->option);
}

static void go(struct walk *walk, uint32_t stop, enum wring_routine routine, bool coded,
               uint32_t next)
{
    push(walk, (struct wring_step){.kind = WRING_STEP_COMM,
                                   .phase = walk->stops[stop].phase,
                                   .routine = routine,
                                   .coded = coded});
    arrive(walk, next, coded);
    pop(walk);
}

static void begin_exchange(struct walk *walk, uint32_t stop, bool coded)
{
    for (size_t i = 0; i < N_SCHEMES; i++) {
        const struct scheme *scheme = &schemes[i];
        uint32_t next = scheme->two_steps ? stop + 1 : stop + 2;

        if (walk->stops[stop].divisible && !scheme->two_steps)
            continue;
        walk->chosen[walk->stops[stop].exchange] = scheme;
        go(walk, stop, coded ? scheme->coded : scheme->raw, coded, next);
        if (coded && walk->params->summable)
            go(walk, stop, scheme->raw, coded, next);
    }
}

static void send(struct walk *walk, uint32_t stop, bool coded)
{
    const struct stop *at = &walk->stops[stop];

    if (at->first)
        begin_exchange(walk, stop, coded);
    else
        go(walk, stop, walk->chosen[at->exchange]->second, coded, stop + 1);
}

static bool may_code(const struct walk *walk, uint32_t place)
{
    return walk->params->places >> place & 1;
}

/** The phase in which a stop's codec work is named; what is done at home belongs to the last. */
static enum wring_phase phase_of(const struct walk *walk, uint32_t stop)
{
    return walk->stops[stop < walk->n_stops ? stop : walk->n_stops - 1].phase;
}

static void arrive_raw(struct walk *walk, uint32_t stop)
{
    if (stop == walk->n_stops) {
        leaf(walk);
        return;
    }
    send(walk, stop, false);
    for (uint32_t place = 0; place < WRING_PLACES; place++) {
        if (!may_code(walk, place))
            continue;
        push(walk, (struct wring_step){.kind = WRING_STEP_ENCODE,
                                       .phase = phase_of(walk, stop),
                                       .place = (enum wring_place)place});
        send(walk, stop, true);
        pop(walk);
    }
}

static void arrive(struct walk *walk, uint32_t stop, bool coded)
{
    if (!coded) {
        arrive_raw(walk, stop);
        return;
    }
    if (stop < walk->n_stops)
        send(walk, stop, true);
    for (uint32_t place = 0; place < WRING_PLACES; place++) {
        if (!may_code(walk, place))
            continue;
        push(walk, (struct wring_step){.kind = WRING_STEP_DECODE,
                                       .phase = phase_of(walk, stop),
                                       .place = (enum wring_place)place});
        arrive_raw(walk, stop);
        pop(walk);
    }
}

size_t wring_options_walk(const struct wring_options_params *params, wring_option_fn each,
                          void *arg)
{
    struct walk walk = {.params = params, .each = each, .arg = arg};

    if (params->flat) {
        walk.stops = flat;
        walk.n_stops = sizeof(flat) / sizeof(flat[0]);
        arrive(&walk, 0, false);
    }
    if (params->hierarchical) {
        walk.stops = hierarchical;
        walk.n_stops = sizeof(hierarchical) / sizeof(hierarchical[0]);
        arrive(&walk, 0, false);
    }
    return walk.leaves;
}

bool wring_option_sums_codes(const struct wring_option *option)
{
    for (uint32_t i = 0; i < option->n; i++)
        if (option->steps[i].coded && (option->steps[i].routine == WRING_ROUTINE_ALLREDUCE ||
                                       option->steps[i].routine == WRING_ROUTINE_REDUCE_SCATTER ||
                                       option->steps[i].routine == WRING_ROUTINE_REDUCE))
            return true;
    return false;
}

bool wring_option_is_flat(const struct wring_option *option)
{
    for (uint32_t i = 0; i < option->n; i++)
        if (option->steps[i].kind == WRING_STEP_COMM && option->steps[i].phase != WRING_PHASE_FLAT)
            return false;
    return true;
}

bool wring_option_is_divisible(const struct wring_option *option)
{
    uint32_t steps = 0;

    for (uint32_t i = 0; i < option->n; i++)
        steps += option->steps[i].kind == WRING_STEP_COMM &&
                 (option->steps[i].phase == WRING_PHASE_FLAT ||
                  option->steps[i].phase == WRING_PHASE_INTER);
    return steps > 1;
}
