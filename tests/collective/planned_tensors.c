/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/collective/planned_tensors.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/core/files/plan.h"
#include "tests/lib/test.h"

const uint64_t sizes[TENSORS] = {700, 12000, 1, 5000};
#define X64 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define LONGEST X64 X64 X64 X64 X64 X64 X64 X64
_Static_assert(sizeof(LONGEST) == WRING_NAME_MAX, "as long as a name may be");
const char *const names[TENSORS] = {"d", "c", LONGEST, "a"};

const struct part mixed[] = {
    {2, "onebit:block=128+ef", "divisible"}, {1, "none", "auto"}, {1, "int8", "indivisible"}, {0}};
const struct part between_nodes[] = {{2, "onebit:block=128+ef", "hierarchical-divisible"},
                                     {1, "none", "hierarchical"},
                                     {1, "int8+ef", "hierarchical-indivisible"},
                                     {0}};

const struct part adding[] = {{2, "sharedint:width=4+ef", "divisible"},
                              {1, "thc:width=4:sums=saturate", "divisible"},
                              {1, "sharedint", "indivisible"},
                              {0}};
const struct part adding_between_nodes[] = {{2, "sharedint:width=4+ef", "hierarchical-divisible"},
                                            {1, "thc:width=4", "hierarchical-divisible"},
                                            {1, "sharedint", "hierarchical-indivisible"},
                                            {0}};

void write_plan(const struct plan_of *what, char *setting, size_t bytes)
{
    uint32_t per_node = what->ranks_per_node > 0 ? what->ranks_per_node : 1;
    struct wring_plan_group groups[TENSORS] = {0};
    uint64_t each[TENSORS];
    struct wring_plan plan = {.model = "test",
                              .profile = "test",
                              .timeline = "full",
                              .nodes = what->ranks / per_node,
                              .ranks_per_node = per_node,
                              .groups = groups};
    uint32_t at = 0;

    for (const struct part *part = what->parts; part->n != 0; part++) {
        struct wring_plan_group *group = &groups[plan.n_groups++];
        group->n = part->n;
        group->tensors = (char **)&what->names[at];
        for (uint32_t i = 0; i < part->n; i++)
            group->elems += sizes[at++];
        snprintf(group->codec, sizeof(group->codec), "%s", part->codec);
        snprintf(group->run_as, sizeof(group->run_as), "%s", part->run_as);
        snprintf(group->scheme, sizeof(group->scheme), "flat alltoall*, allgather*");
    }
    groups[0].elems += what->more;
    memcpy(each, sizes, sizeof(each));
    each[0] = sizes[1];
    each[1] = sizes[0];
    groups[0].each = what->swapped ? each : NULL;
    groups[0].cores = what->cores;
    if (what->first_executor != NULL)
        snprintf(groups[0].executor, sizeof(groups[0].executor), "%s", what->first_executor);
    plan.chunk_bytes = what->chunk_bytes;
    snprintf(plan.executor, sizeof(plan.executor), "%s",
             what->executor != NULL ? what->executor : "");
    snprintf(setting, bytes, "WRING_PLAN=/tmp/wring-plan-XXXXXX");
    int fd = mkstemp(setting + strlen("WRING_PLAN="));
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    CHECK(file != NULL && wring_plan_save(&plan, file) == WRING_OK, "no plan written");
    if (file != NULL)
        fclose(file);
}

void remove_plan(const char *setting)
{
    unlink(setting + strlen("WRING_PLAN="));
}

static bool make(struct wring_session *session, bool apart, bool elsewhere, struct tensors *out)
{
    uint64_t total = 0, at = 0;
    float *all = NULL;

    for (int t = 0; t < TENSORS; t++)
        total += sizes[t];
    if (!apart && wring_buffer_alloc(session, total * sizeof(float), (void **)&all) != WRING_OK)
        return false;
    for (int t = 0; t < TENSORS; t++) {
        if (apart &&
            wring_buffer_alloc(session, sizes[t] * sizeof(float), (void **)&all) != WRING_OK)
            return false;
        out->data[t] = out->in[t] = apart ? all : all + at;
        at += sizes[t];
        if (elsewhere &&
            wring_buffer_alloc(session, sizes[t] * sizeof(float), (void **)&out->in[t]) != WRING_OK)
            return false;
        struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
        params.name = names[t];
        params.data = out->in[t];
        params.out = out->data[t];
        params.elems = sizes[t];
        if (wring_bucket_register(session, &params, &out->buckets[t]) != WRING_OK)
            return false;
    }
    return true;
}

bool make_tensors(struct wring_session *session, bool apart, struct tensors *out)
{
    return make(session, apart, false, out);
}

bool make_tensors_elsewhere(struct wring_session *session, bool apart, struct tensors *out)
{
    return make(session, apart, true, out);
}
