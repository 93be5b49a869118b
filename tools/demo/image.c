/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The task "image", a convolutional network that reads handwritten digits: three convolutions of
 * 3 × 3 with 16, 32 and 64 channels, the second and third with a stride of 2, a hidden layer, ten
 * outputs; rectified linear units.
 */
#include "tools/demo/image.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/demo/random.h"

enum {
    OUTPUT_BIAS,
    OUTPUT,
    HIDDEN_BIAS,
    HIDDEN,
    CONVOLUTION3_BIAS,
    CONVOLUTION3,
    CONVOLUTION2_BIAS,
    CONVOLUTION2,
    CONVOLUTION1_BIAS,
    CONVOLUTION1,
    TENSORS
};

static const struct demo_bucket buckets[] = {
    {"output.weight", true, 1, {OUTPUT}},
    {"hidden.weight", true, 1, {HIDDEN}},
    {"convolution3.weight", true, 1, {CONVOLUTION3}},
    {"convolution2.weight", true, 1, {CONVOLUTION2}},
    {"biases, convolution1.weight",
     false,
     6,
     {OUTPUT_BIAS, HIDDEN_BIAS, CONVOLUTION3_BIAS, CONVOLUTION2_BIAS, CONVOLUTION1_BIAS,
      CONVOLUTION1}},
};

#define WINDOW 9 /* 3 × 3 */

struct convolution {
    uint32_t weight, bias; /* tensors */
    int side, channels;    /* of the input */
    int stride, out_side, out_channels;
};

static const struct convolution convolutions[DEMO_IMAGE_CONVOLUTIONS] = {
    {CONVOLUTION1, CONVOLUTION1_BIAS, DEMO_CANVAS_SIDE, 1, 1, 16, 16},
    {CONVOLUTION2, CONVOLUTION2_BIAS, 16, 16, 2, 8, 32},
    {CONVOLUTION3, CONVOLUTION3_BIAS, 8, 32, 2, 4, 64},
};

#define FEATURES (4 * 4 * 64) /* that the last one makes */

/* ---- data ---- */

static int image_load(const struct demo_options *options, void **data)
{
    struct demo_digits *digits = malloc(sizeof(*digits));

    if (digits == NULL) {
        fprintf(stderr, "wring demo: out of memory for the images\n");
        return -1;
    }
    if (demo_digits_load(options->images, digits) != 0) {
        free(digits);
        return -1;
    }
    *data = digits;
    return 0;
}

static void image_drop(void *data)
{
    demo_digits_free(data);
    free(data);
}

#define HELD_OUT_VIEWS 50u /* of each digit that is held out */
#define CURVE_VIEWS 10u    /* of these for each point of a curve */

static void image_describe(const void *data, char *text, size_t bytes)
{
    const struct demo_digits *digits = data;

    snprintf(
        text, bytes,
        "an endless stream of views of %u handwritten digits (%u more held out, %u views each, %u "
        "for the curve)",
        digits->n - digits->n_held_out, digits->n_held_out, HELD_OUT_VIEWS, CURVE_VIEWS);
}

static uint64_t image_hash(const void *data)
{
    return demo_digits_hash(data);
}

static void take_view(struct demo_image_layers *layers, uint32_t i, const struct demo_digit *digit,
                      uint64_t key)
{
    layers->digits[i] = digit->digit;
    demo_digit_render(digit, key, layers->canvases + (size_t)i * DEMO_CANVAS);
}

static void image_draw(struct demo_network *network, const void *data, const struct demo_draw *draw)
{
    const struct demo_digits *digits = data;
    uint64_t key = demo_random(draw->seed, 0x696D616765000000 + draw->rank);

    for (uint32_t i = 0; i < network->batch; i++) {
        uint64_t n = draw->number * network->batch + i;
        uint32_t digit = digits->n_held_out +
                         (uint32_t)(demo_random(key, 2 * n) % (digits->n - digits->n_held_out));
        take_view(network->layers, i, &digits->all[digit], demo_random(key, 2 * n + 1));
    }
}

/** The n'th of all: each digit in its turn, in a view of its own. */
static void image_draw_held_out(struct demo_network *network, const void *data,
                                const struct demo_draw *draw)
{
    const struct demo_digits *digits = data;

    for (uint32_t i = 0; i < network->batch; i++) {
        uint64_t n = (draw->number * draw->ranks + draw->rank) * network->batch + i;
        take_view(network->layers, i, &digits->all[n % digits->n_held_out],
                  demo_random(0x76696577, n));
    }
}

static uint32_t image_held_out(const void *data)
{
    return ((const struct demo_digits *)data)->n_held_out * HELD_OUT_VIEWS;
}

static uint32_t image_curve(const void *data)
{
    return ((const struct demo_digits *)data)->n_held_out * CURVE_VIEWS;
}

/* ---- network ---- */

static void image_shape(struct demo_network *network)
{
    uint64_t h = network->hidden;
    const struct demo_tensor tensors[TENSORS] = {
        [OUTPUT_BIAS] = {"output.bias", 1, DEMO_DIGIT_CLASSES},
        [OUTPUT] = {"output.weight", h, DEMO_DIGIT_CLASSES},
        [HIDDEN_BIAS] = {"hidden.bias", 1, h},
        [HIDDEN] = {"hidden.weight", FEATURES, h},
        [CONVOLUTION3_BIAS] = {"convolution3.bias", 1, 64},
        [CONVOLUTION3] = {"convolution3.weight", (uint64_t)WINDOW * 32, 64},
        [CONVOLUTION2_BIAS] = {"convolution2.bias", 1, 32},
        [CONVOLUTION2] = {"convolution2.weight", (uint64_t)WINDOW * 16, 32},
        [CONVOLUTION1_BIAS] = {"convolution1.bias", 1, 16},
        [CONVOLUTION1] = {"convolution1.weight", WINDOW, 16},
    };
    memcpy(network->tensors, tensors, sizeof(tensors));
}

static uint64_t pixels_out(const struct convolution *c)
{
    return (uint64_t)c->out_side * (uint64_t)c->out_side;
}

static bool make_layers(struct demo_image_layers *layers, uint64_t batch, uint64_t hidden)
{
    bool made = true;

    layers->canvases = demo_zeros(batch * DEMO_CANVAS);
    layers->digits = calloc(batch, 1);
    for (int k = 0; k < DEMO_IMAGE_CONVOLUTIONS; k++) {
        const struct convolution *c = &convolutions[k];
        uint64_t windows = batch * pixels_out(c);
        layers->windows[k] = demo_zeros(windows * WINDOW * (uint64_t)c->channels);
        layers->maps[k] = demo_zeros(windows * (uint64_t)c->out_channels);
        layers->d_maps[k] = demo_zeros(windows * (uint64_t)c->out_channels);
        made = made && layers->windows[k] && layers->maps[k] && layers->d_maps[k];
    }
    layers->hidden = demo_zeros(batch * hidden);
    layers->d_hidden = demo_zeros(batch * hidden);
    layers->output = demo_zeros(batch * DEMO_DIGIT_CLASSES);
    return made && layers->canvases && layers->digits && layers->hidden && layers->d_hidden &&
           layers->output;
}

/** The right spread for rectified units (He and others, arXiv:1502.01852). */
static void draw_weights(struct demo_network *network, uint32_t tensor, uint64_t key)
{
    demo_fill_uniform(network->weights[tensor], demo_network_elems(network, tensor),
                      sqrt(6.0 / (double)network->tensors[tensor].rows), key + tensor);
}

static int image_begin(struct demo_network *network, uint64_t key)
{
    network->layers = calloc(1, sizeof(struct demo_image_layers));
    if (network->layers == NULL || !make_layers(network->layers, network->batch, network->hidden))
        return -1;
    draw_weights(network, CONVOLUTION1, key);
    draw_weights(network, CONVOLUTION2, key);
    draw_weights(network, CONVOLUTION3, key);
    draw_weights(network, HIDDEN, key);
    demo_fill_uniform(network->weights[OUTPUT], demo_network_elems(network, OUTPUT),
                      sqrt(1.0 / network->hidden) * 0.5, key + OUTPUT);
    return 0;
}

static void image_end(struct demo_network *network)
{
    struct demo_image_layers *layers = network->layers;

    if (layers == NULL)
        return;
    for (int k = 0; k < DEMO_IMAGE_CONVOLUTIONS; k++) {
        free(layers->windows[k]);
        free(layers->maps[k]);
        free(layers->d_maps[k]);
    }
    free(layers->canvases);
    free(layers->digits);
    free(layers->hidden);
    free(layers->d_hidden);
    free(layers->output);
    free(layers);
}

static void rectify(float *y, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = y[i] > 0 ? y[i] : 0;
}

/** Nothing goes back through a unit that was silent. */
static void unrectify(float *dx, const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        dx[i] = x[i] > 0 ? dx[i] : 0;
}

/** Of a window's nine places, the input's offset; −1 beyond the edge. */
static int64_t window_source(const struct convolution *c, int x, int y, int place)
{
    int from_x = x * c->stride + place % 3 - 1, from_y = y * c->stride + place / 3 - 1;

    if (from_x < 0 || from_y < 0 || from_x >= c->side || from_y >= c->side)
        return -1;
    return ((int64_t)from_y * c->side + from_x) * c->channels;
}

/** Lay a sample's windows side by side. Of a row of a window, the places that are not beyond the
 *  edge lie side by side in the input, too. @param windows out, [pixels out][9 × channels] */
static void open_windows(const struct convolution *c, const float *in, float *windows)
{
    int row = 3 * c->channels;

    for (int y = 0; y < c->out_side; y++)
        for (int x = 0; x < c->out_side; x++)
            for (int from_y = y * c->stride - 1; from_y <= y * c->stride + 1; from_y++) {
                int from_x = x * c->stride - 1, first = 0, last = row;
                if (from_x < 0)
                    first = c->channels;
                if (from_x + 3 > c->side)
                    last -= c->channels;
                if (from_y < 0 || from_y >= c->side)
                    first = last = row;
                int source = (from_y * c->side + from_x) * c->channels;
                for (int i = 0; i < first; i++)
                    windows[i] = 0;
                for (int i = first; i < last; i++)
                    windows[i] = in[source + i];
                for (int i = last; i < row; i++)
                    windows[i] = 0;
                windows += row;
            }
}

/** Add up what the windows say of each input. @param d_in  out, zeros before */
static void close_windows(const struct convolution *c, const float *d_windows, float *d_in)
{
    for (int y = 0; y < c->out_side; y++)
        for (int x = 0; x < c->out_side; x++)
            for (int place = 0; place < WINDOW; place++, d_windows += c->channels) {
                int64_t source = window_source(c, x, y, place);
                for (int i = 0; source >= 0 && i < c->channels; i++)
                    d_in[source + i] += d_windows[i];
            }
}

static void convolve(struct demo_network *network, int k)
{
    const struct convolution *c = &convolutions[k];
    struct demo_image_layers *l = network->layers;
    const float *in = k == 0 ? l->canvases : l->maps[k - 1];
    uint64_t in_elems = (uint64_t)c->side * (uint64_t)c->side * (uint64_t)c->channels;
    uint64_t n = network->batch * pixels_out(c);
    uint32_t window = (uint32_t)(WINDOW * c->channels);

    for (uint32_t i = 0; i < network->batch; i++)
        open_windows(c, in + i * in_elems, l->windows[k] + i * pixels_out(c) * window);
    demo_layer_forward(network->blas, l->maps[k], l->windows[k], network->weights[c->weight],
                       network->weights[c->bias], n, window, (uint32_t)c->out_channels);
    rectify(l->maps[k], n * (uint64_t)c->out_channels);
}

static double image_forward(struct demo_network *network)
{
    struct demo_image_layers *l = network->layers;
    float *const *w = network->weights;
    uint32_t n = network->batch, h = network->hidden;
    double loss = 0;

    for (int k = 0; k < DEMO_IMAGE_CONVOLUTIONS; k++)
        convolve(network, k);
    demo_layer_forward(network->blas, l->hidden, l->maps[DEMO_IMAGE_CONVOLUTIONS - 1], w[HIDDEN],
                       w[HIDDEN_BIAS], n, FEATURES, h);
    rectify(l->hidden, (uint64_t)n * h);
    demo_layer_forward(network->blas, l->output, l->hidden, w[OUTPUT], w[OUTPUT_BIAS], n, h,
                       DEMO_DIGIT_CLASSES);
    for (uint32_t i = 0; i < n; i++)
        loss += demo_softmax(l->output + (size_t)i * DEMO_DIGIT_CLASSES, DEMO_DIGIT_CLASSES,
                             l->digits[i]);
    return loss / n;
}

/** Gradients of a convolution, and of its input unless that is the canvas. The windows are no
 *  longer needed, so their gradients take their place. */
static void convolve_back(struct demo_network *network, int k)
{
    const struct convolution *c = &convolutions[k];
    struct demo_image_layers *l = network->layers;
    uint64_t n = network->batch * pixels_out(c);
    uint64_t in_elems = (uint64_t)c->side * (uint64_t)c->side * (uint64_t)c->channels;
    uint32_t window = (uint32_t)(WINDOW * c->channels), out = (uint32_t)c->out_channels;

    unrectify(l->d_maps[k], l->maps[k], n * out);
    demo_layer_gradients(network->blas, network->gradients[c->weight], network->gradients[c->bias],
                         l->windows[k], l->d_maps[k], n, window, out);
    if (k == 0)
        return;
    demo_layer_back(network->blas, l->windows[k], l->d_maps[k], network->weights[c->weight], n,
                    window, out);
    memset(l->d_maps[k - 1], 0, network->batch * in_elems * sizeof(float));
    for (uint32_t i = 0; i < network->batch; i++)
        close_windows(c, l->windows[k] + i * pixels_out(c) * window,
                      l->d_maps[k - 1] + i * in_elems);
}

static void image_backward(struct demo_network *network, demo_ready_fn ready, void *arg)
{
    struct demo_image_layers *l = network->layers;
    float *const *w = network->weights, *const *g = network->gradients;
    const struct demo_blas *blas = network->blas;
    uint32_t n = network->batch, h = network->hidden;
    int last = DEMO_IMAGE_CONVOLUTIONS - 1;

    float *dy = l->output; /* probabilities become gradients in place */
    for (uint32_t i = 0; i < n; i++)
        dy[(size_t)i * DEMO_DIGIT_CLASSES + l->digits[i]] -= 1;
    blas->sscal((int)(n * DEMO_DIGIT_CLASSES), 1 / (float)n, dy, 1);

    demo_layer_gradients(blas, g[OUTPUT], g[OUTPUT_BIAS], l->hidden, dy, n, h, DEMO_DIGIT_CLASSES);
    ready(arg, OUTPUT_BIAS);
    ready(arg, OUTPUT);
    demo_layer_back(blas, l->d_hidden, dy, w[OUTPUT], n, h, DEMO_DIGIT_CLASSES);
    unrectify(l->d_hidden, l->hidden, (uint64_t)n * h);
    demo_layer_gradients(blas, g[HIDDEN], g[HIDDEN_BIAS], l->maps[last], l->d_hidden, n, FEATURES,
                         h);
    ready(arg, HIDDEN_BIAS);
    ready(arg, HIDDEN);
    demo_layer_back(blas, l->d_maps[last], l->d_hidden, w[HIDDEN], n, FEATURES, h);
    for (int k = last; k >= 0; k--) {
        convolve_back(network, k);
        ready(arg, convolutions[k].bias);
        ready(arg, convolutions[k].weight);
    }
}

const struct demo_task demo_task_image = {
    .name = "image",
    .what = "a convolutional network that reads digits",
    .loss_unit = "nats per image",
    .hidden = 256,
    .n_tensors = TENSORS,
    .n_buckets = sizeof(buckets) / sizeof(buckets[0]),
    .buckets = buckets,
    .load = image_load,
    .drop = image_drop,
    .describe = image_describe,
    .hash = image_hash,
    .shape = image_shape,
    .begin = image_begin,
    .end = image_end,
    .draw = image_draw,
    .draw_held_out = image_draw_held_out,
    .held_out = image_held_out,
    .curve = image_curve,
    .forward = image_forward,
    .backward = image_backward,
};
