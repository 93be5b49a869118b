/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/files/plan_fits.h"

#include <stddef.h>
#include <string.h>

#include <wring/codec.h>

#define STEPS_MAX 6

struct pattern {
    uint32_t n;
    struct {
        enum wring_step_kind kind;
        enum wring_routine routine;
    } steps[STEPS_MAX];
};

#define ENCODE                                     \
    {                                              \
        WRING_STEP_ENCODE, WRING_ROUTINE_ALLREDUCE \
    }
#define DECODE                                     \
    {                                              \
        WRING_STEP_DECODE, WRING_ROUTINE_ALLREDUCE \
    }
#define COMM(routine)                            \
    {                                            \
        WRING_STEP_COMM, WRING_ROUTINE_##routine \
    }

static const struct pattern raw[] = {
    {1, {COMM(ALLREDUCE)}},
    {2, {COMM(REDUCE_SCATTER), COMM(ALLGATHER)}},
};
static const struct pattern coded[] = {
    {3, {ENCODE, COMM(ALLGATHER), DECODE}},
    {6, {ENCODE, COMM(ALLTOALL), DECODE, ENCODE, COMM(ALLGATHER), DECODE}},
};

static bool is_between_all(enum wring_phase phase, uint32_t ranks_per_node)
{
    return phase == WRING_PHASE_FLAT || (phase == WRING_PHASE_INTER && ranks_per_node == 1);
}

static bool step_runs(const struct wring_step *step, bool is_coded, uint32_t ranks_per_node)
{
    if (step->kind == WRING_STEP_COMM)
        return is_between_all(step->phase, ranks_per_node) && step->coded == is_coded;
    return step->place == WRING_PLACE_CPU;
}

static bool matches(const struct wring_option *option, const struct pattern *pattern)
{
    if (option->n != pattern->n)
        return false;
    for (uint32_t i = 0; i < option->n; i++) {
        const struct wring_step *step = &option->steps[i];
        if (step->kind != pattern->steps[i].kind ||
            (step->kind == WRING_STEP_COMM && step->routine != pattern->steps[i].routine))
            return false;
    }
    return true;
}

static bool has_codec(const char *spec)
{
    struct wring_codec *codec = NULL;
    char why[100];

    if (wring_codec_create(spec, "best", why, sizeof(why), &codec) != WRING_OK)
        return false;
    wring_codec_destroy(codec);
    return true;
}

const char *wring_plan_run_as(const struct wring_option *option, const char *codec,
                              uint32_t ranks_per_node)
{
    bool is_raw = strcmp(codec, "none") == 0;
    const struct pattern *patterns = is_raw ? raw : coded;

    for (uint32_t i = 0; i < option->n; i++)
        if (!step_runs(&option->steps[i], !is_raw, ranks_per_node))
            return "";
    bool first = matches(option, &patterns[0]), second = matches(option, &patterns[1]);
    if (first && strchr(codec, '>') != NULL)
        return ""; /* the way back, which has a codec of its own, is missing */
    if ((!first && !second) || !has_codec(codec))
        return "";
    if (is_raw)
        return "auto";
    return first ? "indivisible" : "divisible";
}
