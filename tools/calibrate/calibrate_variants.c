/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/calibrate/calibrate_variants.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <wring/codec.h>

#define TIERS 6 /* what there may be, and the best of them */

/** Which kernels a codec has at most with that ceiling; "" without the codec. */
static void name_tier(const char *spec, const char *ceiling, char *text, size_t bytes)
{
    struct wring_codec *codec;

    text[0] = '\0';
    if (wring_codec_create(spec, ceiling, NULL, NULL, 0, &codec) != WRING_OK)
        return;
    snprintf(text, bytes, "%s", wring_codec_info(codec)->tier);
    wring_codec_destroy(codec);
}

uint32_t wring_coder_variants(const char *spec,
                              struct wring_coder_variant out[WRING_PROFILE_CODERS_MAX])
{
    static const char *const ceilings[TIERS - 1] = {"vbmi2", "avx512", "avx2", "neon", "scalar"};
    cpu_set_t cpus;
    uint32_t cores =
        sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (uint32_t)CPU_COUNT(&cpus) : 1;
    char known[TIERS][16], tier[16];
    uint32_t n = 0, n_known = 1;

    out[n++] = (struct wring_coder_variant){0, NULL};
    for (uint32_t pinned = 1; pinned <= cores && n < WRING_PROFILE_CODERS_MAX - TIERS; pinned *= 2)
        out[n++] = (struct wring_coder_variant){pinned, NULL};
    name_tier(spec, NULL, known[0], sizeof(known[0]));
    for (size_t i = 0; i < TIERS - 1; i++) {
        uint32_t same = 0;
        name_tier(spec, ceilings[i], tier, sizeof(tier));
        while (same < n_known && strcmp(known[same], tier) != 0)
            same++;
        if (tier[0] == '\0' || same < n_known)
            continue;
        memcpy(known[n_known++], tier, sizeof(tier));
        out[n++] = (struct wring_coder_variant){0, ceilings[i]};
    }
    return n;
}
