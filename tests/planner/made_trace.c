/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/planner/made_trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

void wring_made_trace(uint32_t n, const uint64_t *elems, const double *ready_us,
                      struct wring_made_trace *made)
{
    static char model[] = "made", source[] = "";

    memset(made, 0, sizeof(*made));
    made->trace = (struct wring_tensor_trace){.model = model,
                                              .source = source,
                                              .dtype = WRING_F32,
                                              .forward_us = NAN,
                                              .n = n,
                                              .tensors = made->tensors};
    for (uint32_t i = 0; i < n; i++) {
        snprintf(made->names[i], sizeof(made->names[i]), "t%u", i);
        made->tensors[i] = (struct wring_tensor){
            .name = made->names[i], .elems = elems[i], .ready_us = ready_us[i]};
    }
}

void wring_made_random_trace(uint32_t n, uint32_t *random, struct wring_made_trace *made)
{
    uint64_t elems[WRING_MADE_TENSORS_MAX];
    double ready_us[WRING_MADE_TENSORS_MAX], now = 0;

    for (uint32_t i = 0; i < n; i++) {
        elems[i] = 1 + wring_test_random(random) % (1u << (4 + wring_test_random(random) % 22));
        now += wring_test_random(random) % 5000;
        ready_us[i] = now;
    }
    wring_made_trace(n, elems, ready_us, made);
}
