/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/data.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "compress/kernels/reduce.h"
#include "planner/tool/gradients.h"
#include "tools/bench/bench.h"
#include "tools/commands.h"

/* ---- made up ---- */

/** Within (-1, 1), of 24 bits or so. */
static float make_bell(uint32_t rank, uint64_t i)
{
    return wring_pattern(2 * rank, i) + wring_pattern(2 * rank + 1, i) * 0x1p-15f;
}

/** Number i of a rank, evenly spread over (0, 1). */
static double make_even(uint32_t rank, uint64_t i)
{
    uint64_t x = wring_mix_bits(i + 0x9E3779B97F4A7C15u * ((uint64_t)rank + 1));
    return ((double)(x >> 12) + 0.5) * 0x1p-52;
}

/** Of mean 0 and variance 1, after Box and Muller. */
static float make_normal(uint32_t rank, uint64_t i)
{
    double radius = sqrt(-2 * log(make_even(rank, i | 1)));
    double angle = 2 * 3.14159265358979323846 * make_even(rank, i & ~UINT64_C(1));

    return (float)(radius * (i % 2 == 0 ? cos(angle) : sin(angle)));
}

/** Likewise, with the longer tails of two exponentials back to back. */
static float make_laplace(uint32_t rank, uint64_t i)
{
    double even = 2 * make_even(rank, i) - 1;
    double size = -log(1 - fabs(even)) / sqrt(2);

    return (float)(even < 0 ? -size : size);
}

const struct wring_bench_data wring_bench_data_bell = {"bell", make_bell, NULL};

static const struct wring_bench_data normal = {"normal", make_normal, NULL},
                                     laplace = {"laplace", make_laplace, NULL};
static const struct wring_bench_data *const made[] = {&wring_bench_data_bell, &normal, &laplace};

/* ---- recorded ---- */

/** The gradients that wring ships: beside the sources that a build is of, else as installed. */
static const char *find_recorded(void)
{
    return access(WRING_RECORDED_SOURCE, F_OK) == 0 ? WRING_RECORDED_SOURCE
                                                    : WRING_RECORDED_INSTALLED;
}

int wring_bench_data_open(struct wring_bench_data *data, const char *name)
{
    const struct wring_log log = {.level = WRING_LOG_WARN};
    const char *path = strcmp(name, "recorded") == 0 ? find_recorded() : name;

    *data = (struct wring_bench_data){.name = name};
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
        if (strcmp(name, made[i]->name) == 0) {
            *data = *made[i];
            return WRING_EXIT_OK;
        }
    if (path == name && access(path, F_OK) != 0 && errno == ENOENT)
        return wring_fail("wring bench codec",
                          "--data %s: neither a file nor bell, normal, laplace or recorded", name);
    return wring_gradients_load(path, &log, &data->gradients) == WRING_OK ? WRING_EXIT_OK
                                                                          : WRING_EXIT_FAILURE;
}

void wring_bench_data_close(struct wring_bench_data *data)
{
    wring_gradients_destroy(data->gradients);
    *data = (struct wring_bench_data){0};
}

uint32_t wring_bench_data_ranks(const struct wring_bench_data *data)
{
    return data->gradients != NULL ? data->gradients->n_ranks : UINT32_MAX;
}

void wring_bench_data_fill(const struct wring_bench_data *data, uint32_t rank, float *out,
                           uint64_t elems)
{
    const struct wring_gradients *gradients = data->gradients;

    for (uint64_t i = 0; i < elems && gradients == NULL; i++)
        out[i] = data->make(rank, i);
    if (gradients == NULL)
        return;
    const float *from = wring_gradients_at(gradients, rank % gradients->n_ranks, 0, 0);
    uint64_t n = gradients->n_steps * gradients->per_step;
    for (uint64_t at = 0; at < elems; at += n)
        memcpy(out + at, from, (elems - at < n ? elems - at : n) * sizeof(*out));
}

/* ---- types ---- */

static const struct wring_reduce_kernels *kernels(void)
{
    return wring_reduce_tiers[0].kernels;
}

bool wring_bench_data_fill_as(const struct wring_bench_data *data, uint32_t rank,
                              enum wring_dtype dtype, void *out, uint64_t elems)
{
    if (dtype == WRING_F32) {
        wring_bench_data_fill(data, rank, out, elems);
        return true;
    }
    float *wide = malloc(elems * sizeof(*wide));
    if (wide == NULL)
        return false;
    wring_bench_data_fill(data, rank, wide, elems);
    kernels()->narrow[dtype](out, wide, elems, 1);
    free(wide);
    return true;
}

float wring_bench_number(enum wring_dtype dtype, const void *run, uint64_t i)
{
    float wide;

    if (dtype == WRING_F32)
        return ((const float *)run)[i];
    kernels()->widen[dtype](&wide, (const uint16_t *)run + i, 1);
    return wide;
}
