/* SPDX-License-Identifier: Apache-2.0 */
/** Dropping options never costs time: in pairs, and of whole models against exhaustion. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/model/candidates.h"
#include "planner/core/model/cost_model.h"
#include "tests/lib/test.h"
#include "tests/planner/made_problem.h"
#include "tests/planner/made_trace.h"

#define SITE(site) (1u << WRING_SITE_##site)
#define TENSORS 12
#define LANES 5

/* ---- pairs ---- */

static double some(uint32_t *random, double most)
{
    return most * (double)(wring_test_random(random) >> 8) / 16777216.0;
}

/** Options that are often above one another. */
static void grow(struct wring_option_cost *option, uint32_t *random)
{
    for (uint32_t lane = 0; lane < LANES; lane++) {
        struct wring_cost more = wring_cost_line(some(random, 50), some(random, 0.001));
        if (wring_test_random(random) % 2 == 0)
            option->each[lane] = wring_cost_add(&option->each[lane], &more);
    }
}

static double time_of_random(const struct wring_problem *problem, uint32_t *random, uint32_t from,
                             uint32_t to)
{
    uint32_t end[TENSORS], option[TENSORS];
    struct wring_grouping grouping = {0, end, option};

    for (uint32_t i = 0; i < problem->n_tensors; i++)
        if (i + 1 == problem->n_tensors || wring_test_random(random) % 2 == 0) {
            end[grouping.n] = i + 1;
            uint32_t taken = wring_test_random(random) % problem->n_options;
            option[grouping.n++] = taken == from ? to : taken;
        }
    return wring_problem_time(problem, &grouping);
}

/** Who dominates can take the other's place in any grouping. */
static void replacing(void)
{
    struct wring_made_params params = {TENSORS, LANES, 6, 1, false, false};
    uint32_t random = 5, pairs = 0;

    for (params.seed = 1; params.seed <= 60; params.seed++) {
        struct wring_made_problem made;
        params.chunked = params.seed % 2;
        wring_made_random(&params, &made);
        for (int i = 3; i < 6; i++) {
            made.options[i] = made.options[i - 3];
            grow(&made.options[i], &random);
        }
        for (uint32_t a = 0; a < 6; a++)
            for (uint32_t b = 0; b < 6; b++) {
                if (a == b || !wring_dominates(&made.options[a], &made.options[b], LANES))
                    continue;
                pairs++;
                for (int turn = 0; turn < 20; turn++) {
                    uint32_t before = random;
                    double with_b = time_of_random(&made.problem, &random, b, b);
                    random = before;
                    double with_a = time_of_random(&made.problem, &random, b, a);
                    CHECK(with_a <= with_b * (1 + 1e-11), "seed %u: %g, not %g", params.seed,
                          with_a, with_b);
                }
            }
        wring_made_finish(&made);
    }
    CHECK(pairs >= 180, "only %u pairs", pairs);
}

/**
 * Nothing weaker would do: wherever an option takes longer on one lane at one size, there are
 * groupings in which that counts. Before and after it, another option keeps that lane busy.
 */
static void necessary(void)
{
    double compute[3] = {0};
    uint64_t elems[4] = {0, 1, 2, 3};
    uint32_t random = 9, end[3] = {1, 2, 3}, counted = 0;

    for (int turn = 0; turn < 500; turn++) {
        struct wring_option_cost options[3] = {0};
        struct wring_problem problem = {3, LANES, 3, compute, elems, options, NULL, 0, false};
        uint32_t lane = wring_test_random(&random) % LANES;
        for (uint32_t other = 0; other < LANES; other++)
            for (int i = 0; i < 2; i++)
                options[i].each[other] = wring_cost_line(some(&random, 10), 0);
        options[2].each[lane] = wring_cost_line(1000, 0);
        double a = options[0].each[lane].corners[0].y, b = options[1].each[lane].corners[0].y;
        uint32_t with_a[3] = {2, 0, 2}, with_b[3] = {2, 1, 2};
        double time_a = wring_problem_time(&problem, &(struct wring_grouping){3, end, with_a});
        double time_b = wring_problem_time(&problem, &(struct wring_grouping){3, end, with_b});
        CHECK(fabs(time_a - time_b - (a - b)) < 1e-9, "a lane's %g count %g", a - b,
              time_a - time_b);
        CHECK(!(a > b) || !wring_dominates(&options[0], &options[1], LANES), "dropped nonetheless");
        counted += a > b;
    }
    CHECK(counted > 100, "only %u", counted);
}

/** At the sizes between corners, too, and on both kinds of cost. */
static void corners(void)
{
    struct wring_option_cost a = {0}, b = {0};

    CHECK(wring_dominates(&a, &b, LANES), "nothing is more than nothing");
    b.each[2] = wring_cost_line(1, 0);
    CHECK(wring_dominates(&a, &b, LANES) && !wring_dominates(&b, &a, LANES), "1 is no more than 0");
    a.each[2] = (struct wring_cost){.n = 2, .slope = 0, .corners = {{10, 0.5}, {20, 1.5}}};
    CHECK(!wring_dominates(&a, &b, LANES), "beyond 15 elements it is more");
    b.each[2].slope = 0.1;
    CHECK(wring_dominates(&a, &b, LANES), "with the slope it is less");
    a.each[2].slope = 0.2;
    CHECK(!wring_dominates(&a, &b, LANES), "far out it is more");
    a.each[2].slope = 0;
    a.once[0] = wring_cost_line(1, 0);
    CHECK(!wring_dominates(&a, &b, LANES), "once counts");
    a.once[0].n = 0;
    a.chunk_elems = 5;
    CHECK(!wring_dominates(&a, &b, LANES), "other chunks cannot be compared");
}

/* ---- whole models ---- */

struct exhaustion {
    const struct wring_problem *problem;
    double best;
};

static void exhaust(struct exhaustion *exhaustion, uint32_t begin, const double *ends)
{
    const struct wring_problem *problem = exhaustion->problem;
    double once[WRING_PLAN_LANES_MAX], each[WRING_PLAN_LANES_MAX], then[WRING_PLAN_LANES_MAX];

    if (begin == problem->n_tensors) {
        double time = ends[problem->n_lanes - 1];
        exhaustion->best = time < exhaustion->best ? time : exhaustion->best;
        return;
    }
    for (uint32_t end = begin + 1; end <= problem->n_tensors; end++)
        for (uint32_t option = 0; option < problem->n_options; option++) {
            memcpy(then, ends, sizeof(then));
            uint64_t chunks = wring_problem_group(problem, begin, end, option, once, each);
            wring_problem_advance(problem, chunks, once, each, then);
            exhaust(exhaustion, end, then);
        }
}

static double optimum(const struct wring_problem *problem)
{
    double ends[WRING_PLAN_LANES_MAX] = {0};
    struct exhaustion exhaustion = {problem, DBL_MAX};

    exhaust(&exhaustion, 0, ends);
    return exhaustion.best;
}

static void check_model(struct wring_cost_model_params *params)
{
    struct wring_cost_model *all = NULL, *pruned = NULL;

    params->keep_dominated = true;
    REQUIRE(wring_cost_model_create(params, NULL, &all) == WRING_OK, "no model of all");
    params->keep_dominated = false;
    REQUIRE(wring_cost_model_create(params, NULL, &pruned) == WRING_OK, "no pruned model");
    CHECK(all->problem.n_options == all->considered, "some are missing");
    CHECK(pruned->problem.n_options < all->problem.n_options * 2 / 3, "%u of %u are left",
          pruned->problem.n_options, all->problem.n_options);
    double want = optimum(&all->problem), got = optimum(&pruned->problem);
    CHECK(fabs(got - want) <= 1e-11 * want, "%u nodes of %u, timeline %d: %.9g, not %.9g",
          params->nodes, params->ranks_per_node, params->timeline, got, want);
    wring_cost_model_destroy(all);
    wring_cost_model_destroy(pruned);
}

/** The optimum of all options is the optimum of those that are left. */
static void check_models(const char *name, bool chunked, uint32_t n, uint32_t sites, uint32_t nodes,
                         uint32_t ranks_per_node, int turns)
{
    static const char *const codecs[] = {"onebit+ef"};
    struct wring_profile *profile = wring_profile_builtin(name);
    uint32_t random = 11;

    profile->chunked = chunked;
    for (int turn = 0; turn < turns; turn++) {
        struct wring_made_trace made;
        struct wring_cost_model_params params = {.trace = &made.trace,
                                                 .profile = profile,
                                                 .nodes = nodes,
                                                 .ranks_per_node = ranks_per_node,
                                                 .sites = sites,
                                                 .codecs = codecs,
                                                 .n_codecs = 1,
                                                 .chunk_bytes = 65536};
        wring_made_random_trace(n, &random, &made);
        if (!chunked)
            params.timeline = turn % 3 == 0 ? WRING_TIMELINE_SERIAL : WRING_TIMELINE_PHASES;
        check_model(&params);
    }
    wring_profile_destroy(profile);
}

static void models(void)
{
    uint32_t both = SITE(DEVICE) | SITE(CPU);

    check_models("espresso-pcie", false, 3, both, 8, 1, 6);
    check_models("espresso-nvlink", false, 3, both, 1, 4, 3);
    check_models("espresso-pcie", false, 2, SITE(DEVICE), 4, 8, 6);
    check_models("espresso-nvlink", false, 2, SITE(CPU), 8, 8, 3);
    check_models("espresso-pcie", true, 3, both, 4, 1, 6);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"replacing", replacing},
        {"necessary", necessary},
        {"corners", corners},
        {"models", models},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
