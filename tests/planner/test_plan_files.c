/* SPDX-License-Identifier: Apache-2.0 */
/** Plans as files: what they say, and the one line for what is refused. */
#include <math.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/planner/good_plan.h"
#include "tests/planner/json_cases.h"

static void fields(void)
{
    struct wring_plan *plan = good_plan_load();

    REQUIRE(plan != NULL, "the good plan is refused");
    CHECK(plan->trace_hash == 0x0123456789abcdef && plan->profile_hash == 0xfedcba9876543210,
          "hashes");
    CHECK(plan->iteration_us == 120.5 && plan->fp32_us == 300 && isnan(plan->fp16_us) &&
              plan->bound_us == 119 && plan->bound_time_us == 1000,
          "times");
    CHECK(plan->n_groups == 2 && plan->groups[0].n == 2 && plan->groups[0].elems == 10 &&
              strcmp(plan->groups[0].tensors[1], "b") == 0 &&
              strcmp(plan->groups[0].where, "cpu") == 0 && plan->groups[0].run_as[0] != '\0',
          "groups[0]");
    CHECK(strcmp(plan->executor, "pool:3") == 0 && plan->chunk_bytes == 131072, "session");
    CHECK(plan->groups[1].chunk_elems == 65536 && plan->groups[1].cores == 2 &&
              strcmp(plan->groups[1].executor, "pool:2") == 0 && plan->groups[0].executor[0] == 0,
          "groups[1]");
    good_plan_check_round_trip(plan);
    wring_plan_destroy(plan);
    wring_plan_destroy(NULL);
}

/** A bound of nothing leaves an endless gap, for which JSON has no number. */
static void endless(void)
{
    struct wring_plan *plan = good_plan_load();

    REQUIRE(plan != NULL, "the good plan is refused");
    plan->bound_us = 0;
    plan->gap = INFINITY;
    good_plan_check_round_trip(plan);
    wring_plan_destroy(plan);
}

/** A bound that rounding puts below the last gradient exposes nothing, not less than that. */
static void rounded(void)
{
    struct wring_plan *plan = good_plan_load();
    char text[8192] = "";
    REQUIRE(plan != NULL, "the good plan is refused");
    plan->bound_us = plan->last_ready_us - 1.8e-06;
    plan->iteration_us = plan->last_ready_us;
    FILE *file = tmpfile();
    REQUIRE(file != NULL && wring_plan_save(plan, file) == WRING_OK, "write");
    rewind(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    const char *bound = strstr(text, "\"bound_exposed_us\":"),
               *own = strstr(text, "\"exposed_us\":");
    double bound_us = -1, own_us = -1;
    CHECK(bound != NULL && own != NULL &&
              sscanf(bound, "\"bound_exposed_us\": %lf", &bound_us) == 1 &&
              sscanf(own, "\"exposed_us\": %lf", &own_us) == 1 && bound_us == 0 && own_us == 0,
          "%g and %g in %s", bound_us, own_us, text);
    wring_plan_destroy(plan);
}

static enum wring_status load(const char *path, const struct wring_log *log)
{
    struct wring_plan *plan = NULL;
    enum wring_status status = wring_plan_load(path, log, &plan);

    CHECK((status == WRING_OK) == (plan != NULL), "status %d, and a plan or none", status);
    wring_plan_destroy(plan);
    return status;
}

#define I WRING_ERR_INVALID

static void bad_files(void)
{
    static const struct json_case cases[] = {
        {"wring-plan", "wring-trace", I, "format: needs \"wring-plan\", is \"wring-trace\""},
        {"\"version\": 1", "\"version\": 2", WRING_ERR_VERSION,
         "version: is 2; this wring reads version 1"},
        {"0123456789abcdef", "0123456789ABCDEF", I,
         "trace_hash: needs 16 hexadecimal digits, is \"0123456789ABCDEF\""},
        {"\"fedcba9876543210\"", "7", I, "profile_hash: needs 16 hexadecimal digits, is 7"},
        {"phases", "guess", I,
         "timeline: needs one of \"serial\", \"phases\", \"full\", is \"guess\""},
        {"\"nodes\": 8", "\"nodes\": 1.5", I,
         "nodes: needs a whole number from 1 to 1048576, is 1.5"},
        {"120.5", "null", I, "iteration_us: needs a number from 0 to 1000000000000, is null"},
        {"120.5", "NaN", I, "iteration_us: line 4: invalid token near 'NaN'"},
        {"{\"fp32\": 300, \"fp16\": null}", "300", I, "baseline_us: needs an object, is 300"},
        {"\"fp32\": 300", "\"fp32\": -300", I,
         "baseline_us.fp32: needs a number from 0 to 1000000000000, is -300"},
        {"0.0126", "-0.0126", I, "gap: needs a number from 0 to 1000000000000, is -0.0126"},
        {"[\"a\", \"b\"]", "[]", I, "groups[0].tensors: needs 1 to 65536 elements, has 0"},
        {"[\"a\", \"b\"]", "[\"a\", 1]", I,
         "groups[0].tensors[1]: needs a text of 1 to 512 bytes, is 1"},
        {"[\"a\", \"b\"]", "[\"a\", \"a\"]", I,
         "groups[0].tensors[1]: \"a\" is in groups[0] already; a tensor travels once"},
        {"[\"c\"]", "[\"b\"]", I,
         "groups[1].tensors[0]: \"b\" is in groups[0] already; a tensor travels once"},
        {"\"elements\": 3", "\"elements\": 9223372036854775808", I,
         "groups[1].elements: needs a whole number from 1 to 1099511627776, is "
         "9.22337203685478e+18"},
        {"[4, 6]", "[10]", I, "groups[0].tensor_elements: needs 2 to 2 elements, has 1"},
        {"[4, 6]", "[4, 7]", I,
         "groups[0].tensor_elements: makes it 11 elements, and the group has 10"},
        {"[4, 6]", "[4, 0]", I,
         "groups[0].tensor_elements[1]: needs a whole number from 1 to 1099511627776, is 0"},
        {"\"cpu\"", "\"moon\"", I,
         "groups[0].where: needs one of \"\", \"device\", \"cpu\", \"node\", is \"moon\""},
        {"131072", "1", I, "chunk_bytes: needs a whole number from 4096 to 67108864, is 1"},
        {"131072", "1e300", I,
         "chunk_bytes: needs a whole number from 4096 to 67108864, is 1e+300"},
        {"\"pool:3\"", "7", I, "executor: needs a text of 0 to 63 bytes, is 7"},
        {"\"pool:3\"", "\"moon\"", I,
         "executor: needs \"\", inline, pool, pool:N or pool:cores=LIST, is \"moon\""},
        {"\"pool:3\"", "null", WRING_OK, ""},
        {"\"pool:2\"", "\"moon\"", I,
         "groups[1].executor: needs \"\", inline, pool, pool:N or pool:cores=LIST, is \"moon\""},
        {"\"cores\": 2", "\"cores\": -1", I,
         "groups[1].cores: needs a whole number from 0 to 4096, is -1"},
        {"\"codec\": \"int8\"", "\"codec\": \"\"", I,
         "groups[0].codec: needs a text of 1 to 127 bytes, is \"\""},
        {"65536", "1e300", I,
         "groups[1].chunk_elements: needs a whole number from 0 to 1099511627776, is 1e+300"},
        {"\"run_as\": \"auto\"}\n", "\"run_as\": true}\n", I,
         "groups[1].run_as: needs a text of 0 to 31 bytes, is true"},
        {"\"cores\": 2", NULL, I, "groups[1]: line 12: string or '}' expected near end of file"},
        {"\"espresso_us\": 130,", "", WRING_OK, ""},
        {0},
    };
    json_cases_check(good_plan, cases, load);
}

static void machines(void)
{
    struct wring_plan plan = {.profile = "espresso-pcie"};
    struct json_log log;

    json_log_init(&log);
    CHECK(wring_plan_check_machine(&plan, "B", &log.log) == WRING_OK && log.n == 0,
          "one of no machine: %s", log.line);
    snprintf(plan.machine, sizeof(plan.machine), "A");
    CHECK(wring_plan_check_machine(&plan, "B", &log.log) == WRING_ERR_MISMATCH && log.n == 1 &&
              strstr(log.line, "made for \"A\", and this is \"B\"") != NULL,
          "%s", log.line);
    CHECK(wring_plan_check_machine(&plan, "A", &log.log) == WRING_OK && log.n == 1, "its own");
    plan.nodes = 3;
    plan.ranks_per_node = 2;
    CHECK(wring_plan_check_ranks(&plan, "p.json", 6, &log.log) == WRING_OK && log.n == 1, "six");
    CHECK(wring_plan_check_ranks(&plan, "p.json", 4, &log.log) == WRING_ERR_MISMATCH &&
              strcmp(log.line, "p.json is for 3 nodes of 2 ranks, and the job has 4 ranks; plan "
                               "again with --nodes and --gpus-per-node") == 0,
          "%s", log.line);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"endless", endless},   {"rounded", rounded},     {"fields", fields},
        {"machines", machines}, {"bad_files", bad_files}, {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
