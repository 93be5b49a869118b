/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/planner/traced.h"

#include <stdlib.h>

static const struct wring_log warnings = {.level = WRING_LOG_WARN};

/** How many times as fast as the profile's its links are to be. */
static double link_scale(const struct wring_profile *profile, double link_gbit)
{
    return link_gbit * profile->links[WRING_LEVEL_INTER].us.slope / 8e-3;
}

bool wring_traced_init_where(struct wring_traced *traced, const char *path,
                             const struct wring_traced_where *where)
{
    *traced = (struct wring_traced){0};
    if (wring_tensor_trace_load(path, &warnings, &traced->trace) != WRING_OK)
        return false;
    traced->profile = wring_profile_builtin(where->profile);
    if (traced->profile == NULL)
        abort();
    traced->asked = (struct wring_cost_model_params){
        .trace = traced->trace,
        .profile = traced->profile,
        .nodes = where->nodes,
        .timeline =
            where->timeline == WRING_TIMELINE_AUTO ? WRING_TIMELINE_PHASES : where->timeline,
        .link_scale = where->link_gbit > 0 ? link_scale(traced->profile, where->link_gbit) : 0,
        .codecs = where->codecs,
        .n_codecs = where->n_codecs};
    if (wring_cost_model_create(&traced->asked, &warnings, &traced->model) != WRING_OK)
        abort();
    traced->params = (struct wring_search_params){.offload = traced->model->offload,
                                                  .on_device = traced->model->on_device,
                                                  .uncompressed = traced->model->uncompressed};
    return true;
}

bool wring_traced_init(struct wring_traced *traced, const char *path, const char *profile,
                       const char *codec)
{
    struct wring_traced_where where = {.profile = profile, .codecs = &codec, .n_codecs = 1};

    return wring_traced_init_where(traced, path, &where);
}

void wring_traced_finish(struct wring_traced *traced)
{
    wring_cost_model_destroy(traced->model);
    wring_profile_destroy(traced->profile);
    wring_tensor_trace_destroy(traced->trace);
}

struct wring_found wring_traced_search(struct wring_traced *traced, enum wring_search_method method)
{
    struct wring_found found;

    traced->params.method = method;
    if (wring_search_run(&traced->model->problem, &traced->params, &found) != WRING_OK)
        abort();
    return found;
}
