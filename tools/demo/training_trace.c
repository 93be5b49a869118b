/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/training_trace.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/files/tensor_trace.h"
#include "tools/commands.h"
#include "tools/demo/model.h"
#include "tools/output.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/** Of the doubles that lie `stride` bytes apart; the first of them without memory. */
static double median_of(const double *first, uint32_t n, size_t stride)
{
    double *sorted = malloc(n * sizeof(*sorted));
    double median = *first;

    if (sorted == NULL)
        return median;
    for (uint32_t i = 0; i < n; i++)
        sorted[i] = *(const double *)((const char *)first + i * stride);
    qsort(sorted, n, sizeof(*sorted), by_value);
    median = sorted[n / 2];
    free(sorted);
    return median;
}

void demo_times_median(const struct demo_times *steps, uint32_t n, struct demo_times *out)
{
    out->forward_us = median_of(&steps->forward_us, n, sizeof(*steps));
    out->optimizer_us = median_of(&steps->optimizer_us, n, sizeof(*steps));
    for (int t = 0; t < DEMO_TENSORS; t++)
        out->ready_us[t] = median_of(&steps->ready_us[t], n, sizeof(*steps));
}

static void describe(const struct demo_results *results, char *text, size_t bytes)
{
    const struct demo_options *o = results->options;

    snprintf(
        text, bytes,
        "measured by wring demo: rank 0 of %u on one host, median of %u steps without exchange; "
        "batch %u, hidden %u, momentum included",
        o->ranks, results->times_steps, o->batch, o->hidden);
}

/** To the nanosecond, which is what was measured. */
static double rounded(double us)
{
    return round(us * 1e3) / 1e3;
}

static enum wring_status write_trace(const struct demo_results *results, FILE *file)
{
    struct wring_tensor tensors[DEMO_TENSORS];
    char names[DEMO_TENSORS][32], model[] = "wring demo", source[256];
    struct wring_tensor_trace trace = {.model = model,
                                       .source = source,
                                       .forward_us = rounded(results->times.forward_us),
                                       .optimizer_us = rounded(results->times.optimizer_us),
                                       .n = DEMO_TENSORS,
                                       .tensors = tensors};

    describe(results, source, sizeof(source));
    for (int t = 0; t < DEMO_TENSORS; t++) {
        snprintf(names[t], sizeof(names[t]), "%s", demo_tensor_names[t]);
        tensors[t] =
            (struct wring_tensor){names[t], results->elems[t], rounded(results->times.ready_us[t])};
    }
    return wring_tensor_trace_save(&trace, file);
}

static bool save(FILE *file, void *arg)
{
    return write_trace(arg, file) == WRING_OK;
}

bool demo_training_trace_write(const struct demo_results *results, const char *path)
{
    return wring_output_file("wring demo", path, save, (void *)(uintptr_t)results) == WRING_EXIT_OK;
}
