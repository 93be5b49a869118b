/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/planner/exhaust.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

static bool may_be(const struct wring_problem *problem, uint32_t begin, uint32_t end,
                   uint32_t option)
{
    uint32_t words = wring_problem_words(problem);

    for (uint32_t i = begin; problem->allowed != NULL && i < end; i++)
        if ((problem->allowed[i * words + option / 64] >> (option % 64) & 1) == 0)
            return false;
    return problem->max_group_elems == 0 || end == begin + 1 ||
           problem->elems[end] - problem->elems[begin] <= problem->max_group_elems;
}

/** All that can follow; `ends` is when lanes are done with the tensors before `begin`. */
static void go_on(const struct wring_problem *problem, uint32_t begin, const double *ends,
                  double *best)
{
    double next[WRING_PLAN_LANES_MAX], once[WRING_PLAN_LANES_MAX], each[WRING_PLAN_LANES_MAX];
    double time = ends[problem->n_lanes - 1];

    if (time >= *best)
        return;
    if (begin == problem->n_tensors)
        *best = time;
    for (uint32_t end = begin + 1; end <= problem->n_tensors; end++)
        for (uint32_t option = 0; option < problem->n_options; option++) {
            if (!may_be(problem, begin, end, option))
                continue;
            memcpy(next, ends, sizeof(next));
            uint64_t chunks = wring_problem_group(problem, begin, end, option, once, each);
            wring_problem_advance(problem, chunks, once, each, next);
            go_on(problem, end, next, best);
        }
}

double wring_exhaust(const struct wring_problem *problem)
{
    double ends[WRING_PLAN_LANES_MAX] = {0}, best = DBL_MAX;

    go_on(problem, 0, ends, &best);
    return best;
}

/** Ends of the lanes after some tensors, of groupings none of which is as good as another one. */
struct front {
    uint32_t n, room;
    double (*ends)[WRING_PLAN_LANES_MAX];
};

static bool no_later(const double *a, const double *b, uint32_t lanes)
{
    for (uint32_t lane = 0; lane < lanes; lane++)
        if (a[lane] > b[lane])
            return false;
    return true;
}

/** Who was of use last stands in front: often it is again. */
static bool is_beaten(struct front *front, const double *ends, uint32_t lanes)
{
    double first[WRING_PLAN_LANES_MAX];

    for (uint32_t i = 0; i < front->n; i++)
        if (no_later(front->ends[i], ends, lanes)) {
            memcpy(first, front->ends[i], sizeof(first));
            memmove(front->ends[i], front->ends[0], sizeof(first));
            memcpy(front->ends[0], first, sizeof(first));
            return true;
        }
    return false;
}

static void front_add(struct front *front, const double *ends, uint32_t lanes)
{
    uint32_t kept = 0;

    if (is_beaten(front, ends, lanes))
        return;
    for (uint32_t i = 0; i < front->n; i++)
        if (!no_later(ends, front->ends[i], lanes))
            memmove(front->ends[kept++], front->ends[i], sizeof(*front->ends));
    if (kept == front->room) {
        front->room = 2 * front->room + 64;
        front->ends = realloc(front->ends, front->room * sizeof(*front->ends));
        if (front->ends == NULL)
            abort();
    }
    memcpy(front->ends[kept], ends, sizeof(*front->ends));
    front->n = kept + 1;
}

/** What a group takes with one option. */
struct choice {
    uint64_t chunks;
    double once[WRING_PLAN_LANES_MAX], each[WRING_PLAN_LANES_MAX];
};

static bool takes_no_more(const struct choice *a, const struct choice *b, uint32_t lanes)
{
    return a->chunks == b->chunks && no_later(a->once, b->once, lanes) &&
           no_later(a->each, b->each, lanes);
}

/** What groups may take, and what is to come at least after each tensor. */
struct exhausting {
    const struct wring_problem *problem;
    double limit_us;
    struct choice *choices; /* [n_options] of the group under way */
    uint32_t n_choices;
    double (*to_come)[WRING_PLAN_LANES_MAX]; /* [n_tensors + 1] on each lane, and behind it then */
    struct front *fronts;                    /* [n_tensors + 1] */
};

/** Of two choices one that takes no less anywhere is none. */
static void find_choices(struct exhausting *all, uint32_t begin, uint32_t end)
{
    uint32_t lanes = all->problem->n_lanes;

    all->n_choices = 0;
    for (uint32_t option = 0; option < all->problem->n_options; option++) {
        struct choice choice;
        bool beaten = !may_be(all->problem, begin, end, option);
        uint32_t kept = 0;
        if (!beaten)
            choice.chunks =
                wring_problem_group(all->problem, begin, end, option, choice.once, choice.each);
        for (uint32_t i = 0; i < all->n_choices && !beaten; i++)
            beaten = takes_no_more(&all->choices[i], &choice, lanes);
        if (beaten)
            continue;
        for (uint32_t i = 0; i < all->n_choices; i++)
            if (!takes_no_more(&choice, &all->choices[i], lanes))
                all->choices[kept++] = all->choices[i];
        all->choices[kept] = choice;
        all->n_choices = kept + 1;
    }
}

/** All of its chunks, on one lane. */
static double took_on(const struct choice *choice, uint32_t lane)
{
    return choice->once[lane] + (double)choice->chunks * choice->each[lane];
}

/** The last group's time on a lane, and of one of its chunks on those behind it. */
static double took_from(const struct choice *choice, uint32_t lane, uint32_t lanes)
{
    double us = took_on(choice, lane);

    for (uint32_t behind = lane + 1; behind < lanes; behind++)
        us += choice->each[behind];
    return us;
}

/** Lane by lane the least of all groupings, as if each could have one of its own. */
static void find_to_come(struct exhausting *all)
{
    uint32_t n = all->problem->n_tensors, lanes = all->problem->n_lanes;

    for (uint32_t begin = n; begin-- > 0;) {
        for (uint32_t lane = 0; lane < lanes; lane++)
            all->to_come[begin][lane] = DBL_MAX;
        for (uint32_t end = begin + 1; end <= n; end++) {
            find_choices(all, begin, end);
            for (uint32_t i = 0; i < all->n_choices; i++)
                for (uint32_t lane = 0; lane < lanes; lane++) {
                    double us = end == n
                                    ? took_from(&all->choices[i], lane, lanes)
                                    : took_on(&all->choices[i], lane) + all->to_come[end][lane];
                    if (us < all->to_come[begin][lane])
                        all->to_come[begin][lane] = us;
                }
        }
    }
}

static bool may_be_less(const struct exhausting *all, uint32_t end, const double *ends)
{
    for (uint32_t lane = 0; lane < all->problem->n_lanes; lane++)
        if (ends[lane] + all->to_come[end][lane] > all->limit_us)
            return false;
    return true;
}

static void extend(struct exhausting *all, uint32_t begin, uint32_t end)
{
    const struct front *from = &all->fronts[begin];
    double after[WRING_PLAN_LANES_MAX];

    find_choices(all, begin, end);
    for (uint32_t i = 0; i < all->n_choices; i++)
        for (uint32_t j = 0; j < from->n; j++) {
            const struct choice *choice = &all->choices[i];
            memcpy(after, from->ends[j], sizeof(after));
            wring_problem_advance(all->problem, choice->chunks, choice->once, choice->each, after);
            if (may_be_less(all, end, after))
                front_add(&all->fronts[end], after, all->problem->n_lanes);
        }
}

static void *get(size_t n, size_t bytes)
{
    void *memory = calloc(n, bytes);

    if (memory == NULL)
        abort();
    return memory;
}

double wring_exhaust_prefixes(const struct wring_problem *problem, double limit_us)
{
    uint32_t n = problem->n_tensors;
    struct exhausting all = {.problem = problem,
                             .limit_us = limit_us,
                             .choices = get(problem->n_options, sizeof(*all.choices)),
                             .to_come = get(n + 1, sizeof(*all.to_come)),
                             .fronts = get(n + 1, sizeof(*all.fronts))};
    double start[WRING_PLAN_LANES_MAX] = {0}, least = DBL_MAX;

    find_to_come(&all);
    front_add(&all.fronts[0], start, problem->n_lanes);
    for (uint32_t begin = 0; begin < n; begin++)
        for (uint32_t end = begin + 1; end <= n; end++)
            extend(&all, begin, end);
    for (uint32_t i = 0; i < all.fronts[n].n; i++) {
        double time = all.fronts[n].ends[i][problem->n_lanes - 1];
        least = time < least ? time : least;
    }
    for (uint32_t i = 0; i <= n; i++)
        free(all.fronts[i].ends);
    free(all.fronts);
    free(all.to_come);
    free(all.choices);
    return least;
}

bool wring_exhaust_valid(const struct wring_problem *problem, const struct wring_grouping *grouping)
{
    uint32_t begin = 0;

    for (uint32_t i = 0; i < grouping->n; begin = grouping->end[i++])
        if (grouping->end[i] <= begin || grouping->end[i] > problem->n_tensors ||
            grouping->option[i] >= problem->n_options ||
            !may_be(problem, begin, grouping->end[i], grouping->option[i]))
            return false;
    return begin == problem->n_tensors;
}
