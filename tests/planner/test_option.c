/* SPDX-License-Identifier: Apache-2.0 */
/** The decision tree: its counts, its subtrees, and what options are called. */
#include <string.h>

#include "planner/core/model/option.h"
#include "tests/lib/test.h"
#include "tests/planner/option_check.h"

#define SITE(site) (1u << WRING_SITE_##site)

static const struct wring_options_params two = {SITE(DEVICE) | SITE(CPU), true, true, false};

static size_t count(uint32_t sites, bool flat, bool hierarchical)
{
    struct wring_options_params params = {sites, flat, hierarchical, false};
    return wring_options_walk(&params, NULL, NULL);
}

static void counts(void)
{
    uint32_t both = SITE(DEVICE) | SITE(CPU);

    CHECK(count(both, true, false) == 63, "flat: %zu", count(both, true, false));
    CHECK(count(both, false, true) == 4278, "hierarchical: %zu", count(both, false, true));
    CHECK(count(both, true, true) == 4341, "together: %zu", count(both, true, true));
    CHECK(count(SITE(DEVICE), true, true) == 174, "one device");
    CHECK(count(SITE(CPU), true, true) == 174, "one CPU");
    CHECK(count(0, true, true) == 9, "with nobody to code: %zu", count(0, true, true));
    CHECK(count(both, false, false) == 0, "leaves of no tree");
}

/** By the formulas of the derivation, for any number of sites. */
static void counts_of_sites(void)
{
    for (uint32_t sites = 0; sites < 1u << WRING_SITES; sites++) {
        size_t c = (size_t)__builtin_popcount(sites), d = c;
        size_t t1 = 1 + c * d, t2 = d + d * t1, t5 = t1 + c * t2, t3 = t1 + 2 * t5;
        size_t t4 = t2 + 2 * (t2 + d * t5);
        size_t flat = 1 + 2 * t1 + c * (d + 2 * t2);
        size_t hierarchical = 2 * (t3 + c * t4) + 2 * c * (d * (t3 + c * t4) + t4);
        CHECK(count(sites, true, false) == flat, "sites %x: flat", sites);
        CHECK(count(sites, false, true) == hierarchical, "sites %x: hierarchical", sites);
    }
}

/** Leaves that begin with some steps. */
struct prefix {
    const struct wring_step *steps;
    uint32_t n;
    const struct wring_step *not_then; /* and do not go on like that; or NULL */
    size_t leaves;
};

static bool same_step(const struct wring_step *a, const struct wring_step *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind != WRING_STEP_COMM)
        return a->site == b->site;
    return a->phase == b->phase && a->routine == b->routine && a->coded == b->coded;
}

static void count_prefix(void *arg, const struct wring_option *option)
{
    struct prefix *prefix = arg;

    for (uint32_t i = 0; i < prefix->n; i++)
        if (i >= option->n || !same_step(&option->steps[i], &prefix->steps[i]))
            return;
    if (prefix->not_then != NULL && option->steps[prefix->n].kind == prefix->not_then->kind)
        return;
    prefix->leaves++;
}

static size_t leaves_after(const struct wring_step *steps, uint32_t n,
                           const struct wring_step *not_then)
{
    struct prefix prefix = {steps, n, not_then, 0};

    wring_options_walk(&two, count_prefix, &prefix);
    return prefix.leaves;
}

#define COMM(at, how, with)                                                                 \
    {                                                                                       \
        .kind = WRING_STEP_COMM, .phase = WRING_PHASE_##at, .routine = WRING_ROUTINE_##how, \
        .coded = with                                                                       \
    }
#define ENCODE                                            \
    {                                                     \
        .kind = WRING_STEP_ENCODE, .site = WRING_SITE_CPU \
    }

static void subtrees(void)
{
    static const struct wring_step encode = ENCODE;
    static const struct wring_step t1[] = {COMM(FLAT, REDUCE_SCATTER, false)};
    static const struct wring_step t2[] = {ENCODE, COMM(FLAT, GATHER, true)};
    static const struct wring_step t3[] = {COMM(INTRA_IN, REDUCE, false)};
    static const struct wring_step t4[] = {COMM(INTRA_IN, REDUCE_SCATTER, false), ENCODE};
    static const struct wring_step t5[] = {COMM(INTRA_IN, REDUCE, false),
                                           COMM(INTER, REDUCE_SCATTER, false)};
    static const struct wring_step all[] = {ENCODE, COMM(INTRA_IN, ALLTOALL, true)};

    CHECK(leaves_after(t1, 1, NULL) == 5, "T1: %zu", leaves_after(t1, 1, NULL));
    CHECK(leaves_after(t2, 2, NULL) == 12, "T2: %zu", leaves_after(t2, 2, NULL));
    CHECK(leaves_after(t3, 1, &encode) == 63, "T3: %zu", leaves_after(t3, 1, &encode));
    CHECK(leaves_after(t4, 2, NULL) == 152, "T4: %zu", leaves_after(t4, 2, NULL));
    CHECK(leaves_after(t5, 2, NULL) == 29, "T5: %zu", leaves_after(t5, 2, NULL));
    CHECK(leaves_after(all, 2, NULL) == 2 * (63 + 2 * 152) + 152, "codes that left the rank: %zu",
          leaves_after(all, 2, NULL));
}

/** Breaking one rule at a time is noticed: the checker does check. */
static void checker_objects(void)
{
    static const struct {
        const char *rule;
        struct wring_option option;
    } bad[] = {
        {"alltoall with broadcast",
         {4,
          {ENCODE,
           COMM(FLAT, ALLTOALL, true),
           {.kind = WRING_STEP_DECODE},
           COMM(FLAT, BROADCAST, false)}}},
        {"gather with allgather",
         {4,
          {ENCODE,
           COMM(FLAT, GATHER, true),
           COMM(FLAT, ALLGATHER, true),
           {.kind = WRING_STEP_DECODE}}}},
        {"allreduce in the node",
         {3,
          {COMM(INTRA_IN, ALLREDUCE, false), COMM(INTER, ALLREDUCE, false),
           COMM(INTRA_OUT, ALLGATHER, false)}}},
        {"no way back", {1, {COMM(FLAT, REDUCE_SCATTER, false)}}},
        {"a second step first", {1, {COMM(FLAT, BROADCAST, false)}}},
        {"still coded", {2, {ENCODE, COMM(FLAT, ALLGATHER, true)}}},
        {"raw alltoall", {2, {COMM(FLAT, ALLTOALL, false), COMM(FLAT, ALLGATHER, false)}}},
        {"coded allreduce",
         {3, {ENCODE, COMM(FLAT, ALLREDUCE, true), {.kind = WRING_STEP_DECODE}}}},
        {"between nodes only", {1, {COMM(INTER, ALLREDUCE, false)}}},
        {"encoded for nothing",
         {3, {ENCODE, {.kind = WRING_STEP_DECODE}, COMM(FLAT, ALLREDUCE, false)}}},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(wring_option_fault(&bad[i].option, false) != NULL, "allowed: %s", bad[i].rule);
}

struct longest {
    size_t bytes;
    uint32_t steps;
};

static void measure_text(void *arg, const struct wring_option *option)
{
    struct longest *longest = arg;
    char text[2 * WRING_OPTION_TEXT_MAX];

    wring_option_text(option, text, sizeof(text));
    longest->bytes = strlen(text) + 1 > longest->bytes ? strlen(text) + 1 : longest->bytes;
    longest->steps = option->n > longest->steps ? option->n : longest->steps;
}

static void words(void)
{
    struct wring_options_params params = {~0u, true, true, true};
    struct wring_option option = {5,
                                  {COMM(INTRA_IN, REDUCE_SCATTER, false),
                                   ENCODE,
                                   COMM(INTER, ALLTOALL, true),
                                   {.kind = WRING_STEP_DECODE, .site = WRING_SITE_DEVICE},
                                   COMM(INTER, ALLGATHER, false)}};
    struct longest longest = {0};
    char text[WRING_OPTION_TEXT_MAX], small[8];

    wring_option_text(&option, text, sizeof(text));
    CHECK(strcmp(text, "intra reduce-scatter, encode cpu, inter alltoall*, decode device, "
                       "inter allgather") == 0,
          "%s", text);
    wring_option_text(&option, small, sizeof(small));
    CHECK(strcmp(small, "intra r") == 0, "cut to \"%s\"", small);
    wring_options_walk(&params, measure_text, &longest);
    CHECK(longest.steps <= WRING_OPTION_STEPS_MAX, "%u steps", longest.steps);
    CHECK(longest.bytes <= WRING_OPTION_TEXT_MAX, "a text of %zu bytes", longest.bytes);
}

/** As JSON a leaf says all that it is. */
static bool says(const json_t *json, const struct wring_option *option)
{
    const json_t *steps = json_object_get(json, "steps");

    if (json_array_size(steps) != option->n)
        return false;
    for (uint32_t i = 0; i < option->n; i++) {
        const struct wring_step *step = &option->steps[i];
        const json_t *said = json_array_get(steps, i);
        bool comm = step->kind == WRING_STEP_COMM;
        const char *who = comm ? wring_routine_name(step->routine) : wring_site_name(step->site);
        const char *said_who = json_string_value(json_object_get(said, comm ? "routine" : "place"));
        const char *kind = json_string_value(json_object_get(said, "step"));
        if (said_who == NULL || kind == NULL || strcmp(said_who, who) != 0 ||
            strcmp(kind, wring_step_kind_name(step->kind)) != 0 ||
            (comm && json_is_true(json_object_get(said, "coded")) != step->coded))
            return false;
    }
    return true;
}

struct expecting {
    const json_t *options;
    size_t next;
};

static void expect(void *arg, const struct wring_option *option)
{
    struct expecting *expecting = arg;
    const json_t *leaf = json_array_get(expecting->options, expecting->next);

    CHECK(json_integer_value(json_object_get(leaf, "option")) == (json_int_t)expecting->next,
          "leaf %zu has another number", expecting->next);
    CHECK(says(leaf, option), "leaf %zu says something else", expecting->next);
    expecting->next++;
}

static void lists(void)
{
    json_t *list = NULL;
    FILE *file = tmpfile();
    char line[2 * WRING_OPTION_TEXT_MAX], last[2 * WRING_OPTION_TEXT_MAX] = "";
    size_t lines = 0;

    REQUIRE(wring_options_json(&two, &list) == WRING_OK, "no list");
    struct expecting expecting = {json_object_get(list, "options"), 0};
    CHECK(json_integer_value(json_object_get(list, "leaves")) == 4341, "leaves");
    CHECK(json_integer_value(json_object_get(list, "flat")) == 63, "flat");
    CHECK(json_integer_value(json_object_get(list, "hierarchical")) == 4278, "hierarchical");
    CHECK(json_array_size(expecting.options) == 4341, "options");
    wring_options_walk(&two, expect, &expecting);
    json_decref(list);

    REQUIRE(file != NULL, "no file");
    CHECK(wring_options_print(&two, file) == WRING_OK, "not printed");
    rewind(file);
    for (; fgets(line, sizeof(line), file) != NULL; lines++)
        memcpy(last, line, sizeof(last));
    CHECK(lines == 4342, "%zu lines", lines);
    CHECK(strncmp(last, "4341 options: 63 flat, 4278 hierarchical", 40) == 0, "%s", last);
    fclose(file);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"counts", counts},     {"counts_of_sites", counts_of_sites},
        {"subtrees", subtrees}, {"checker_objects", checker_objects},
        {"words", words},       {"lists", lists},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
