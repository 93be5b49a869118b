/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What `wring info` shows of RDMA; in every build: verbs_pick.c has it, or verbs_stub.c where there
 * are no headers of libibverbs.
 */
#ifndef WRING_VERBS_SURVEY_H
#define WRING_VERBS_SURVEY_H

#include "transport/providers/verbs/verbs_select.h"

struct wring_config;

/** All that `wring info` shows. */
struct verbs_survey {
    struct verbs_table table;
    struct verbs_choice rails[VERBS_RAILS_MAX];
    size_t n_rails;
    char (*why)[VERBS_WHY];    /* [table.n] */
    char unmatched[VERBS_WHY]; /* what WRING_VERBS_DEVICES names that is not there */
    char reason[VERBS_WHY];    /* why there is no table; empty where there is one */
};

/** Look at every device and try out what it can do; the rails that would be chosen now. */
void wring_verbs_survey(const struct wring_config *config, struct verbs_survey *out);

void wring_verbs_survey_finish(struct verbs_survey *survey);

#endif
