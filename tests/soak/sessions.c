/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/soak/sessions.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define RANKS 2
#define ELEMS 3000
#define GROWTH_MOST (1 << 20)
#define WARM(n) ((n) / 10 + 1) /* pairs, after which the process has all that it keeps */

static void sum_once(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    float *data = NULL;

    (void)arg;
    REQUIRE(wring_buffer_alloc(session, ELEMS * sizeof(*data), (void **)&data) == WRING_OK,
            "memory");
    for (uint32_t i = 0; i < ELEMS; i++)
        data[i] = (float)(i % 100 + rank);
    enum wring_status status =
        wring_allreduce(world, data, data, ELEMS, WRING_F32, WRING_SUM, NULL, NULL);
    CHECK(status == WRING_OK, "%s", wring_status_text(status));
    for (uint32_t i = 0; i < ELEMS && status == WRING_OK; i++)
        if (data[i] != (float)(2 * (i % 100) + 1)) {
            CHECK(false, "element %u is %g", i, (double)data[i]);
            break;
        }
    wring_buffer_free(session, data);
}

int sessions_run(const char *provider, uint64_t n)
{
    char setting[64];
    const char *const settings[] = {setting, NULL};
    struct wring_test_job job = {.ranks = RANKS, .settings = settings, .run = sum_once};
    uint64_t pairs = (n + RANKS - 1) / RANKS, began = wring_now_ns();
    unsigned descriptors = 0;
    size_t resident = 0;

    snprintf(setting, sizeof(setting), "WRING_PROVIDER=%s", provider);
    for (uint64_t i = 0; i < pairs && wring_test_failures() == 0; i++) {
        wring_test_run_ranks(&job);
        if (i + 1 != WARM(pairs))
            continue;
        descriptors = wring_test_descriptors();
        resident = soak_resident_bytes();
    }
    size_t after = soak_resident_bytes();
    unsigned left = wring_test_descriptors();
    printf("soak: %" PRIu64 " sessions over %s in %.1f s: descriptors %u, then %u; resident memory "
           "%zu KiB after a tenth, %zu KiB at the end\n",
           pairs * RANKS, provider, (double)(wring_now_ns() - began) / 1e9, descriptors, left,
           resident / 1024, after / 1024);
    CHECK(left == descriptors, "descriptors are left");
    if (!SOAK_SANITIZED) /* which keeps what was freed, and looks for leaks itself */
        CHECK(after <= resident + GROWTH_MOST, "memory has grown");
    return wring_test_failures() > 0;
}
