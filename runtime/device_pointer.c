/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device_pointer.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define LIBRARY "libcuda.so.1"

/* The driver interface, of which this is all that is needed: numbers as its ABI has them. */
#define CUDA_SUCCESS 0
#define MEMORY_TYPE 2 /* attributes */
#define IS_MANAGED 8
#define DEVICE_ORDINAL 9
#define TYPE_DEVICE 2 /* of memory */

typedef int (*attribute_fn)(void *data, int attribute, unsigned long long pointer);

static struct wring_memory_place ask(attribute_fn get_attribute, const void *pointer)
{
    static const struct wring_memory_place host = {WRING_MEMORY_HOST, 0};
    unsigned long long at = (uintptr_t)pointer;
    unsigned type = 0, managed = 0;
    int ordinal = 0;

    if (get_attribute(&type, MEMORY_TYPE, at) != CUDA_SUCCESS || type != TYPE_DEVICE)
        return host; /* the driver does not know it, or says so */
    if (get_attribute(&managed, IS_MANAGED, at) == CUDA_SUCCESS && managed != 0)
        return host;
    if (get_attribute(&ordinal, DEVICE_ORDINAL, at) != CUDA_SUCCESS)
        ordinal = 0;
    return (struct wring_memory_place){WRING_MEMORY_DEVICE, ordinal};
}

struct wring_memory_place wring_pointer_place(const void *pointer)
{
    struct wring_memory_place place = {WRING_MEMORY_HOST, 0};
    attribute_fn get_attribute = NULL;
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);

    if (library == NULL)
        return place;
    *(void **)(uintptr_t)&get_attribute = dlsym(library, "cuPointerGetAttribute");
    if (get_attribute != NULL)
        place = ask(get_attribute, pointer);
    dlclose(library);
    return place;
}
