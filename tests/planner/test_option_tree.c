/* SPDX-License-Identifier: Apache-2.0 */
/** The decision tree is all that the rules allow, once each. */
#include <stdlib.h>
#include <string.h>

#include "planner/core/model/option.h"
#include "tests/lib/test.h"
#include "tests/planner/option_check.h"

#define SITE(site) (1u << WRING_SITE_##site)
#define KEY_BYTES (2 * WRING_OPTION_STEPS_MAX)

static const struct wring_options_params one = {SITE(DEVICE), true, true, false};
static const struct wring_options_params two = {SITE(DEVICE) | SITE(CPU), true, true, false};
static const struct wring_options_params sums = {SITE(DEVICE), true, true, true};

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
        key[2 * i + 1] = (unsigned char)(comm ? 2 * step->routine + step->coded : step->site);
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
    CHECK(brute.tried > 100000, "only %zu options were tried", brute.tried);
    qsort(brute.set.keys, brute.set.n, KEY_BYTES, compare);
    CHECK(brute.set.n == leaves.n, "the rules allow %zu options, the tree has %zu leaves",
          brute.set.n, leaves.n);
    CHECK(brute.set.n == leaves.n && memcmp(brute.set.keys, leaves.keys, leaves.n * KEY_BYTES) == 0,
          "the rules allow other options than the tree has");
    free(brute.set.keys);
    free(leaves.keys);
}

static void brute_force(void)
{
    check_brute(&one);
    check_brute(&sums);
}

/** Who codes changes nothing in what is valid: two sites are all choices of one. */
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
                placed.steps[i].site = choice >> work++ & 1 ? WRING_SITE_CPU : WRING_SITE_DEVICE;
        add_key(&spread->set, &placed);
    }
}

static void sites(void)
{
    struct spread spread = {0};
    struct set leaves = tree(&two);

    wring_options_walk(&one, spread_leaf, &spread);
    qsort(spread.set.keys, spread.set.n, KEY_BYTES, compare);
    CHECK(spread.set.n == leaves.n, "%zu, not %zu", spread.set.n, leaves.n);
    CHECK(spread.set.n == leaves.n &&
              memcmp(spread.set.keys, leaves.keys, leaves.n * KEY_BYTES) == 0,
          "sites are not free to choose");
    free(spread.set.keys);
    free(leaves.keys);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"no_duplicates", no_duplicates},
        {"leaves_are_valid", leaves_are_valid},
        {"brute_force", brute_force},
        {"sites", sites},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
