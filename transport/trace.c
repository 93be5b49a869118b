/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/trace.h"

#include <stdlib.h>
#include <string.h>

enum wring_status wring_trace_create(size_t capacity, struct wring_trace **out)
{
    struct wring_trace *trace = calloc(1, sizeof(*trace));
    if (trace == NULL)
        return WRING_ERR_NO_MEMORY;
    trace->capacity = capacity;
    wring_clocks_init(&trace->clocks);
    trace->events = calloc(capacity, sizeof(*trace->events));
    if (trace->events == NULL || wring_trace_label(trace, "") != 0 || trace->n_labels != 1) {
        wring_trace_destroy(trace);
        return WRING_ERR_NO_MEMORY;
    }
    *out = trace;
    return WRING_OK;
}

void wring_trace_destroy(struct wring_trace *trace)
{
    if (trace == NULL)
        return;
    for (uint32_t i = 0; i < trace->n_labels; i++)
        free(trace->labels[i]);
    free(trace->labels);
    free(trace->events);
    free(trace);
}

uint32_t wring_trace_label(struct wring_trace *trace, const char *name)
{
    if (trace == NULL)
        return 0;
    for (uint32_t i = 0; i < trace->n_labels; i++)
        if (strcmp(trace->labels[i], name) == 0)
            return i;
    char *copy = strdup(name);
    char **grown = realloc(trace->labels, (trace->n_labels + 1) * sizeof(*grown));
    trace->labels = grown != NULL ? grown : trace->labels;
    if (copy == NULL || grown == NULL) {
        free(copy);
        return 0;
    }
    trace->labels[trace->n_labels] = copy;
    return trace->n_labels++;
}

void wring_trace_add(struct wring_trace *trace, const struct wring_trace_event *event)
{
    if (trace == NULL)
        return;
    size_t at = atomic_fetch_add_explicit(&trace->n, 1, memory_order_relaxed);
    if (at < trace->capacity)
        trace->events[at] = *event;
}
