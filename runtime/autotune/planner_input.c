/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/autotune/planner_input.h"

#include <stdlib.h>

#include "runtime/autotune/codecs.h"
#include "runtime/autotune/extra_settings.h"

/* ---- which options each may take ---- */

/** Its own, none, and those that the setting lists. */
static bool allows(const struct wring_autoplan_question *question, uint32_t tensor,
                   const char *spec)
{
    const struct wring_bucket *bucket = question->autoplan->iterations.tensors[tensor].bucket;

    return strcmp(spec, "none") == 0 || strcmp(spec, wring_codec_info(bucket->codec)->spec) == 0 ||
           wring_measure_has(&question->listed, spec);
}

static enum wring_status set_allowed(const struct wring_autoplan_question *question,
                                     struct wring_autoplan_model *out)
{
    struct wring_problem *problem = &out->model->problem;
    uint32_t words = wring_problem_words(problem);
    const uint64_t *before = problem->allowed;

    out->allowed = calloc((size_t)problem->n_tensors * words, sizeof(*out->allowed));
    if (out->allowed == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < problem->n_tensors; i++)
        for (uint32_t o = 0; o < problem->n_options; o++) {
            size_t word = (size_t)i * words + o / 64;
            bool barred = before != NULL && (before[word] >> o % 64 & 1) == 0;
            if (!barred && allows(question, question->order[i], wring_autoplan_spec_of(out, o)))
                out->allowed[word] |= UINT64_C(1) << o % 64;
        }
    problem->allowed = out->allowed;
    return WRING_OK;
}

bool wring_autoplan_may_take(const struct wring_autoplan_model *made, uint32_t i, uint32_t option)
{
    uint32_t words = wring_problem_words(&made->model->problem);

    return made->allowed[(size_t)i * words + option / 64] >> option % 64 & 1;
}

/* ---- models ---- */

static struct wring_cost_model_params params_of(const struct wring_autoplan_question *question)
{
    const struct wring_autoplan *autoplan = question->autoplan;

    return (struct wring_cost_model_params){
        .trace = &question->trace,
        .profile = &question->profile,
        .nodes = autoplan->machine.nodes,
        .ranks_per_node = autoplan->machine.ranks_per_node,
        .timeline = WRING_TIMELINE_FULL,
        .codecs = question->specs,
        .n_codecs = question->codecs.n,
        .places = 1u << WRING_PLACE_CPU,
        .chunk_bytes = autoplan->leeway.chunk_bytes,
        .runnable = true,
        .flat = true, /* a hierarchy's sums have other bits: measurements do not choose it */
    };
}

enum wring_status wring_autoplan_model_init(const struct wring_autoplan_question *question,
                                            const struct wring_setting *setting,
                                            struct wring_autoplan_model *out)
{
    struct wring_cost_model_params params = params_of(question);

    *out = (struct wring_autoplan_model){.model = NULL};
    params.setting = setting;
    enum wring_status status =
        wring_cost_model_create(&params, &question->autoplan->session->log, &out->model);
    if (status != WRING_OK)
        return status;
    if (question->early) /* who waits for a bucket may not have posted its mates */
        out->model->problem.max_group_elems = 1;
    return set_allowed(question, out);
}

void wring_autoplan_model_finish(struct wring_autoplan_model *made)
{
    if (made->model != NULL)
        made->model->problem.allowed = NULL;
    wring_cost_model_destroy(made->model);
    free(made->allowed);
    *made = (struct wring_autoplan_model){.model = NULL};
}

/* ---- settings ---- */

static bool is_configured(const struct wring_autoplan *autoplan,
                          const struct wring_setting *setting)
{
    return setting->cores == autoplan->leeway.setting.cores &&
           setting->chunk_bytes == autoplan->leeway.setting.chunk_bytes;
}

/** Does the profile know buckets of several pieces with it? */
static bool is_told(const struct wring_autoplan *autoplan, const struct wring_setting *setting)
{
    const struct wring_profile_way *way =
        wring_profile_way_at(autoplan->profile, "none", "auto", autoplan->session->size, setting);

    return way != NULL && way->max_elems >= wring_autoplan_further_elems(autoplan);
}

enum wring_status wring_autoplan_list_settings(const struct wring_autoplan_question *question,
                                               struct wring_settings *out)
{
    const struct wring_autoplan *autoplan = question->autoplan;
    const struct wring_cost_model_params params = params_of(question);
    struct wring_settings *all = calloc(1, sizeof(*all));

    out->n = 0;
    if (all == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = wring_settings_list(&params, NULL, &autoplan->session->log, all);
    for (uint32_t i = 0; i < all->n && status == WRING_OK; i++)
        if (is_configured(autoplan, &all->list[i]))
            out->list[out->n++] = all->list[i];
    for (uint32_t i = 0; i < all->n && out->n > 0; i++) /* without that one nothing compares */
        if (!is_configured(autoplan, &all->list[i]) &&
            wring_autoplan_may_have(autoplan, &all->list[i]) && is_told(autoplan, &all->list[i]))
            out->list[out->n++] = all->list[i];
    free(all);
    return status;
}

/* ---- the question ---- */

/** The profile, with other settings' ways as far as the configured one's. */
static enum wring_status make_profile(struct wring_autoplan_question *question)
{
    const struct wring_profile *profile = question->autoplan->profile;
    size_t bytes = (size_t)profile->n_ways * sizeof(*profile->ways);

    question->profile = *profile;
    question->profile.ways = malloc(bytes + 1);
    if (question->profile.ways == NULL)
        return WRING_ERR_NO_MEMORY;
    memcpy(question->profile.ways, profile->ways, bytes);
    if (question->autoplan->leeway.setting.chunk_bytes != 0)
        wring_profile_carry_on(&question->profile, &question->autoplan->leeway.setting);
    return WRING_OK;
}

enum wring_status wring_autoplan_question_init(struct wring_autoplan_question *question,
                                               const struct wring_autoplan *autoplan, bool early)
{
    *question = (struct wring_autoplan_question){.autoplan = autoplan, .early = early};
    enum wring_status status = wring_iterations_trace(&autoplan->iterations, autoplan->ready_us,
                                                      &question->order, &question->trace);
    if (status == WRING_OK)
        status = wring_autoplan_codecs(autoplan->session, autoplan, &question->codecs);
    if (status == WRING_OK)
        status = wring_autoplan_listed(autoplan->session, &question->listed);
    if (status == WRING_OK)
        status = make_profile(question);
    for (uint32_t i = 0; i < question->codecs.n; i++)
        question->specs[i] = question->codecs.specs[i];
    return status;
}

void wring_autoplan_question_finish(struct wring_autoplan_question *question)
{
    free(question->profile.ways);
    free(question->order);
    free(question->trace.tensors);
}
