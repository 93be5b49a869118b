/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What collectives lose to computing: the model's times against a simulation in which collectives
 * go on slower while backward runs.
 */
#include <math.h>
#include <string.h>

#include "planner/core/model/lanes.h"
#include "planner/tool/timeline.h"
#include "tests/lib/test.h"

#define TENSORS 9
#define FIXED_US 20.0
#define SLOPE_US 0.01
#define MAX_ELEMS 20000

static struct wring_log quiet = {.level = WRING_LOG_ERROR};

/** A trace, a profile with one collective, and the tensors each by itself. */
struct subject {
    struct wring_tensor tensors[TENSORS];
    struct wring_tensor_trace trace;
    struct wring_profile profile;
    struct wring_measured_collective collective;
    struct wring_cost_model *model;
    uint32_t end[TENSORS], option[TENSORS];
    struct wring_timeline_result result;
};

/** Of a rank's processor that collectives keep busy: none, so much that nothing is left, and parts.
 */
static double load_of(uint32_t seed)
{
    return seed % 9 / 8.0;
}

/** Of a processor that a rank has; 1 where nobody says. */
static double share_of(uint32_t seed)
{
    return seed % 3 == 1 ? 0.5 : 1;
}

static void set_up(struct subject *s, uint32_t seed, enum wring_computing computing)
{
    static char name[] = "made";
    uint32_t random = seed + 5;
    double ready = 0;

    memset(s, 0, sizeof(*s));
    for (uint32_t i = 0; i < TENSORS; i++) {
        ready += wring_test_random(&random) % 4 == 0 ? 0 : wring_test_random(&random) % 200;
        s->tensors[i] = (struct wring_tensor){
            .name = name, .elems = 1 + wring_test_random(&random) % 20000, .ready_us = ready};
    }
    s->trace = (struct wring_tensor_trace){.model = name, .n = TENSORS, .tensors = s->tensors};
    s->trace.optimizer_us = seed % 3 * 50; /* before backward, while nothing is exchanged */
    s->collective =
        (struct wring_measured_collective){.codec = "none", .run_as = "auto", .ranks = 2};
    s->collective.solo.us = s->collective.busy.us = wring_cost_line(FIXED_US, SLOPE_US);
    s->collective.cpu.us =
        wring_cost_scale(&s->collective.busy.us, load_of(seed) * share_of(seed), 1);
    s->collective.max_elems = MAX_ELEMS;
    s->profile = (struct wring_profile){
        .name = "made",
        .nodes = 1,
        .ranks_per_node = 2,
        .chunked = true,
        .links = {[WRING_LEVEL_INTRA] = {.present = true, .us = wring_cost_line(0, 1)}},
        .computing = {.present = seed % 5 != 0,
                      .wake_us = 30,
                      .spin_lost = 0.6,
                      .core_share = seed % 3 != 0 ? share_of(seed) : 0},
        .n_collectives = 1,
        .collectives = &s->collective};
    const struct wring_cost_model_params params = {
        .trace = &s->trace, .profile = &s->profile, .computing = computing};
    REQUIRE(wring_cost_model_create(&params, &quiet, &s->model) == WRING_OK, "no model");
    for (uint32_t i = 0; i < TENSORS; i++) {
        s->end[i] = i + 1;
        s->option[i] = s->model->uncompressed;
    }
    const struct wring_grouping grouping = {TENSORS, s->end, s->option};
    REQUIRE(wring_timeline_init(s->model, &grouping, &s->result) == WRING_OK, "no timeline");
}

static void tear_down(struct subject *s)
{
    wring_timeline_finish(&s->result);
    wring_cost_model_destroy(s->model);
}

/** Of each wake-up, what is not there to be had beside the collectives: those of all of backward
 * take so much of the processor, collectives as much as they keep busy, and there is one of it. */
static double lost_to_wake(const struct subject *s, uint32_t seed)
{
    double wanted_us = TENSORS * s->profile.computing.wake_us;
    double all_us = s->tensors[TENSORS - 1].ready_us;
    double missing_us = wanted_us + load_of(seed) * all_us - all_us;

    return fmin(fmax(missing_us / wanted_us, 0), 1) * s->profile.computing.wake_us;
}

/** Of a collective's pace, what is left while tensor i is computed; none is after backward. */
static double pace_during(const struct subject *s, uint32_t seed, enum wring_computing computing,
                          uint32_t i)
{
    const struct wring_profile_computing *profile = &s->profile.computing;
    double took = s->tensors[i].ready_us - (i > 0 ? s->tensors[i - 1].ready_us : 0);

    if (!profile->present || i == 0)
        return 1;
    if (computing == WRING_COMPUTING_PROCESSOR)
        return 1 - profile->spin_lost;
    return took > 0 ? fmax(0, 1 - lost_to_wake(s, seed) / took) : 1;
}

/** When a collective ends that begins at `at` and would take `left` us by itself. */
static double end_of(const struct subject *s, uint32_t seed, enum wring_computing computing,
                     double at, double left)
{
    for (uint32_t i = 0; i < TENSORS; i++) {
        double ready = s->tensors[i].ready_us, pace = pace_during(s, seed, computing, i);
        if (ready <= at)
            continue;
        if (pace > 0 && at + left / pace <= ready)
            return at + left / pace;
        left -= (ready - at) * pace;
        at = ready;
    }
    return at + left;
}

static const struct wring_lane_task *collective_of(const struct subject *s, uint32_t group)
{
    for (uint32_t i = 0; i < s->result.n; i++)
        if (s->result.tasks[i].group == group && s->result.tasks[i].lane == 1)
            return &s->result.tasks[i];
    return NULL;
}

static void check_simulated(uint32_t seed, enum wring_computing computing)
{
    struct subject s;
    double end = 0;

    set_up(&s, seed, computing);
    double begin_us = s.trace.optimizer_us;
    for (uint32_t i = 0; i < TENSORS; i++) {
        double begin = fmax(end, s.tensors[i].ready_us);
        end = end_of(&s, seed, computing, begin, FIXED_US + SLOPE_US * (double)s.tensors[i].elems);
        const struct wring_lane_task *task = collective_of(&s, i);
        REQUIRE(task != NULL, "seed %u: group %u is not exchanged", seed, i);
        CHECK(fabs(task->end_us - begin_us - end) < 1e-6, "seed %u: group %u ends at %g, not %g",
              seed, i, task->end_us, begin_us + end);
    }
    CHECK(fabs(s.result.iteration_us - begin_us - end) < 1e-6, "seed %u: %g, not %g", seed,
          s.result.iteration_us, begin_us + end);
    CHECK(fabs(s.result.last_ready_us - wring_tensor_trace_alone_us(&s.trace)) < 1e-6,
          "seed %u: computing takes %g", seed, s.result.last_ready_us);
    tear_down(&s);
}

static void as_simulated(void)
{
    for (uint32_t seed = 0; seed < 300; seed++) {
        check_simulated(seed, WRING_COMPUTING_DEVICE);
        check_simulated(seed, WRING_COMPUTING_PROCESSOR);
    }
}

static void other_timelines(void)
{
    struct subject s;
    struct wring_cost_model *model;

    set_up(&s, 8, WRING_COMPUTING_DEVICE);
    CHECK(s.model->lost_us > 0, "something is lost");
    const struct wring_cost_model_params params = {
        .trace = &s.trace, .profile = &s.profile, .timeline = WRING_TIMELINE_PHASES};
    REQUIRE(wring_cost_model_create(&params, &quiet, &model) == WRING_OK, "no model");
    CHECK(model->lost_us == 0, "phases know nothing of it");
    wring_cost_model_destroy(model);
    tear_down(&s);
}

/** Where codecs may be taken, the busiest one's loss counts if that is more. */
static void codecs_lose_as_well(void)
{
    const struct wring_profile_computing
        more = {.present = true, .spin_lost = 0.5, .spin_codec = "busy", .spin_coded_lost = 0.8},
        less = {.present = true, .spin_lost = 0.5, .spin_codec = "busy", .spin_coded_lost = 0.2};
    const struct wring_profile_computing *const profiles[] = {&more, &more, &less, &less};
    const double wanted[] = {100, 160, 100, 100};

    for (int i = 0; i < 4; i++) {
        double compute_us[] = {10, 200};
        double lost_us = wring_interference_shift(profiles[i], WRING_COMPUTING_PROCESSOR, 1,
                                                  i % 2 != 0, 2, compute_us);
        CHECK(fabs(lost_us - wanted[i]) < 1e-9, "%d: %g", i, lost_us);
        CHECK(fabs(compute_us[0] + compute_us[1] - 210) < 1e-9, "%d: %g in all", i,
              compute_us[0] + compute_us[1]);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"as_simulated", as_simulated},
        {"other_timelines", other_timelines},
        {"codecs_lose_as_well", codecs_lose_as_well},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
