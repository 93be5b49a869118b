/* SPDX-License-Identifier: Apache-2.0 */
/* Reading off loss curves: when a target is reached, and what stood at a step. */
#include <math.h>

#include "tests/lib/test.h"
#include "tools/demo/curve.h"

#define STEPS 200 /* 10 between two points */

/** Falls from 6 by 0.2 a point, and ends at 2. */
static void fill(double *losses)
{
    for (int i = 0; i <= DEMO_EVALS; i++)
        losses[i] = 6 - 0.2 * i;
}

static bool near(double value, double wanted)
{
    return fabs(value - wanted) < 1e-9;
}

static void a_target_is_reached_between_two_points(void)
{
    double losses[DEMO_EVALS + 1];
    fill(losses);
    double steps = demo_curve_steps_to(losses, STEPS, 5.7);
    CHECK(near(steps, 15), "5.7 after %g steps", steps);
    steps = demo_curve_steps_to(losses, STEPS, losses[DEMO_EVALS]);
    CHECK(near(steps, STEPS), "the last loss after %g steps", steps);
    CHECK(isnan(demo_curve_steps_to(losses, STEPS, 1.9)), "below the curve's end");
    CHECK(isnan(demo_curve_steps_to(losses, STEPS, NAN)), "no target");
}

static void only_the_first_time_counts(void)
{
    double losses[DEMO_EVALS + 1];
    fill(losses);
    losses[1] = 3;
    double steps = demo_curve_steps_to(losses, STEPS, 4.5);
    CHECK(near(steps, 5), "4.5 after %g steps", steps);
}

static void the_loss_at_a_step_lies_on_the_curve(void)
{
    double losses[DEMO_EVALS + 1];
    fill(losses);
    CHECK(near(demo_curve_at(losses, STEPS, 0), 6), "at the beginning");
    CHECK(near(demo_curve_at(losses, STEPS, 15), 5.7), "%g", demo_curve_at(losses, STEPS, 15));
    CHECK(near(demo_curve_at(losses, STEPS, STEPS), 2), "at the end");
    CHECK(near(demo_curve_at(losses, STEPS, 5.0 * STEPS), 2), "after the end");
    CHECK(near(demo_curve_at(losses, STEPS, INFINITY), 2), "for ever after");
}

static const struct wring_test_case cases[] = {
    {"a target is reached between two points", a_target_is_reached_between_two_points},
    {"only the first time counts", only_the_first_time_counts},
    {"the loss at a step lies on the curve", the_loss_at_a_step_lies_on_the_curve},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
