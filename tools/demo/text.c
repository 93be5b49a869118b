/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The task "text", a byte-level language model: the last 16 bytes are embedded in 16 dimensions
 * each, two hidden layers of tanh units, one output for each next byte.
 */
#include "tools/demo/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/demo/corpus.h"
#include "tools/demo/random.h"

enum {
    OUTPUT_BIAS,
    OUTPUT,
    HIDDEN2_BIAS,
    HIDDEN2,
    HIDDEN1_BIAS,
    HIDDEN1,
    EMBEDDING,
    TENSORS
};

static const struct demo_bucket buckets[] = {
    {"output.weight", true, 1, {OUTPUT}},
    {"hidden2.weight", true, 1, {HIDDEN2}},
    {"biases", false, 3, {OUTPUT_BIAS, HIDDEN2_BIAS, HIDDEN1_BIAS}},
    {"hidden1.weight, embedding", true, 2, {HIDDEN1, EMBEDDING}},
};

/* ---- data ---- */

#define SPLIT_SEED 1 /* the same files are held out whatever the seed, so that seeds compare */

static int text_load(const struct demo_options *options, void **data)
{
    struct demo_corpus *corpus = malloc(sizeof(*corpus));

    if (corpus == NULL) {
        fprintf(stderr, "wring demo: out of memory for the text\n");
        return -1;
    }
    if (demo_corpus_load(options->texts, options->n_texts, SPLIT_SEED, options->ranks, corpus) !=
        0) {
        free(corpus);
        return -1;
    }
    *data = corpus;
    return 0;
}

static void text_drop(void *data)
{
    demo_corpus_free(data);
    free(data);
}

static void text_describe(const void *data, char *text, size_t bytes)
{
    const struct demo_corpus *corpus = data;
    double all = (double)(corpus->train_bytes + corpus->held_out_bytes);

    snprintf(text, bytes,
             "%llu text files, %.2f MB (%llu duplicates dropped first, %.0f kB held out)",
             (unsigned long long)corpus->files, all / 1e6, (unsigned long long)corpus->dropped,
             (double)corpus->held_out_bytes / 1e3);
}

static uint64_t text_hash(const void *data)
{
    return demo_corpus_hash(data);
}

/** A sample: DEMO_CONTEXT bytes from `at` on, and the byte after them. */
static void take_sample(struct demo_text_layers *layers, uint32_t i, const uint8_t *text,
                        uint64_t at)
{
    memcpy(layers->context + (size_t)i * DEMO_CONTEXT, text + at, DEMO_CONTEXT);
    layers->next[i] = text[at + DEMO_CONTEXT];
}

static void text_draw(struct demo_network *network, const void *data, const struct demo_draw *draw)
{
    const struct demo_corpus *corpus = data;
    uint64_t part = corpus->train_bytes / draw->ranks;
    uint64_t key = demo_random(draw->seed, 0x62617463680000 + draw->rank);

    for (uint32_t i = 0; i < network->batch; i++) {
        uint64_t number = demo_random(key, draw->number * network->batch + i);
        take_sample(network->layers, i, corpus->train + draw->rank * part,
                    number % (part - DEMO_CONTEXT - 1));
    }
}

static void text_draw_held_out(struct demo_network *network, const void *data,
                               const struct demo_draw *draw)
{
    const struct demo_corpus *corpus = data;
    uint64_t key = demo_random(SPLIT_SEED, 0x68656C64);

    for (uint32_t i = 0; i < network->batch; i++) {
        uint64_t n = (draw->number * draw->ranks + draw->rank) * network->batch + i;
        take_sample(network->layers, i, corpus->held_out,
                    demo_random(key, n) % (corpus->held_out_bytes - DEMO_CONTEXT - 1));
    }
}

static uint32_t text_held_out(const void *data)
{
    (void)data; /* however long, so many places of it */
    return 4096;
}

/* ---- network ---- */

static void text_shape(struct demo_network *network)
{
    uint64_t h = network->hidden;
    const struct demo_tensor tensors[TENSORS] = {
        [OUTPUT_BIAS] = {"output.bias", 1, DEMO_BYTES},
        [OUTPUT] = {"output.weight", h, DEMO_BYTES},
        [HIDDEN2_BIAS] = {"hidden2.bias", 1, h},
        [HIDDEN2] = {"hidden2.weight", h, h},
        [HIDDEN1_BIAS] = {"hidden1.bias", 1, h},
        [HIDDEN1] = {"hidden1.weight", DEMO_INPUT, h},
        [EMBEDDING] = {"embedding.weight", DEMO_BYTES, DEMO_EMBED},
    };
    memcpy(network->tensors, tensors, sizeof(tensors));
}

static int make_layers(struct demo_text_layers *layers, uint64_t batch, uint64_t hidden)
{
    layers->context = calloc(batch, DEMO_CONTEXT);
    layers->next = calloc(batch, 1);
    layers->input = demo_zeros(batch * DEMO_INPUT);
    layers->hidden1 = demo_zeros(batch * hidden);
    layers->hidden2 = demo_zeros(batch * hidden);
    layers->output = demo_zeros(batch * DEMO_BYTES);
    layers->d_input = demo_zeros(batch * DEMO_INPUT);
    layers->d_hidden1 = demo_zeros(batch * hidden);
    layers->d_hidden2 = demo_zeros(batch * hidden);
    return layers->context && layers->next && layers->input && layers->hidden1 && layers->hidden2 &&
                   layers->output && layers->d_input && layers->d_hidden1 && layers->d_hidden2
               ? 0
               : -1;
}

static int text_begin(struct demo_network *network, uint64_t key)
{
    uint32_t h = network->hidden;
    float *const *w = network->weights;

    network->layers = calloc(1, sizeof(struct demo_text_layers));
    if (network->layers == NULL || make_layers(network->layers, network->batch, h) != 0)
        return -1;
    demo_fill_uniform(w[EMBEDDING], demo_network_elems(network, EMBEDDING), 0.5, key + 1);
    demo_fill_uniform(w[HIDDEN1], demo_network_elems(network, HIDDEN1), sqrt(3.0 / DEMO_INPUT),
                      key + 2);
    demo_fill_uniform(w[HIDDEN2], demo_network_elems(network, HIDDEN2), sqrt(3.0 / h), key + 3);
    demo_fill_uniform(w[OUTPUT], demo_network_elems(network, OUTPUT), sqrt(1.0 / h) * 0.5, key + 4);
    return 0;
}

static void text_end(struct demo_network *network)
{
    struct demo_text_layers *layers = network->layers;

    if (layers == NULL)
        return;
    free(layers->context);
    free(layers->next);
    free(layers->input);
    free(layers->hidden1);
    free(layers->hidden2);
    free(layers->output);
    free(layers->d_input);
    free(layers->d_hidden1);
    free(layers->d_hidden2);
    free(layers);
}

static void squash(float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = tanhf(y[i]);
}

/** Times the slope of tanh, where x came out of it. */
static void unsquash(float *dx, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dx[i] *= 1 - x[i] * x[i];
}

static double text_forward(struct demo_network *network)
{
    struct demo_text_layers *l = network->layers;
    float *const *w = network->weights;
    uint32_t n = network->batch, h = network->hidden;
    double loss = 0;

    for (uint32_t i = 0; i < n * DEMO_CONTEXT; i++)
        memcpy(l->input + (size_t)i * DEMO_EMBED, w[EMBEDDING] + (size_t)l->context[i] * DEMO_EMBED,
               DEMO_EMBED * sizeof(float));
    demo_layer_forward(network->blas, l->hidden1, l->input, w[HIDDEN1], w[HIDDEN1_BIAS], n,
                       DEMO_INPUT, h);
    squash(l->hidden1, (size_t)n * h);
    demo_layer_forward(network->blas, l->hidden2, l->hidden1, w[HIDDEN2], w[HIDDEN2_BIAS], n, h, h);
    squash(l->hidden2, (size_t)n * h);
    demo_layer_forward(network->blas, l->output, l->hidden2, w[OUTPUT], w[OUTPUT_BIAS], n, h,
                       DEMO_BYTES);
    for (uint32_t i = 0; i < n; i++)
        loss += demo_softmax(l->output + (size_t)i * DEMO_BYTES, DEMO_BYTES, l->next[i]);
    return loss / n;
}

static void embedding_gradients(struct demo_network *network)
{
    const struct demo_text_layers *l = network->layers;
    float *g = network->gradients[EMBEDDING];

    memset(g, 0, demo_network_elems(network, EMBEDDING) * sizeof(float));
    for (uint32_t i = 0; i < network->batch * DEMO_CONTEXT; i++)
        network->blas->saxpy(DEMO_EMBED, 1, l->d_input + (size_t)i * DEMO_EMBED, 1,
                             g + (size_t)l->context[i] * DEMO_EMBED, 1);
}

static void text_backward(struct demo_network *network, demo_ready_fn ready, void *arg)
{
    struct demo_text_layers *l = network->layers;
    float *const *w = network->weights, *const *g = network->gradients;
    const struct demo_blas *blas = network->blas;
    uint32_t n = network->batch, h = network->hidden;

    float *dy = l->output; /* probabilities become gradients in place */
    for (uint32_t i = 0; i < n; i++)
        dy[(size_t)i * DEMO_BYTES + l->next[i]] -= 1;
    blas->sscal((int)(n * DEMO_BYTES), 1 / (float)n, dy, 1);

    demo_layer_gradients(blas, g[OUTPUT], g[OUTPUT_BIAS], l->hidden2, dy, n, h, DEMO_BYTES);
    ready(arg, OUTPUT_BIAS);
    ready(arg, OUTPUT);
    demo_layer_back(blas, l->d_hidden2, dy, w[OUTPUT], n, h, DEMO_BYTES);
    unsquash(l->d_hidden2, l->hidden2, (size_t)n * h);
    demo_layer_gradients(blas, g[HIDDEN2], g[HIDDEN2_BIAS], l->hidden1, l->d_hidden2, n, h, h);
    ready(arg, HIDDEN2_BIAS);
    ready(arg, HIDDEN2);
    demo_layer_back(blas, l->d_hidden1, l->d_hidden2, w[HIDDEN2], n, h, h);
    unsquash(l->d_hidden1, l->hidden1, (size_t)n * h);
    demo_layer_gradients(blas, g[HIDDEN1], g[HIDDEN1_BIAS], l->input, l->d_hidden1, n, DEMO_INPUT,
                         h);
    ready(arg, HIDDEN1_BIAS);
    ready(arg, HIDDEN1);
    demo_layer_back(blas, l->d_input, l->d_hidden1, w[HIDDEN1], n, DEMO_INPUT, h);
    embedding_gradients(network);
    ready(arg, EMBEDDING);
}

const struct demo_task demo_task_text = {
    .name = "text",
    .what = "a byte-level language model",
    .loss_unit = "nats per byte",
    .hidden = 512,
    .n_tensors = TENSORS,
    .n_buckets = sizeof(buckets) / sizeof(buckets[0]),
    .buckets = buckets,
    .load = text_load,
    .drop = text_drop,
    .describe = text_describe,
    .hash = text_hash,
    .shape = text_shape,
    .begin = text_begin,
    .end = text_end,
    .draw = text_draw,
    .draw_held_out = text_draw_held_out,
    .held_out = text_held_out,
    .curve = text_held_out,
    .forward = text_forward,
    .backward = text_backward,
};
