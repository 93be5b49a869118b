/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/codec_check.h"

#include <string.h>

#include "base/cpu.h"
#include "base/fpenv.h"

const char *const codec_specs[] = {
    "none",
    "lossless",
    "lossless:block=32",
    "lossless:block=4096",
    "bf16",
    "fp16",
    "int8",
    "int8:block=32",
    "int8:block=65536",
    "onebit",
    "onebit:block=32",
    "onebit:means=2",
    "topk",
    "topk:block=256",
    "topk:block=256:ratio=0.3",
    "topk:select=exact",
    "topk:block=32768:ratio=0.05",
    "topk:ratio=1",
    NULL,
};

const struct wring_codec_context codec_alone = {.ranks = 1};

static const uint64_t lengths[] = {0,    1,    2,    31,   32,    33,    255,   257,   511,
                                   1023, 1024, 1025, 4096, 10007, 65535, 65537, 140001};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

struct wring_codec *codec_make(const char *spec, const char *tier)
{
    struct wring_codec *codec = NULL;
    char why[200] = "";
    enum wring_status status = wring_codec_create(spec, tier, NULL, why, sizeof(why), &codec);
    CHECK(status == WRING_OK, "%s: %s", spec, why);
    return codec;
}

void codec_for_each(void (*check)(const struct wring_codec *codec, uint64_t n), bool all_lengths)
{
    for (int tier = 0; tier < WRING_CPU_TIERS; tier++) {
        if (!wring_cpu_has((enum wring_cpu_tier)tier))
            continue;
        for (const char *const *spec = codec_specs; *spec != NULL; spec++) {
            struct wring_codec *codec = codec_make(*spec, wring_cpu_tier_name(tier));
            for (size_t l = 0; l < LENGTHS; l++)
                if (all_lengths || lengths[l] == 10007)
                    check(codec, lengths[l]);
            wring_codec_destroy(codec);
            wring_test_free_guarded();
        }
    }
}

float *codec_gradient(uint64_t n, uint32_t seed)
{
    float *data = wring_test_guarded(n * sizeof(*data));
    for (uint64_t i = 0; i < n; i++) { /* a sum of three: denser near zero, as gradients are */
        float sum = wring_test_random_float(&seed) + wring_test_random_float(&seed);
        data[i] = (sum + wring_test_random_float(&seed)) * 0.01f;
    }
    return data;
}

float *codec_copy_of(const float *data, uint64_t n)
{
    float *copy = wring_test_guarded(n * sizeof(*copy));
    memcpy(copy, data, n * sizeof(*copy));
    return copy;
}

unsigned char *codec_encode(const struct wring_codec *codec, const float *src, uint64_t n,
                            float *residual, size_t *bytes)
{
    size_t bound = wring_codec_bound(codec, n);
    unsigned char *code = wring_test_guarded(bound);
    *bytes = wring_codec_encode(codec, &codec_alone, src, n, residual, code);
    const struct wring_codec_info *info = wring_codec_info(codec);
    CHECK(info->flags & WRING_CODEC_FIXED ? *bytes == bound : *bytes <= bound,
          "%s n=%zu: %zu bytes, bound %zu", info->spec, (size_t)n, *bytes, bound);
    unsigned char *tight = wring_test_guarded(*bytes);
    memcpy(tight, code, *bytes);
    return tight;
}

float *codec_decode(const struct wring_codec *codec, const void *code, size_t bytes, uint64_t n)
{
    float *out = wring_test_guarded(n * sizeof(*out));
    enum wring_status status = wring_codec_decode(codec, &codec_alone, code, bytes, out, n, false);
    CHECK(status == WRING_OK, "%s n=%zu: %s", wring_codec_info(codec)->spec, (size_t)n,
          wring_status_text(status));
    return out;
}

bool codec_is_named(const struct wring_codec *codec, const char *name)
{
    return strcmp(wring_codec_info(codec)->name, name) == 0;
}

int codec_test_main(int argc, char **argv, const struct wring_test_case *cases)
{
    uint64_t mode = wring_fp_enter();
    int code = wring_test_main(argc, argv, cases);
    wring_fp_leave(mode);
    return code;
}
