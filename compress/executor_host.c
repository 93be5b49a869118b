/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/executor_host.h"

#include <stdlib.h>
#include <string.h>

static bool is_host(struct wring_memory_place place)
{
    return place.kind != WRING_MEMORY_DEVICE;
}

bool wring_job_on_host(const struct wring_job *job)
{
    bool all = is_host(job->places.src) && is_host(job->places.residual) &&
               is_host(job->places.code) && is_host(job->places.dst);
    for (uint32_t i = 0; i < job->n_sources; i++)
        all = all && is_host(job->sources[i].place);
    return all;
}

void wring_job_refuse(struct wring_job *job, enum wring_status status)
{
    job->result =
        (struct wring_job_result){.status = status, .bad_source = WRING_NO_SOURCE, .core = -1};
}

void wring_host_run(struct wring_job *job, void *scratch, uint64_t max_elems)
{
    if (!wring_job_on_host(job))
        wring_job_refuse(job, WRING_ERR_UNSUPPORTED);
    else if (wring_job_scratch_elems(job) > max_elems)
        wring_job_refuse(job, WRING_ERR_INVALID);
    else
        wring_job_run(job, scratch);
}

enum wring_status wring_host_allocate(struct wring_executor *executor,
                                      struct wring_memory_place place, size_t bytes, void **out)
{
    (void)executor;
    if (place.kind != WRING_MEMORY_HOST)
        return WRING_ERR_UNSUPPORTED;
    size_t whole = (bytes + WRING_SCRATCH_ALIGN - 1) / WRING_SCRATCH_ALIGN * WRING_SCRATCH_ALIGN;
    void *memory = whole >= bytes ? aligned_alloc(WRING_SCRATCH_ALIGN, whole) : NULL;
    if (memory == NULL)
        return WRING_ERR_NO_MEMORY;
    *out = memset(memory, 0, whole);
    return WRING_OK;
}

void wring_host_release(struct wring_executor *executor, struct wring_memory_place place,
                        void *memory)
{
    (void)executor, (void)place;
    free(memory);
}

enum wring_status wring_host_copy(struct wring_executor *executor, void *dst,
                                  struct wring_memory_place to, const void *src,
                                  struct wring_memory_place from, size_t bytes)
{
    (void)executor;
    if (!is_host(to) || !is_host(from))
        return WRING_ERR_UNSUPPORTED;
    if (bytes > 0)
        memcpy(dst, src, bytes);
    return WRING_OK;
}
