/* SPDX-License-Identifier: Apache-2.0 */
/** A recorded trace on a built-in profile, ready to be searched. */
#ifndef WRING_TESTS_TRACED_H
#define WRING_TESTS_TRACED_H

#include <stdbool.h>

#include "planner/core/model/cost_model.h"
#include "planner/core/search/search.h"

/** A cluster, and what may be taken on it. */
struct wring_traced_where {
    const char *profile;
    uint32_t nodes;               /* 0: the profile's */
    double link_gbit;             /* between nodes; 0: the profile's */
    enum wring_timeline timeline; /* auto: phases */
    const char *const *codecs;
    uint32_t n_codecs;
};

struct wring_traced {
    struct wring_tensor_trace *trace;
    struct wring_profile *profile;
    struct wring_cost_model *model;
    struct wring_cost_model_params asked; /* of the model; the codecs are the caller's */
    struct wring_search_params params;
};

/** @return false where the file cannot be read, which is logged */
bool wring_traced_init_where(struct wring_traced *traced, const char *path,
                             const struct wring_traced_where *where);

/** With one codec, on the cluster of the profile. */
bool wring_traced_init(struct wring_traced *traced, const char *path, const char *profile,
                       const char *codec);

void wring_traced_finish(struct wring_traced *traced);

/** Search. Aborts where that fails. */
struct wring_found wring_traced_search(struct wring_traced *traced,
                                       enum wring_search_method method);

#endif
