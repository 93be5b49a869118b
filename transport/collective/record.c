/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives tell the session's trace. */
#include "base/clock.h"
#include "transport/collective/collective.h"

static void add(const struct wring_collective *collective, struct wring_trace_event event)
{
    event.label = collective->label;
    wring_trace_add(collective->engine->trace, &event);
}

void wring_collective_trace_step(const struct wring_collective *collective, uint64_t took_ns)
{
    if (collective->engine->trace != NULL)
        add(collective, (struct wring_trace_event){.kind = WRING_TRACE_STEP,
                                                   .begin_ns = collective->started_ns,
                                                   .took_ns = took_ns,
                                                   .peer = -1,
                                                   .number = collective->step});
}

void wring_collective_trace_job(const struct wring_task *task)
{
    static const enum wring_trace_kind kinds[] = {
        [WRING_JOB_ENCODE] = WRING_TRACE_ENCODE,      [WRING_JOB_REDUCE] = WRING_TRACE_REDUCE,
        [WRING_JOB_DECODE] = WRING_TRACE_DECODE,      [WRING_JOB_COPY] = WRING_TRACE_DECODE,
        [WRING_JOB_ROUND_BEGIN] = WRING_TRACE_ENCODE, [WRING_JOB_ROUND_END] = WRING_TRACE_DECODE,
    };
    if (task->collective->engine->trace != NULL)
        add(task->collective, (struct wring_trace_event){.kind = kinds[task->job.kind],
                                                         .begin_ns = task->job.result.began_ns,
                                                         .took_ns = task->job.result.took_ns,
                                                         .peer = -1,
                                                         .number = task->chunk});
}

void wring_collective_trace_wait(const struct wring_collective *collective, uint64_t began_ns)
{
    if (collective->engine->trace != NULL)
        add(collective, (struct wring_trace_event){.kind = WRING_TRACE_WAIT,
                                                   .begin_ns = began_ns,
                                                   .took_ns = wring_now_ns() - began_ns,
                                                   .peer = -1,
                                                   .number = collective->step});
}

void wring_collective_trace_sent(const struct wring_task *task)
{
    if (task->collective->engine->trace != NULL)
        add(task->collective, (struct wring_trace_event){.kind = WRING_TRACE_SEND,
                                                         .begin_ns = task->ready_ns,
                                                         .took_ns = wring_now_ns() - task->ready_ns,
                                                         .bytes = task->piece_bytes,
                                                         .peer = -1,
                                                         .number = task->chunk});
}

void wring_collective_trace_arrived(const struct wring_collective *collective, uint32_t rank,
                                    size_t bytes)
{
    if (collective->engine->trace != NULL)
        add(collective, (struct wring_trace_event){.kind = WRING_TRACE_ARRIVE,
                                                   .begin_ns = wring_now_ns(),
                                                   .bytes = bytes,
                                                   .peer = (int32_t)rank,
                                                   .number = collective->step});
}
