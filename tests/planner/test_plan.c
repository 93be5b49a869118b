/* SPDX-License-Identifier: Apache-2.0 */
/** Plans: made from what a search found, as files, and against the job that is to execute them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/core/files/plan.h"
#include "planner/core/model/cost_model.h"
#include "planner/core/model/option.h"
#include "tests/lib/test.h"
#include "tests/planner/good_plan.h"
#include "tests/planner/json_cases.h"

static struct wring_log loud = {.level = WRING_LOG_ERROR};

/* ---- from what a search found ---- */

#define TENSORS 3
static struct wring_tensor tensors[TENSORS] = {
    {(char[]){"a"}, 4, 0, 0}, {(char[]){"b"}, 6, 10, 0}, {(char[]){"c"}, 3, 100, 0}};
static char source[] = "", name[] = "Mod\xc3\xa8le";
static struct wring_tensor_trace trace = {
    .model = name, .source = source, .forward_us = 1, .n = TENSORS, .tensors = tensors};

static const struct wring_option raw_option = {
    1, {{.kind = WRING_STEP_COMM, .routine = WRING_ROUTINE_ALLREDUCE}}};

static struct wring_option coded_option(enum wring_site site)
{
    return (struct wring_option){
        3,
        {{.kind = WRING_STEP_ENCODE, .site = site},
         {.kind = WRING_STEP_COMM, .routine = WRING_ROUTINE_ALLGATHER, .coded = true},
         {.kind = WRING_STEP_DECODE, .site = site}}};
}

/** Three tensors on a lane that computes and one that sends: raw, fp16, and a codec on a device. */
struct made {
    double compute_us[TENSORS];
    uint64_t elems[TENSORS + 1];
    struct wring_option_cost costs[3];
    struct wring_cost_option options[3];
    struct wring_profile_codec codecs[3];
    struct wring_cost_model model;
};

static void make(struct made *made)
{
    *made =
        (struct made){.compute_us = {0, 10, 90},
                      .elems = {0, 4, 10, 13},
                      .options = {{.option = raw_option},
                                  {.codec = 1, .option = coded_option(WRING_SITE_CPU), .cores = 2},
                                  {.codec = 2,
                                   .option = coded_option(WRING_SITE_DEVICE),
                                   .chunk_elems = 5,
                                   .site = WRING_SITE_DEVICE}},
                      .codecs = {{.spec = "none"}, {.spec = "fp16"}, {.spec = "int8"}},
                      .model = {.trace = &trace,
                                .timeline = WRING_TIMELINE_PHASES,
                                .nodes = 4,
                                .ranks_per_node = 1,
                                .uncompressed = 0,
                                .fp16 = 1,
                                .n_codecs = 3}};
    made->options[1].site = WRING_SITE_CPU;
    for (int i = 0; i < 3; i++)
        made->costs[i].each[1] = wring_cost_line(5, 4.0 / (1 << i));
    made->model.options = made->options;
    made->model.codecs = made->codecs;
    made->model.problem = (struct wring_problem){.n_tensors = TENSORS,
                                                 .n_lanes = 2,
                                                 .n_options = 3,
                                                 .compute_us = made->compute_us,
                                                 .elems = made->elems,
                                                 .options = made->costs};
}

static void created(void)
{
    struct made made;
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_plan *plan = NULL;
    const struct wring_grouping grouping = {
        .n = 2, .end = (uint32_t[]){2, 3}, .option = (uint32_t[]){1, 2}};

    make(&made);
    REQUIRE(profile != NULL && wring_tensor_trace_rehash(&trace) == WRING_OK, "no memory");
    REQUIRE(wring_plan_create(&made.model, &trace, profile, &grouping, &plan) == WRING_OK, "none");
    CHECK(plan->n_groups == 2 && plan->groups[0].n == 2 && plan->groups[0].elems == 10 &&
              strcmp(plan->groups[0].tensors[1], "b") == 0,
          "groups[0]");
    CHECK(strcmp(plan->groups[0].codec, "fp16") == 0 && strcmp(plan->groups[0].where, "cpu") == 0 &&
              plan->groups[0].cores == 2 && plan->groups[0].run_as[0] != '\0' &&
              strcmp(plan->groups[0].scheme, "encode cpu, flat allgather*, decode cpu") == 0,
          "groups[0]: %s %s %s", plan->groups[0].codec, plan->groups[0].where,
          plan->groups[0].scheme);
    CHECK(strcmp(plan->groups[1].where, "device") == 0 && plan->groups[1].chunk_elems == 5 &&
              plan->groups[1].run_as[0] == '\0',
          "groups[1]");
    /* ready at 10 + 5 + 10 · 2; then at 100 + 5 + 3 · 1; alone: 100 + 5 + 3 · 4, 100 + 5 + 3 · 2 */
    CHECK(plan->iteration_us == 108 && plan->fp32_us == 117 && plan->fp16_us == 111, "%g %g %g",
          plan->iteration_us, plan->fp32_us, plan->fp16_us);
    CHECK(plan->last_ready_us == 100 && isnan(plan->bound_us) && isnan(plan->espresso_us),
          "what nobody knows yet");
    CHECK(strcmp(plan->timeline, "phases") == 0 && plan->nodes == 4, "head");
    CHECK(wring_plan_check(plan, &trace, profile, &loud) == WRING_OK, "not its own trace");
    good_plan_check_round_trip(plan);
    wring_plan_destroy(plan);
    wring_profile_destroy(profile);
}

static const struct wring_option both_ways = {
    6,
    {{.kind = WRING_STEP_ENCODE, .site = WRING_SITE_CPU},
     {.kind = WRING_STEP_COMM, .routine = WRING_ROUTINE_ALLTOALL, .coded = true},
     {.kind = WRING_STEP_DECODE, .site = WRING_SITE_CPU},
     {.kind = WRING_STEP_ENCODE, .site = WRING_SITE_CPU},
     {.kind = WRING_STEP_COMM, .routine = WRING_ROUTINE_ALLGATHER, .coded = true},
     {.kind = WRING_STEP_DECODE, .site = WRING_SITE_CPU}}};

/** A collective within nodes, around the flat one of `inside`. */
static struct wring_option in_nodes(const struct wring_option *inside, bool coded)
{
    struct wring_option option = {.n = inside->n + 2};

    option.steps[0] = (struct wring_step){.kind = WRING_STEP_COMM,
                                          .phase = WRING_PHASE_INTRA_IN,
                                          .routine = WRING_ROUTINE_REDUCE_SCATTER,
                                          .coded = coded};
    for (uint32_t i = 0; i < inside->n; i++) {
        option.steps[i + 1] = inside->steps[i];
        option.steps[i + 1].phase = WRING_PHASE_INTER;
    }
    option.steps[inside->n + 1] = (struct wring_step){.kind = WRING_STEP_COMM,
                                                      .phase = WRING_PHASE_INTRA_OUT,
                                                      .routine = WRING_ROUTINE_ALLGATHER};
    return option;
}

/** Owners add codes only of codecs whose codes add up, and encode no sum of these. */
static void run_as_sums(void)
{
    static const char *const adding[] = {"sharedint", "sharedint:width=4+ef", "thc:width=4",
                                         "thc:width=4:sums=saturate", "terngrad:bits=4"};
    struct wring_option halves = {
        4,
        {{.kind = WRING_STEP_ENCODE, .site = WRING_SITE_CPU},
         {.kind = WRING_STEP_COMM, .routine = WRING_ROUTINE_REDUCE_SCATTER, .coded = true},
         {.kind = WRING_STEP_COMM, .routine = WRING_ROUTINE_ALLGATHER, .coded = true},
         {.kind = WRING_STEP_DECODE, .site = WRING_SITE_CPU}}};
    struct wring_option at_once = {
        3,
        {{.kind = WRING_STEP_ENCODE, .site = WRING_SITE_CPU},
         {.kind = WRING_STEP_COMM, .routine = WRING_ROUTINE_ALLREDUCE, .coded = true},
         {.kind = WRING_STEP_DECODE, .site = WRING_SITE_CPU}}};
    struct wring_option cpu = coded_option(WRING_SITE_CPU);

    for (size_t i = 0; i < sizeof(adding) / sizeof(adding[0]); i++) {
        struct wring_option nodes = in_nodes(&halves, false);
        CHECK(wring_option_adds_codes(adding[i]), "%s adds none", adding[i]);
        CHECK(strcmp(wring_option_run_as(&halves, adding[i], 8), "divisible") == 0, "%s: halves",
              adding[i]);
        CHECK(strcmp(wring_option_run_as(&at_once, adding[i], 8), "divisible") == 0, "%s: at once",
              adding[i]);
        CHECK(strcmp(wring_option_run_as(&nodes, adding[i], 2), "hierarchical-divisible") == 0,
              "%s between nodes", adding[i]);
        nodes = in_nodes(&at_once, false);
        CHECK(strcmp(wring_option_run_as(&nodes, adding[i], 2), "hierarchical-divisible") == 0,
              "%s at once between nodes", adding[i]);
        CHECK(strcmp(wring_option_run_as(&cpu, adding[i], 8), "indivisible") == 0, "%s: whole",
              adding[i]);
        CHECK(wring_option_run_as(&both_ways, adding[i], 8)[0] == 0, "%s: no sum is encoded",
              adding[i]);
    }
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        const char *spec = (*ops)->name;
        bool runs = wring_option_run_as(&halves, spec, 1)[0] != 0;
        CHECK(!runs || (*ops)->code_sum != NULL, "codes of %s do not add up", spec);
        CHECK(runs == (wring_option_run_as(&at_once, spec, 1)[0] != 0), "%s by another name", spec);
        CHECK(!runs || wring_option_run_as(&both_ways, spec, 1)[0] == 0, "%s both ways", spec);
    }
    CHECK(wring_option_run_as(&halves, "powersgd", 8)[0] == 0, "sums, and state");
    CHECK(wring_option_run_as(&halves, "sharedint>int8", 8)[0] == 0 &&
              strcmp(wring_option_run_as(&both_ways, "sharedint>int8", 8), "divisible") == 0,
          "a pair decodes what it adds");
    halves.steps[0].site = halves.steps[3].site = WRING_SITE_DEVICE;
    CHECK(wring_option_run_as(&halves, "sharedint", 8)[0] == 0, "a device");
    at_once.steps[1].routine = WRING_ROUTINE_REDUCE;
    CHECK(wring_option_run_as(&at_once, "sharedint", 8)[0] == 0, "one root");
}

static void run_as(void)
{
    struct wring_option cpu = coded_option(WRING_SITE_CPU), other = cpu;

    CHECK(strcmp(wring_option_run_as(&raw_option, "none", 8), "auto") == 0, "a plain allreduce");
    CHECK(strcmp(wring_option_run_as(&cpu, "int8:block=512", 8), "indivisible") == 0,
          "a plain allgather");
    CHECK(wring_option_run_as(&cpu, "nobodys:ratio=0.01", 8)[0] == 0, "a codec of nobody");
    CHECK(wring_option_run_as(&cpu, "none", 8)[0] == 0, "nothing to code");
    CHECK(wring_option_run_as(&cpu, "int8>bf16", 8)[0] == 0, "a pair without a way back");
    CHECK(strcmp(wring_option_run_as(&both_ways, "int8>none", 8), "divisible") == 0, "a pair");
    CHECK(wring_option_run_as(&cpu, "signsgd", 8)[0] == 0, "votes without a way back");
    CHECK(strcmp(wring_option_run_as(&both_ways, "signsgd", 8), "divisible") == 0, "votes");
    CHECK(wring_option_run_as(&both_ways, "topk:ratio=0.01+momentum+ef", 8)[0] == 0, "momentum");
    CHECK(wring_option_run_as(&cpu, "powersgd", 8)[0] == 0, "a start for the next step");
    CHECK(wring_option_run_as(&both_ways, "powersgd+ef", 8)[0] == 0, "a whole bucket, and state");
    CHECK(wring_option_run_as(&raw_option, "int8", 8)[0] == 0, "a codec that codes nothing");
    other.steps[1].phase = WRING_PHASE_INTER;
    CHECK(wring_option_run_as(&other, "int8", 8)[0] == 0, "nodes of several ranks");
    CHECK(strcmp(wring_option_run_as(&other, "int8", 1), "indivisible") == 0, "nodes of one rank");
    other.steps[1].routine = WRING_ROUTINE_GATHER;
    CHECK(wring_option_run_as(&other, "int8", 1)[0] == 0, "half a collective");
    other = coded_option(WRING_SITE_NODE);
    CHECK(wring_option_run_as(&other, "int8", 1)[0] == 0, "an offload node");
}

static void run_in_nodes(void)
{
    struct wring_option allreduce = {1, {{.kind = WRING_STEP_COMM}}};
    struct wring_option cpu = coded_option(WRING_SITE_CPU),
                        two_steps = {
                            2,
                            {{.kind = WRING_STEP_COMM, .routine = WRING_ROUTINE_REDUCE_SCATTER},
                             {.kind = WRING_STEP_COMM, .routine = WRING_ROUTINE_ALLGATHER}}};
    struct wring_option raw_nodes = in_nodes(&allreduce, false);
    struct wring_option two_nodes = in_nodes(&two_steps, false);
    struct wring_option cpu_nodes = in_nodes(&cpu, false);
    struct wring_option coded_nodes = in_nodes(&cpu, true);

    CHECK(strcmp(wring_option_run_as(&raw_nodes, "none", 2), "hierarchical") == 0, "raw");
    CHECK(strcmp(wring_option_run_as(&two_nodes, "none", 2), "hierarchical") == 0, "two steps");
    CHECK(strcmp(wring_option_run_as(&cpu_nodes, "int8", 2), "hierarchical-indivisible") == 0,
          "codes between nodes");
    CHECK(wring_option_run_as(&cpu_nodes, "int8", 1)[0] == 0, "nothing to sum within a node");
    CHECK(wring_option_run_as(&coded_nodes, "int8", 2)[0] == 0, "codes within nodes");
    struct wring_option both_nodes = in_nodes(&both_ways, false);
    CHECK(strcmp(wring_option_run_as(&both_nodes, "int8", 2), "hierarchical-divisible") == 0 &&
              wring_option_run_as(&both_nodes, "signsgd", 2)[0] == 0,
          "ranks vote, and nodes do not");
    raw_nodes.steps[2].routine = WRING_ROUTINE_BROADCAST;
    CHECK(wring_option_run_as(&raw_nodes, "none", 2)[0] == 0, "half a way back");
}

/* ---- other buckets ---- */

struct change {
    struct wring_tensor tensors[TENSORS + 1];
    uint32_t n;
    const char *line;
};

static void check_change(const struct wring_plan *plan, const struct change *change)
{
    struct wring_tensor changed[TENSORS + 1];
    struct wring_tensor_trace other = trace;
    struct json_log log;

    memcpy(changed, change->tensors, sizeof(changed));
    other.tensors = changed;
    other.n = change->n;
    json_log_init(&log);
    REQUIRE(wring_tensor_trace_rehash(&other) == WRING_OK, "no memory");
    enum wring_status status = wring_plan_check(plan, &other, NULL, &log.log);
    CHECK(status == WRING_ERR_MISMATCH && log.n == 1, "status %d, %u lines", status, log.n);
    CHECK(strstr(log.line, change->line) != NULL, "%s", log.line);
}

static void mismatches(void)
{
    static char a[] = "a", b[] = "b", c[] = "c", d[] = "d";
    const struct change changes[] = {
        {{{a, 4, 0, 0}, {d, 6, 10, 0}, {c, 3, 100, 0}},
         3,
         "number 1 of model M it has \"b\", and there is \"d\""},
        {{{a, 4, 0, 0}, {b, 6, 10, 0}},
         2,
         "number 2 of model M it has \"c\", and there is \"nothing more\""},
        {{{a, 4, 0, 0}, {b, 6, 10, 0}, {c, 3, 100, 0}, {d, 1, 100, 0}},
         4,
         "number 3 of model M it has \"nothing more\", and there is \"d\""},
        {{{a, 4, 0, 0}, {b, 7, 10, 0}, {c, 3, 100, 0}},
         3,
         "its tensor \"b\" has 6 elements, and there are 7"},
        {{{a, 6, 0, 0}, {b, 4, 10, 0}, {c, 3, 100, 0}},
         3,
         "its tensor \"a\" has 4 elements, and there are 6"},
        {{{a, 4, 0, 0}, {b, 6, 10, 0}, {c, 4, 100, 0}}, /* which an old file does not say of each */
         3,
         "its group 1, from \"c\" on, has 3 elements, and there are 4"},
        {{{a, 4, 0, 0}, {b, 6, 10, 0}, {c, 3, 101, 0}},
         3,
         "made from another trace: its hash was 0123456789abcdef, that of Mod\xc3\xa8le is "},
    };
    struct wring_plan *plan = good_plan_load();
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct json_log log;

    REQUIRE(plan != NULL && profile != NULL, "the good plan is refused");
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        check_change(plan, &changes[i]);
    json_log_init(&log);
    REQUIRE(wring_tensor_trace_rehash(&trace) == WRING_OK, "no memory");
    plan->trace_hash = trace.hash;
    CHECK(wring_plan_check(plan, &trace, NULL, &log.log) == WRING_OK && log.n == 0, "%s", log.line);
    CHECK(wring_plan_check(plan, &trace, profile, &log.log) == WRING_ERR_MISMATCH &&
              strstr(log.line, "another profile: its hash was fedcba9876543210, that of "
                               "espresso-pcie is ") != NULL,
          "%s", log.line);
    wring_profile_destroy(profile);
    wring_plan_destroy(plan);
}

/** Times differ from one run to the next: buckets alone are asked for names and sizes. */
static void tensors_alone(void)
{
    struct wring_plan *plan = good_plan_load();
    struct wring_tensor later[TENSORS];

    REQUIRE(plan != NULL, "the good plan is refused");
    memcpy(later, tensors, sizeof(later));
    later[2].ready_us = 500;
    CHECK(wring_plan_check_tensors(plan, later, TENSORS, &loud) == WRING_OK, "other times");
    wring_plan_destroy(plan);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"created", created},
        {"run_as", run_as},
        {"run_as_sums", run_as_sums},
        {"run_in_nodes", run_in_nodes},
        {"mismatches", mismatches},
        {"tensors_alone", tensors_alone},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
