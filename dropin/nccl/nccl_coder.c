/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned cores that code messages without a loss: WRING_NCCL_LOSSLESS. NCCL's own threads hand work
 * over and look later what has become of it. */
#include "dropin/nccl/nccl_own.h"

#include <stdio.h>
#include <time.h>

#include "offload/pool.h"

#define FINISHED 16 /* looked at in one go */

static struct {
    pthread_mutex_t mutex; /* executors are called by one thread at a time */
    struct wring_executor *executor;
    struct wring_codec *codec;
} coder = {.mutex = PTHREAD_MUTEX_INITIALIZER};

enum wring_status wring_nccl_coder_open(void)
{
    const struct wring_nccl_own *own = &wring_nccl_own;
    char cores[24], why[256];

    if (own->config.nccl_lossless == 0 || coder.executor != NULL)
        return WRING_OK;
    snprintf(cores, sizeof(cores), "%d", (int)own->config.nccl_lossless);
    struct wring_pool_params params = {.cores = cores, .log = &own->log};
    enum wring_status status =
        wring_codec_create("lossless", own->config.cpu, NULL, why, sizeof(why), &coder.codec);
    if (status == WRING_OK)
        status = wring_executor_pool_create(&params, &coder.executor);
    if (status == WRING_OK)
        status = coder.executor->ops->reserve(
            coder.executor, wring_job_reserve_elems(WRING_NCCL_CODED_MAX / sizeof(float), 1));
    if (status != WRING_OK) {
        wring_nccl_say(WRING_NCCL_LOG_WARN,
                       "wring: WRING_NCCL_LOSSLESS=%s: no cores to code on: %s; 0 does without",
                       cores, wring_status_text(status));
        wring_nccl_coder_close();
    }
    return status;
}

void wring_nccl_coder_close(void)
{
    if (coder.executor != NULL)
        coder.executor->ops->destroy(coder.executor);
    wring_codec_destroy(coder.codec);
    coder.executor = NULL;
    coder.codec = NULL;
}

size_t wring_nccl_coder_bound(size_t bytes)
{
    return wring_codec_bound(coder.codec, bytes / sizeof(float));
}

static void submit_task(struct wring_nccl_task *task)
{
    struct wring_job *job = &task->job;

    job->dtype = WRING_F32;
    job->divisor = 1;
    job->untimed = true;
    job->cookie = task;
    job->context.ranks = 2;
    job->context.elems = job->elems;
    atomic_store(&task->over, false);
    pthread_mutex_lock(&coder.mutex);
    coder.executor->ops->submit(coder.executor, &job, 1);
    pthread_mutex_unlock(&coder.mutex);
}

void wring_nccl_task_encode(struct wring_nccl_task *task, const void *src, size_t bytes, void *code)
{
    task->job = (struct wring_job){.kind = WRING_JOB_ENCODE,
                                   .elems = bytes / sizeof(float),
                                   .src = src,
                                   .codec_out = coder.codec,
                                   .code = code};
    submit_task(task);
}

static void submit_read(struct wring_nccl_task *task, const void *data, size_t bytes,
                        const struct wring_codec *codec)
{
    task->source = (struct wring_source){.data = data, .bytes = bytes, .codec = codec};
    task->job.sources = &task->source;
    task->job.n_sources = 1;
    submit_task(task);
}

void wring_nccl_task_decode(struct wring_nccl_task *task, const void *code, size_t code_bytes,
                            void *dst, size_t bytes)
{
    task->job =
        (struct wring_job){.kind = WRING_JOB_DECODE, .elems = bytes / sizeof(float), .dst = dst};
    submit_read(task, code, code_bytes, coder.codec);
}

void wring_nccl_task_copy(struct wring_nccl_task *task, const void *src, void *dst, size_t bytes)
{
    task->job = (struct wring_job){.kind = WRING_JOB_COPY, .elems = bytes, .dst = dst};
    submit_read(task, src, bytes, NULL);
}

bool wring_nccl_task_is_over(struct wring_nccl_task *task)
{
    struct wring_job *finished[FINISHED];

    if (atomic_load_explicit(&task->over, memory_order_acquire))
        return true;
    if (pthread_mutex_trylock(&coder.mutex) != 0)
        return false;
    size_t n = coder.executor->ops->poll(coder.executor, finished, FINISHED);
    for (size_t i = 0; i < n; i++) {
        struct wring_nccl_task *other = finished[i]->cookie;
        atomic_store_explicit(&other->over, true, memory_order_release);
    }
    pthread_mutex_unlock(&coder.mutex);
    return atomic_load_explicit(&task->over, memory_order_acquire);
}

void wring_nccl_task_await(struct wring_nccl_task *task)
{
    const struct timespec pause = {0, 20000};

    while (!wring_nccl_task_is_over(task)) /* it ends by itself: a core works on it */
        nanosleep(&pause, NULL);
}
