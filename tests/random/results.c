/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/random/results.h"

#include <sys/mman.h>

static size_t items_bytes(void)
{
    return RESULTS_ITEMS * sizeof(struct results_item);
}

bool results_open(struct results *results, const struct program *p)
{
    void *memory = mmap(NULL, items_bytes() + p->result_bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    *results = (struct results){p, memory, (uint8_t *)memory + items_bytes()};
    return true;
}

void results_close(struct results *results)
{
    munmap(results->items, items_bytes() + results->p->result_bytes);
}
