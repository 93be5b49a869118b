/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libopenblas.so.0"

static bool find(const struct demo_blas *blas, const char *name, void *member, char *reason,
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
    if (find(blas, "cblas_sgemm", &blas->sgemm, reason, bytes) &&
        find(blas, "cblas_saxpy", &blas->saxpy, reason, bytes) &&
        find(blas, "cblas_sscal", &blas->sscal, reason, bytes))
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
