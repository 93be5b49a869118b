/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/model.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/demo/random.h"

#define LIBRARY "libopenblas.so.0"

static bool find_symbol(const struct demo_blas *blas, const char *name, void *member, char *reason,
                        size_t bytes)
{
    void *symbol = dlsym(blas->handle, name);

    if (symbol == NULL) {
        snprintf(reason, bytes, LIBRARY " has no %s", name);
        return false;
    }
    memcpy(member, &symbol, sizeof(symbol));
    return true;
}

bool demo_blas_load(struct demo_blas *blas, char *reason, size_t bytes)
{
    *blas = (struct demo_blas){0};
    setenv("OPENBLAS_NUM_THREADS", "1", 1); /* read while it is loaded */
    blas->handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (blas->handle == NULL) {
        snprintf(reason, bytes, LIBRARY " not found (Debian: libopenblas0)");
        return false;
    }
    if (find_symbol(blas, "cblas_sgemm", &blas->sgemm, reason, bytes) &&
        find_symbol(blas, "cblas_saxpy", &blas->saxpy, reason, bytes) &&
        find_symbol(blas, "cblas_sscal", &blas->sscal, reason, bytes))
        return true;
    demo_blas_unload(blas);
    return false;
}

void demo_blas_unload(struct demo_blas *blas)
{
    if (blas->handle != NULL)
        dlclose(blas->handle);
    blas->handle = NULL;
}

/* ---- model ---- */

const char *const demo_tensor_names[DEMO_TENSORS] = {
    "output.bias",  "output.weight",  "hidden2.bias",     "hidden2.weight",
    "hidden1.bias", "hidden1.weight", "embedding.weight",
};

static float *allocate_zeros(uint64_t n)
{
    float *data = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
    if (data != NULL)
        memset(data, 0, n * sizeof(float));
    return data;
}

/** Uniform in ±limit. */
static void fill_uniform(float *data, uint64_t n, double limit, uint64_t key)
{
    for (uint64_t i = 0; i < n; i++)
        data[i] = (float)((2 * demo_uniform(key, i) - 1) * limit);
}

static void set_sizes(struct demo_model *model)
{
    uint64_t h = model->hidden;
    const uint64_t elems[DEMO_TENSORS] = {
        DEMO_BYTES,
        h * DEMO_BYTES,
        h,
        h * h,
        h,
        (uint64_t)DEMO_INPUT * h,
        (uint64_t)DEMO_BYTES * DEMO_EMBED,
    };
    memcpy(model->elems, elems, sizeof(elems));
}

int demo_model_init(struct demo_model *model, const struct demo_blas *blas, uint32_t batch,
                    uint32_t hidden, uint64_t seed)
{
    *model = (struct demo_model){.blas = blas, .batch = batch, .hidden = hidden};
    set_sizes(model);
    bool failed = false;
    for (int t = 0; t < DEMO_TENSORS; t++) {
        model->weights[t] = allocate_zeros(model->elems[t]);
        model->momentum[t] = allocate_zeros(model->elems[t]);
        failed |= model->weights[t] == NULL || model->momentum[t] == NULL;
    }
    uint64_t b = batch;
    model->context = calloc(b, DEMO_CONTEXT);
    model->next = calloc(b, 1);
    model->input = allocate_zeros(b * DEMO_INPUT);
    model->hidden1 = allocate_zeros(b * hidden);
    model->hidden2 = allocate_zeros(b * hidden);
    model->output = allocate_zeros(b * DEMO_BYTES);
    model->d_input = allocate_zeros(b * DEMO_INPUT);
    model->d_hidden1 = allocate_zeros(b * hidden);
    model->d_hidden2 = allocate_zeros(b * hidden);
    failed |= !model->context || !model->next || !model->input || !model->hidden1 ||
              !model->hidden2 || !model->output || !model->d_input || !model->d_hidden1 ||
              !model->d_hidden2;
    if (failed) {
        demo_model_finish(model);
        return -1;
    }
    uint64_t key = demo_random(seed, 0x6D6F64656C);
    fill_uniform(model->weights[DEMO_EMBEDDING], model->elems[DEMO_EMBEDDING], 0.5, key + 1);
    fill_uniform(model->weights[DEMO_HIDDEN1], model->elems[DEMO_HIDDEN1], sqrt(3.0 / DEMO_INPUT),
                 key + 2);
    fill_uniform(model->weights[DEMO_HIDDEN2], model->elems[DEMO_HIDDEN2], sqrt(3.0 / hidden),
                 key + 3);
    fill_uniform(model->weights[DEMO_OUTPUT], model->elems[DEMO_OUTPUT], sqrt(1.0 / hidden) * 0.5,
                 key + 4);
    return 0;
}

void demo_model_finish(struct demo_model *model)
{
    for (int t = 0; t < DEMO_TENSORS; t++) {
        free(model->weights[t]);
        free(model->momentum[t]);
    }
    free(model->context);
    free(model->next);
    free(model->input);
    free(model->hidden1);
    free(model->hidden2);
    free(model->output);
    free(model->d_input);
    free(model->d_hidden1);
    free(model->d_hidden2);
    *model = (struct demo_model){0};
}

/** y[n][out] = x[n][in] w[in][out] + bias, squashed by tanh or not. */
static void layer_forward(const struct demo_blas *blas, float *y, const float *x, const float *w,
                          const float *bias, uint32_t n, uint32_t in, uint32_t out, bool squash)
{
    for (uint32_t i = 0; i < n; i++)
        memcpy(y + (size_t)i * out, bias, out * sizeof(float));
    blas->sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n, (int)out, (int)in, 1, x, (int)in,
                w, (int)out, 1, y, (int)out);
    for (size_t i = 0; squash && i < (size_t)n * out; i++)
        y[i] = tanhf(y[i]);
}

/** Turn scores into probabilities. @return −log of that of the next byte */
static double softmax(float *scores, uint8_t next)
{
    float most = scores[0];
    double sum = 0;
    for (int i = 1; i < DEMO_BYTES; i++)
        most = scores[i] > most ? scores[i] : most;
    for (int i = 0; i < DEMO_BYTES; i++)
        sum += scores[i] = expf(scores[i] - most);
    float scale = (float)(1 / sum);
    for (int i = 0; i < DEMO_BYTES; i++)
        scores[i] *= scale;
    return -log((double)scores[next] + 1e-30);
}

double demo_model_forward(struct demo_model *model, uint32_t n)
{
    float *const *w = model->weights;
    uint32_t h = model->hidden;
    double loss = 0;

    for (uint32_t i = 0; i < n * DEMO_CONTEXT; i++)
        memcpy(model->input + (size_t)i * DEMO_EMBED,
               w[DEMO_EMBEDDING] + (size_t)model->context[i] * DEMO_EMBED,
               DEMO_EMBED * sizeof(float));
    layer_forward(model->blas, model->hidden1, model->input, w[DEMO_HIDDEN1], w[DEMO_HIDDEN1_BIAS],
                  n, DEMO_INPUT, h, true);
    layer_forward(model->blas, model->hidden2, model->hidden1, w[DEMO_HIDDEN2],
                  w[DEMO_HIDDEN2_BIAS], n, h, h, true);
    layer_forward(model->blas, model->output, model->hidden2, w[DEMO_OUTPUT], w[DEMO_OUTPUT_BIAS],
                  n, h, DEMO_BYTES, false);
    for (uint32_t i = 0; i < n; i++)
        loss += softmax(model->output + (size_t)i * DEMO_BYTES, model->next[i]);
    return loss / n;
}

/** dw = x' dy, dbias = column sums of dy. */
static void layer_gradients(const struct demo_blas *blas, float *dw, float *dbias, const float *x,
                            const float *dy, uint32_t n, uint32_t in, uint32_t out)
{
    memset(dbias, 0, out * sizeof(float));
    for (uint32_t i = 0; i < n; i++)
        blas->saxpy((int)out, 1, dy + (size_t)i * out, 1, dbias, 1);
    blas->sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)in, (int)out, (int)n, 1, x, (int)in,
                dy, (int)out, 0, dw, (int)out);
}

/** dx = dy w', times the slope of tanh where x came out of it. */
static void layer_back(const struct demo_blas *blas, float *dx, const float *x, const float *dy,
                       const float *w, uint32_t n, uint32_t in, uint32_t out, bool squashed)
{
    blas->sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, (int)in, (int)out, 1, dy, (int)out,
                w, (int)out, 0, dx, (int)in);
    for (size_t i = 0; squashed && i < (size_t)n * in; i++)
        dx[i] *= 1 - x[i] * x[i];
}

void demo_model_backward(struct demo_model *model, demo_ready_fn ready, void *arg)
{
    float *const *w = model->weights, *const *g = model->gradients;
    const struct demo_blas *blas = model->blas;
    uint32_t n = model->batch, h = model->hidden;

    float *dy = model->output; /* probabilities become gradients in place */
    for (uint32_t i = 0; i < n; i++)
        dy[(size_t)i * DEMO_BYTES + model->next[i]] -= 1;
    blas->sscal((int)(n * DEMO_BYTES), 1 / (float)n, dy, 1);

    layer_gradients(blas, g[DEMO_OUTPUT], g[DEMO_OUTPUT_BIAS], model->hidden2, dy, n, h,
                    DEMO_BYTES);
    ready(arg, DEMO_OUTPUT_BIAS);
    ready(arg, DEMO_OUTPUT);
    layer_back(blas, model->d_hidden2, model->hidden2, dy, w[DEMO_OUTPUT], n, h, DEMO_BYTES, true);
    layer_gradients(blas, g[DEMO_HIDDEN2], g[DEMO_HIDDEN2_BIAS], model->hidden1, model->d_hidden2,
                    n, h, h);
    ready(arg, DEMO_HIDDEN2_BIAS);
    ready(arg, DEMO_HIDDEN2);
    layer_back(blas, model->d_hidden1, model->hidden1, model->d_hidden2, w[DEMO_HIDDEN2], n, h, h,
               true);
    layer_gradients(blas, g[DEMO_HIDDEN1], g[DEMO_HIDDEN1_BIAS], model->input, model->d_hidden1, n,
                    DEMO_INPUT, h);
    ready(arg, DEMO_HIDDEN1_BIAS);
    ready(arg, DEMO_HIDDEN1);
    layer_back(blas, model->d_input, model->input, model->d_hidden1, w[DEMO_HIDDEN1], n, DEMO_INPUT,
               h, false);
    memset(g[DEMO_EMBEDDING], 0, model->elems[DEMO_EMBEDDING] * sizeof(float));
    for (uint32_t i = 0; i < n * DEMO_CONTEXT; i++)
        blas->saxpy(DEMO_EMBED, 1, model->d_input + (size_t)i * DEMO_EMBED, 1,
                    g[DEMO_EMBEDDING] + (size_t)model->context[i] * DEMO_EMBED, 1);
    ready(arg, DEMO_EMBEDDING);
}

void demo_model_momentum(struct demo_model *model, enum demo_tensor tensor, float mu)
{
    float *restrict g = model->gradients[tensor], *restrict m = model->momentum[tensor];
    for (uint64_t i = 0; i < model->elems[tensor]; i++) {
        m[i] = mu * m[i] + g[i];
        g[i] = g[i] + mu * m[i];
    }
}

void demo_model_update(struct demo_model *model, enum demo_tensor tensor, float rate)
{
    float *restrict w = model->weights[tensor];
    const float *restrict g = model->gradients[tensor];
    for (uint64_t i = 0; i < model->elems[tensor]; i++)
        w[i] -= rate * g[i];
}

uint64_t demo_model_hash(const struct demo_model *model)
{
    uint64_t hash = 14695981039346656037ull;
    for (int t = 0; t < DEMO_TENSORS; t++)
        for (uint64_t i = 0; i < model->elems[t]; i++) {
            uint32_t bits;
            memcpy(&bits, &model->weights[t][i], sizeof(bits));
            hash = (hash ^ bits) * 1099511628211ull;
        }
    return hash;
}
