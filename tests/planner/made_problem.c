/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/planner/made_problem.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

enum {
    DEVICE,
    INTRA_IN,
    CPU,
    INTER,
    DECODE,
    INTRA_OUT,
    LANES
};

static void *get(size_t n, size_t bytes)
{
    void *memory = calloc(n + 1, bytes);

    if (memory == NULL)
        abort();
    return memory;
}

static void make_room(struct wring_made_problem *made, uint32_t tensors, uint32_t lanes,
                      uint32_t options)
{
    memset(made, 0, sizeof(*made));
    made->compute_us = get(tensors, sizeof(double));
    made->elems = get(tensors + 1, sizeof(uint64_t));
    made->options = get(options, sizeof(*made->options));
    made->problem = (struct wring_problem){.n_tensors = tensors,
                                           .n_lanes = lanes,
                                           .n_options = options,
                                           .compute_us = made->compute_us,
                                           .elems = made->elems,
                                           .options = made->options};
}

static double some(uint32_t *random, double most)
{
    return most * (double)(wring_test_random(random) >> 8) / 16777216.0;
}

/** Level up to a size, then a line; often nothing at all. */
static struct wring_cost some_cost(uint32_t *random)
{
    struct wring_cost cost = wring_cost_line(some(random, 200), some(random, 0.002));

    if (wring_test_random(random) % 3 == 0)
        return (struct wring_cost){0};
    if (wring_test_random(random) % 2 == 0)
        cost.corners[0].x = some(random, 1e5);
    return cost;
}

static void restrict_tensors(struct wring_made_problem *made, uint32_t *random)
{
    uint32_t words = wring_problem_words(&made->problem);

    made->allowed = get((size_t)made->problem.n_tensors * words, sizeof(uint64_t));
    for (uint32_t i = 0; i < made->problem.n_tensors * words; i++)
        made->allowed[i] = (uint64_t)wring_test_random(random) << 32 | wring_test_random(random);
    for (uint32_t i = 0; i < made->problem.n_tensors; i++)
        made->allowed[(size_t)i * words] |= 1;
    made->problem.allowed = made->allowed;
}

void wring_made_random(const struct wring_made_params *params, struct wring_made_problem *made)
{
    uint32_t random = params->seed * 2654435761u + 1;

    make_room(made, params->n_tensors, params->n_lanes, params->n_options);
    for (uint32_t i = 0; i < params->n_tensors; i++) {
        made->compute_us[i] = some(&random, 300);
        uint64_t most = wring_test_random(&random) % 3 == 0 ? 4000000 : 40000;
        made->elems[i + 1] = made->elems[i] + 1 + wring_test_random(&random) % most;
    }
    for (uint32_t o = 0; o < params->n_options; o++) {
        struct wring_option_cost *option = &made->options[o];
        for (uint32_t lane = 0; lane < params->n_lanes; lane++)
            option->each[lane] = some_cost(&random);
        if (params->chunked && wring_test_random(&random) % 2 == 0) {
            option->chunk_elems = 10000 + wring_test_random(&random) % 500000;
            option->once[wring_test_random(&random) % params->n_lanes] = some_cost(&random);
        }
    }
    if (params->restricted)
        restrict_tensors(made, &random);
}

/** us by elements of the whole tensor, of what costs `us` up to 2^20 elements of a GPU's eighth. */
static struct wring_cost device_cost(double us)
{
    struct wring_cost cost = wring_cost_line(us, us / (8 << 20));

    cost.corners[0].x = 8 << 20;
    return cost;
}

struct fabric {
    double intra_us, inter_us; /* per byte */
};

/** @param ratio  of the bytes between nodes @param in_ratio  of those inside @param steps  1 or 2
 */
static void set_links(const struct fabric *fabric, double ratio, double in_ratio, double steps,
                      struct wring_option_cost *option)
{
    double intra = fabric->intra_us * 4 * in_ratio * 7 / 8;
    double inter = fabric->inter_us * 4 * ratio * 2 * 7 / 8;

    option->each[INTRA_IN] = option->each[INTRA_OUT] = wring_cost_line(75 * steps, intra);
    option->each[INTER] = wring_cost_line(150 * steps, inter);
}

static void set_device(double both, double decode, struct wring_option_cost *option)
{
    option->each[DEVICE] = device_cost(both - decode);
    option->each[DECODE] = device_cost(decode);
}

void wring_made_fabric(uint32_t n, const uint64_t *elems, const double *ready_us, bool nvlink,
                       double inter, struct wring_made_problem *made)
{
    struct fabric fabric = {nvlink ? 0.02e-3 : 0.4e-3, 0.8e-3 / inter};
    struct wring_option_cost *option;

    make_room(made, n, LANES, 8);
    for (uint32_t i = 0; i < n; i++) {
        made->compute_us[i] = ready_us[i] - (i > 0 ? ready_us[i - 1] : 0);
        made->elems[i + 1] = made->elems[i] + elems[i];
    }
    option = made->options;
    set_links(&fabric, 1, 1, 1, option++);
    set_device(26, 22, option);
    set_links(&fabric, 0.5, 0.5, 1, option++);
    static const struct {
        double ratio, inter_both, inter_decode, both, decode;
    } codecs[] = {{0.02, 88, 34, 1000, 100}, {1.0 / 32, 620, 170, 2000, 520}};
    for (int i = 0; i < 2; i++) {
        set_device(codecs[i].inter_both, codecs[i].inter_decode, option);
        set_links(&fabric, codecs[i].ratio, 0.5, 1, option++);
        set_device(codecs[i].both, codecs[i].decode, option);
        set_links(&fabric, codecs[i].ratio, codecs[i].ratio, 2, option++);
        option->each[CPU] = wring_cost_line(0, 32 / 20e3);
        set_links(&fabric, codecs[i].ratio, 0.5, 1, option++);
    }
}

void wring_made_seeded(uint32_t seed, uint32_t tensors_max, uint32_t options_max,
                       struct wring_made_problem *made)
{
    struct wring_made_params params = {.n_tensors = 1 + seed % tensors_max,
                                       .n_lanes = 1 + seed / 3 % WRING_PLAN_LANES_MAX,
                                       .n_options = 1 + seed / 5 % options_max,
                                       .seed = seed,
                                       .chunked = seed % 2 != 0,
                                       .restricted = seed / 2 % 3 == 0};

    wring_made_random(&params, made);
}

void wring_made_small(uint32_t seed, uint32_t tensors_max, struct wring_made_problem *made)
{
    wring_made_seeded(seed, tensors_max, 4, made);
    if (seed % 7 == 0)
        made->problem.max_group_elems = 50000 + seed % 100 * 1000;
}

void wring_made_alone(const struct wring_problem *problem, struct wring_grouping *grouping)
{
    grouping->n = problem->n_tensors;
    for (uint32_t i = 0; i < grouping->n; i++) {
        grouping->end[i] = i + 1;
        grouping->option[i] = 0;
    }
}

void wring_made_finish(struct wring_made_problem *made)
{
    free(made->compute_us);
    free(made->elems);
    free(made->options);
    free(made->allowed);
}
