/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/blas.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void demo_layer_forward(const struct demo_blas *blas, float *y, const float *x, const float *w,
                        const float *bias, uint64_t n, uint32_t in, uint32_t out)
{
    for (uint64_t i = 0; i < n; i++)
        memcpy(y + i * out, bias, out * sizeof(float));
    blas->sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n, (int)out, (int)in, 1, x, (int)in,
                w, (int)out, 1, y, (int)out);
}

void demo_layer_gradients(const struct demo_blas *blas, float *dw, float *dbias, const float *x,
                          const float *dy, uint64_t n, uint32_t in, uint32_t out)
{
    memset(dbias, 0, out * sizeof(float));
    for (uint64_t i = 0; i < n; i++)
        blas->saxpy((int)out, 1, dy + i * out, 1, dbias, 1);
    blas->sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)in, (int)out, (int)n, 1, x, (int)in,
                dy, (int)out, 0, dw, (int)out);
}

void demo_layer_back(const struct demo_blas *blas, float *dx, const float *dy, const float *w,
                     uint64_t n, uint32_t in, uint32_t out)
{
    blas->sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, (int)in, (int)out, 1, dy, (int)out,
                w, (int)out, 0, dx, (int)in);
}

double demo_softmax(float *scores, uint32_t classes, uint32_t right)
{
    float most = scores[0];
    double sum = 0;
    for (uint32_t i = 1; i < classes; i++)
        most = scores[i] > most ? scores[i] : most;
    for (uint32_t i = 0; i < classes; i++)
        sum += scores[i] = expf(scores[i] - most);
    float scale = (float)(1 / sum);
    for (uint32_t i = 0; i < classes; i++)
        scores[i] *= scale;
    return -log((double)scores[right] + 1e-30);
}
