/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/collective/autotune_story.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/core/files/plan.h"
#include "runtime/codec_states.h"
#include "runtime/plan/bucket_fusion.h"
#include "runtime/residual.h"
#include "tests/lib/elements.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "transport/providers/fault/inside.h"

#define WAIT_NS (60ull * 1000000000)
#define TENSORS STORY_TENSORS
#define STEPS_MAX 300
#define NOTICED_MAX 2000 /* looks are 20 ms apart */
#define SLOWER 2
#define PROBES 8 /* jobs in a row */

static const uint64_t sizes[TENSORS] = {700, 12000, 1, 60000, 30000};
static const char *const names[TENSORS] = {"e", "d", "c", "b", "a"};

unsigned story_lines(const struct story *story, const char *part)
{
    return wring_test_lines_count(&story->lines, part);
}

/** What a rank has of its tensors. */
struct tensors {
    struct wring_bucket *buckets[TENSORS];
    void *data[TENSORS];
    float *seen[TENSORS];     /* the same as float32 */
    double *missing[TENSORS]; /* true sums less results, over all steps */
};

/** A multiple of four: f32 may follow. */
static size_t bytes_of(const struct story *story, int t)
{
    return (sizes[t] * wring_dtype_bytes(story->dtypes[t]) + 3) / 4 * 4;
}

static bool make_tensors(struct wring_session *session, const struct story *story,
                         struct tensors *out)
{
    size_t total = 0;
    char *all;

    for (int t = 0; t < TENSORS; t++)
        total += bytes_of(story, t);
    if (wring_buffer_alloc(session, total, (void **)&all) != WRING_OK)
        return false;
    for (int t = 0; t < TENSORS; t++) {
        struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
        params.name = names[t];
        params.data = out->data[t] = all;
        params.elems = sizes[t];
        params.dtype = story->dtypes[t];
        params.codec = t == TENSORS - 1 && story->kept != NULL ? story->kept : story->codec;
        params.op = story->op;
        all += bytes_of(story, t);
        out->seen[t] = calloc(sizes[t], sizeof(float));
        out->missing[t] = calloc(sizes[t], sizeof(double));
        if (wring_bucket_register(session, &params, &out->buckets[t]) != WRING_OK)
            return false;
    }
    return true;
}

static void free_tensors(struct tensors *tensors)
{
    for (int t = 0; t < TENSORS; t++) {
        free(tensors->missing[t]);
        free(tensors->seen[t]);
    }
}

#define WHOLES (STORY_RANKS_MAX * 127)
static uint16_t wholes[2][2 * WHOLES + 1]; /* from -WHOLES on, as f16 and bf16 */

/** Small whole numbers, so that sums are exact in any order. */
static float number(uint32_t rank, uint32_t step, int t, uint64_t i)
{
    return (float)((int)((i * 7 + rank * 31 + step * 13 + (uint32_t)t * 5) % 255) - 127);
}

/** A whole number as the type has it, which may round it; of f16 and bf16. */
static uint16_t narrow(enum wring_dtype dtype, int value)
{
    return wholes[dtype == WRING_BF16][value + WHOLES];
}

static void narrow_wholes(void)
{
    const uint16_t one = 0;
    float unused;

    for (int value = -WHOLES; value <= WHOLES; value++) {
        const float whole = (float)value;
        wring_test_narrow(WRING_F16, &wholes[0][value + WHOLES], &whole, 1);
        wring_test_narrow(WRING_BF16, &wholes[1][value + WHOLES], &whole, 1);
    }
    wring_test_widen(WRING_F16, &unused, &one, 1); /* its tables are made here, by one thread */
    wring_test_widen(WRING_BF16, &unused, &one, 1);
}

static void write_numbers(const struct story *story, uint32_t rank, uint32_t step, int t, void *out)
{
    enum wring_dtype dtype = story->dtypes[t];

    for (uint64_t i = 0; i < sizes[t]; i++) {
        float value = number(rank, step, t, i);
        if (dtype == WRING_F32)
            ((float *)out)[i] = value;
        else
            ((uint16_t *)out)[i] = narrow(dtype, (int)value);
    }
}

static float sum_of(uint32_t ranks, uint32_t step, int t, uint64_t i)
{
    float sum = 0;

    for (uint32_t rank = 0; rank < ranks; rank++)
        sum += number(rank, step, t, i);
    return sum;
}

static void check_step(struct wring_session *session, struct story *story, struct tensors *tensors,
                       uint32_t step)
{
    uint32_t ranks = wring_session_size(session);

    for (int t = 0; t < TENSORS; t++) {
        struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
        wring_bucket_stats(tensors->buckets[t], &stats);
        CHECK(strcmp(stats.codec, "none") != 0 || !(stats.residual_rms > 0),
              "step %u, tensor %d: %g is held back, and nothing is coded", step, t,
              stats.residual_rms);
        CHECK(t < TENSORS - 1 || story->kept == NULL || strcmp(stats.codec, story->kept) == 0,
              "step %u: %s in the place of %s", step, stats.codec, story->kept);
        bool exact = strcmp(stats.codec, "none") == 0 && !story->conserves;
        wring_test_widen(story->dtypes[t], tensors->seen[t], tensors->data[t], sizes[t]);
        for (uint64_t i = 0; i < sizes[t]; i++) {
            float sum = sum_of(ranks, step, t, i);
            if (story->op == WRING_AVG) {
                sum /= (float)ranks;
            } else if (story->dtypes[t] != WRING_F32) {
                const uint16_t rounded = narrow(story->dtypes[t], (int)sum);
                wring_test_widen(story->dtypes[t], &sum, &rounded, 1);
            }
            tensors->missing[t][i] += (double)sum - tensors->seen[t][i];
            if (exact && tensors->seen[t][i] != sum && story->wrong++ == 0)
                CHECK(false, "step %u, tensor %d, element %zu", step, t, (size_t)i);
        }
    }
}

static void run_step(struct wring_session *session, struct story *story, struct tensors *tensors,
                     uint32_t step)
{
    uint32_t rank = wring_session_rank(session);

    for (int t = 0; t < TENSORS; t++) {
        write_numbers(story, rank, step, t, tensors->data[t]);
        CHECK(wring_bucket_post(tensors->buckets[t]) == WRING_OK, "post");
        if (story->early)
            CHECK(wring_bucket_wait(tensors->buckets[t], WAIT_NS, NULL) == WRING_OK, "wait");
    }
    for (int t = 0; t < TENSORS; t++)
        CHECK(wring_bucket_wait(tensors->buckets[t], WAIT_NS, NULL) == WRING_OK, "wait");
    check_step(session, story, tensors, step);
}

/** What all ranks hold back is what is missing in the sums so far, but for what 16-bit elements
 * round away, which nobody keeps. */
static void check_conserved(struct wring_session *session, struct tensors *tensors)
{
    for (int t = 0; t < TENSORS; t++) {
        const struct wring_bucket *bucket = tensors->buckets[t];
        if (bucket->dtype != WRING_F32)
            continue;
        struct wring_bucket *in =
            bucket->fusion != NULL ? bucket->fusion->fused : tensors->buckets[t];
        double share = bucket->op == WRING_AVG ? 1.0 / wring_session_size(session) : 1;
        wring_residual_loosen(in);
        float *held = calloc(sizes[t], sizeof(float));
        if (in->residual != NULL)
            memcpy(held, in->residual + bucket->fusion_at, sizes[t] * sizeof(float));
        CHECK(wring_allreduce(wring_session_world(session), held, held, sizes[t], WRING_F32,
                              WRING_SUM, NULL, NULL) == WRING_OK,
              "allreduce");
        double worst = 0;
        for (uint64_t i = 0; i < sizes[t]; i++)
            worst = fmax(worst, fabs(tensors->missing[t][i] - held[i] * share));
        CHECK(worst < 1, "tensor %d: %g is lost or sent twice", t, worst);
        free(held);
    }
}

/** From now on the link takes SLOWER of the iterations that were kept for what a step sends now,
 *  whatever is coded of it. */
static void slow_link(struct wring_session *session, struct story *story, struct tensors *tensors,
                      uint32_t *step)
{
    struct wring_session_stats before = WRING_SESSION_STATS_INIT, after = before;

    CHECK(wring_session_stats(session, &before) == WRING_OK, "stats");
    run_step(session, story, tensors, (*step)++);
    CHECK(wring_session_stats(session, &after) == WRING_OK, "stats");
    double bytes = (double)(after.wire_bytes_sent - before.wire_bytes_sent);
    double ns = SLOWER * session->autotune->kept_us * 1e3;
    wring_progress_lock(session->progress);
    fault_of(session->fabric->devices[0].provider)->schedule.ns_per_byte =
        fmax(story->slower_ns_per_byte, ns / fmax(bytes, 1));
    wring_progress_unlock(session->progress);
}

/** Steps until a candidate is chosen. */
static void run_until_settled(struct wring_session *session, struct story *story,
                              struct tensors *tensors, uint32_t *step)
{
    struct wring_autotune_report report = {.settled = false};
    uint32_t rank = wring_session_rank(session);

    for (uint32_t end = *step + STEPS_MAX; *step < end && !report.settled; (*step)++) {
        run_step(session, story, tensors, *step);
        wring_autotune_tell(session, &report);
    }
    CHECK(report.settled, "nothing was chosen in %u steps", *step);
    story->report[rank] = report;
    story->steps[rank] = *step;
}

/** Steps until the first plan is in force, which is written down. */
static void run_until_tried(struct wring_session *session, struct story *story,
                            struct tensors *tensors, uint32_t *step)
{
    const struct wring_autotune *autotune = session->autotune;

    for (uint32_t end = *step + STEPS_MAX; *step < end && autotune->at != 1; (*step)++)
        run_step(session, story, tensors, *step);
    REQUIRE(autotune->at == 1, "no plan was tried in %u steps", *step);
    story->steps[autotune->session->rank] = *step;
    if (autotune->session->rank != 0)
        return;
    FILE *file = fopen(story->tried, "w");
    CHECK(file != NULL && wring_plan_save(autotune->candidates[1].plan, file) == WRING_OK,
          "no file");
    if (file != NULL)
        fclose(file);
}

/** Steps until it is planned anew. */
static void run_until_unsettled(struct wring_session *session, struct story *story,
                                struct tensors *tensors, uint32_t *step)
{
    struct wring_autotune_report report = {.settled = true};

    for (uint32_t end = *step + NOTICED_MAX; *step < end && report.settled; (*step)++) {
        run_step(session, story, tensors, *step);
        wring_autotune_tell(session, &report);
    }
    CHECK(!report.settled, "the link is another one, and nobody has noticed");
}

/** How the session is set. */
static void note_setting(struct wring_session *session, struct story_setting *out)
{
    struct wring_session_stats stats = WRING_SESSION_STATS_INIT;
    uint32_t other = wring_session_rank(session) == 0 ? 1 : 0;

    CHECK(wring_session_stats(session, &stats) == WRING_OK, "stats");
    snprintf(out->executor, sizeof(out->executor), "%s", session->config.executor);
    snprintf(out->kind, sizeof(out->kind), "%s", session->executor->ops->name);
    out->chunk_bytes = session->config.chunk_bytes;
    out->window_bytes = session->fabric->peers[other].window.limit;
    out->coded = stats.executor_cpu_ns > 0;
}

/** All ranks have committed, and know what rank 0 has said of it before. */
static bool is_measured_anew(struct story *story)
{
    pthread_mutex_lock(&story->lines.mutex);
    bool anew = story_lines(story, "links are not what they were") > 0;
    pthread_mutex_unlock(&story->lines.mutex);
    return anew;
}

static void run_story(struct wring_session *session, uint32_t rank, void *arg)
{
    struct story *story = arg;
    struct tensors tensors;
    uint32_t step = story->first_step;

    REQUIRE(make_tensors(session, story, &tensors), "no tensors");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    if (story->probes && is_measured_anew(story)) {
        free_tensors(&tensors);
        return;
    }
    if (story->tried != NULL)
        run_until_tried(session, story, &tensors, &step);
    else if (story->plan == NULL && !story->brief)
        run_until_settled(session, story, &tensors, &step);
    if (story->slower_ns_per_byte > 0) {
        slow_link(session, story, &tensors, &step);
        session->autotune->spent_ns = 0; /* or nobody looks for 20 times as long */
        run_until_unsettled(session, story, &tensors, &step);
        run_until_settled(session, story, &tensors, &step);
    }
    for (uint32_t end = step + 3; step < end; step++)
        run_step(session, story, &tensors, step);
    if (story->conserves)
        check_conserved(session, &tensors);
    note_setting(session, &story->set[rank]);
    for (int t = 0; t < TENSORS; t++) {
        struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
        CHECK(wring_bucket_stats(tensors.buckets[t], &stats) == WRING_OK, "stats");
        snprintf(story->chosen[rank][t], WRING_CODEC_SPEC_MAX, "%s", stats.codec);
        memcpy(story->last[rank][t], tensors.seen[t], sizes[t] * sizeof(float));
    }
    free_tensors(&tensors);
}

const char *story_make_cache(char *setting, size_t bytes)
{
    snprintf(setting, bytes, "WRING_CACHE=/tmp/wring-cache-XXXXXX");
    CHECK(mkdtemp(setting + strlen("WRING_CACHE=")) != NULL, "no folder");
    return setting + strlen("WRING_CACHE=");
}

bool story_find_profile(const char *cache, char *path, size_t bytes)
{
    char command[300];

    snprintf(command, sizeof(command), "ls %s/profile-*.json 2>/dev/null", cache);
    FILE *list = popen(command, "r");
    bool found = list != NULL && fgets(path, (int)bytes, list) != NULL;
    if (list != NULL)
        pclose(list);
    path[found ? strcspn(path, "\n") : 0] = '\0';
    return found;
}

struct wring_profile *story_load_profile(const char *cache)
{
    struct wring_log log = {.level = WRING_LOG_WARN};
    struct wring_profile *profile = NULL;
    char path[300];

    if (story_find_profile(cache, path, sizeof(path)))
        wring_profile_load(path, &log, &profile);
    return profile;
}

void story_replace_profile(const char *cache, struct wring_profile *profile)
{
    char path[300];

    REQUIRE(profile != NULL && story_find_profile(cache, path, sizeof(path)), "no profile");
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && wring_profile_save(profile, file) == WRING_OK, "cannot be written");
    if (file != NULL)
        fclose(file);
    wring_profile_destroy(profile);
}

void story_remove_cache(const char *cache)
{
    char path[300];

    while (story_find_profile(cache, path, sizeof(path)))
        unlink(path);
    rmdir(cache);
}

void story_run(struct story *story, uint32_t ranks, const char *const *more, const char *cache)
{
    char plan[300];
    const char *settings[12] = {plan,
                                "WRING_PLAN_SECONDS=0.05",
                                "WRING_PLAN_EVERY=20ms",
                                "WRING_LOG=info",
                                "WRING_BYPASS=never",
                                cache != NULL ? cache : "WRING_CACHE=off"};
    uint32_t n = 6;

    snprintf(plan, sizeof(plan), "WRING_PLAN=%s", story->plan != NULL ? story->plan : "auto");
    while (*more != NULL)
        settings[n++] = *more++;
    narrow_wholes();
    pthread_mutex_init(&story->lines.mutex, NULL);
    story->lines.module = "plan";
    wring_test_run_ranks(&(struct wring_test_job){.ranks = ranks,
                                                  .ranks_per_node = story->apart ? 1 : 0,
                                                  .settings = settings,
                                                  .arg = story,
                                                  .run = run_story,
                                                  .log = wring_test_lines_take,
                                                  .log_arg = &story->lines});
    for (uint32_t rank = 1; rank < ranks; rank++) {
        CHECK(memcmp(story->last[rank], story->last[0], sizeof(story->last[0])) == 0,
              "rank %u has other sums", rank);
        CHECK(memcmp(story->chosen[rank], story->chosen[0], sizeof(story->chosen[0])) == 0,
              "rank %u has chosen otherwise", rank);
        CHECK(story->steps[rank] == story->steps[0], "rank %u was done at another step", rank);
    }
}

void story_run_with_profile(struct story *story, uint32_t ranks, const char *const *more,
                            const char *cache)
{
    const char *folder = strchr(cache, '=') + 1;
    struct story *first = story_new();

    story->probes = true;
    memcpy(first, story, sizeof(*story));
    for (int i = 0; i < PROBES; i++) {
        struct wring_profile *profile = story_load_profile(folder);
        REQUIRE(profile != NULL, "no profile in the cache");
        memcpy(story, first, sizeof(*story));
        story_run(story, ranks, more, cache);
        bool again = i < PROBES - 1 && is_measured_anew(story);
        if (!again) {
            wring_profile_destroy(profile);
            break;
        }
        story_replace_profile(folder, profile);
    }
    free(first);
}

struct story *story_new(void)
{
    struct story *story = calloc(1, sizeof(*story));

    if (story == NULL)
        abort();
    return story;
}
