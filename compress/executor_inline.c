/* SPDX-License-Identifier: Apache-2.0 */
/** The executor that is no executor: each job runs inside submit(), in the caller's thread. So what
 *  was submitted before is always over, and events have always happened. */
#include <stdlib.h>

#include "compress/executor_host.h"

struct inline_executor {
    struct wring_executor base;
    void *scratch;
    uint64_t max_elems;
    struct wring_job *first, **last; /* finished, not yet polled */
    char event;                      /* that all events are */
};

static enum wring_status inline_reserve(struct wring_executor *executor, uint64_t max_elems)
{
    struct inline_executor *self = (struct inline_executor *)executor;
    if (max_elems <= self->max_elems)
        return WRING_OK;

    void *scratch = aligned_alloc(WRING_SCRATCH_ALIGN, wring_job_scratch_bytes(max_elems));
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
        wring_host_run(job, self->scratch, self->max_elems);
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

/** Nothing finishes by itself; what has finished is there. */
static void inline_arm(struct wring_executor *executor, struct wring_wait_set *set)
{
    const struct inline_executor *self = (const struct inline_executor *)executor;
    set->busy = set->busy || self->first != NULL;
}

static enum wring_status inline_event_create(struct wring_executor *executor,
                                             struct wring_event **out)
{
    *out = (struct wring_event *)&((struct inline_executor *)executor)->event;
    return WRING_OK;
}

static void inline_event_destroy(struct wring_executor *executor, struct wring_event *event)
{
    (void)executor, (void)event;
}

static enum wring_status inline_event_record(struct wring_executor *executor,
                                             struct wring_event *event,
                                             const struct wring_stream *stream)
{
    (void)executor, (void)event;
    return stream == NULL ? WRING_OK : WRING_ERR_UNSUPPORTED;
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
    .event_create = inline_event_create,
    .event_destroy = inline_event_destroy,
    .event_record = inline_event_record,
    .allocate = wring_host_allocate,
    .release = wring_host_release,
    .copy = wring_host_copy,
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
