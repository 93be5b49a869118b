/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static bool find(void *handle, const char *name, void *member, char *reason, size_t bytes)
{
    void *symbol = dlsym(handle, name);
    if (symbol == NULL) {
        memset(member, 0, sizeof(symbol));
        snprintf(reason, bytes, "libibverbs.so.1 has no %s", name);
        return false;
    }
    memcpy(member, &symbol, sizeof(symbol));
    return true;
}

bool wring_verbs_library_load(struct verbs_library *library, char *reason, size_t bytes)
{
    void *handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        snprintf(reason, bytes, "libibverbs.so.1 not found (package libibverbs1)");
        return false;
    }
#define VERBS_FIND(name) find(handle, "ibv_" #name, &library->name, reason, bytes) &&
    bool complete = VERBS_FUNCTIONS(VERBS_FIND)
        find(handle, "_ibv_query_gid_ex", &library->query_gid_ex, reason, bytes);
#undef VERBS_FIND
    if (!complete) {
        dlclose(handle);
        return false;
    }
#define VERBS_TRY(name) find(handle, "ibv_" #name, &library->name, why_not, sizeof(why_not));
    char why_not[64];
    VERBS_OPTIONAL(VERBS_TRY)
#undef VERBS_TRY
    library->handle = handle;
    return true;
}

void wring_verbs_library_unload(struct verbs_library *library)
{
    if (library->handle != NULL)
        dlclose(library->handle);
    library->handle = NULL;
}
