/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/model/run_as.h"

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

static bool is_raw_step(const struct wring_step *step, enum wring_phase phase,
                        enum wring_routine routine)
{
    return step->kind == WRING_STEP_COMM && !step->coded && step->phase == phase &&
           step->routine == routine;
}

/** An exchange between nodes inside raw ones within them. */
static bool is_in_nodes(const struct wring_option *option, uint32_t ranks_per_node)
{
    return ranks_per_node > 1 && option->n > 2 &&
           is_raw_step(&option->steps[0], WRING_PHASE_INTRA_IN, WRING_ROUTINE_REDUCE_SCATTER) &&
           is_raw_step(&option->steps[option->n - 1], WRING_PHASE_INTRA_OUT,
                       WRING_ROUTINE_ALLGATHER);
}

/** The steps of an option in which whole contributions become sums: all of them, or those between
 *  nodes. */
struct exchange {
    const struct wring_step *steps;
    uint32_t n;
    uint32_t ranks_per_node; /* of those that it is between */
};

static bool step_runs(const struct exchange *exchange, const struct wring_step *step, bool is_coded)
{
    if (step->kind == WRING_STEP_COMM)
        return is_between_all(step->phase, exchange->ranks_per_node) && step->coded == is_coded;
    return step->place == WRING_PLACE_CPU;
}

static bool matches(const struct exchange *exchange, const struct pattern *pattern)
{
    if (exchange->n != pattern->n)
        return false;
    for (uint32_t i = 0; i < exchange->n; i++) {
        const struct wring_step *step = &exchange->steps[i];
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

    if (wring_codec_create(spec, "best", NULL, why, sizeof(why), &codec) != WRING_OK)
        return false;
    wring_codec_destroy(codec);
    return true;
}

/** WRING_SCHEMES: there is none. */
static enum wring_scheme find_scheme(const struct exchange *exchange, const char *codec)
{
    bool is_raw = strcmp(codec, "none") == 0;
    const struct pattern *patterns = is_raw ? raw : coded;

    for (uint32_t i = 0; i < exchange->n; i++)
        if (!step_runs(exchange, &exchange->steps[i], !is_raw))
            return WRING_SCHEMES;
    bool first = matches(exchange, &patterns[0]), second = matches(exchange, &patterns[1]);
    if (first && strchr(codec, '>') != NULL)
        return WRING_SCHEMES; /* the way back, which has a codec of its own, is missing */
    if ((!first && !second) || !has_codec(codec))
        return WRING_SCHEMES;
    if (is_raw)
        return WRING_SCHEME_AUTO;
    return first ? WRING_SCHEME_INDIVISIBLE : WRING_SCHEME_DIVISIBLE;
}

const char *wring_option_run_as(const struct wring_option *option, const char *codec,
                                uint32_t ranks_per_node)
{
    bool in_nodes = is_in_nodes(option, ranks_per_node);
    struct exchange exchange = {option->steps, option->n, ranks_per_node};

    if (in_nodes)
        exchange = (struct exchange){option->steps + 1, option->n - 2, 1};
    enum wring_scheme scheme = find_scheme(&exchange, codec);
    if (scheme == WRING_SCHEMES)
        return "";
    return wring_scheme_name(
        (enum wring_scheme)(scheme + (in_nodes ? WRING_SCHEME_HIERARCHICAL : 0)));
}
