/* SPDX-License-Identifier: Apache-2.0 */
/** What measured collectives are made of: nothing is lost, nothing is twice, and what decides does.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "planner/tool/timeline.h"
#include "tests/lib/test.h"

#define ELEMS (1 << 20)
#define BIT(part) (1u << WRING_PART_##part)
#define THREAD (BIT(ENCODE) | BIT(DECODE) | BIT(WORK) | BIT(CORES) | BIT(PEERS))

/** One codec, one collective of two ranks of ELEMS elements. */
struct made {
    struct wring_profile profile;
    struct wring_profile_codec codec;
    struct wring_measured_collective collective;
    struct wring_option_cost cost;
    struct wring_cost_option option;
    struct wring_cost_model model;
};

static struct wring_profile_curve always(double us)
{
    return (struct wring_profile_curve){.us = wring_cost_line(us, 0)};
}

/** In us: the collective, its processor time, its bytes on the link. Each rank decodes twice. */
static void set_up(struct made *made, double took, double cpu, double wire)
{
    memset(made, 0, sizeof(*made));
    made->collective = (struct wring_measured_collective){.codec = "byte",
                                                          .run_as = "divisible",
                                                          .ranks = 2,
                                                          .cores = 4,
                                                          .cpu = always(cpu),
                                                          .wire_bytes = wring_cost_line(1000, 0)};
    made->codec = (struct wring_profile_codec){
        .spec = "byte", .wire_bytes = wring_cost_line(0, 1), .n_coders = 2};
    made->codec.coders[0] = (struct wring_profile_coder){
        .tier = "scalar", .encode = always(200), .decode = always(150)};
    made->codec.coders[1] = (struct wring_profile_coder){
        .cores = 2, .tier = "scalar", .encode = always(100), .decode = always(75)};
    made->profile = (struct wring_profile){.codecs = &made->codec, .n_codecs = 1};
    made->profile.links[WRING_LEVEL_INTER] = (struct wring_profile_link){
        .present = true, .provider = "tcp", .us = wring_cost_line(wire, 0)};
    made->cost.each[1] = wring_cost_line(took, 0);
    made->option.collective = &made->collective;
    made->model = (struct wring_cost_model){.profile = &made->profile,
                                            .nodes = 2,
                                            .ranks_per_node = 1,
                                            .lanes = {"device", WRING_LANE_COLLECTIVE},
                                            .options = &made->option,
                                            .costs = &made->cost};
    made->model.problem.n_lanes = 2;
}

static void check_part(const struct wring_collective_parts *parts, enum wring_collective_part part,
                       double begin, double us)
{
    CHECK(fabs(parts->us[part] - us) < 1e-6 &&
              (us <= 0 || fabs(parts->begin_us[part] - begin) < 1e-6),
          "%s: %g us from %g on, not %g from %g on", wring_collective_part_name(part),
          parts->us[part], parts->begin_us[part], us, begin);
}

static void one_thread_does_it_all(void)
{
    struct wring_collective_parts parts;
    struct made made;

    set_up(&made, 1000, 800, 400);
    made.profile.computing.core_share = 0.8;
    REQUIRE(wring_collective_parts(&made.model, 0, ELEMS, &parts), "no parts");
    check_part(&parts, WRING_PART_ENCODE, 0, 200);
    check_part(&parts, WRING_PART_WORK, 200, 300);
    check_part(&parts, WRING_PART_DECODE, 500, 300);
    check_part(&parts, WRING_PART_CORES, 800, 200); /* 800 / 0.8 - 800 */
    check_part(&parts, WRING_PART_PEERS, 1000, 0);
    check_part(&parts, WRING_PART_WIRE, 200, 400);
    CHECK(parts.decides == THREAD, "%#x decides", parts.decides);
    made.profile.computing.core_share = 1;
    REQUIRE(wring_collective_parts(&made.model, 0, ELEMS, &parts), "no parts");
    check_part(&parts, WRING_PART_PEERS, 800, 200);
}

static void a_slow_link_decides(void)
{
    struct wring_collective_parts parts;
    struct made made;

    set_up(&made, 1000, 600, 950);
    REQUIRE(wring_collective_parts(&made.model, 0, ELEMS, &parts), "no parts");
    check_part(&parts, WRING_PART_WIRE, 50, 950);
    CHECK(parts.decides == BIT(WIRE), "%#x decides", parts.decides);
    made.collective.cpu = always(940); /* a processor that never rests does */
    REQUIRE(wring_collective_parts(&made.model, 0, ELEMS, &parts), "no parts");
    CHECK(parts.decides == THREAD, "%#x decides", parts.decides);
    snprintf(made.profile.links[WRING_LEVEL_INTER].provider, 4, "shm");
    made.collective.cpu = always(600);
    REQUIRE(wring_collective_parts(&made.model, 0, ELEMS, &parts), "no parts");
    check_part(&parts, WRING_PART_WIRE, 0, 0);
    CHECK(parts.decides == THREAD, "%#x decides", parts.decides);
}

static void more_than_there_is_shrinks(void)
{
    struct wring_collective_parts parts;
    struct made made;

    set_up(&made, 1000, 250, 5000);
    REQUIRE(wring_collective_parts(&made.model, 0, ELEMS, &parts), "no parts");
    check_part(&parts, WRING_PART_ENCODE, 0, 100);
    check_part(&parts, WRING_PART_DECODE, 100, 150);
    check_part(&parts, WRING_PART_WORK, 100, 0);
    check_part(&parts, WRING_PART_PEERS, 250, 750);
    check_part(&parts, WRING_PART_WIRE, 0, 1000);
}

static void pinned_cores_code_beside(void)
{
    struct wring_collective_parts parts;
    struct made made;

    set_up(&made, 400, 800, 0);
    made.model.settled = true;
    made.model.tuning.cores = 2;
    REQUIRE(wring_collective_parts(&made.model, 0, ELEMS, &parts), "no parts");
    check_part(&parts, WRING_PART_ENCODE, 0, 100);
    check_part(&parts, WRING_PART_DECODE, 250, 150);
    check_part(&parts, WRING_PART_WORK, 0, 300); /* 800 less what was coded inline */
    check_part(&parts, WRING_PART_PEERS, 300, 100);
    CHECK(parts.decides == (BIT(WORK) | BIT(CORES) | BIT(PEERS)), "%#x decides", parts.decides);
    made.collective.coder_cores = 2;
    made.collective.cpu = always(600);
    REQUIRE(wring_collective_parts(&made.model, 0, ELEMS, &parts), "no parts");
    check_part(&parts, WRING_PART_WORK, 0, 100); /* 600 less twice 250 */
    check_part(&parts, WRING_PART_PEERS, 100, 150);
    CHECK(parts.decides == (BIT(ENCODE) | BIT(DECODE) | BIT(PEERS)), "%#x decides", parts.decides);
}

static void others_have_no_parts(void)
{
    struct wring_collective_parts parts;
    struct made made;

    set_up(&made, 1000, 800, 400);
    made.option.collective = NULL;
    CHECK(!wring_collective_parts(&made.model, 0, ELEMS, &parts), "parts of nothing measured");
}

/* ---- on a timeline ---- */

struct boxes {
    uint32_t n;
    uint64_t pieces; /* of those that encode */
    double us;       /* of all but the wire */
    double last_us;
};

static void count(void *arg, const struct wring_part_box *box)
{
    struct boxes *boxes = arg;

    boxes->n++;
    boxes->pieces += box->part == WRING_PART_ENCODE ? box->pieces : 0;
    boxes->us += box->part != WRING_PART_WIRE ? box->end_us - box->begin_us : 0;
    boxes->last_us = fmax(boxes->last_us, box->end_us);
    CHECK(box->critical, "a part of a critical collective that is none");
}

static void pieces_take_turns(void)
{
    const struct wring_lane_task task = {
        .lane = 1, .begin_us = 100, .end_us = 2100, .critical = true};
    uint64_t all_elems[] = {0, ELEMS};
    uint32_t end = 1, option = 0;
    const struct wring_grouping grouping = {1, &end, &option};
    struct made made;

    set_up(&made, 1000, 800, 0); /* 512 Ki elements each, pieces of 256 Ki at a byte */
    made.model.problem.elems = all_elems;
    for (uint64_t most = 1; most <= 4; most++) {
        struct boxes boxes = {0};
        uint32_t shown = most < 2 ? 1 : 2;
        wring_timeline_parts(&made.model, &grouping, &task, most, count, &boxes);
        CHECK(boxes.n == 4 * shown && boxes.pieces == 2, "%u boxes of %u pieces", boxes.n,
              (unsigned)boxes.pieces);
        CHECK(fabs(boxes.us - 2000) < 1e-6, "thread and waiting take %g us of 2000", boxes.us);
        CHECK(fabs(boxes.last_us - 2100) < 1e-6, "the last one ends at %g", boxes.last_us);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"one_thread_does_it_all", one_thread_does_it_all},
        {"a_slow_link_decides", a_slow_link_decides},
        {"more_than_there_is_shrinks", more_than_there_is_shrinks},
        {"pinned_cores_code_beside", pinned_cores_code_beside},
        {"others_have_no_parts", others_have_no_parts},
        {"pieces_take_turns", pieces_take_turns},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
