/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define QUICK 16                         /* the first questions follow each other at once */
#define EVERY_NS (100 * WRING_NS_PER_MS) /* later ones this often */
#define LOST_NS (1 * WRING_NS_PER_S)     /* what is not answered by then is asked anew */
#define REASON_NS (INT64_MAX / 8)        /* no clocks are further apart: 36 years */

void wring_clocks_init(struct wring_clocks *clocks)
{
    clocks->n = clocks->number = 0;
    clocks->asked_ns = clocks->next_ns = 0;
    clocks->every_ns = EVERY_NS;
    clocks->same = false;
    atomic_init(&clocks->n_heard, 0);
}

uint64_t wring_clocks_next(const struct wring_clocks *clocks)
{
    return clocks->asked_ns > 0 ? clocks->asked_ns + LOST_NS : clocks->next_ns;
}

uint32_t wring_clocks_asked(struct wring_clocks *clocks, uint64_t now_ns)
{
    clocks->asked_ns = now_ns;
    return ++clocks->number;
}

/** Of each two neighbours keep the one that says more, and ask half as often from now on. */
static void thin_samples(struct wring_clocks *clocks)
{
    for (uint32_t i = 0; i < clocks->n / 2; i++) {
        const struct wring_clock_sample *a = &clocks->samples[2 * i], *b = a + 1;
        clocks->samples[i] = b->high_ns - b->low_ns < a->high_ns - a->low_ns ? *b : *a;
    }
    clocks->n /= 2;
    clocks->every_ns *= 2;
}

void wring_clocks_answered(struct wring_clocks *clocks, uint32_t number, uint64_t theirs_ns,
                           uint64_t now_ns)
{
    uint64_t sent_ns = clocks->asked_ns;
    int64_t low = (int64_t)(sent_ns - theirs_ns), high = (int64_t)(now_ns - theirs_ns);
    if (sent_ns == 0 || number != clocks->number)
        return;
    clocks->asked_ns = 0;
    uint32_t heard = atomic_load_explicit(&clocks->n_heard, memory_order_relaxed) + 1;
    clocks->next_ns = heard < QUICK ? now_ns : now_ns + clocks->every_ns;
    if (low < -REASON_NS || high > REASON_NS || low > high)
        return;
    if (clocks->n == WRING_CLOCK_SAMPLES)
        thin_samples(clocks);
    clocks->samples[clocks->n++] =
        (struct wring_clock_sample){sent_ns + (now_ns - sent_ns) / 2, low, high};
    atomic_store_explicit(&clocks->n_heard, heard, memory_order_release);
}

/** A sample's interval at another time. */
static struct wring_clock_sample widen_sample(const struct wring_clock_sample *sample,
                                              uint64_t at_ns)
{
    uint64_t apart = at_ns > sample->at_ns ? at_ns - sample->at_ns : sample->at_ns - at_ns;
    int64_t drift = (int64_t)((double)apart * WRING_CLOCK_DRIFT) + 1;
    return (struct wring_clock_sample){at_ns, sample->low_ns - drift, sample->high_ns + drift};
}

static void narrow_sample(struct wring_clock_sample *sample, const struct wring_clock_sample *other)
{
    struct wring_clock_sample known = widen_sample(other, sample->at_ns);
    sample->low_ns = known.low_ns > sample->low_ns ? known.low_ns : sample->low_ns;
    sample->high_ns = known.high_ns < sample->high_ns ? known.high_ns : sample->high_ns;
}

/* A sample that one neighbour has narrowed knows all that lies behind that one, too. */
void wring_clocks_settle(struct wring_clocks *clocks)
{
    for (uint32_t i = 1; i < clocks->n; i++)
        narrow_sample(&clocks->samples[i], &clocks->samples[i - 1]);
    for (uint32_t i = clocks->n; i > 1; i--)
        narrow_sample(&clocks->samples[i - 2], &clocks->samples[i - 1]);
    clocks->same = clocks->n > 0;
    for (uint32_t i = 0; i < clocks->n; i++)
        clocks->same &= clocks->samples[i].low_ns <= 0 && clocks->samples[i].high_ns >= 0;
}

/** How many samples are not later than that. */
static uint32_t count_before(const struct wring_clocks *clocks, uint64_t at_ns)
{
    uint32_t low = 0, high = clocks->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (clocks->samples[middle].at_ns <= at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool wring_clocks_ahead(const struct wring_clocks *clocks, uint64_t at_ns,
                        struct wring_clock_ahead *out)
{
    if (clocks->n == 0)
        return false;
    uint32_t before = count_before(clocks, at_ns);
    uint32_t first = before > 0 ? before - 1 : 0;
    struct wring_clock_sample known = widen_sample(&clocks->samples[first], at_ns);
    if (before > 0 && before < clocks->n)
        narrow_sample(&known, &clocks->samples[before]);

    if (clocks->same) {
        out->ns = 0;
        out->error_ns = known.high_ns > -known.low_ns ? known.high_ns : -known.low_ns;
        return true;
    }
    int64_t half = (known.high_ns - known.low_ns + 1) / 2;
    out->ns = known.low_ns + half;
    out->error_ns = half < 0 ? -half : half; /* they contradict each other: a clock was set */
    return true;
}

/* ---- trace ---- */

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
