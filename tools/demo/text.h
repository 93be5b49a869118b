/* SPDX-License-Identifier: Apache-2.0 */
/** The text task's sizes and layers, which its tests fill by hand. */
#ifndef WRING_TOOLS_DEMO_TEXT_H
#define WRING_TOOLS_DEMO_TEXT_H

#include "tools/demo/task.h"

#define DEMO_CONTEXT 16
#define DEMO_EMBED 16
#define DEMO_BYTES 256
#define DEMO_INPUT (DEMO_CONTEXT * DEMO_EMBED)

struct demo_text_layers {
    uint8_t *context;                          /* [batch][DEMO_CONTEXT] */
    uint8_t *next;                             /* [batch] */
    float *input, *hidden1, *hidden2, *output; /* activations, [batch][…] */
    float *d_input, *d_hidden1, *d_hidden2;    /* their gradients */
};

#endif
