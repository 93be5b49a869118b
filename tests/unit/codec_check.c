/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/codec_check.h"

#include <string.h>

#include "base/cpu.h"
#include "tests/lib/codec_conform.h"
#include "tests/lib/momentum.h"
#include "tests/lib/sealed.h"
#include "tests/lib/shared_scale.h"

const struct codec_spec codec_specs[] = {
    {"none", NULL},
    {"lossless", NULL},
    {"lossless:block=32", NULL},
    {"lossless:block=4096", NULL},
    {"bf16", NULL},
    {"fp16", NULL},
    {"int8", NULL},
    {"int8:block=32", NULL},
    {"int8:block=65536", NULL},
    {"onebit", NULL},
    {"onebit:block=32", NULL},
    {"onebit:means=2", NULL},
    {"topk", NULL},
    {"topk:block=256", NULL},
    {"topk:block=256:ratio=0.3", NULL},
    {"topk:select=exact", NULL},
    {"topk:block=32768:ratio=0.05", NULL},
    {"topk:ratio=1", NULL},
    {"signsgd", NULL},
    {"signsgd:block=32", NULL},
    {"signsgd:block=4096", NULL},
    {"signum", NULL},
    {"signum:block=32:beta=0.5", NULL},
    {"sharedint", NULL},
    {"sharedint:width=16:block=32+ef", NULL},
    {"sharedint:block=65536+ef", NULL},
    {"sharedint:width=4", NULL},
    {"sharedint:width=4:block=32+ef", NULL},
    {"randk", NULL},
    {"randk:ratio=0.3:block=96+ef", NULL},
    {"randk:ratio=0.3:block=96:seed=private", NULL},
    {"topk:index=packed", NULL},
    {"topk:block=256:ratio=0.3:index=packed+ef", NULL},
    {"topk:block=256:ratio=0.1:index=packed/int8:block=32+ef", NULL},
    {"dgc", NULL},
    {"dgc:block=256:warmup=6:index=packed", NULL},
    {"dgc:ratio=0.1:block=256:clip=2:warmup=6", NULL},
    {"hashed", NULL},
    {"hashed:ratio=0.2:load=1.5:block=256+ef", NULL},
    {"threshold", NULL},
    {"threshold:value=0.02+ef", NULL},
    {"threshold:value=0.0001:cap=1+ef", NULL},
    {"threshold:value=0.015:cap=0.2:block=256+ef", NULL},
    {"threshold:value=0.015:block=512/int8:block=32+momentum+ef", NULL},
    {"threshold:value=0.015:cap=0.2:index=packed+ef", NULL},
    {"threshold:value=0.0001:cap=1:block=256:index=packed", NULL},
    {"threshold:value=0.015:block=512:index=packed/int8:block=32+ef", NULL},
    {"union", NULL},
    {"topkc", NULL},
    {"topkc:ratio=0.3:chunk=32:block=320+ef", NULL},
    {"union:block=65536", NULL},
    {"thc", NULL},
    {"thc:block=32:width=16+ef", NULL},
    {"thc:block=2048:clip=2+ef", NULL},
    {"thc:block=256:rotate=32+ef", NULL},
    {"thc:width=4:block=64:clip=2.5+ef", NULL},
    {"thc:width=4:block=32:sums=saturate+ef", NULL},
    {"thc:clip=64:sums=saturate", NULL},
    {"qsgd", NULL},
    {"qsgd:bits=2:block=32", NULL},
    {"qsgd:bits=8:norm=l2+ef", NULL},
    {"qsgd:bits=4:partition=natural:block=4096+ef", NULL},
    {"natural", NULL},
    {"natural:bits=8+ef", NULL},
    {"terngrad", NULL},
    {"terngrad:clip=4:block=32+ef", NULL},
    {"terngrad:bits=4:block=32", NULL},
    {"terngrad:bits=8+ef", NULL},
    {"powersgd", NULL},
    {"powersgd+ef", NULL},
    {"powersgd:rank=1+ef", NULL},
    {"powersgd:rank=8", NULL},
    {"bounded", NULL},
    {"bounded:error=0.03:block=32+ef", NULL},
    {"bounded:error=10:block=4096", NULL},
    {"bf16:round=random", NULL},
    {"fp16:round=random+ef", NULL},
    {"int4", NULL},
    {"int4:block=32:range=minmax+ef", NULL},
    {"int2", NULL},
    {"int2:block=96:range=minmax+ef", NULL},
    {"int8:block=64:range=minmax", NULL},
    {"fp8", NULL},
    {"fp8:block=32+ef", NULL},
    {"fp8:format=e5m2:round=random:block=4096+ef", NULL},
    {"mxfp8", NULL},
    {"mxfp8:round=random:format=e5m2+ef", NULL},
    {"mxfp4", NULL},
    {"mxfp4:round=random", NULL},
    {"nvfp4", NULL},
    {"nvfp4:round=random:block=64+ef", NULL},
    {"topk:block=256:ratio=0.3/int8:block=32", NULL},
    {"topk:ratio=0.3/onebit+ef", NULL},
    {"topk:block=256/natural+momentum+ef", NULL},
    {"topk:block=256+warmup:steps=2+ef", NULL},
    {"randk:ratio=0.1:block=96+warmup:steps=5+ef", NULL},
    {"topkc:chunk=32:block=320+warmup:steps=2+nesterov+ef", NULL},
    {"hashed:block=256+warmup:steps=3+momentum", NULL},
    {"lossless+momentum", NULL},
    {"bf16+nesterov:beta=0.5", NULL},
    {"onebit:block=32+nesterov+ef", NULL},
    {"sharedint:block=32+momentum+ef", NULL},
    {"powersgd+nesterov+ef", NULL},
    {"topk:block=256/int8+momentum+ef21", NULL},
    {"sealed", wring_test_sealed},
    {"mom", momentum_codecs},
    {"ownmom:factor=0.25", momentum_codecs},
    {"warm", momentum_codecs},
    {"shared8+ef", shared_codecs},
    {"shared16+ef", shared_codecs},
    {NULL, NULL},
};

const struct wring_codec_context codec_alone = {.ranks = 1};

struct wring_codec *codec_make(const char *spec, const char *tier,
                               const struct wring_codec_ops *const *own)
{
    struct wring_codec *codec = NULL;
    char why[200] = "";
    enum wring_status status = wring_codec_create(spec, tier, own, why, sizeof(why), &codec);
    CHECK(status == WRING_OK, "%s: %s", spec, why);
    return codec;
}

/** Of one that needs a group nothing can be said alone. */
static bool is_alone(const struct wring_codec *codec)
{
    const struct wring_codec_info *info = wring_codec_info(codec);
    return info->rounds == 0 && info->states == 0;
}

void codec_for_each(void (*check)(const struct wring_codec *codec, uint64_t n), bool all_lengths)
{
    const struct codec_conform_limits *limits = &codec_conform_defaults;

    for (int tier = 0; tier < WRING_CPU_TIERS; tier++) {
        if (!wring_cpu_has((enum wring_cpu_tier)tier))
            continue;
        for (const struct codec_spec *row = codec_specs; row->spec != NULL; row++) {
            struct wring_codec *codec =
                codec_make(row->spec, wring_cpu_tier_name((enum wring_cpu_tier)tier), row->own);
            for (size_t l = 0; l < limits->n_lengths && is_alone(codec); l++)
                if (all_lengths || limits->lengths[l] == limits->deep)
                    check(codec, limits->lengths[l]);
            wring_codec_destroy(codec);
            wring_test_free_guarded();
        }
    }
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
    return wring_test_main_in_mode(argc, argv, cases);
}
