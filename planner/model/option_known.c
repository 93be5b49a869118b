/* SPDX-License-Identifier: Apache-2.0 */
/** Options that have a name of their own. */
#include "planner/model/option_work.h"

#define ENCODE                    \
    {                             \
        .kind = WRING_STEP_ENCODE \
    }
#define DECODE                    \
    {                             \
        .kind = WRING_STEP_DECODE \
    }
#define RAW(at, how)                                                                       \
    {                                                                                      \
        .kind = WRING_STEP_COMM, .phase = WRING_PHASE_##at, .routine = WRING_ROUTINE_##how \
    }
#define CODED(at, how)                                                                      \
    {                                                                                       \
        .kind = WRING_STEP_COMM, .phase = WRING_PHASE_##at, .routine = WRING_ROUTINE_##how, \
        .coded = true                                                                       \
    }

static const struct known {
    enum wring_known_option name;
    bool one_level;
    struct wring_option option;
} knowns[] = {
    /* clang-format off */
    {WRING_KNOWN_RAW, false, {3, {
        RAW(INTRA_IN, REDUCE_SCATTER), RAW(INTER, ALLREDUCE), RAW(INTRA_OUT, ALLGATHER)}}},
    {WRING_KNOWN_SUMMED, false, {5, {
        ENCODE, CODED(INTRA_IN, REDUCE_SCATTER), CODED(INTER, ALLREDUCE),
        CODED(INTRA_OUT, ALLGATHER), DECODE}}},
    {WRING_KNOWN_INTER_ONLY, false, {8, {
        RAW(INTRA_IN, REDUCE_SCATTER),
        ENCODE, CODED(INTER, ALLTOALL), DECODE, ENCODE, CODED(INTER, ALLGATHER), DECODE,
        RAW(INTRA_OUT, ALLGATHER)}}},
    {WRING_KNOWN_TWO_LEVEL, false, {12, {
        ENCODE, CODED(INTRA_IN, ALLTOALL), DECODE,
        ENCODE, CODED(INTER, ALLTOALL), DECODE, ENCODE, CODED(INTER, ALLGATHER), DECODE,
        ENCODE, CODED(INTRA_OUT, ALLGATHER), DECODE}}},
    {WRING_KNOWN_RAW, true, {1, {RAW(FLAT, ALLREDUCE)}}},
    {WRING_KNOWN_SUMMED, true, {3, {ENCODE, CODED(FLAT, ALLREDUCE), DECODE}}},
    {WRING_KNOWN_INTER_ONLY, true, {6, {
        ENCODE, CODED(FLAT, ALLTOALL), DECODE, ENCODE, CODED(FLAT, ALLGATHER), DECODE}}},
    /* clang-format on */
};

static bool same_step(const struct wring_step *a, const struct wring_step *b)
{
    if (a->kind != b->kind)
        return false;
    return a->kind != WRING_STEP_COMM ||
           (a->phase == b->phase && a->routine == b->routine && a->coded == b->coded);
}

/** One place codes it all. */
static bool one_place(const struct wring_option *option)
{
    const struct wring_step *first = NULL;

    for (uint32_t i = 0; i < option->n; i++) {
        const struct wring_step *step = &option->steps[i];
        if (step->kind == WRING_STEP_COMM)
            continue;
        if (first != NULL && first->place != step->place)
            return false;
        first = step;
    }
    return true;
}

static bool same_option(const struct wring_option *a, const struct wring_option *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!same_step(&a->steps[i], &b->steps[i]))
            return false;
    return true;
}

enum wring_known_option wring_option_known(const struct wring_option *option, bool one_level)
{
    for (size_t i = 0; i < sizeof(knowns) / sizeof(knowns[0]); i++)
        if (knowns[i].one_level == one_level && same_option(&knowns[i].option, option))
            return one_place(option) ? knowns[i].name : WRING_KNOWN_NONE;
    return WRING_KNOWN_NONE;
}

struct wring_encodings wring_option_encodings(const struct wring_option *option)
{
    struct wring_encodings encodings = {0};
    bool sent[WRING_PHASE_INTRA_OUT + 1] = {false};

    for (uint32_t i = 0; i < option->n; i++) {
        const struct wring_step *step = &option->steps[i];
        if (step->kind == WRING_STEP_COMM)
            sent[step->phase] = true;
        else if (step->kind == WRING_STEP_ENCODE)
            *(step->phase == WRING_PHASE_INTRA_OUT || sent[step->phase] ? &encodings.back
                                                                        : &encodings.in) += 1;
    }
    return encodings;
}
