/* SPDX-License-Identifier: Apache-2.0 */
/** The image task's layers, which its tests fill by hand. */
#ifndef WRING_TOOLS_DEMO_IMAGE_H
#define WRING_TOOLS_DEMO_IMAGE_H

#include "tools/demo/digits.h"
#include "tools/demo/task.h"

#define DEMO_IMAGE_CONVOLUTIONS 3

struct demo_image_layers {
    float *canvases; /* [batch][DEMO_CANVAS] */
    uint8_t *digits; /* [batch] what they show */
    /* of each convolution: its input's windows, [batch][pixels out][9 × channels in]; its output,
     * [batch][pixels out][channels out], which is the next one's input */
    float *windows[DEMO_IMAGE_CONVOLUTIONS], *maps[DEMO_IMAGE_CONVOLUTIONS];
    float *hidden, *output;                            /* [batch][…] */
    float *d_maps[DEMO_IMAGE_CONVOLUTIONS], *d_hidden; /* gradients */
};

#endif
