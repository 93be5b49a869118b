/* SPDX-License-Identifier: Apache-2.0 */
/** The decision tree: its counts, its subtrees, and that it is all that the rules allow. */
#include <stdlib.h>
#include <string.h>

#include "planner/model/option_list.h"
#include "tests/lib/test.h"
#include "tests/planner/option_check.h"

#define PLACE(place) (1u << WRING_PLACE_##place)
#define KEY_BYTES (2 * WRING_OPTION_STEPS_MAX)

static const struct wring_options_params one = {PLACE(DEVICE), true, true, false};
static const struct wring_options_params two = {PLACE(DEVICE) | PLACE(CPU), true, true, false};
static const struct wring_options_params sums = {PLACE(DEVICE), true, true, true};

/** Options as bytes that can be sorted and compared. */
struct set {
    size_t n, room;
    unsigned char (*keys)[KEY_BYTES];
};

static void add_key(struct set *set, const struct wring_option *option)
{
    if (set->n == set->room) {
        set->room = 2 * set->room + 64;
        set->keys = realloc(set->keys, set->room * KEY_BYTES);
        if (set->keys == NULL)
            abort();
    }
    unsigned char *key = set->keys[set->n++];
    memset(key, 0, KEY_BYTES);
    for (uint32_t i = 0; i < option->n; i++) {
        const struct wring_step *step = &option->steps[i];
        bool comm = step->kind == WRING_STEP_COMM;
        key[2 * i] = (unsigned char)(1 + step->kind + 4 * (comm ? step->phase : 0));
        key[2 * i + 1] = (unsigned char)(comm ? 2 * step->routine + step->coded : step->place);
    }
}

static void add_leaf(void *arg, const struct wring_option *option)
{
    add_key(arg, option);
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, KEY_BYTES);
}

static struct set tree(const struct wring_options_params *params)
{
    struct set set = {0};
    size_t n = wring_options_walk(params, add_leaf, &set);

    CHECK(n == set.n, "said %zu leaves, called %zu times", n, set.n);
    qsort(set.keys, set.n, KEY_BYTES, compare);
    return set;
}

static size_t count(uint32_t places, bool flat, bool hierarchical)
{
    struct wring_options_params params = {places, flat, hierarchical, false};
    return wring_options_walk(&params, NULL, NULL);
}

static void counts(void)
{
    uint32_t both = PLACE(DEVICE) | PLACE(CPU);

    CHECK(count(both, true, false) == 63, "flat: %zu", count(both, true, false));
    CHECK(count(both, false, true) == 4278, "hierarchical: %zu", count(both, false, true));
    CHECK(count(both, true, true) == 4341, "together: %zu", count(both, true, true));
    CHECK(count(PLACE(DEVICE), true, true) == 174, "one device");
    CHECK(count(PLACE(CPU), true, true) == 174, "one CPU");
    CHECK(count(0, true, true) == 9, "with nobody to code: %zu", count(0, true, true));
    CHECK(count(both, false, false) == 0, "leaves of no tree");
}

/** By the formulas of the derivation, for any number of places. */
static void counts_of_places(void)
{
    for (uint32_t places = 0; places < 1u << WRING_PLACES; places++) {
        size_t c = (size_t)__builtin_popcount(places), d = c;
        size_t t1 = 1 + c * d, t2 = d + d * t1, t5 = t1 + c * t2, t3 = t1 + 2 * t5;
        size_t t4 = t2 + 2 * (t2 + d * t5);
        size_t flat = 1 + 2 * t1 + c * (d + 2 * t2);
        size_t hierarchical = 2 * (t3 + c * t4) + 2 * c * (d * (t3 + c * t4) + t4);
        CHECK(count(places, true, false) == flat, "places %x: flat", places);
        CHECK(count(places, false, true) == hierarchical, "places %x: hierarchical", places);
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
        return a->place == b->place;
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
#define ENCODE                                              \
    {                                                       \
        .kind = WRING_STEP_ENCODE, .place = WRING_PLACE_CPU \
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

static void no_duplicates(void)
{
    const struct wring_options_params *params[] = {&one, &two, &sums};

    for (int i = 0; i < 3; i++) {
        struct set set = tree(params[i]);
        for (size_t j = 1; j < set.n; j++)
            CHECK(compare(set.keys[j - 1], set.keys[j]) != 0, "leaf %zu stands twice", j);
        free(set.keys);
    }
}

static void check_valid(void *arg, const struct wring_option *option)
{
    const struct wring_options_params *params = arg;
    char text[WRING_OPTION_TEXT_MAX];
    const char *fault = wring_option_fault(option, params->summable);

    wring_option_text(option, text, sizeof(text));
    CHECK(fault == NULL, "%s: %s", text, fault);
}

static void leaves_are_valid(void)
{
    struct wring_options_params params[] = {one, two, sums};

    for (int i = 0; i < 3; i++)
        wring_options_walk(&params[i], check_valid, &params[i]);
}

/** Any steps at all, filtered by the rules: no branch of the tree was cut that was good. */
struct brute {
    bool summable;
    struct set set;
    struct wring_option comms; /* chosen so far, or all of them */
    struct wring_option whole; /* and codec work between them */
    size_t tried;
};

static bool push_works(struct wring_option *option, const char *works)
{
    if (option->n + strlen(works) > WRING_OPTION_STEPS_MAX)
        return false;
    for (; *works != '\0'; works++)
        option->steps[option->n++] =
            (struct wring_step){.kind = *works == 'e' ? WRING_STEP_ENCODE : WRING_STEP_DECODE};
    return true;
}

static void try_whole(struct brute *brute)
{
    brute->tried++;
    if (wring_option_fault(&brute->whole, brute->summable) == NULL)
        add_key(&brute->set, &brute->whole);
}

/**
 * Nothing, one or two pieces of codec work before each communication, and after the last. Ways of
 * more steps than there is room for are not tried: with four communications, an encode before the
 * first, a decode and an encode between two and a decode after the last, no more can be of use.
 */
static void try_codings(struct brute *brute, uint32_t comm)
{
    static const char *const works[] = {"", "e", "d", "ee", "ed", "de", "dd"};
    uint32_t n = brute->whole.n;

    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
        brute->whole.n = n;
        if (!push_works(&brute->whole, works[i]))
            continue;
        if (comm == brute->comms.n) {
            try_whole(brute);
        } else if (brute->whole.n < WRING_OPTION_STEPS_MAX) {
            brute->whole.steps[brute->whole.n++] = brute->comms.steps[comm];
            try_codings(brute, comm + 1);
        }
    }
    brute->whole.n = n;
}

static void try_comms(struct brute *brute)
{
    struct wring_step step = {.kind = WRING_STEP_COMM};

    if (brute->comms.n > 0 && wring_option_comm_fault(&brute->comms, brute->summable) == NULL)
        try_codings(brute, 0);
    if (brute->comms.n == 4)
        return;
    for (int phase = 0; phase <= WRING_PHASE_INTRA_OUT; phase++)
        for (int routine = 0; routine <= WRING_ROUTINE_GATHER; routine++)
            for (int coded = 0; coded < 2; coded++) {
                step.phase = (enum wring_phase)phase;
                step.routine = (enum wring_routine)routine;
                step.coded = coded;
                brute->comms.steps[brute->comms.n++] = step;
                try_comms(brute);
                brute->comms.n--;
            }
}

static void check_brute(const struct wring_options_params *params)
{
    struct brute brute = {.summable = params->summable};
    struct set leaves = tree(params);

    try_comms(&brute);
    CHECK(brute.tried > 100000, "only %zu ways were tried", brute.tried);
    qsort(brute.set.keys, brute.set.n, KEY_BYTES, compare);
    CHECK(brute.set.n == leaves.n, "the rules allow %zu ways, the tree has %zu leaves", brute.set.n,
          leaves.n);
    CHECK(brute.set.n == leaves.n && memcmp(brute.set.keys, leaves.keys, leaves.n * KEY_BYTES) == 0,
          "the rules allow other ways than the tree has");
    free(brute.set.keys);
    free(leaves.keys);
}

static void brute_force(void)
{
    check_brute(&one);
    check_brute(&sums);
}

/** Who codes changes nothing in what is valid: two places are all ways to choose for one. */
struct spread {
    struct set set;
};

static void spread_leaf(void *arg, const struct wring_option *option)
{
    struct spread *spread = arg;
    struct wring_option placed = *option;
    uint32_t works = 0;

    for (uint32_t i = 0; i < option->n; i++)
        works += option->steps[i].kind != WRING_STEP_COMM;
    for (uint32_t choice = 0; choice < 1u << works; choice++) {
        for (uint32_t i = 0, work = 0; i < option->n; i++)
            if (option->steps[i].kind != WRING_STEP_COMM)
                placed.steps[i].place = choice >> work++ & 1 ? WRING_PLACE_CPU : WRING_PLACE_DEVICE;
        add_key(&spread->set, &placed);
    }
}

static void places(void)
{
    struct spread spread = {0};
    struct set leaves = tree(&two);

    wring_options_walk(&one, spread_leaf, &spread);
    qsort(spread.set.keys, spread.set.n, KEY_BYTES, compare);
    CHECK(spread.set.n == leaves.n, "%zu, not %zu", spread.set.n, leaves.n);
    CHECK(spread.set.n == leaves.n &&
              memcmp(spread.set.keys, leaves.keys, leaves.n * KEY_BYTES) == 0,
          "places are not free to choose");
    free(spread.set.keys);
    free(leaves.keys);
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
                                   {.kind = WRING_STEP_DECODE, .place = WRING_PLACE_DEVICE},
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
        const char *who = comm ? wring_routine_name(step->routine) : wring_place_name(step->place);
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
        {"counts", counts},
        {"counts_of_places", counts_of_places},
        {"subtrees", subtrees},
        {"no_duplicates", no_duplicates},
        {"leaves_are_valid", leaves_are_valid},
        {"brute_force", brute_force},
        {"places", places},
        {"checker_objects", checker_objects},
        {"words", words},
        {"lists", lists},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
