/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/codecs.h"

#include "tests/lib/spec_name.h"

/* The corpora name codecs by their places here: add new ones at the end. */
static const char *const specs[] = {
    "none",
    "bf16",
    "int8:block=32",
    "int8",
    "onebit:block=32",
    "onebit:means=2:block=64",
    "onebit",
    "topk:block=256",
    "topk:block=256:ratio=0.3",
    "topk:ratio=0.002",
    "topk:select=exact:block=1024",
    "topk:ratio=1:block=512",
    "fp16",
    "bf16+ef",
    "fp16+ef",
    "int8:block=64+ef",
    "onebit:block=128+ef",
    "topk:block=512:ratio=0.1+ef",
    "onebit:block=64+ef>int8:block=32",
    "lossless",
    "lossless:block=32",
    "signsgd",
    "signsgd:block=32",
    "signum:block=32",
    "sharedint:block=32",
    "sharedint:width=16+ef",
    "randk:block=64:ratio=0.1",
    "randk:ratio=0.01+ef",
    "randk:block=128:ratio=0.2:seed=private",
    "union:block=64",
    "union",
    "topkc:ratio=0.2:chunk=32:block=320",
    "topkc+ef",
    "dgc:block=256:ratio=0.1:clip=1",
    "dgc:warmup=4",
    "hashed:block=256:ratio=0.1",
    "hashed:load=1+ef",
    "thc:block=64+ef",
    "qsgd:block=32",
    "qsgd:bits=2:norm=l2:block=96",
    "qsgd:bits=8:partition=natural:block=64",
    "qsgd:partition=natural:norm=l2+ef",
    "natural",
    "natural:bits=8",
    "natural+ef",
    "terngrad:block=32",
    "terngrad+ef",
    "terngrad:bits=4:block=64",
    "powersgd+ef",
    "int4:block=32",
    "int2:block=32:range=minmax+ef",
    "int8:block=32:range=minmax",
    "bf16:round=random",
    "fp16:round=random+ef",
    "bounded:error=0.25:block=32",
    "bounded:error=0.01:block=32+ef",
    "fp8:block=32",
    "fp8:format=e5m2:round=random+ef",
    "mxfp8:round=random:format=e5m2",
    "mxfp4",
    "mxfp4:round=random+ef",
    "nvfp4:block=64",
    "nvfp4:round=random+ef",
    "topk:block=256:ratio=0.1/int8:block=32",
    "topk:ratio=0.002/onebit:block=64+ef",
    "topk:block=512:ratio=0.5/natural+warmup",
    "randk:block=64+warmup+ef",
    "topkc:block=320:chunk=32+warmup+momentum+ef",
    "sharedint:block=32+nesterov",
    "int8:block=32+ef21",
    "thc:block=128:rotate=32",
    "sharedint:width=4:block=32",
    "thc:width=4:clip=2.5:block=64+ef",
    "thc:block=64:sums=saturate:width=4:clip=2",
    "thc:block=64:sums=saturate",
    "powersgd:rank=1",
    "powersgd:rank=8+ef",
    "topk:block=256:index=packed",
    "topk:ratio=0.002:index=packed+ef",
    "topk:block=256:index=packed/int8:block=32",
    "dgc:block=256:ratio=0.02:index=packed",
    "int8:block=32+ef:residual=bf16",
    "int8:block=32+ef:residual=int8",
    "onebit:block=32+ef:residual=int8",
    "topk:block=256:ratio=0.05+ef:residual=bf16",
    "onebit:block=32+momentum+ef:residual=bf16",
    "onebit:block=64+ef:residual=int8>int8:block=32+ef:residual=int8",
    "randk:block=32:ratio=0.125",
    "topkc:ratio=0.5:chunk=32:block=64",
    "dgc:block=256:ratio=0.02",
    "hashed:block=256:ratio=0.05",
    "terngrad:bits=8:block=32",
    "threshold:value=0.75:block=256",
    "threshold:value=0.001:cap=1+ef",
    "threshold:value=0.75:block=256:cap=0.5/int8:block=32",
    "threshold:value=0.75:block=256:cap=0.2+ef",
    "threshold:value=0.75:block=256:index=packed",
    "threshold:value=0.75:block=256:index=packed:cap=0.2+ef",
};
#define SPECS (sizeof(specs) / sizeof(specs[0]))

_Static_assert(SPECS <= FUZZ_CODECS, "an input's byte has to name each");

static struct fuzz_codec made[SPECS];

static void check_all_are_listed(void)
{
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        bool found = false;
        for (size_t i = 0; i < SPECS; i++)
            found |= wring_test_spec_is_of(specs[i], (*ops)->name);
        FUZZ_CHECK(found, "codec %s is not fuzzed: add it to %s", (*ops)->name, __FILE__);
    }
}

const struct fuzz_codec *fuzz_codec(uint32_t number)
{
    if (made[0].tiers[0] == NULL)
        check_all_are_listed();
    if (number >= SPECS)
        return NULL;
    struct fuzz_codec *codec = &made[number];
    for (int tier = 0; tier < WRING_CPU_TIERS && codec->tiers[0] == NULL; tier++)
        if (tier != WRING_CPU_SCALAR && wring_cpu_has((enum wring_cpu_tier)tier))
            wring_codec_create(specs[number], wring_cpu_tier_name((enum wring_cpu_tier)tier), NULL,
                               NULL, 0, &codec->tiers[tier]);
    if (codec->tiers[0] == NULL)
        FUZZ_CHECK(wring_codec_create(specs[number], "scalar", NULL, NULL, 0, &codec->tiers[0]) ==
                       WRING_OK,
                   "%s", specs[number]);
    return codec;
}
