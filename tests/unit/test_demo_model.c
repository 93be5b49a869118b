/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's model: its gradients are the slopes of its loss, and training lowers it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tools/demo/model.h"

#define BATCH 5
#define HIDDEN 24

struct fixture {
    struct demo_blas blas;
    struct demo_model model;
    int order[DEMO_TENSORS];
    int ready;
};

static bool begin(struct fixture *f)
{
    uint32_t random = 12345;
    memset(f, 0, sizeof(*f));
    char reason[128];
    if (!demo_blas_load(&f->blas, reason, sizeof(reason))) {
        fprintf(stderr, "%s\n", reason);
        return false;
    }
    if (demo_model_init(&f->model, &f->blas, BATCH, HIDDEN, 9) != 0)
        return false;
    for (int t = 0; t < DEMO_TENSORS; t++) {
        f->model.gradients[t] = calloc(f->model.elems[t], sizeof(float));
        if (f->model.gradients[t] == NULL)
            return false;
    }
    for (int i = 0; i < BATCH * DEMO_CONTEXT; i++)
        f->model.context[i] = (uint8_t)(wring_test_random(&random) % 7); /* bytes repeat */
    for (int i = 0; i < BATCH; i++)
        f->model.next[i] = (uint8_t)wring_test_random(&random);
    return true;
}

static void end(struct fixture *f)
{
    for (int t = 0; t < DEMO_TENSORS; t++)
        free(f->model.gradients[t]);
    demo_model_finish(&f->model);
    demo_blas_unload(&f->blas);
}

static void note_order(void *arg, enum demo_tensor tensor)
{
    struct fixture *f = arg;
    if (f->ready < DEMO_TENSORS)
        f->order[f->ready] = (int)tensor;
    f->ready++;
}

/** Loss difference along one weight, by central differences. */
static double slope(struct fixture *f, int tensor, uint64_t i)
{
    const float step = 0x1p-7f;
    float *weight = &f->model.weights[tensor][i], saved = *weight;
    *weight = saved + step;
    double above = demo_model_forward(&f->model, BATCH);
    *weight = saved - step;
    double below = demo_model_forward(&f->model, BATCH);
    *weight = saved;
    return (above - below) / (2 * (double)step);
}

static void gradients_are_slopes(void)
{
    struct fixture f;
    uint32_t random = 77;
    REQUIRE(begin(&f), "no memory");
    demo_model_forward(&f.model, BATCH);
    demo_model_backward(&f.model, note_order, &f);
    for (int t = 0; t < DEMO_TENSORS; t++) {
        uint64_t largest = 0;
        for (uint64_t i = 0; i < f.model.elems[t]; i++)
            if (fabsf(f.model.gradients[t][i]) > fabsf(f.model.gradients[t][largest]))
                largest = i;
        CHECK(f.model.gradients[t][largest] != 0, "%s has no gradient", demo_tensor_names[t]);
        for (int k = 0; k < 20; k++) {
            uint64_t i = k == 0 ? largest : wring_test_random(&random) % f.model.elems[t];
            double got = (double)f.model.gradients[t][i], want = slope(&f, t, i);
            CHECK(fabs(got - want) < 2e-4 + 0.01 * fabs(want), "%s[%llu]: %g, slope %g",
                  demo_tensor_names[t], (unsigned long long)i, got, want);
        }
    }
    end(&f);
}

static void every_tensor_is_ready_once_in_order(void)
{
    struct fixture f;
    REQUIRE(begin(&f), "no memory");
    demo_model_forward(&f.model, BATCH);
    demo_model_backward(&f.model, note_order, &f);
    CHECK(f.ready == DEMO_TENSORS, "%d were ready", f.ready);
    for (int t = 0; t < DEMO_TENSORS; t++)
        CHECK(f.order[t] == t, "tensor %d came as number %d", f.order[t], t);
    end(&f);
}

static void training_learns_a_batch(void)
{
    struct fixture f;
    REQUIRE(begin(&f), "no memory");
    uint64_t fresh = demo_model_hash(&f.model);
    double first = demo_model_forward(&f.model, BATCH), last = first;
    CHECK(fabs(first - log(256)) < 1, "an untrained model's loss is %g", first);
    for (int step = 0; step < 100; step++) {
        last = demo_model_forward(&f.model, BATCH);
        demo_model_backward(&f.model, note_order, &f);
        for (int t = 0; t < DEMO_TENSORS; t++) {
            demo_model_momentum(&f.model, (enum demo_tensor)t, 0.9f);
            demo_model_update(&f.model, (enum demo_tensor)t, 0.05f);
        }
    }
    CHECK(last < 0.1, "after 100 steps on %d samples the loss is %g", BATCH, last);
    CHECK(demo_model_hash(&f.model) != fresh, "the hash does not see new weights");
    end(&f);
}

/** By hand: m = 0.5 * m + g, then g + 0.5 * m. */
static void momentum_is_nesterovs(void)
{
    struct fixture f;
    REQUIRE(begin(&f), "no memory");
    float *g = f.model.gradients[DEMO_OUTPUT_BIAS];
    g[0] = 8;
    demo_model_momentum(&f.model, DEMO_OUTPUT_BIAS, 0.5f);
    CHECK(g[0] == 12, "first %g", (double)g[0]);
    g[0] = 2;
    demo_model_momentum(&f.model, DEMO_OUTPUT_BIAS, 0.5f);
    CHECK(g[0] == 5, "second %g", (double)g[0]);
    end(&f);
}

static const struct wring_test_case cases[] = {
    {"gradients are slopes", gradients_are_slopes},
    {"every tensor is ready once, in order", every_tensor_is_ready_once_in_order},
    {"training learns a batch", training_learns_a_batch},
    {"momentum is Nesterov's", momentum_is_nesterovs},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
