/* SPDX-License-Identifier: Apache-2.0 */
/** wring calibrate gives a link its lines, whatever its steps take: times here are made up. */
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "tools/bench/p2p.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"

#define RANKS 2
#define TURNS 5
#define SIZES 4 /* from 4 to 256 KiB, beside the latency */

/** @return microseconds of a rank's n-th step, from 0 on */
typedef double (*times_fn)(unsigned n);

static times_fn times;
static _Thread_local unsigned steps, turns; /* that a rank has made */

/* ---- in the place of tools/calibrate/job.c and of puts ---- */

enum wring_status wring_calibration_slowest(struct wring_calibration *job, double *us, uint64_t n)
{
    (void)job, (void)n;
    *us = times(steps++);
    return WRING_OK;
}

enum wring_status wring_calibration_agree(struct wring_calibration *job, bool *more)
{
    (void)job;
    *more = ++turns < TURNS;
    return WRING_OK;
}

void wring_calibration_tell(const struct wring_calibration *job, const char *format, ...)
{
    (void)job, (void)format;
}

void wring_calibrate_count(struct wring_fit_point *point,
                           struct wring_collective_bench_noise *noise)
{
    (void)point;
    noise->points++;
}

bool wring_calibrate_is_in_doubt(double *samples, uint32_t n)
{
    (void)samples, (void)n;
    return false;
}

int wring_p2p_rank(const struct wring_p2p_params *params, wring_p2p_report_fn report, void *arg)
{
    (void)params, (void)report, (void)arg;
    return WRING_EXIT_FAILURE; /* there are no puts */
}

/* ---- the cases ---- */

static void check_line(const struct wring_cost *cost, const char *what)
{
    bool rises = cost->n > 1 && cost->slope >= 0;

    for (uint32_t i = 1; rises && i < cost->n; i++)
        rises = cost->corners[i].x > cost->corners[i - 1].x &&
                cost->corners[i].y >= cost->corners[i - 1].y;
    CHECK(rises, "%s: no line that rises", what);
}

/** @param arg  out: rank 0's link */
static void measure(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct wring_calibrate_params params = {.name = "test", .seconds = 1};
    struct wring_group *world = wring_session_world(session);
    struct wring_calibration job = {.params = &params,
                                    .session = session,
                                    .world = world,
                                    .levels = {[WRING_LEVEL_INTRA] = world},
                                    .level_ranks = {[WRING_LEVEL_INTRA] = RANKS},
                                    .rank = rank,
                                    .ranks = RANKS,
                                    .me = {[WRING_LEVEL_INTRA] = rank},
                                    .pairs = {[WRING_LEVEL_INTRA] = {0, 1}},
                                    .max_elems = 65536};
    struct wring_profile profile = {.n_codecs = 0};
    struct wring_collective_bench_noise noise = {0};

    enum wring_status status = wring_calibrate_links(&job, 1, &profile, &noise);
    CHECK(status == WRING_OK, "rank %u: %s", rank, wring_status_text(status));
    if (rank == 0)
        *(struct wring_profile_link *)arg = profile.links[WRING_LEVEL_INTRA];
}

/** Measure it. @param points  sizes that its lines are made of, beside the latency */
static struct wring_profile_link check_link(times_fn made_up, uint32_t points)
{
    struct wring_profile_link link = {.n_routines = 0};
    const struct wring_test_job job = {.ranks = RANKS, .run = measure, .arg = &link};

    times = made_up;
    wring_test_run_ranks(&job);
    CHECK(link.n_routines == WRING_CALIBRATE_ROUTINES, "%u steps", link.n_routines);
    CHECK(link.trust.points == points, "%u points", link.trust.points);
    check_line(&link.us, "allgather");
    for (uint32_t i = 0; i < link.n_routines; i++) {
        CHECK(link.routines[i].trust.points == 2, "%s: %u points", link.routines[i].name,
              link.routines[i].trust.points);
        check_line(&link.routines[i].us, link.routines[i].name);
    }
    return link;
}

static double slow(unsigned n)
{
    return 70000 + n % 2; /* more than a size may take */
}

static void a_slow_link_has_lines(void)
{
    struct wring_profile_link link = check_link(slow, 3);

    CHECK(link.latency_us >= 2 * 70000.0, "%g us", link.latency_us);
}

static double held_up(unsigned n)
{
    return n == 1 ? 1e6 : 20;
}

/** The machine was busy as one number passed the link: all sizes are measured even so. */
static void a_step_that_is_held_up_costs_no_sizes(void)
{
    struct wring_profile_link link = check_link(held_up, SIZES);

    CHECK(link.latency_us == 2 * 20.0, "%g us", link.latency_us);
}

static double nothing(unsigned n)
{
    return 0 * n;
}

static double faster_and_faster(unsigned n)
{
    return 1e5 / (n + 2);
}

/** Steps that take no time, or less than smaller ones. */
static void odd_times_have_lines(void)
{
    check_link(nothing, SIZES);
    check_link(faster_and_faster, SIZES);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a_slow_link_has_lines", a_slow_link_has_lines},
        {"a_step_that_is_held_up_costs_no_sizes", a_step_that_is_held_up_costs_no_sizes},
        {"odd_times_have_lines", odd_times_have_lines},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
