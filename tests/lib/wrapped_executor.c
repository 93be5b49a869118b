/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/wrapped_executor.h"

#include <stdlib.h>

static struct wring_executor *inner_of(struct wring_executor *base)
{
    return ((struct wrapped_executor *)base)->inner;
}

static enum wring_status wrapped_reserve(struct wring_executor *base, uint64_t max_elems)
{
    struct wring_executor *inner = inner_of(base);
    return inner->ops->reserve(inner, max_elems);
}

static void wrapped_submit(struct wring_executor *base, struct wring_job *const *jobs, size_t n)
{
    struct wring_executor *inner = inner_of(base);
    inner->ops->submit(inner, jobs, n);
}

static size_t wrapped_poll(struct wring_executor *base, struct wring_job **done, size_t max)
{
    struct wring_executor *inner = inner_of(base);
    return inner->ops->poll(inner, done, max);
}

static void wrapped_arm(struct wring_executor *base, struct wring_wait_set *set)
{
    struct wring_executor *inner = inner_of(base);
    inner->ops->arm(inner, set);
}

static enum wring_status wrapped_event_create(struct wring_executor *base, struct wring_event **out)
{
    struct wring_executor *inner = inner_of(base);
    return inner->ops->event_create(inner, out);
}

static void wrapped_event_destroy(struct wring_executor *base, struct wring_event *event)
{
    struct wring_executor *inner = inner_of(base);
    inner->ops->event_destroy(inner, event);
}

static enum wring_status wrapped_event_record(struct wring_executor *base,
                                              struct wring_event *event,
                                              const struct wring_stream *stream)
{
    struct wring_executor *inner = inner_of(base);
    return inner->ops->event_record(inner, event, stream);
}

static enum wring_status wrapped_allocate(struct wring_executor *base,
                                          struct wring_memory_place place, size_t bytes, void **out)
{
    struct wring_executor *inner = inner_of(base);
    return inner->ops->allocate(inner, place, bytes, out);
}

static void wrapped_release(struct wring_executor *base, struct wring_memory_place place,
                            void *memory)
{
    struct wring_executor *inner = inner_of(base);
    inner->ops->release(inner, place, memory);
}

static enum wring_status wrapped_copy(struct wring_executor *base, void *dst,
                                      struct wring_memory_place to, const void *src,
                                      struct wring_memory_place from, size_t bytes)
{
    struct wring_executor *inner = inner_of(base);
    return inner->ops->copy(inner, dst, to, src, from, bytes);
}

static uint64_t wrapped_cpu_ns(struct wring_executor *base)
{
    struct wring_executor *inner = inner_of(base);
    return inner->ops->cpu_ns(inner);
}

static void wrapped_destroy(struct wring_executor *base)
{
    struct wring_executor *inner = inner_of(base);
    inner->ops->destroy(inner);
    free(base);
}

const struct wring_executor_ops wrapped_executor_ops = {
    .name = "wrapped",
    .reserve = wrapped_reserve,
    .submit = wrapped_submit,
    .poll = wrapped_poll,
    .arm = wrapped_arm,
    .event_create = wrapped_event_create,
    .event_destroy = wrapped_event_destroy,
    .event_record = wrapped_event_record,
    .allocate = wrapped_allocate,
    .release = wrapped_release,
    .copy = wrapped_copy,
    .cpu_ns = wrapped_cpu_ns,
    .destroy = wrapped_destroy,
};
