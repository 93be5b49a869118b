/* SPDX-License-Identifier: Apache-2.0 */
/**
 * OpenBLAS, found at run time. It starts its threads when it is loaded, and they look for work for
 * a while before they sleep: linked to the tool, it would be in the way of every command.
 */
#ifndef WRING_DEMO_BLAS_H
#define WRING_DEMO_BLAS_H

#include <stdbool.h>
#include <stddef.h>

#include <cblas.h>

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

#endif
