/* SPDX-License-Identifier: Apache-2.0 */
/* WRING_PLAN: what the plan says is what runs, bit for bit. */
#include <stdlib.h>
#include <string.h>

#include "tests/collective/planned_tensors.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define RANKS 4
#define STEPS 4
#define ELEMS_MAX 20000

struct story {
    bool apart;      /* in memory: buffers of their own */
    bool by_any;     /* waited for by wring_wait_any() */
    bool twice;      /* committed anew halfway */
    bool nodes;      /* of two ranks */
    bool elsewhere;  /* results go to other memory than contributions lie in */
    bool pool;       /* the plan says where codecs run, and how large pieces are */
    bool first_pool; /* it says so of the first group alone */
    float results[RANKS][STEPS][ELEMS_MAX];
};

static void fill(const struct tensors *tensors, uint32_t rank, uint64_t step)
{
    uint32_t state = 1 + rank + 16 * (uint32_t)step;

    for (int t = 0; t < TENSORS; t++)
        for (uint64_t i = 0; i < sizes[t]; i++)
            tensors->in[t][i] = wring_test_random_float(&state);
}

static void wait_any(struct tensors *tensors)
{
    struct wring_waitable left[TENSORS] = {{.bucket = NULL}};
    size_t index;

    for (int t = 0; t < TENSORS; t++)
        left[t].bucket = tensors->buckets[t];
    for (int t = 0; t < TENSORS; t++) {
        CHECK(wring_wait_any(left, TENSORS, WAIT_NS, &index, NULL) == WRING_OK, "wait any");
        REQUIRE(index < TENSORS, "all are done");
        left[index].bucket = NULL;
    }
}

static void run_step(struct tensors *tensors, const struct story *story, uint32_t rank,
                     uint64_t step)
{
    fill(tensors, rank, step);
    for (int t = 0; t < TENSORS; t++) /* each rank in another order */
        CHECK(wring_bucket_post(tensors->buckets[(t + (int)rank) % TENSORS]) == WRING_OK, "post");
    CHECK(wring_bucket_post(tensors->buckets[0]) == WRING_ERR_BUSY, "posted twice");
    if (story->by_any)
        wait_any(tensors);
    else
        for (int t = 0; t < TENSORS; t++)
            CHECK(wring_bucket_wait(tensors->buckets[t], WAIT_NS, NULL) == WRING_OK, "wait");
    CHECK(wring_bucket_test(tensors->buckets[1], NULL) == WRING_OK, "done, and then not");
}

static void keep(const struct tensors *tensors, float *results)
{
    for (int t = 0; t < TENSORS; t++) {
        memcpy(results, tensors->data[t], sizes[t] * sizeof(float));
        results += sizes[t];
    }
}

static void run_story(struct wring_session *session, uint32_t rank, void *arg)
{
    struct story *story = arg;
    struct tensors tensors;

    bool made = story->elsewhere ? make_tensors_elsewhere(session, story->apart, &tensors)
                                 : make_tensors(session, story->apart, &tensors);
    REQUIRE(made, "no tensors");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (uint64_t step = 0; step < STEPS; step++) {
        if (story->twice && step == STEPS / 2)
            REQUIRE(wring_session_commit(session) == WRING_OK, "commit anew");
        run_step(&tensors, story, rank, step);
        keep(&tensors, story->results[rank][step]);
    }
    struct wring_session_stats stats = WRING_SESSION_STATS_INIT;
    wring_session_stats(session, &stats);
    CHECK((stats.executor_cpu_ns > 0) == (story->pool || story->first_pool),
          "%llu ns on other threads", (unsigned long long)stats.executor_cpu_ns);
}

/** The same collective by hand: a bucket for each part of the plan. */
struct by_hand {
    const struct part *parts;
    float results[RANKS][STEPS][ELEMS_MAX];
};

static void run_by_hand(struct wring_session *session, uint32_t rank, void *arg)
{
    struct by_hand *story = arg;
    struct tensors tensors;
    struct wring_bucket *buckets[TENSORS];
    uint32_t n = 0, at = 0;

    REQUIRE(make_tensors(session, false, &tensors), "no tensors");
    for (int t = 0; t < TENSORS; t++)
        wring_bucket_drop(tensors.buckets[t]);
    for (const struct part *part = story->parts; part->n != 0; part++) {
        struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
        char name[16];
        snprintf(name, sizeof(name), "part %u", n);
        params.name = name;
        params.data = tensors.data[at];
        params.codec = part->codec;
        params.scheme = wring_scheme_find(part->run_as);
        for (uint32_t i = 0; i < part->n; i++)
            params.elems += sizes[at++];
        REQUIRE(wring_bucket_register(session, &params, &buckets[n++]) == WRING_OK, "register");
    }
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (uint64_t step = 0; step < STEPS; step++) {
        fill(&tensors, rank, step);
        for (uint32_t i = 0; i < n; i++)
            CHECK(wring_bucket_post(buckets[i]) == WRING_OK, "post");
        for (uint32_t i = 0; i < n; i++)
            CHECK(wring_bucket_wait(buckets[i], WAIT_NS, NULL) == WRING_OK, "wait");
        keep(&tensors, story->results[rank][step]);
    }
}

static const struct part all_in_one[] = {{4, "topk:ratio=0.05+ef", "indivisible"}, {0}};
static const struct part each_alone[] = {{1, "bf16", "auto"},
                                         {1, "onebit+ef", "auto"},
                                         {1, "none", "auto"},
                                         {1, "int8+ef", "auto"},
                                         {0}};

static void compare_with_hand(const struct part *parts, struct story *story)
{
    struct plan_of what = {.parts = parts,
                           .ranks = RANKS,
                           .ranks_per_node = story->nodes ? 2 : 0,
                           .names = names,
                           .executor = story->pool ? "pool:1" : "",
                           .first_executor = story->first_pool ? "pool:1" : NULL,
                           .chunk_bytes = story->pool ? 4096 : 0};
    static struct by_hand hand;
    char setting[64];
    const char *provider = story->nodes ? "WRING_PROVIDER=auto" : "WRING_PROVIDER=tcp";
    const char *const settings[] = {setting, provider, NULL};
    const char *const hand_settings[] = {"WRING_BYPASS=never", provider, NULL};
    uint32_t per_node = what.ranks_per_node;

    write_plan(&what, setting, sizeof(setting));
    wring_test_run_ranks(&(struct wring_test_job){.ranks = RANKS,
                                                  .ranks_per_node = per_node,
                                                  .settings = settings,
                                                  .arg = story,
                                                  .run = run_story});
    hand.parts = parts;
    wring_test_run_ranks(&(struct wring_test_job){.ranks = RANKS,
                                                  .ranks_per_node = per_node,
                                                  .settings = hand_settings,
                                                  .arg = &hand,
                                                  .run = run_by_hand});
    CHECK(memcmp(story->results, hand.results, sizeof(hand.results)) == 0,
          "not what the same buckets give by hand");
    remove_plan(setting);
}

static void what_is_planned_runs(void)
{
    const struct part *const plans[] = {mixed,         all_in_one, each_alone,
                                        between_nodes, adding,     adding_between_nodes};

    for (int i = 0; i < 6; i++)
        for (int where = 0; where < 4; where++) {
            struct story *story = calloc(1, sizeof(*story));
            story->apart = where % 2 == 1;
            story->elsewhere = where >= 2;
            story->by_any = i == 1;
            story->twice = i != 1;
            story->pool = i == 0;
            story->first_pool = i == 2;
            story->nodes = i == 3 || i == 5;
            compare_with_hand(plans[i], story);
            free(story);
        }
}

/** Steps of a job, from what another has saved, to what this one saves. */
struct chapter {
    const uint8_t *load[2]; /* NULL: from the beginning */
    size_t load_bytes[2];
    uint8_t *saved[2];
    size_t saved_bytes[2];
    float results[2][ELEMS_MAX];
};

static void run_chapter(struct wring_session *session, uint32_t rank, void *arg)
{
    struct chapter *chapter = arg;
    struct story contiguous = {0};
    struct tensors tensors;

    REQUIRE(make_tensors(session, false, &tensors), "no tensors");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    if (chapter->load[rank] != NULL)
        CHECK(wring_session_load_state(session, chapter->load[rank], chapter->load_bytes[rank]) ==
                  WRING_OK,
              "load");
    for (uint64_t step = 0; step < STEPS; step++)
        run_step(&tensors, &contiguous, rank, step);
    keep(&tensors, chapter->results[rank]);
    size_t bytes = 0;
    REQUIRE(wring_session_save_state(session, NULL, &bytes) == WRING_OK, "size");
    chapter->saved[rank] = malloc(bytes);
    CHECK(wring_session_save_state(session, chapter->saved[rank], &bytes) == WRING_OK, "save");
    chapter->saved_bytes[rank] = bytes;
}

static void run_planned_chapter(const struct part *parts, struct chapter *chapter)
{
    struct plan_of what = {.parts = parts, .ranks = 2, .names = names};
    char setting[64];
    const char *const settings[] = {setting, NULL};

    write_plan(&what, setting, sizeof(setting));
    wring_test_run_ranks(&(struct wring_test_job){
        .ranks = 2, .settings = settings, .arg = chapter, .run = run_chapter});
    remove_plan(setting);
}

/** Residuals belong to tensors: another grouping of the same ones takes them over. What one rank
 *  holds back of its own is that of any grouping, where every tensor is whole units. */
static void residuals_survive_another_grouping(void)
{
    static const struct part merged[] = {{4, "onebit:block=32+ef", "indivisible"}, {0}};
    static const struct part apart[] = {{1, "onebit:block=32+ef", "indivisible"},
                                        {1, "onebit:block=32+ef", "indivisible"},
                                        {1, "onebit:block=32+ef", "indivisible"},
                                        {1, "onebit:block=32+ef", "indivisible"},
                                        {0}};
    static struct chapter first, second, again;

    run_planned_chapter(merged, &first);
    for (int rank = 0; rank < 2; rank++) {
        second.load[rank] = again.load[rank] = first.saved[rank];
        second.load_bytes[rank] = again.load_bytes[rank] = first.saved_bytes[rank];
    }
    run_planned_chapter(apart, &second);
    run_planned_chapter(merged, &again);
    CHECK(memcmp(second.results[0], second.results[1], sizeof(second.results[0])) == 0,
          "ranks differ");
    CHECK(memcmp(first.results, again.results, sizeof(first.results)) != 0,
          "what was held back made no difference");
    double whole = 0, differs = 0; /* the first 640 elements are the same units in both */
    for (int i = 0; i < 640; i++) {
        whole += (double)again.results[0][i] * (double)again.results[0][i];
        differs += second.results[0][i] != again.results[0][i];
    }
    CHECK(whole > 0 && differs == 0, "%g of 640 differ", differs);
    for (int rank = 0; rank < 2; rank++) {
        free(first.saved[rank]);
        free(second.saved[rank]);
        free(again.saved[rank]);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"what_is_planned_runs", what_is_planned_runs},
        {"residuals_survive_another_grouping", residuals_survive_another_grouping},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
