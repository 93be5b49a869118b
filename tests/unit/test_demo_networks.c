/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's networks: gradients are the slopes of the loss, and training lowers it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tools/demo/image.h"
#include "tools/demo/optimizer.h"
#include "tools/demo/text.h"

#define BATCH 5
#define HIDDEN 24

struct fixture {
    struct demo_blas blas;
    struct demo_network network;
    uint32_t order[DEMO_TENSORS_MAX];
    uint32_t ready;
};

/** Bytes that repeat, or digits by a few strokes of light. */
static void fill_batch(struct demo_network *network)
{
    uint32_t random = 12345;

    if (network->task == &demo_task_text) {
        struct demo_text_layers *layers = network->layers;
        for (int i = 0; i < BATCH * DEMO_CONTEXT; i++)
            layers->context[i] = (uint8_t)(wring_test_random(&random) % 7);
        for (int i = 0; i < BATCH; i++)
            layers->next[i] = (uint8_t)wring_test_random(&random);
        return;
    }
    struct demo_image_layers *layers = network->layers;
    for (int i = 0; i < BATCH * DEMO_CANVAS; i++)
        layers->canvases[i] = (float)(wring_test_random(&random) % 1000) / 1000;
    for (int i = 0; i < BATCH; i++)
        layers->digits[i] = (uint8_t)(i * 2);
}

static bool begin(struct fixture *f, const struct demo_task *task)
{
    char reason[128];

    memset(f, 0, sizeof(*f));
    if (!demo_blas_load(&f->blas, reason, sizeof(reason))) {
        fprintf(stderr, "%s\n", reason);
        return false;
    }
    if (demo_network_init(&f->network, task, &f->blas, BATCH, HIDDEN, 9) != 0)
        return false;
    for (uint32_t t = 0; t < task->n_tensors; t++) {
        f->network.gradients[t] = demo_zeros(demo_network_elems(&f->network, t));
        if (f->network.gradients[t] == NULL)
            return false;
    }
    fill_batch(&f->network);
    return true;
}

static void end(struct fixture *f)
{
    for (uint32_t t = 0; t < DEMO_TENSORS_MAX; t++)
        free(f->network.gradients[t]);
    demo_network_finish(&f->network);
    demo_blas_unload(&f->blas);
}

static void note_order(void *arg, uint32_t tensor)
{
    struct fixture *f = arg;
    if (f->ready < DEMO_TENSORS_MAX)
        f->order[f->ready] = tensor;
    f->ready++;
}

static double forward(struct fixture *f)
{
    return f->network.task->forward(&f->network);
}

/** Loss difference along one weight, by central differences. */
static double slope(struct fixture *f, uint32_t tensor, uint64_t i)
{
    const float step = 0x1p-9f;
    float *weight = &f->network.weights[tensor][i], saved = *weight;
    *weight = saved + step;
    double above = forward(f);
    *weight = saved - step;
    double below = forward(f);
    *weight = saved;
    return (above - below) / (2 * (double)step);
}

/** Rectified units have kinks, which a difference across them does not see exactly. */
static void check_slopes(struct fixture *f, uint32_t tensor, double tolerance)
{
    const float *g = f->network.gradients[tensor];
    uint64_t largest = 0, n = demo_network_elems(&f->network, tensor);
    const char *name = f->network.tensors[tensor].name;
    uint32_t random = 77;

    for (uint64_t i = 0; i < n; i++)
        if (fabsf(g[i]) > fabsf(g[largest]))
            largest = i;
    double scale = (double)fabsf(g[largest]);
    CHECK(scale > 0, "%s has no gradient", name);
    for (int k = 0; k < 20; k++) {
        uint64_t i = k == 0 ? largest : wring_test_random(&random) % n;
        double got = (double)g[i], want = slope(f, tensor, i);
        CHECK(fabs(got - want) < 2e-4 + tolerance * scale, "%s[%llu]: %g, slope %g", name,
              (unsigned long long)i, got, want);
    }
}

static void check_network(const struct demo_task *task, double tolerance)
{
    struct fixture f;

    REQUIRE(begin(&f, task), "no memory");
    forward(&f);
    task->backward(&f.network, note_order, &f);
    CHECK(f.ready == task->n_tensors, "%u of %u were ready", f.ready, task->n_tensors);
    for (uint32_t t = 0; t < task->n_tensors; t++) {
        CHECK(f.order[t] == t, "tensor %u came as number %u", f.order[t], t);
        check_slopes(&f, t, tolerance);
    }
    end(&f);
}

static void gradients_of_text_are_slopes(void)
{
    check_network(&demo_task_text, 0.01);
}

static void gradients_of_image_are_slopes(void)
{
    check_network(&demo_task_image, 0.1);
}

/** Every tensor travels in one bucket, and a bucket is complete with its last tensor. */
static void check_buckets(const struct demo_task *task)
{
    uint32_t seen[DEMO_TENSORS_MAX] = {0}, last = 0;

    for (uint32_t b = 0; b < task->n_buckets; b++)
        for (uint32_t i = 0; i < task->buckets[b].n; i++) {
            seen[task->buckets[b].tensors[i]]++;
            CHECK(i == 0 || task->buckets[b].tensors[i] > last, "%s: bucket %u out of order",
                  task->name, b);
            last = task->buckets[b].tensors[i];
        }
    for (uint32_t t = 0; t < task->n_tensors; t++)
        CHECK(seen[t] == 1, "%s: tensor %u is in %u buckets", task->name, t, seen[t]);
}

static void buckets_hold_all_tensors_once(void)
{
    check_buckets(&demo_task_text);
    check_buckets(&demo_task_image);
}

/** Train on one batch. @return its loss in the end */
static double train(const struct demo_task *task, const char *optimizer_text, int steps)
{
    struct fixture f;
    struct demo_optimizer_choice choice;
    struct demo_optimizer optimizer;
    double loss = NAN;

    if (!begin(&f, task) || !demo_optimizer_parse(optimizer_text, &choice) ||
        demo_optimizer_init(&optimizer, &choice, &f.network) != 0)
        return NAN;
    uint64_t fresh = demo_network_hash(&f.network);
    double first = forward(&f);
    CHECK(fabs(first - log(task == &demo_task_text ? DEMO_BYTES : DEMO_DIGIT_CLASSES)) < 1,
          "an untrained %s's loss is %g", task->name, first);
    for (int step = 0; step < steps; step++) {
        forward(&f);
        task->backward(&f.network, note_order, &f);
        for (uint32_t t = 0; t < task->n_tensors; t++) {
            demo_optimizer_prepare(&optimizer, &f.network, t, (uint32_t)step);
            demo_optimizer_update(
                &optimizer, &f.network, t, (uint32_t)step,
                (float)(demo_optimizer_rate(choice.kind) * (steps - step) / steps));
        }
    }
    loss = forward(&f);
    CHECK(demo_network_hash(&f.network) != fresh, "the hash does not see new weights");
    demo_optimizer_finish(&optimizer);
    end(&f);
    return loss;
}

static void every_optimizer_learns_a_batch(void)
{
    static const char *const optimizers[] = {"sgd", "adam", "lamb", "lans",
                                             "onebit-adam:warmup=50"};
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++) {
        double text = train(&demo_task_text, optimizers[i], 300);
        double image = train(&demo_task_image, optimizers[i], 300);
        CHECK(text < 1.5, "%s: a text's loss is %g after 300 steps", optimizers[i], text);
        CHECK(image < 0.3, "%s: an image's loss is %g after 300 steps", optimizers[i], image);
    }
}

/* ---- optimizers by hand, on a bias of two elements that matter ---- */

#define BIAS 0 /* OUTPUT_BIAS of both */

struct by_hand {
    struct fixture f;
    struct demo_optimizer optimizer;
    float *w, *g;
    uint64_t n;
};

static bool begin_by_hand(struct by_hand *h, const char *optimizer)
{
    struct demo_optimizer_choice choice;

    if (!begin(&h->f, &demo_task_image) || !demo_optimizer_parse(optimizer, &choice) ||
        demo_optimizer_init(&h->optimizer, &choice, &h->f.network) != 0)
        return false;
    h->w = h->f.network.weights[BIAS];
    h->g = h->f.network.gradients[BIAS];
    h->n = demo_network_elems(&h->f.network, BIAS);
    memset(h->w, 0, h->n * sizeof(float));
    memset(h->g, 0, h->n * sizeof(float));
    return true;
}

static void end_by_hand(struct by_hand *h)
{
    demo_optimizer_finish(&h->optimizer);
    end(&h->f);
}

/** By hand: m = 0.9 m + g, then g + 0.9 m. */
static void momentum_is_nesterovs(void)
{
    struct by_hand h;

    REQUIRE(begin_by_hand(&h, "sgd"), "no memory");
    h.g[0] = 8;
    demo_optimizer_prepare(&h.optimizer, &h.f.network, BIAS, 0);
    CHECK(fabs((double)h.g[0] - 15.2) < 1e-5, "first %g", (double)h.g[0]);
    h.g[0] = 2; /* m = 9.2 */
    demo_optimizer_prepare(&h.optimizer, &h.f.network, BIAS, 1);
    CHECK(fabs((double)h.g[0] - 10.28) < 1e-5, "second %g", (double)h.g[0]);
    end_by_hand(&h);
}

/** A first step of Adam is as long as the rate, whatever the gradient. */
static void adam_begins_with_the_rate(void)
{
    struct by_hand h;

    REQUIRE(begin_by_hand(&h, "adam"), "no memory");
    h.g[0] = 8;
    h.g[1] = -3;
    demo_optimizer_prepare(&h.optimizer, &h.f.network, BIAS, 0);
    demo_optimizer_update(&h.optimizer, &h.f.network, BIAS, 0, 0.25f);
    CHECK(fabs((double)h.w[0] + 0.25) < 1e-4 && fabs((double)h.w[1] - 0.25) < 1e-4, "%g, %g",
          (double)h.w[0], (double)h.w[1]);
    end_by_hand(&h);
}

/** A step of both is as long as the rate times the weights' length. */
static void layers_move_by_their_length(void)
{
    static const char *const names[] = {"lamb", "lans"};

    for (int i = 0; i < 2; i++) {
        struct by_hand h;
        double moved = 0;
        REQUIRE(begin_by_hand(&h, names[i]), "no memory");
        h.w[0] = 3;
        h.w[1] = 4;
        h.g[2] = 1000;
        demo_optimizer_prepare(&h.optimizer, &h.f.network, BIAS, 0);
        demo_optimizer_update(&h.optimizer, &h.f.network, BIAS, 0, 0.1f);
        for (uint64_t k = 0; k < h.n; k++) {
            double before = k == 0 ? 3 : k == 1 ? 4 : 0;
            moved += ((double)h.w[k] - before) * ((double)h.w[k] - before);
        }
        CHECK(fabs(sqrt(moved) - 0.5) < 0.01, "%s moved %g", names[i], sqrt(moved));
        end_by_hand(&h);
    }
}

/** After its warm-up a worker sends momentum, and the variance stays. */
static void onebit_adam_sends_momentum(void)
{
    struct by_hand h;

    REQUIRE(begin_by_hand(&h, "onebit-adam:warmup=1"), "no memory");
    CHECK(!demo_optimizer_compresses(&h.optimizer, 0) && demo_optimizer_compresses(&h.optimizer, 1),
          "the warm-up is not one step");
    h.g[0] = 10;
    demo_optimizer_prepare(&h.optimizer, &h.f.network, BIAS, 0);
    CHECK(h.g[0] == 10, "the warm-up changes the gradient to %g", (double)h.g[0]);
    demo_optimizer_update(&h.optimizer, &h.f.network, BIAS, 0, 0.1f); /* m = 1 */
    float variance = h.optimizer.second[BIAS][0];
    h.g[0] = 20;
    demo_optimizer_prepare(&h.optimizer, &h.f.network, BIAS, 1);
    CHECK(fabs((double)h.g[0] - 2.9) < 1e-5, "it sends %g", (double)h.g[0]);
    demo_optimizer_update(&h.optimizer, &h.f.network, BIAS, 1, 0.1f);
    CHECK(h.optimizer.second[BIAS][0] == variance, "the variance moves");
    CHECK(fabs((double)h.optimizer.first[BIAS][0] - 2.9) < 1e-5, "the momentum is %g",
          (double)h.optimizer.first[BIAS][0]);
    end_by_hand(&h);
}

static void optimizers_are_parsed(void)
{
    static const char *const wrong[] = {"",
                                        "sg",
                                        "adamw",
                                        "onebit-adam",
                                        "sgd:warmup=3",
                                        "onebit-adam:warmup=0",
                                        "onebit-adam:warmup=x",
                                        "onebit-adam:steps=3"};
    struct demo_optimizer_choice choice;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        CHECK(!demo_optimizer_parse(wrong[i], &choice), "\"%s\" is taken", wrong[i]);
    CHECK(demo_optimizer_parse("onebit-adam:warmup=70", &choice) &&
              choice.kind == DEMO_ONEBIT_ADAM && choice.warmup == 70,
          "onebit-adam's warm-up");
}

static const struct wring_test_case cases[] = {
    {"gradients of text are slopes", gradients_of_text_are_slopes},
    {"gradients of image are slopes", gradients_of_image_are_slopes},
    {"buckets hold all tensors once", buckets_hold_all_tensors_once},
    {"every optimizer learns a batch", every_optimizer_learns_a_batch},
    {"momentum is Nesterov's", momentum_is_nesterovs},
    {"adam begins with the rate", adam_begins_with_the_rate},
    {"layers move by their length", layers_move_by_their_length},
    {"onebit-adam sends momentum", onebit_adam_sends_momentum},
    {"optimizers are parsed", optimizers_are_parsed},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
