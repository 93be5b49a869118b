/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A byte-level language model: the last 16 bytes are embedded in 16 dimensions each, two hidden
 * layers of tanh units, one output for each next byte. float32, over OpenBLAS.
 */
#ifndef WRING_TOOLS_DEMO_MODEL_H
#define WRING_TOOLS_DEMO_MODEL_H

#include <cblas.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/demo/demo.h"

/*
 * OpenBLAS, found at run time. It starts its threads when it is loaded, and they look for work for
 * a while before they sleep: linked to the tool, it would be in the way of every command.
 */

/** What the model needs of it. */
struct demo_blas {
    void *handle;
    __typeof__(&cblas_sgemm) sgemm;
    __typeof__(&cblas_saxpy) saxpy;
    __typeof__(&cblas_sscal) sscal;
};

/** Load it, for one thread: that of the caller. @param reason out, [bytes], why not; written on
 *  failure only */
bool demo_blas_load(struct demo_blas *blas, char *reason, size_t bytes);

/** NULL inside is fine. */
void demo_blas_unload(struct demo_blas *blas);

#define DEMO_CONTEXT 16
#define DEMO_EMBED 16
#define DEMO_BYTES 256
#define DEMO_INPUT (DEMO_CONTEXT * DEMO_EMBED)

/** Tensors in the order in which backward finishes their gradients. */
enum demo_tensor {
    DEMO_OUTPUT_BIAS,
    DEMO_OUTPUT,
    DEMO_HIDDEN2_BIAS,
    DEMO_HIDDEN2,
    DEMO_HIDDEN1_BIAS,
    DEMO_HIDDEN1,
    DEMO_EMBEDDING,
};

struct demo_model {
    const struct demo_blas *blas; /* borrowed */
    uint32_t batch, hidden;
    uint64_t elems[DEMO_TENSORS];
    float *weights[DEMO_TENSORS];
    float *gradients[DEMO_TENSORS]; /* borrowed: they are what is exchanged */
    float *momentum[DEMO_TENSORS];
    uint8_t *context;                          /* [batch][DEMO_CONTEXT] */
    uint8_t *next;                             /* [batch] */
    float *input, *hidden1, *hidden2, *output; /* activations, [batch][…] */
    float *d_input, *d_hidden1, *d_hidden2;    /* their gradients */
};

extern const char *const demo_tensor_names[DEMO_TENSORS];

/** Initialise from the seed. @return -1 without memory */
int demo_model_init(struct demo_model *model, const struct demo_blas *blas, uint32_t batch,
                    uint32_t hidden, uint64_t seed);
void demo_model_finish(struct demo_model *model);

/** Run context forward. @return the mean loss of the first n samples in nats */
double demo_model_forward(struct demo_model *model, uint32_t n);

/** Called when the gradient of a tensor is complete. */
typedef void (*demo_ready_fn)(void *arg, enum demo_tensor tensor);

/** Gradients of the mean loss of the batch; after demo_model_forward(). */
void demo_model_backward(struct demo_model *model, demo_ready_fn ready, void *arg);

/** gradient := gradient + mu * momentum, with Nesterov momentum updated before. */
void demo_model_momentum(struct demo_model *model, enum demo_tensor tensor, float mu);

/** weights -= rate * gradient. */
void demo_model_update(struct demo_model *model, enum demo_tensor tensor, float rate);

/** FNV-1a over all weights: equal hashes mean equal bits, nearly surely. */
uint64_t demo_model_hash(const struct demo_model *model);

#endif
