/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/search/rate_choices.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/search/rate_table.h"

enum {
    SETS_MAX = 1 << WRING_PLAN_LANES_MAX, /* of lanes */
    FEW = 16,                             /* options */
};

/** How many tensors may take an option. */
enum kind {
    NO,
    SOME,
    EVERY,
};

/** Choices being found. */
struct finding {
    const struct wring_rates *rates;
    enum kind *kinds; /* [n_options] */
    bool *marked;     /* [n_options] at the present size */
    double *least;    /* [SETS_MAX] what a set of lanes takes together, at least */
    uint32_t *who;    /* [SETS_MAX] with which option */
};

static bool may(const struct wring_problem *problem, uint32_t tensor, uint32_t option)
{
    uint64_t word = problem->allowed[(uint64_t)tensor * wring_problem_words(problem) + option / 64];
    return (word >> (option % 64) & 1) != 0;
}

enum wring_status wring_rates_find_barred(struct wring_rates *rates)
{
    uint64_t stride = (uint64_t)rates->n_tensors + 1;

    rates->barred = malloc(rates->n_options * stride * sizeof(*rates->barred));
    if (rates->barred == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t option = 0; option < rates->n_options; option++) {
        uint32_t *barred = rates->barred + option * stride;
        barred[rates->n_tensors] = rates->n_tensors;
        for (uint32_t i = rates->n_tensors; i-- > 0;)
            barred[i] = may(rates->problem, i, option) ? barred[i + 1] : i;
    }
    for (uint32_t i = 0; i < rates->n_tensors; i++)
        if (!wring_rates_allow_any(rates, i, i + 1))
            return WRING_ERR_INVALID;
    return WRING_OK;
}

bool wring_rates_allow_any(const struct wring_rates *rates, uint32_t begin, uint32_t end)
{
    for (uint32_t option = 0; option < rates->n_options; option++)
        if (wring_rates_allow(rates, begin, end, option))
            return true;
    return false;
}

/** May each tensor that may take `b` take `a` instead? */
static bool stands_in(const struct wring_rates *rates, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; rates->barred != NULL && i < rates->n_tensors; i++)
        if (wring_rates_allow(rates, i, i + 1, b) && !wring_rates_allow(rates, i, i + 1, a))
            return false;
    return true;
}

/** Is there an option that is as good at these sizes? Of those that are alike the first stays. */
static bool beaten(const struct wring_rates *rates, uint32_t option, double low, double high)
{
    const struct wring_rate *rate = rates->rate;

    for (uint32_t other = 0; other < rates->n_options; other++) {
        if (other == option ||
            !wring_rate_below(&rate[other], &rate[option], low, high, rates->n_lanes))
            continue;
        bool alike = wring_rate_below(&rate[option], &rate[other], low, high, rates->n_lanes) &&
                     stands_in(rates, option, other);
        if (stands_in(rates, other, option) && (!alike || other < option))
            return true;
    }
    return false;
}

/** Sums over each set of lanes, a bit per lane, n_lanes ≥ 1. @param sum  out, [1 << n_lanes] */
static void sum_sets(uint32_t n_lanes, const double *us, double *sum)
{
    sum[0] = 0;
    sum[1] = us[0];
    for (uint32_t lane = 1; lane < n_lanes; lane++) {
        wring_pair more = {us[lane], us[lane]};
        for (uint32_t i = 0; i < 1u << lane; i += 2)
            wring_pair_store(sum + i + (1u << lane), wring_pair_load(sum + i) + more);
    }
}

/** Of which sets does this option take less than those before? Seldom of many. */
static void take_least(const struct finding *finding, uint32_t sets, const double *sum,
                       uint32_t option)
{
    double *least = finding->least;

    for (uint32_t i = 0; i < sets; i += 2) {
        if (wring_pair_above(wring_pair_load(least + i), wring_pair_load(sum + i)) == 0)
            continue;
        for (uint32_t j = i; j < i + 2; j++)
            if (sum[j] < least[j]) {
                least[j] = sum[j];
                finding->who[j] = option;
            }
    }
}

/** Mark the options of a kind that take least on some set of lanes together, at a size. */
static void mark_least(const struct finding *finding, uint64_t elems, enum kind kind)
{
    const struct wring_rates *rates = finding->rates;
    uint32_t sets = 1u << rates->n_lanes;
    double us[WRING_PLAN_LANES_MAX], sum[SETS_MAX];

    finding->least[0] = 0; /* no lanes: nothing takes less */
    for (uint32_t i = 1; i < sets; i++)
        finding->least[i] = DBL_MAX;
    for (uint32_t option = 0; option < rates->n_options; option++) {
        if (finding->kinds[option] < kind)
            continue;
        wring_rate_loads(&rates->rate[option], elems, rates->n_lanes, us);
        sum_sets(rates->n_lanes, us, sum);
        take_least(finding, sets, sum, option);
    }
    for (uint32_t i = 1; i < sets && finding->least[i] < DBL_MAX; i++)
        finding->marked[finding->who[i]] = true;
}

/** Where there are few options, leave out only those that are useless for sure. */
static void mark_unbeaten(const struct finding *finding, double low, double high)
{
    for (uint32_t option = 0; option < finding->rates->n_options; option++)
        finding->marked[option] = !beaten(finding->rates, option, low, high);
}

static enum wring_status find_size(const struct finding *finding, int size)
{
    const struct wring_rates *rates = finding->rates;
    struct wring_choices *choices = &rates->choices[size];

    memset(finding->marked, 0, rates->n_options * sizeof(*finding->marked));
    if (rates->n_options <= FEW) {
        mark_unbeaten(finding, ldexp(1, 2 * size), ldexp(1, 2 * size + 2));
    } else {
        mark_least(finding, UINT64_C(2) << 2 * size, EVERY);
        if (rates->barred != NULL) /* else any may take any */
            mark_least(finding, UINT64_C(2) << 2 * size, SOME);
    }
    choices->options = malloc(rates->n_options * sizeof(*choices->options));
    if (choices->options == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t option = 0; option < rates->n_options; option++)
        if (finding->marked[option])
            choices->options[choices->n++] = option;
    return WRING_OK;
}

static enum wring_status find_sizes(const struct finding *finding)
{
    uint32_t n = finding->rates->n_tensors;
    const uint64_t *elems = finding->rates->problem->elems;
    uint64_t least = elems[1] - elems[0];

    for (uint32_t i = 1; i < n; i++)
        if (elems[i + 1] - elems[i] < least)
            least = elems[i + 1] - elems[i];
    for (int size = wring_rates_size(least); size <= wring_rates_size(elems[n] - elems[0]);
         size++) {
        enum wring_status status = find_size(finding, size);
        if (status != WRING_OK)
            return status;
    }
    return WRING_OK;
}

static enum kind kind_of(const struct wring_rates *rates, uint32_t option)
{
    if (wring_rates_allow(rates, 0, rates->n_tensors, option))
        return EVERY;
    for (uint32_t i = 0; i < rates->n_tensors; i++)
        if (wring_rates_allow(rates, i, i + 1, option))
            return SOME;
    return NO;
}

enum wring_status wring_rates_find_choices(struct wring_rates *rates)
{
    double least[SETS_MAX];
    uint32_t who[SETS_MAX];
    struct finding finding = {.rates = rates, .least = least, .who = who};
    enum wring_status status = WRING_ERR_NO_MEMORY;

    finding.kinds = malloc(rates->n_options * sizeof(*finding.kinds));
    finding.marked = malloc(rates->n_options * sizeof(*finding.marked));
    if (finding.kinds != NULL && finding.marked != NULL) {
        for (uint32_t option = 0; option < rates->n_options; option++)
            finding.kinds[option] = kind_of(rates, option);
        status = find_sizes(&finding);
    }
    free(finding.kinds);
    free(finding.marked);
    return status;
}

void wring_rates_narrow(const struct wring_rates *rates, const bool *marked,
                        struct wring_choices *choices, uint32_t *room)
{
    uint32_t n = rates->n_options;

    for (int size = 0; size < WRING_SIZES; size++, room += n, marked += n) {
        choices[size] = (struct wring_choices){.options = room};
        for (uint32_t option = 0; option < n; option++)
            if (marked[option])
                room[choices[size].n++] = option;
        if (choices[size].n == 0 || rates->choices[size].n == 0)
            choices[size] = rates->choices[size];
    }
}
