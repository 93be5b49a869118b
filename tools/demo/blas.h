/* SPDX-License-Identifier: Apache-2.0 */
/**
 * OpenBLAS, found at run time. It starts its threads when it is loaded, and they look for work for
 * a while before they sleep: linked to the tool, it would be in the way of every command.
 */
#ifndef WRING_TOOLS_DEMO_BLAS_H
#define WRING_TOOLS_DEMO_BLAS_H

#include <cblas.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What the networks need of it. */
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

/* Layers of a network, for n samples. Matrices are stored row after row. */

/** y[n][out] = x[n][in] w[in][out] + bias. */
void demo_layer_forward(const struct demo_blas *blas, float *y, const float *x, const float *w,
                        const float *bias, uint64_t n, uint32_t in, uint32_t out);

/** dw = x' dy, dbias = column sums of dy. */
void demo_layer_gradients(const struct demo_blas *blas, float *dw, float *dbias, const float *x,
                          const float *dy, uint64_t n, uint32_t in, uint32_t out);

/** dx = dy w'. */
void demo_layer_back(const struct demo_blas *blas, float *dx, const float *dy, const float *w,
                     uint64_t n, uint32_t in, uint32_t out);

/**
 * Turn scores into probabilities.
 * @param scores  in and out, [classes]
 * @return −log of that of the class that is right
 */
double demo_softmax(float *scores, uint32_t classes, uint32_t right);

#endif
