/* SPDX-License-Identifier: Apache-2.0 */
/** The executor that is no executor: each job runs inside submit(), in the caller's thread. */
#include <stdlib.h>

#include <wring/executor.h>

#define SCRATCH_ALIGN 64

struct inline_executor {
    struct wring_executor base;
    void *scratch;
    uint64_t max_elems;
    struct wring_job *first, **last; /* finished, not yet polled */
};

static enum wring_status inline_reserve(struct wring_executor *executor, uint64_t max_elems)
{
    struct inline_executor *self = (struct inline_executor *)executor;
    if (max_elems <= self->max_elems)
        return WRING_OK;

    void *scratch = aligned_alloc(SCRATCH_ALIGN, wring_job_scratch_bytes(max_elems));
    if (scratch == NULL)
        return WRING_ERR_NO_MEMORY;
    free(self->scratch);
    self->scratch = scratch;
    self->max_elems = max_elems;
    return WRING_OK;
}

static void inline_submit(struct wring_executor *executor, struct wring_job *const *jobs, size_t n)
{
    struct inline_executor *self = (struct inline_executor *)executor;

    for (size_t i = 0; i < n; i++) {
        struct wring_job *job = jobs[i];
        if (wring_job_scratch_elems(job) <= self->max_elems)
            wring_job_run(job, self->scratch);
        else
            job->status = WRING_ERR_INVALID; /* longer than was reserved */
        job->next = NULL;
        *self->last = job;
        self->last = &job->next;
    }
}

static size_t inline_poll(struct wring_executor *executor, struct wring_job **done, size_t max)
{
    struct inline_executor *self = (struct inline_executor *)executor;
    size_t n = 0;

    for (; n < max && self->first != NULL; n++) {
        done[n] = self->first;
        self->first = self->first->next;
    }
    if (self->first == NULL)
        self->last = &self->first;
    return n;
}

static int inline_arm(struct wring_executor *executor)
{
    (void)executor;
    return -1;
}

static uint64_t inline_cpu_ns(struct wring_executor *executor)
{
    (void)executor;
    return 0; /* it has no threads of its own */
}

static void inline_destroy(struct wring_executor *executor)
{
    struct inline_executor *self = (struct inline_executor *)executor;
    if (self == NULL)
        return;
    free(self->scratch);
    free(self);
}

static const struct wring_executor_ops inline_ops = {
    .name = "inline",
    .at_once = true,
    .reserve = inline_reserve,
    .submit = inline_submit,
    .poll = inline_poll,
    .arm = inline_arm,
    .cpu_ns = inline_cpu_ns,
    .destroy = inline_destroy,
};

enum wring_status wring_executor_inline_create(struct wring_executor **out)
{
    struct inline_executor *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return WRING_ERR_NO_MEMORY;
    self->base.ops = &inline_ops;
    self->last = &self->first;
    *out = &self->base;
    return WRING_OK;
}
