/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/values.h"

#define MOMENTUM 0.9f
#define BETA1 0.9f
#define BETA2 0.999f
#define EPSILON 1e-6f
#define DECAY 0.01f  /* of weights, in lamb and lans */
#define NORM_MIN 0.1 /* weights' norms count as no less and no more, in lamb and lans */
#define NORM_MAX 10.0
#define LENGTH_MIN 1e-30 /* of a gradient: a shorter one is none */

static const struct {
    const char *name;
    enum demo_optimizer_kind kind;
    double rate;
} optimizers[] = {
    {"sgd", DEMO_SGD, 0.1}, /* at twice the rate, training with this momentum is barely stable */
    {"adam", DEMO_ADAM, 0.002}, {"lamb", DEMO_LAMB, 0.01},
    {"lans", DEMO_LANS, 0.01},  {"onebit-adam", DEMO_ONEBIT_ADAM, 0.002},
};

#define OPTIMIZERS (sizeof(optimizers) / sizeof(optimizers[0]))
#define WARMUP ":warmup="

bool demo_optimizer_parse(const char *text, struct demo_optimizer_choice *out)
{
    size_t name = strcspn(text, ":");

    *out = (struct demo_optimizer_choice){0};
    for (size_t i = 0; i < OPTIMIZERS; i++) {
        if (strlen(optimizers[i].name) != name || strncmp(text, optimizers[i].name, name) != 0)
            continue;
        out->kind = optimizers[i].kind;
        if (out->kind != DEMO_ONEBIT_ADAM)
            return text[name] == '\0';
        return strncmp(text + name, WARMUP, strlen(WARMUP)) == 0 &&
               wring_value_count(text + name + strlen(WARMUP), 1, 1000000, &out->warmup);
    }
    return false;
}

double demo_optimizer_rate(enum demo_optimizer_kind kind)
{
    for (size_t i = 0; i < OPTIMIZERS; i++)
        if (optimizers[i].kind == kind)
            return optimizers[i].rate;
    return 0;
}

int demo_optimizer_init(struct demo_optimizer *optimizer,
                        const struct demo_optimizer_choice *choice,
                        const struct demo_network *network)
{
    bool failed = false;

    *optimizer = (struct demo_optimizer){.choice = *choice, .momentum = true};
    for (uint32_t t = 0; t < DEMO_TENSORS_MAX; t++) {
        uint64_t elems = demo_network_elems(network, t);
        if (elems == 0)
            continue;
        optimizer->first[t] = demo_zeros(elems);
        failed |= optimizer->first[t] == NULL;
        if (choice->kind == DEMO_SGD)
            continue;
        optimizer->second[t] = demo_zeros(elems);
        failed |= optimizer->second[t] == NULL;
    }
    if (!failed)
        return 0;
    demo_optimizer_finish(optimizer);
    return -1;
}

void demo_optimizer_finish(struct demo_optimizer *optimizer)
{
    for (int t = 0; t < DEMO_TENSORS_MAX; t++) {
        free(optimizer->first[t]);
        free(optimizer->second[t]);
    }
    *optimizer = (struct demo_optimizer){0};
}

bool demo_optimizer_compresses(const struct demo_optimizer *optimizer, uint32_t step)
{
    return optimizer->choice.kind != DEMO_ONEBIT_ADAM || step >= optimizer->choice.warmup;
}

/** Momentum before a codec: after a biased one it would amplify what the codec left out. */
static void nesterov(float *restrict g, float *restrict m, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        m[i] = MOMENTUM * m[i] + g[i];
        g[i] = g[i] + MOMENTUM * m[i];
    }
}

void demo_optimizer_prepare(struct demo_optimizer *optimizer, struct demo_network *network,
                            uint32_t tensor, uint32_t step)
{
    uint64_t n = demo_network_elems(network, tensor);
    float *restrict g = network->gradients[tensor];
    float *restrict m = optimizer->first[tensor];

    if (optimizer->choice.kind == DEMO_SGD && optimizer->momentum)
        nesterov(g, m, n);
    else if (optimizer->choice.kind == DEMO_ONEBIT_ADAM && step >= optimizer->choice.warmup)
        for (uint64_t i = 0; i < n; i++)
            g[i] = BETA1 * m[i] + (1 - BETA1) * g[i];
}

static double norm_of(const float *values, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}

static double clamped_norm(const float *weights, uint64_t n)
{
    return fmin(fmax(norm_of(weights, n), NORM_MIN), NORM_MAX);
}

/** What moments of zero make too small, after `step` steps before this one. */
static float correction(float beta, uint32_t step)
{
    return (float)(1 / (1 - pow((double)beta, step + 1.0)));
}

static void follow_moments(float *restrict m, float *restrict v, const float *restrict g,
                           uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        m[i] = BETA1 * m[i] + (1 - BETA1) * g[i];
        v[i] = BETA2 * v[i] + (1 - BETA2) * g[i] * g[i];
    }
}

static void adam(float *restrict w, const float *restrict m, const float *restrict v, uint64_t n,
                 float rate, float m_scale, float v_scale)
{
    for (uint64_t i = 0; i < n; i++)
        w[i] -= rate * (m[i] * m_scale) / (sqrtf(v[i] * v_scale) + EPSILON);
}

/** Layer by layer: each tensor moves in proportion to its own norm. The gradient is used up. */
static void lamb(struct demo_network *network, const float *restrict m, const float *restrict v,
                 uint32_t tensor, uint64_t n, uint32_t step, float rate)
{
    float *restrict w = network->weights[tensor];
    float *restrict d = network->gradients[tensor];
    float m_scale = correction(BETA1, step), v_scale = correction(BETA2, step);

    for (uint64_t i = 0; i < n; i++)
        d[i] = m[i] * m_scale / (sqrtf(v[i] * v_scale) + EPSILON) + DECAY * w[i];
    double length = norm_of(d, n), norm = clamped_norm(w, n);
    float scale = length > 0 ? (float)((double)rate * norm / length) : 0;
    for (uint64_t i = 0; i < n; i++)
        w[i] -= scale * d[i];
}

/** As lamb, with a step along the momentum and one along the gradient, which is of length 1. */
static void lans(struct demo_network *network, float *restrict m, float *restrict v,
                 uint32_t tensor, uint64_t n, uint32_t step, float rate)
{
    float *w = network->weights[tensor], *g = network->gradients[tensor];
    double length = norm_of(g, n), norm = clamped_norm(w, n);
    float unit = length > LENGTH_MIN ? (float)(1 / length) : 0;
    float m_scale = correction(BETA1, step), v_scale = correction(BETA2, step);
    double along = 0, across = 0;

    for (uint64_t i = 0; i < n; i++)
        g[i] *= unit;
    follow_moments(m, v, g, n);
    for (uint64_t i = 0; i < n; i++) {
        float root = sqrtf(v[i] * v_scale) + EPSILON;
        double r = (double)(m[i] * m_scale / root + DECAY * w[i]);
        double c = (double)(g[i] / root + DECAY * w[i]);
        along += r * r;
        across += c * c;
    }
    float r_step = along > 0 ? (float)((double)rate * norm * (double)BETA1 / sqrt(along)) : 0;
    float c_step =
        across > 0 ? (float)((double)rate * norm * (double)(1 - BETA1) / sqrt(across)) : 0;
    for (uint64_t i = 0; i < n; i++) {
        float root = sqrtf(v[i] * v_scale) + EPSILON;
        float r = m[i] * m_scale / root + DECAY * w[i];
        float c = g[i] / root + DECAY * w[i];
        w[i] -= r_step * r + c_step * c;
    }
}

void demo_optimizer_update(struct demo_optimizer *optimizer, struct demo_network *network,
                           uint32_t tensor, uint32_t step, float rate)
{
    uint64_t n = demo_network_elems(network, tensor);
    float *restrict w = network->weights[tensor];
    float *restrict g = network->gradients[tensor];
    float *m = optimizer->first[tensor], *v = optimizer->second[tensor];
    uint32_t warmup = optimizer->choice.warmup;

    switch (optimizer->choice.kind) {
    case DEMO_SGD:
        for (uint64_t i = 0; i < n; i++)
            w[i] -= rate * g[i];
        return;
    case DEMO_ADAM:
        follow_moments(m, v, g, n);
        adam(w, m, v, n, rate, correction(BETA1, step), correction(BETA2, step));
        return;
    case DEMO_LAMB:
        follow_moments(m, v, g, n);
        lamb(network, m, v, tensor, n, step, rate);
        return;
    case DEMO_LANS:
        lans(network, m, v, tensor, n, step, rate);
        return;
    case DEMO_ONEBIT_ADAM:
        if (step < warmup)
            follow_moments(m, v, g, n);
        else
            memcpy(m, g, n * sizeof(*m)); /* the variance stays what it was */
        adam(w, m, v, n, rate, correction(BETA1, step),
             correction(BETA2, step < warmup ? step : warmup - 1));
        return;
    }
}
