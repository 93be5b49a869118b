/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/planner/option_check.h"

struct comms {
    uint32_t n;
    const struct wring_step *at[WRING_OPTION_STEPS_MAX];
};

static struct comms comms_of(const struct wring_option *option)
{
    struct comms comms = {0};

    for (uint32_t i = 0; i < option->n; i++)
        if (option->steps[i].kind == WRING_STEP_COMM)
            comms.at[comms.n++] = &option->steps[i];
    return comms;
}

/** Does it leave every rank (or the root) with a sum, or with codes of which to make one? */
static bool first_of_two(const struct wring_step *step, bool summable)
{
    bool sums =
        step->routine == WRING_ROUTINE_REDUCE_SCATTER || step->routine == WRING_ROUTINE_REDUCE;

    if (!step->coded)
        return sums;
    return step->routine == WRING_ROUTINE_ALLTOALL || step->routine == WRING_ROUTINE_GATHER ||
           (summable && sums);
}

/** The indivisible scheme: everything is done after it. */
static bool alone(const struct wring_step *step, bool summable)
{
    if (!step->coded)
        return step->routine == WRING_ROUTINE_ALLREDUCE;
    return step->routine == WRING_ROUTINE_ALLGATHER ||
           (summable && step->routine == WRING_ROUTINE_ALLREDUCE);
}

/** What went to shards comes back by allgather, what went to a root by broadcast. */
static bool pairs(const struct wring_step *first, const struct wring_step *second)
{
    bool to_root = first->routine == WRING_ROUTINE_REDUCE || first->routine == WRING_ROUTINE_GATHER;

    return second->routine == (to_root ? WRING_ROUTINE_BROADCAST : WRING_ROUTINE_ALLGATHER);
}

static const char *collective_fault(const struct wring_step *const *steps, uint32_t n,
                                    bool summable)
{
    if (n == 1)
        return alone(steps[0], summable) ? NULL
                                         : "a collective of one step that is not indivisible";
    if (n != 2)
        return "a collective of neither one nor two steps";
    if (!first_of_two(steps[0], summable))
        return "a first step that divides nothing";
    return pairs(steps[0], steps[1]) ? NULL : "two steps that do not pair";
}

static const char *hierarchy_fault(const struct comms *comms, bool summable)
{
    if (comms->n < 3)
        return "a hierarchy of fewer than three steps";

    const struct wring_step *outer[2] = {comms->at[0], comms->at[comms->n - 1]};
    const char *fault = collective_fault(outer, 2, summable);

    if (fault != NULL)
        return fault;
    if (outer[0]->phase != WRING_PHASE_INTRA_IN || outer[1]->phase != WRING_PHASE_INTRA_OUT)
        return "a hierarchy that does not begin and end in the node";
    for (uint32_t i = 1; i + 1 < comms->n; i++)
        if (comms->at[i]->phase != WRING_PHASE_INTER)
            return "a step at the wrong position";
    return collective_fault(comms->at + 1, comms->n - 2, summable);
}

const char *wring_option_comm_fault(const struct wring_option *option, bool summable)
{
    struct comms comms = comms_of(option);

    if (comms.n == 0)
        return "nobody hears of it";
    if (comms.at[0]->phase != WRING_PHASE_FLAT)
        return hierarchy_fault(&comms, summable);
    for (uint32_t i = 0; i < comms.n; i++)
        if (comms.at[i]->phase != WRING_PHASE_FLAT)
            return "flat and hierarchical at once";
    return collective_fault(comms.at, comms.n, summable);
}

/** Codes are made where there are none, unmade where there are some, and never for nothing. */
static const char *coding_fault(const struct wring_option *option)
{
    bool coded = false;

    for (uint32_t i = 0; i < option->n; i++) {
        const struct wring_step *step = &option->steps[i];
        const struct wring_step *next = i + 1 < option->n ? step + 1 : NULL;
        if (step->kind == WRING_STEP_COMM && step->coded != coded)
            return "codes and raw data mixed up";
        if (step->kind == WRING_STEP_ENCODE && coded)
            return "codes encoded again";
        if (step->kind == WRING_STEP_DECODE && !coded)
            return "raw data decoded";
        if (step->kind == WRING_STEP_ENCODE && (next == NULL || next->kind != WRING_STEP_COMM))
            return "codes that travel nowhere";
        if (step->kind != WRING_STEP_COMM)
            coded = step->kind == WRING_STEP_ENCODE;
    }
    return coded ? "home as codes" : NULL;
}

const char *wring_option_fault(const struct wring_option *option, bool summable)
{
    const char *fault = coding_fault(option);
    return fault != NULL ? fault : wring_option_comm_fault(option, summable);
}
