/* SPDX-License-Identifier: Apache-2.0 */
/** Timelines: tasks keep the lanes' rules, and the critical path accounts for every microsecond. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/tool/timeline.h"
#include "tests/lib/test.h"
#include "tests/planner/made_problem.h"

#define TENSORS 12
#define OPTIONS 6

/** A model around a made problem, as far as timelines look at it. */
struct subject {
    struct wring_made_problem made;
    struct wring_cost_model model;
    struct wring_tensor_trace trace;
    struct wring_tensor tensors[TENSORS];
    struct wring_cost_option options[OPTIONS];
    struct wring_profile_codec codec;
    uint32_t end[TENSORS], option[TENSORS];
    struct wring_grouping grouping;
};

static void set_up(struct subject *s, uint32_t seed, bool chunked)
{
    static char model[] = "a model";
    uint32_t random = seed + 77;

    memset(s, 0, sizeof(*s));
    wring_made_random(&(struct wring_made_params){.n_tensors = 1 + seed % TENSORS,
                                                  .n_lanes = 1 + seed % WRING_PLAN_LANES_MAX,
                                                  .n_options = OPTIONS,
                                                  .seed = seed,
                                                  .chunked = chunked},
                      &s->made);
    s->trace = (struct wring_tensor_trace){
        .model = model, .n = s->made.problem.n_tensors, .tensors = s->tensors};
    for (uint32_t i = 0; i < TENSORS; i++)
        s->tensors[i].name = (char *)"a <tensor> & \"its\" name";
    snprintf(s->codec.spec, sizeof(s->codec.spec), "none");
    s->model = (struct wring_cost_model){.problem = s->made.problem,
                                         .trace = &s->trace,
                                         .options = s->options,
                                         .codecs = &s->codec,
                                         .n_codecs = 1};
    for (uint32_t lane = 0; lane < WRING_PLAN_LANES_MAX; lane++)
        s->model.lanes[lane] = "lane";
    s->grouping = (struct wring_grouping){.end = s->end, .option = s->option};
    for (uint32_t i = 0; i < s->trace.n; i++)
        if (i + 1 == s->trace.n || wring_test_random(&random) % 3 != 0) {
            s->end[s->grouping.n] = i + 1;
            s->option[s->grouping.n++] = wring_test_random(&random) % OPTIONS;
        }
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (1 + fabs(a));
}

/** No task begins before its group is there, nor before the lane is free. */
static void check_tasks(const struct subject *s, const struct wring_timeline_result *result)
{
    double free_us[WRING_PLAN_LANES_MAX] = {0}, busy[WRING_PLAN_LANES_MAX] = {0};

    for (uint32_t i = 0; i < result->n; i++) {
        const struct wring_lane_task *task = &result->tasks[i];
        double *lane_free = &free_us[task->lane];
        CHECK(task->begin_us >= task->ready_us - 1e-6, "task %u begins before it is ready", i);
        CHECK(task->begin_us >= *lane_free - 1e-6, "task %u begins on a lane in use", i);
        CHECK(task->end_us >= task->begin_us + task->busy_us - 1e-6, "task %u is too short", i);
        CHECK(task->end_us <= result->iteration_us + 1e-6, "task %u ends after the end", i);
        *lane_free = task->end_us;
        busy[task->lane] += task->busy_us;
    }
    for (uint32_t lane = 0; lane < s->model.problem.n_lanes; lane++)
        CHECK(near(busy[lane], result->busy_us[lane]), "lane %u is busy for %g, not %g", lane,
              result->busy_us[lane], busy[lane]);
}

static void check_critical(const struct wring_timeline_result *result)
{
    double sum = 0;

    for (uint32_t lane = 0; lane < WRING_PLAN_LANES_MAX; lane++)
        sum += result->critical_us[lane];
    CHECK(near(sum, result->iteration_us), "the critical path takes %g of %g us", sum,
          result->iteration_us);
}

static void tasks_keep_the_rules(void)
{
    for (uint32_t seed = 1; seed < 600; seed++) {
        struct subject s;
        struct wring_timeline_result result;

        set_up(&s, seed, seed % 2 == 0);
        REQUIRE(wring_timeline_init(&s.model, &s.grouping, &result) == WRING_OK, "no timeline");
        CHECK(near(result.iteration_us, wring_problem_time(&s.model.problem, &s.grouping)),
              "seed %u: %g us", seed, result.iteration_us);
        check_tasks(&s, &result);
        check_critical(&result);
        wring_timeline_finish(&result);
        wring_made_finish(&s.made);
    }
}

typedef enum wring_status (*write_fn)(const struct wring_cost_model *,
                                      const struct wring_grouping *,
                                      const struct wring_timeline_result *, FILE *);

/** What one of the writers writes; freed by the caller. */
static char *written(struct subject *s, write_fn write)
{
    struct wring_timeline_result result;
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    CHECK(wring_timeline_init(&s->model, &s->grouping, &result) == WRING_OK, "no timeline");
    CHECK(write(&s->model, &s->grouping, &result, file) == WRING_OK, "nothing written");
    fclose(file);
    wring_timeline_finish(&result);
    return text;
}

static void perfetto_has_every_task(void)
{
    struct subject s;
    struct wring_timeline_result result;

    set_up(&s, 23, true);
    char *text = written(&s, wring_timeline_write_perfetto);
    json_t *json = json_loads(text, 0, NULL);
    REQUIRE(json != NULL, "no JSON: %s", text);
    CHECK(wring_timeline_init(&s.model, &s.grouping, &result) == WRING_OK, "no timeline");
    size_t want = result.n + s.model.problem.n_lanes + 1;
    CHECK(json_array_size(json_object_get(json, "traceEvents")) == want, "%zu events, not %zu",
          json_array_size(json_object_get(json, "traceEvents")), want);
    wring_timeline_finish(&result);
    json_decref(json);
    free(text);
    wring_made_finish(&s.made);
}

static void names_cannot_break_the_picture(void)
{
    struct subject s;

    set_up(&s, 23, false);
    char *text = written(&s, wring_timeline_write_svg);
    CHECK(strstr(text, "a &lt;tensor&gt; &amp; &quot;its&quot; name") != NULL, "not escaped");
    CHECK(strstr(text, "<tensor>") == NULL, "a name became an element");
    CHECK(strstr(text, "</svg>") != NULL, "the picture has no end");
    CHECK(strstr(text, "nan") == NULL && strstr(text, "inf") == NULL, "numbers that are none");
    free(text);
    wring_made_finish(&s.made);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"tasks_keep_the_rules", tasks_keep_the_rules},
        {"perfetto_has_every_task", perfetto_has_every_task},
        {"names_cannot_break_the_picture", names_cannot_break_the_picture},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
