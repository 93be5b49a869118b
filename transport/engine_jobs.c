/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that collectives give to the engine's executors, and what comes of them. */
#include <inttypes.h>

#include "transport/collective/collective.h"
#include "transport/engine_inside.h"

static struct wring_executor_queue *queue_of(struct wring_engine *engine,
                                             const struct wring_collective *collective)
{
    return collective->queue != NULL ? collective->queue : &engine->queues[0];
}

void wring_engine_submit(struct wring_engine *engine, struct wring_job *job)
{
    struct wring_task *task = job->cookie;
    struct wring_executor_queue *queue = queue_of(engine, task->collective);

    task->has_job = true;
    queue->jobs_under_way++;
    engine->jobs_under_way++;
    if (queue->executor->ops->at_once)
        engine->computed += job->elems;
    queue->executor->ops->submit(queue->executor, &job, 1);
}

static const char *job_kind_name(enum wring_job_kind kind)
{
    switch (kind) {
    case WRING_JOB_ENCODE:
        return "encode";
    case WRING_JOB_DECODE:
        return "decode";
    case WRING_JOB_REDUCE:
        return "reduce";
    case WRING_JOB_COPY:
        return "copy";
    case WRING_JOB_ROUND_BEGIN:
    case WRING_JOB_ROUND_END:
        return "make statistics of";
    }
    return "process";
}

/** Of a job's inputs only a peer's bytes can be malformed: all other failures are this rank's. */
static void fail_for_job(struct wring_engine *engine, const struct wring_task *task)
{
    const struct wring_collective *collective = task->collective;
    const struct wring_executor *executor = queue_of(engine, collective)->executor;
    const struct wring_job *job = &task->job;
    if (job->result.status != WRING_ERR_FRAME || job->result.bad_source == WRING_NO_SOURCE) {
        wring_fabric_fail(engine->fabric, job->result.status, (int32_t)engine->fabric->rank,
                          "executor %s of rank %" PRIu32 " could not %s a piece: %s",
                          executor->ops->name, engine->fabric->rank, job_kind_name(job->kind),
                          wring_status_text(job->result.status));
        return;
    }
    uint32_t member = task->kind == WRING_TASK_REDUCE ? job->result.bad_source : task->member;
    int32_t rank = member < collective->members.n ? (int32_t)collective->members.ranks[member] : -1;
    bool raw = collective->work.codec == NULL; /* then it has but a length to be wrong */
    wring_fabric_fail(engine->fabric, raw ? WRING_ERR_MISMATCH : WRING_ERR_FRAME, rank,
                      "rank %" PRId32 " sent a piece that %s: do all ranks pass the same count, "
                      "type and codec?",
                      rank, raw ? "has another size than here" : "its codec cannot decode");
}

bool wring_engine_take_job(struct wring_engine *engine, const struct wring_job *job)
{
    const struct wring_task *task = job->cookie;
    struct wring_collective *whole = wring_collective_whole(task->collective);
    whole->cost.codec_ns += job->result.took_ns;
    wring_codec_error_stats_take(&whole->error_stats, job);
    wring_collective_trace_job(task);
    if (job->result.status != WRING_OK)
        fail_for_job(engine, task);
    return job->result.status == WRING_OK;
}

bool wring_engine_run(struct wring_engine *engine, struct wring_job *job)
{
    wring_job_run(job, NULL);
    return wring_engine_take_job(engine, job);
}
