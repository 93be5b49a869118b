/* SPDX-License-Identifier: Apache-2.0 */
/**
 * More to choose from is never worse: of random sets of codecs, each larger one must find a plan
 * that takes no longer than what a smaller one in it found, but for what a search may miss.
 */
#include <stdlib.h>

#include "planner/core/search/search.h"
#include "tests/lib/test.h"
#include "tests/planner/traced.h"

enum {
    CODECS = 4,
    SETS = 1 << CODECS,
    CASES = 2, /* of each trace */
};

static const char *const codecs[CODECS] = {"onebit", "onebit+ef", "randk:ratio=0.01",
                                           "dgc:ratio=0.01"};
static const char *const measured[] = {"bert",      "bert_large", "gpt2",   "lstm", "ncf",
                                       "resnet101", "resnet50",   "ugatit", "vgg16"};
static const char *const shipped[] = {"bert-base", "lstm", "ncf",      "resnet101", "ugatit",
                                      "vgg16",     "gpt2", "vit-l-16", "llama-7b"};

static const double tolerated = 0.01;   /* in one case */
static const double mean_most = 0.0003; /* on average */

struct tally {
    double lost;
    uint32_t n;
};

/** What the search finds with a set of codecs, a bit for each. Aborts where it cannot. */
static double time_with(const char *path, struct wring_traced_where where, uint32_t set)
{
    const char *taken[CODECS];
    struct wring_traced traced;

    where.codecs = taken;
    for (uint32_t i = 0; i < CODECS; i++)
        if (set >> i & 1)
            taken[where.n_codecs++] = codecs[i];
    if (!wring_traced_init_where(&traced, path, &where))
        abort();
    struct wring_found found = wring_traced_search(&traced, WRING_SEARCH_BEST);
    wring_grouping_finish(&found.grouping);
    wring_traced_finish(&traced);
    return found.time_us;
}

static const char *const profiles[] = {"espresso-pcie", "espresso-nvlink", "testbed-pcie-25g",
                                       "testbed-nvlink-100g"};
static const uint32_t nodes[] = {2, 8, 64};
static const double links[] = {10, 25, 100};

/** @param sets  in, [n] each a part of the next one */
static void check_sets(const char *path, struct wring_traced_where where, const uint32_t *sets,
                       uint32_t n, struct tally *tally)
{
    double least = time_with(path, where, sets[0]);

    for (uint32_t i = 1; i < n; i++, tally->n++) {
        double time = time_with(path, where, sets[i]);
        CHECK(time <= least * (1 + tolerated),
              "%s on %s, %u nodes at %g Gbit/s: codecs %#x take %g us, fewer %g", path,
              where.profile, where.nodes, where.link_gbit, sets[i], time, least);
        tally->lost += time > least ? time / least - 1 : 0;
        least = time < least ? time : least;
    }
}

/** All codecs, a random set, one of that, and none. */
static void check_case(const char *path, uint32_t *random, struct tally *tally)
{
    struct wring_traced_where where = {.profile = profiles[wring_test_random(random) % 4],
                                       .nodes = nodes[wring_test_random(random) % 3],
                                       .link_gbit = links[wring_test_random(random) % 3]};
    uint32_t some = wring_test_random(random) % SETS;
    uint32_t sets[] = {0, some & wring_test_random(random), some, SETS - 1};

    check_sets(path, where, sets, 4, tally);
}

static void check_tally(const struct tally *tally)
{
    CHECK(tally->lost <= mean_most * tally->n, "%g %% are lost on average",
          100 * tally->lost / tally->n);
}

/** @param folder  "": those that are shipped */
static void check_traces(const char *folder, const char *const *names, size_t n)
{
    static const struct wring_log warnings = {.level = WRING_LOG_WARN};
    struct tally tally = {0};
    uint32_t random = 7;
    char path[512];

    for (size_t i = 0; i < n; i++)
        for (int j = 0; j < CASES; j++) {
            REQUIRE(wring_tensor_trace_find(names[i], folder, &warnings, path, sizeof(path)) ==
                        WRING_OK,
                    "no trace %s", names[i]);
            check_case(path, &random, &tally);
        }
    check_tally(&tally);
}

static void measured_traces(void)
{
    const char *folder = wring_test_traces();

    if (folder == NULL)
        wring_test_skip("WRING_TEST_TRACES names no folder with traces");
    check_traces(folder, measured, sizeof(measured) / sizeof(*measured));
}

static void shipped_traces(void)
{
    check_traces("", shipped, sizeof(shipped) / sizeof(*shipped));
}

/** Few tensors, of which one is most of the model: there the middle of the choices counts. */
static void two_codecs(void)
{
    static const struct wring_log warnings = {.level = WRING_LOG_WARN};
    static const uint32_t sets[][2] = {{2, 6}, {4, 6}};
    struct tally tally = {0};
    char path[512];

    REQUIRE(wring_tensor_trace_find("vgg16", "", &warnings, path, sizeof(path)) == WRING_OK,
            "no trace vgg16");
    for (int i = 0; i < 2 * 2 * 3 * 3; i++) {
        struct wring_traced_where where = {
            .profile = profiles[i / 2 % 2], .nodes = nodes[i / 4 % 3], .link_gbit = links[i / 12]};
        check_sets(path, where, sets[i % 2], 2, &tally);
    }
    check_tally(&tally);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {{"measured_traces", measured_traces},
                                                   {"shipped_traces", shipped_traces},
                                                   {"two_codecs", two_codecs},
                                                   {NULL, NULL}};
    return wring_test_main(argc, argv, cases);
}
