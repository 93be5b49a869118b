/* SPDX-License-Identifier: Apache-2.0 */
/** Options in words. */
#include <stdio.h>

#include "planner/model/option.h"

const char *wring_step_kind_name(enum wring_step_kind kind)
{
    switch (kind) {
    case WRING_STEP_ENCODE:
        return "encode";
    case WRING_STEP_DECODE:
        return "decode";
    case WRING_STEP_COMM:
        return "comm";
    }
    return "?";
}

const char *wring_phase_name(enum wring_phase phase)
{
    switch (phase) {
    case WRING_PHASE_FLAT:
        return "flat";
    case WRING_PHASE_INTRA_IN:
        return "intra-in";
    case WRING_PHASE_INTER:
        return "inter";
    case WRING_PHASE_INTRA_OUT:
        return "intra-out";
    }
    return "?";
}

const char *wring_routine_name(enum wring_routine routine)
{
    switch (routine) {
    case WRING_ROUTINE_ALLREDUCE:
        return "allreduce";
    case WRING_ROUTINE_REDUCE_SCATTER:
        return "reduce-scatter";
    case WRING_ROUTINE_ALLGATHER:
        return "allgather";
    case WRING_ROUTINE_REDUCE:
        return "reduce";
    case WRING_ROUTINE_BROADCAST:
        return "broadcast";
    case WRING_ROUTINE_ALLTOALL:
        return "alltoall";
    case WRING_ROUTINE_GATHER:
        return "gather";
    }
    return "?";
}

/** Where it communicates, in one word; which of the two intra phases, its routine says. */
static const char *level_name(enum wring_phase phase)
{
    switch (phase) {
    case WRING_PHASE_FLAT:
        return "flat";
    case WRING_PHASE_INTER:
        return "inter";
    case WRING_PHASE_INTRA_IN:
    case WRING_PHASE_INTRA_OUT:
        return "intra";
    }
    return "?";
}

static int step_text(const struct wring_step *step, const char *before, char *text, size_t bytes)
{
    if (step->kind == WRING_STEP_COMM)
        return snprintf(text, bytes, "%s%s %s%s", before, level_name(step->phase),
                        wring_routine_name(step->routine), step->coded ? "*" : "");
    return snprintf(text, bytes, "%s%s %s", before, wring_step_kind_name(step->kind),
                    wring_place_name(step->place));
}

void wring_option_text(const struct wring_option *option, char *text, size_t bytes)
{
    size_t at = 0;

    if (bytes > 0)
        text[0] = '\0';
    for (uint32_t i = 0; i < option->n && at < bytes; i++)
        at += (size_t)step_text(&option->steps[i], i > 0 ? ", " : "", text + at, bytes - at);
}
