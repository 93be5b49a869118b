/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/search/beam.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/core/search/cost_tables.h"
#include "planner/core/two_doubles.h"

/** No labels any more. */
static void beam_breakpoint_clear(struct wring_beam_breakpoint *breakpoint)
{
    breakpoint->n = 0;
    breakpoint->limit = DBL_MAX;
}

static void put_lanes(struct wring_beam_breakpoint *breakpoint, uint32_t at, const double *lanes)
{
    for (uint32_t lane = 0; lane < breakpoint->n_lanes; lane++)
        breakpoint->lanes[lane * breakpoint->width + at] = lanes[lane];
}

/** One label more, of these lanes, that is nowhere from; if there is room. */
static void beam_breakpoint_leave(struct wring_beam_breakpoint *breakpoint, const double *lanes)
{
    if (breakpoint->n == breakpoint->width)
        return;
    put_lanes(breakpoint, breakpoint->n, lanes);
    breakpoint->worth[breakpoint->n] = 0;
    breakpoint->origin[breakpoint->n] = (struct wring_beam_origin){0};
    breakpoint->n++;
}

/**
 * Which of two labels that stand side by side are later than `lanes` on some lane? Most are on the
 * first or the second.
 * @param at, stride  the labels, and pairs from one lane to the next
 */
static int which_later(const wring_pair *at, uint32_t stride, const wring_pair *lanes,
                       const wring_pair *end)
{
    int later = wring_pair_above(*at, *lanes);

    while (later != 3 && ++lanes < end)
        later |= wring_pair_above(*(at += stride), *lanes);
    return later;
}

static int which_earlier(const wring_pair *at, uint32_t stride, const wring_pair *lanes,
                         const wring_pair *end)
{
    int earlier = wring_pair_above(*lanes, *at);

    while (earlier != 3 && ++lanes < end)
        earlier |= wring_pair_above(*lanes, *(at += stride));
    return earlier;
}

/** Is some label no later than `lanes`, on any lane? */
static bool is_beaten(struct wring_beam_breakpoint *breakpoint, const wring_pair *lanes)
{
    const wring_pair *first = (const wring_pair *)breakpoint->lanes,
                     *end = lanes + breakpoint->n_lanes;
    uint32_t stride = breakpoint->width / 2, pairs = breakpoint->n / 2;

    if (breakpoint->beat < pairs && which_later(first + breakpoint->beat, stride, lanes, end) != 3)
        return true;
    for (uint32_t i = 0; i < pairs; i++)
        if (which_later(first + i, stride, lanes, end) != 3) {
            breakpoint->beat = i;
            return true;
        }
    return breakpoint->n % 2 != 0 && (which_later(first + pairs, stride, lanes, end) & 1) == 0;
}

static void move_label(struct wring_beam_breakpoint *breakpoint, uint32_t from, uint32_t to)
{
    for (uint32_t lane = 0; lane < breakpoint->n_lanes; lane++)
        breakpoint->lanes[lane * breakpoint->width + to] =
            breakpoint->lanes[lane * breakpoint->width + from];
    breakpoint->worth[to] = breakpoint->worth[from];
    breakpoint->origin[to] = breakpoint->origin[from];
}

/** Drop labels that are no earlier than `lanes`, on any lane; the last of all takes their place. */
static void drop_beaten(struct wring_beam_breakpoint *breakpoint, const wring_pair *lanes)
{
    const wring_pair *first = (const wring_pair *)breakpoint->lanes,
                     *end = lanes + breakpoint->n_lanes;
    uint32_t stride = breakpoint->width / 2, pair = breakpoint->n / 2;

    if (breakpoint->n % 2 != 0 && (which_earlier(first + pair, stride, lanes, end) & 1) == 0)
        breakpoint->n--;
    while (pair-- > 0) {
        int earlier = which_earlier(first + pair, stride, lanes, end);
        if ((earlier & 2) == 0)
            move_label(breakpoint, --breakpoint->n, 2 * pair + 1);
        if ((earlier & 1) == 0)
            move_label(breakpoint, --breakpoint->n, 2 * pair);
    }
}

static void find_worst(struct wring_beam_breakpoint *breakpoint)
{
    breakpoint->worst = 0;
    for (uint32_t i = 1; i < breakpoint->n; i++)
        if (breakpoint->worth[i] > breakpoint->worth[breakpoint->worst])
            breakpoint->worst = i;
    breakpoint->limit = breakpoint->worth[breakpoint->worst];
}

/**
 * Keep a label, unless another is as good on every lane; drop those that it makes useless.
 *
 * @return whether a label had to go for want of room
 */
static bool beam_breakpoint_keep(struct wring_beam_breakpoint *breakpoint, const double *lanes,
                                 double worth, struct wring_beam_origin origin)
{
    wring_pair twice[WRING_PLAN_LANES_MAX];

    for (uint32_t lane = 0; lane < breakpoint->n_lanes; lane++)
        twice[lane] = (wring_pair){lanes[lane], lanes[lane]};
    if (is_beaten(breakpoint, twice))
        return false;
    drop_beaten(breakpoint, twice);
    bool full = breakpoint->n == breakpoint->width;
    uint32_t at = full ? breakpoint->worst : breakpoint->n++;
    put_lanes(breakpoint, at, lanes);
    breakpoint->worth[at] = worth;
    breakpoint->origin[at] = origin;
    breakpoint->limit = DBL_MAX;
    if (breakpoint->n == breakpoint->width)
        find_worst(breakpoint);
    return full;
}

/** All labels are there: see what there is of them. */
static void beam_breakpoint_finish(struct wring_beam_breakpoint *breakpoint)
{
    breakpoint->best = 0;
    for (uint32_t i = 1; i < breakpoint->n; i++)
        if (breakpoint->worth[i] < breakpoint->worth[breakpoint->best])
            breakpoint->best = i;
    for (uint32_t lane = 0; lane < breakpoint->n_lanes; lane++) {
        const double *lanes = breakpoint->lanes + lane * breakpoint->width;
        breakpoint->least[lane] = lanes[0];
        for (uint32_t i = 1; i < breakpoint->n; i++)
            breakpoint->least[lane] =
                lanes[i] < breakpoint->least[lane] ? lanes[i] : breakpoint->least[lane];
    }
}

/* ---- block ---- */

enum {
    PAIRS = WRING_BEAM_PAIRS
};

/* Of a label's worth: the mean lane's. */
static const double blur = 3e-3;

/** Fill in the distances. */
static void beam_task_finish(struct wring_beam_task *task, uint32_t n_lanes)
{
    for (uint32_t first = 0; task->task.more > 0 && first < n_lanes; first++) {
        double sum = 0, longest = 0;
        for (uint32_t last = first; last < n_lanes; last++) {
            sum += task->task.each[last];
            longest = wring_later(longest, task->task.each[last]);
            task->longest[first][last] = sum + (task->task.more - 1) * longest;
        }
    }
}

static void advance_block(uint32_t n_lanes, const double *took, const wring_pair *before,
                          uint32_t stride, wring_pair *after)
{
    wring_pair left[PAIRS] = {0};

    for (uint32_t lane = 0; lane < n_lanes; lane++, before += stride, after += PAIRS) {
        wring_pair us = {took[lane], took[lane]};
        for (uint32_t i = 0; i < PAIRS; i++)
            after[i] = left[i] = wring_pair_later(before[i], left[i]) + us;
    }
}

static void retreat_block(uint32_t n_lanes, const double *took, const wring_pair *after,
                          uint32_t stride, wring_pair *before)
{
    wring_pair left[PAIRS] = {0};

    for (uint32_t lane = n_lanes; lane-- > 0;) {
        wring_pair us = {took[lane], took[lane]};
        for (uint32_t i = 0; i < PAIRS; i++)
            before[lane * PAIRS + i] = left[i] =
                wring_pair_later(after[lane * stride + i], left[i]) + us;
    }
}

/** to = the later of `to` and `from` + us, lane of a block by lane. */
static void raise_to_later(wring_pair *to, const wring_pair *from, double us)
{
    wring_pair pair = {us, us};

    for (uint32_t i = 0; i < PAIRS; i++)
        to[i] = wring_pair_later(to[i], from[i] + pair);
}

/** Chunks after the first; from the last lane on, whose heads no other lane's need. */
static void advance_more(uint32_t n_lanes, const struct wring_beam_task *task, wring_pair *heads)
{
    for (uint32_t last = n_lanes; last-- > 0;) {
        raise_to_later(heads + last * PAIRS, heads + last * PAIRS, task->longest[last][last]);
        for (uint32_t first = 0; first < last; first++)
            raise_to_later(heads + last * PAIRS, heads + first * PAIRS, task->longest[first][last]);
    }
}

static void retreat_more(uint32_t n_lanes, const struct wring_beam_task *task, wring_pair *tails)
{
    for (uint32_t first = 0; first < n_lanes; first++) {
        raise_to_later(tails + first * PAIRS, tails + first * PAIRS, task->longest[first][first]);
        for (uint32_t last = first + 1; last < n_lanes; last++)
            raise_to_later(tails + first * PAIRS, tails + last * PAIRS, task->longest[first][last]);
    }
}

static void retreat_all(uint32_t n_lanes, const struct wring_beam_task *task,
                        const wring_pair *after, uint32_t stride, wring_pair *before)
{
    for (uint32_t lane = 0; lane < n_lanes; lane++)
        for (uint32_t i = 0; i < PAIRS; i++)
            before[lane * PAIRS + i] = after[lane * stride + i];
    retreat_more(n_lanes, task, before);
    retreat_block(n_lanes, task->task.took, before, PAIRS, before);
}

/**
 * Labels through a task.
 *
 * @param from      in,  [n_lanes × stride], heads before the task, or tails after it
 * @param stride    pairs from one lane to the next
 * @param backward  those are tails
 * @param to        out, [n_lanes × WRING_BEAM_PAIRS]
 */
static void beam_block_step(uint32_t n_lanes, const struct wring_beam_task *task, bool backward,
                            const wring_pair *from, uint32_t stride, wring_pair *to)
{
    if (backward && task->task.more > 0) {
        retreat_all(n_lanes, task, from, stride, to);
    } else if (backward) {
        retreat_block(n_lanes, task->task.took, from, stride, to);
    } else {
        advance_block(n_lanes, task->task.took, from, stride, to);
        if (task->task.more > 0)
            advance_more(n_lanes, task, to);
    }
}

/**
 * What two labels are worth, each with one of the other side: the time that both make, and a little
 * for the mean lane, lest all that end alike look alike.
 */
static wring_pair beam_worth(uint32_t n_lanes, const struct wring_two_times *times)
{
    double mean = blur / n_lanes;

    return times->most + (wring_pair){mean, mean} * times->sum;
}

/**
 * What the labels of a block are worth.
 *
 * @param lanes  in,  as beam_block_step() gives them
 * @param other  in,  the other side's label, `stride` doubles from one lane to the next
 * @param worth  out, [WRING_BEAM_BLOCK]
 */
static void beam_block_measure(uint32_t n_lanes, const wring_pair *lanes, const double *other,
                               uint32_t stride, double *worth)
{
    struct wring_two_times times[PAIRS] = {0};

    for (uint32_t lane = 0; lane < n_lanes; lane++, lanes += PAIRS, other += stride) {
        wring_pair left = {*other, *other};
        for (uint32_t i = 0; i < PAIRS; i++) {
            wring_pair time = lanes[i] + left;
            times[i].most = wring_pair_later(times[i].most, time);
            times[i].sum += time;
        }
    }
    for (uint32_t i = 0; i < PAIRS; i++)
        wring_pair_store(worth + 2 * i, beam_worth(n_lanes, &times[i]));
}

/* ---- beam ---- */

struct wring_beam {
    struct wring_beam_params params;
    uint32_t n_lanes;
    bool backward; /* the direction of the next pass */
    bool lost;     /* a label of the last pass */
    uint64_t evaluations;
    struct wring_beam_breakpoint *sides[2]; /* [n_breakpoints + 1] heads, tails */
    double *doubles;
    struct wring_beam_origin *origins;
};

/** Labels on the way from one breakpoint to another. */
struct move {
    struct wring_beam_breakpoint *from, *to;
    const struct wring_beam_breakpoint *other; /* labels of the other side at `to` */
    uint32_t from_index, begin, end;
};

static enum wring_status get_memory(struct wring_beam *beam)
{
    size_t labels = 2 * ((size_t)beam->params.n_breakpoints + 1) * beam->params.width;

    for (int i = 0; i < 2; i++)
        beam->sides[i] = calloc((size_t)beam->params.n_breakpoints + 1, sizeof(**beam->sides));
    beam->doubles = calloc(labels * (beam->n_lanes + 1), sizeof(*beam->doubles));
    beam->origins = calloc(labels, sizeof(*beam->origins));
    bool all = beam->sides[0] != NULL && beam->sides[1] != NULL && beam->doubles != NULL &&
               beam->origins != NULL;
    return all ? WRING_OK : WRING_ERR_NO_MEMORY;
}

static void hand_out_memory(struct wring_beam *beam)
{
    uint32_t width = beam->params.width;
    size_t at = 0;

    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i <= beam->params.n_breakpoints; i++, at += width)
            beam->sides[side][i] = (struct wring_beam_breakpoint){
                .width = width,
                .n_lanes = beam->n_lanes,
                .lanes = beam->doubles + at * (beam->n_lanes + 1),
                .worth = beam->doubles + at * (beam->n_lanes + 1) + (size_t)beam->n_lanes * width,
                .origin = beam->origins + at};
}

/** Heads of a grouping at every breakpoint; inside a group, as if it ended there. */
static void leave_heads(struct wring_beam *beam, const struct wring_grouping *grouping)
{
    const struct wring_cost_tables *tables = beam->params.tables;
    double heads[WRING_PLAN_LANES_MAX] = {0}, cut[WRING_PLAN_LANES_MAX];
    uint32_t group = 0, begin = 0;
    struct wring_task task;

    beam_breakpoint_leave(&beam->sides[0][0], heads);
    for (uint32_t i = 1; i <= beam->params.n_breakpoints; i++) {
        uint32_t at = beam->params.breakpoints[i];
        for (; grouping->end[group] < at; begin = grouping->end[group++]) {
            wring_cost_tables_task(tables, begin, grouping->end[group], grouping->option[group],
                                   &task);
            wring_task_advance(beam->n_lanes, &task, heads, heads);
        }
        wring_cost_tables_task(tables, begin, at, grouping->option[group], &task);
        wring_task_advance(beam->n_lanes, &task, heads, cut);
        beam_breakpoint_leave(&beam->sides[0][i], cut);
    }
}

/** Heads of computing alone: nothing waits on any lane. */
static void leave_ready(struct wring_beam *beam)
{
    const struct wring_cost_tables *tables = beam->params.tables;
    double heads[WRING_PLAN_LANES_MAX];

    for (uint32_t i = 0; i <= beam->params.n_breakpoints; i++) {
        for (uint32_t lane = 0; lane < beam->n_lanes; lane++)
            heads[lane] = tables->compute_us[beam->params.breakpoints[i]];
        beam_breakpoint_leave(&beam->sides[0][i], heads);
    }
}

enum wring_status wring_beam_create(const struct wring_beam_params *params,
                                    const struct wring_grouping *guide, struct wring_beam **out)
{
    struct wring_beam *beam = calloc(1, sizeof(*beam));

    if (beam == NULL)
        return WRING_ERR_NO_MEMORY;
    beam->params = *params;
    beam->params.width =
        (params->width + WRING_BEAM_BLOCK - 1) / WRING_BEAM_BLOCK * WRING_BEAM_BLOCK;
    beam->n_lanes = params->tables->n_lanes;
    beam->backward = true;
    if (get_memory(beam) != WRING_OK) {
        wring_beam_destroy(beam);
        return WRING_ERR_NO_MEMORY;
    }
    hand_out_memory(beam);
    if (guide != NULL)
        leave_heads(beam, guide);
    else
        leave_ready(beam);
    for (uint32_t i = 0; i <= params->n_breakpoints; i++)
        beam_breakpoint_finish(&beam->sides[0][i]);
    *out = beam;
    return WRING_OK;
}

void wring_beam_destroy(struct wring_beam *beam)
{
    if (beam == NULL)
        return;
    free(beam->sides[0]);
    free(beam->sides[1]);
    free(beam->doubles);
    free(beam->origins);
    free(beam);
}

/** No lane serves the next group before that is computed: heads before then are all one. */
static void lift_heads(const struct wring_cost_tables *tables, uint32_t at, double *heads)
{
    if (at == tables->n_tensors)
        return;
    double next = heads[0] + tables->compute_us[at + 1] - tables->compute_us[at];
    for (uint32_t lane = 1; lane < tables->n_lanes; lane++)
        heads[lane] = wring_later(heads[lane], next);
}

/** Keep those of a block that are worth it. */
static void keep_block(struct wring_beam *beam, const struct move *move, const double *lanes,
                       const double *worth, uint32_t first, uint32_t option)
{
    double one[WRING_PLAN_LANES_MAX];

    for (uint32_t i = 0; i < WRING_BEAM_BLOCK && first + i < move->from->n; i++) {
        if (worth[i] >= move->to->limit) {
            beam->lost = true;
            continue;
        }
        for (uint32_t lane = 0; lane < beam->n_lanes; lane++)
            one[lane] = lanes[lane * WRING_BEAM_BLOCK + i];
        if (!beam->backward)
            lift_heads(beam->params.tables, move->end, one);
        struct wring_beam_origin origin = {move->from_index, first + i, option};
        beam->lost |= beam_breakpoint_keep(move->to, one, worth[i], origin);
    }
}

/** Is the best of a block not worth it? */
static bool is_block_hopeless(const double *worth, double limit)
{
    double best = worth[0];

    for (uint32_t i = 1; i < WRING_BEAM_BLOCK; i++)
        best = worth[i] < best ? worth[i] : best;
    return best >= limit;
}

static void move_block(struct wring_beam *beam, const struct move *move,
                       const struct wring_beam_task *task, uint32_t first, uint32_t option)
{
    const struct wring_beam_breakpoint *from = move->from, *other = move->other;
    wring_pair lanes[WRING_PLAN_LANES_MAX * WRING_BEAM_PAIRS];
    double worth[WRING_BEAM_BLOCK];

    beam_block_step(beam->n_lanes, task, beam->backward, (const wring_pair *)(from->lanes + first),
                    from->width / 2, lanes);
    beam_block_measure(beam->n_lanes, lanes, other->lanes + other->best, other->width, worth);
    if (is_block_hopeless(worth, move->to->limit))
        beam->lost = true;
    else
        keep_block(beam, move, (const double *)lanes, worth, first, option);
}

/** What a label would be worth that had the best of all labels there, lane by lane, with each of
 *  two tasks. No label is worth more. */
static wring_pair measure_best(const struct wring_beam *beam, const struct move *move,
                               const struct wring_beam_task *tasks)
{
    const struct wring_beam_breakpoint *other = move->other;
    struct wring_two_times times =
        wring_two_tasks_meet(beam->n_lanes, &tasks[0].task, &tasks[1].task, beam->backward,
                             move->from->least, other->lanes + other->best, other->width);

    return beam_worth(beam->n_lanes, &times);
}

/** All labels of a breakpoint with one option. @param best  what they are worth at best */
static void move_option(struct wring_beam *beam, const struct move *move,
                        struct wring_beam_task *task, double best, uint32_t option)
{
    beam->evaluations++;
    if (best >= move->to->limit) {
        beam->lost = true;
        return;
    }
    beam_task_finish(task, beam->n_lanes);
    for (uint32_t i = 0; i < move->from->n; i += WRING_BEAM_BLOCK)
        move_block(beam, move, task, i, option);
    beam->evaluations += move->from->n;
}

/** With some options, two at a time. @return whether any of them may be */
static bool move_options(struct wring_beam *beam, const struct move *move, const uint32_t *options,
                         uint32_t n)
{
    const struct wring_cost_tables *tables = beam->params.tables;
    struct wring_beam_task tasks[2];
    uint32_t taken[2], waiting = 0;
    bool any = false;

    for (uint32_t i = 0; i < n || waiting > 0; i++) {
        if (i < n && wring_cost_tables_allow(tables, move->begin, move->end, options[i])) {
            wring_cost_tables_task(tables, move->begin, move->end, options[i],
                                   &tasks[waiting].task);
            taken[waiting++] = options[i];
            any = true;
        }
        if (waiting == 0 || (waiting == 1 && i < n))
            continue;
        if (waiting == 1)
            tasks[1].task = tasks[0].task;
        wring_pair best = measure_best(beam, move, tasks);
        for (uint32_t j = 0; j < waiting; j++)
            move_option(beam, move, &tasks[j], best[j], taken[j]);
        waiting = 0;
    }
    return any;
}

/** With each option that is worth a thought; where none of those may be taken, with any other. */
static void make_move(struct wring_beam *beam, const struct move *move)
{
    const struct wring_choices *choices = wring_cost_tables_choices(
        beam->params.tables, beam->params.choices, move->begin, move->end);

    if (move_options(beam, move, choices->options, choices->n))
        return;
    for (uint32_t option = 0; option < beam->params.tables->n_options; option++)
        move_options(beam, move, &option, 1);
}

/** To one breakpoint, from all those that a group reaches it from; the nearest first. */
static void reach_breakpoint(struct wring_beam *beam, uint32_t to)
{
    uint32_t n = beam->params.n_breakpoints, far = beam->backward ? n - to : to, stride = 1;
    const struct wring_cost_tables *tables = beam->params.tables;
    struct wring_beam_breakpoint *side = beam->sides[beam->backward];
    const uint32_t *breakpoints = beam->params.breakpoints;

    for (uint32_t distance = 1; distance <= far; distance += stride) {
        uint32_t from = beam->backward ? to + distance : to - distance;
        struct move move = {&side[from],
                            &side[to],
                            &beam->sides[!beam->backward][to],
                            from,
                            breakpoints[from < to ? from : to],
                            breakpoints[from < to ? to : from]};
        if (!wring_cost_tables_fit(tables, move.begin, move.end) ||
            (tables->barred != NULL && !wring_cost_tables_allow_any(tables, move.begin, move.end)))
            break; /* nor may longer ones */
        make_move(beam, &move);
        stride = distance < beam->params.reach ? 1 : 1 + distance / beam->params.reach;
    }
    beam_breakpoint_finish(&side[to]);
}

/** Follow the best label home. */
static void read_back(const struct wring_beam *beam, struct wring_grouping *out)
{
    uint32_t n = beam->params.n_breakpoints, goal = beam->backward ? n : 0, count = 0;
    const struct wring_beam_breakpoint *side = beam->sides[beam->backward];
    uint32_t at = n - goal, label = side[at].best;

    while (at != goal) {
        const struct wring_beam_origin *origin = &side[at].origin[label];
        out->option[count] = origin->option;
        out->end[count++] = beam->params.breakpoints[beam->backward ? origin->breakpoint : at];
        at = origin->breakpoint;
        label = origin->label;
    }
    out->n = count;
    for (uint32_t i = 0; !beam->backward && i < count / 2; i++) {
        uint32_t j = count - 1 - i, end = out->end[i], option = out->option[i];
        out->end[i] = out->end[j], out->option[i] = out->option[j];
        out->end[j] = end, out->option[j] = option;
    }
}

bool wring_beam_pass(struct wring_beam *beam, struct wring_grouping *out)
{
    uint32_t n = beam->params.n_breakpoints;
    struct wring_beam_breakpoint *side = beam->sides[beam->backward];
    static const double nothing[WRING_PLAN_LANES_MAX];

    for (uint32_t i = 0; i <= n; i++)
        beam_breakpoint_clear(&side[i]);
    beam->lost = false;
    beam_breakpoint_leave(&side[beam->backward ? n : 0], nothing);
    beam_breakpoint_finish(&side[beam->backward ? n : 0]);
    for (uint32_t i = 1; i <= n; i++) {
        reach_breakpoint(beam, beam->backward ? n - i : i);
        if (beam->params.deadline_ns != WRING_NEVER && wring_now_ns() > beam->params.deadline_ns)
            return false;
    }
    read_back(beam, out);
    beam->backward = !beam->backward;
    return true;
}

bool wring_beam_complete(const struct wring_beam *beam)
{
    return !beam->lost;
}

uint64_t wring_beam_evaluations(const struct wring_beam *beam)
{
    return beam->evaluations;
}

void wring_beam_count_options(const struct wring_beam *beam, uint32_t *count)
{
    const struct wring_beam_breakpoint *side = beam->sides[!beam->backward];

    for (uint32_t i = 0; i <= beam->params.n_breakpoints; i++)
        for (uint32_t label = 0; label < side[i].n; label++)
            count[side[i].origin[label].option]++;
}
