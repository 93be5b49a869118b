/* SPDX-License-Identifier: Apache-2.0 */
/** The text form of codecs: what is taken, how it is written back, and what is said otherwise. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"
#include <wring/codec.h>

#define CODECS                                                                     \
    "none, lossless, bf16, fp16, int8, onebit, topk, signsgd, signum, sharedint, " \
    "randk, union, topkc, dgc, hashed, threshold, thc, qsgd, natural, "            \
    "terngrad, powersgd, int4, int2, bounded, fp8, mxfp8, mxfp4, nvfp4"

#define SUFFIXES "+warmup, +momentum, +nesterov, +ef, +ef21"
#define NO_VALUES                                                                                \
    "values need a codec that shortens all of them to a fixed size, in blocks of at most 1024, " \
    "without rounds, state or votes, such as bf16, int8 or onebit"

#define NO_SHORT                                                                              \
    "needs a codec without rounds, whose blocks are multiples of 32 elements, such as int8, " \
    "onebit and topk; leave :residual=bf16 away"
#define NO_DIFFERENCES                                                                          \
    "needs a codec without rounds, state, votes, code sums or another way back, such as bf16, " \
    "int8, onebit or topk"

static void canonical_form(void)
{
    static const struct {
        const char *spec, *canonical;
        uint64_t unit;
        unsigned flags;
    } good[] = {
        {"none", "none", 1,
         WRING_CODEC_RAW | WRING_CODEC_SUMMABLE | WRING_CODEC_UNBIASED | WRING_CODEC_FIXED |
             WRING_CODEC_EXACT},
        {"lossless", "lossless", 512, WRING_CODEC_UNBIASED | WRING_CODEC_EXACT},
        {"lossless:block=64", "lossless:block=64", 64, WRING_CODEC_UNBIASED | WRING_CODEC_EXACT},
        {"onebit+ef>lossless", "onebit+ef>lossless", 1024,
         WRING_CODEC_FEEDBACK | WRING_CODEC_TWO_WAYS},
        {"bf16+ef", "bf16+ef", 1, WRING_CODEC_FEEDBACK | WRING_CODEC_FIXED},
        {"fp16", "fp16", 1, WRING_CODEC_FIXED},
        {"int8", "int8", 512, WRING_CODEC_FIXED},
        {"int8:block=512", "int8", 512, WRING_CODEC_FIXED},
        {"int8:block=0256+ef", "int8:block=256+ef", 256, WRING_CODEC_FEEDBACK | WRING_CODEC_FIXED},
        {"onebit:means=2:block=2048", "onebit:block=2048:means=2", 2048, WRING_CODEC_FIXED},
        {"topk:ratio=.01+ef", "topk+ef", 65536, WRING_CODEC_FEEDBACK},
        {"topk:ratio=1.000", "topk:ratio=1", 65536, 0},
        {"topk:ratio=.144440444444444", "topk:ratio=0.144440444444444", 65536, 0},
        {"int8:block=00000000000000000064", "int8:block=64", 64, WRING_CODEC_FIXED},
        {"topk:ratio=0.001:select=exact+ef", "topk:ratio=0.001:select=exact+ef", 65536,
         WRING_CODEC_FEEDBACK},
        {"topk:select=sampled", "topk", 65536, 0},
        {"signsgd", "signsgd", 1024,
         WRING_CODEC_FIXED | WRING_CODEC_ALTERS | WRING_CODEC_TWO_WAYS | WRING_CODEC_VOTES},
        {"sharedint:block=512:width=8", "sharedint", 512, WRING_CODEC_SUMMABLE | WRING_CODEC_FIXED},
        {"sharedint:block=64:width=16+ef", "sharedint:width=16:block=64+ef", 64,
         WRING_CODEC_SUMMABLE | WRING_CODEC_FIXED | WRING_CODEC_FEEDBACK},
        {"sharedint:width=4", "sharedint:width=4", 512, WRING_CODEC_SUMMABLE | WRING_CODEC_FIXED},
        {"powersgd+ef", "powersgd+ef", 0,
         WRING_CODEC_SUMMABLE | WRING_CODEC_FIXED | WRING_CODEC_FEEDBACK | WRING_CODEC_MATRIX},
        {"powersgd:rank=4", "powersgd", 0,
         WRING_CODEC_SUMMABLE | WRING_CODEC_FIXED | WRING_CODEC_MATRIX},
        {"powersgd:rank=8", "powersgd:rank=8", 0,
         WRING_CODEC_SUMMABLE | WRING_CODEC_FIXED | WRING_CODEC_MATRIX},
        {"thc:width=16:clip=3.50+ef", "thc:width=16+ef", 1024,
         WRING_CODEC_SUMMABLE | WRING_CODEC_FIXED | WRING_CODEC_FEEDBACK},
        {"signum:beta=.90", "signum", 1024,
         WRING_CODEC_FIXED | WRING_CODEC_ALTERS | WRING_CODEC_TWO_WAYS | WRING_CODEC_VOTES},
        {"signsgd:block=64>none", "signsgd:block=64>none", 64,
         WRING_CODEC_ALTERS | WRING_CODEC_TWO_WAYS | WRING_CODEC_VOTES},
        {"randk", "randk", 4096, WRING_CODEC_UNBIASED | WRING_CODEC_FIXED | WRING_CODEC_OWN},
        {"randk:block=4096:ratio=.5+ef", "randk:ratio=0.5+ef", 4096,
         WRING_CODEC_FEEDBACK | WRING_CODEC_FIXED | WRING_CODEC_OWN},
        {"randk:seed=private", "randk:seed=private", 4096, WRING_CODEC_UNBIASED | WRING_CODEC_OWN},
        {"topkc:chunk=64", "topkc:chunk=64", 65536, WRING_CODEC_FIXED | WRING_CODEC_OWN},
        {"dgc:momentum=.90:warmup=1000", "dgc:warmup=1000", 65536,
         WRING_CODEC_ALTERS | WRING_CODEC_OWN},
        {"hashed:load=2.0", "hashed", 65536, WRING_CODEC_OWN},
        {"threshold:cap=.10:value=0.0010+ef", "threshold:value=0.001+ef", 65536,
         WRING_CODEC_FEEDBACK | WRING_CODEC_OWN},
        {"threshold:block=256:cap=1/int8:block=512", "threshold:cap=1:block=256/int8", 256,
         WRING_CODEC_OWN},
        {"threshold:index=packed:value=.01", "threshold:index=packed", 65536, WRING_CODEC_OWN},
        {"threshold:index=short", "threshold", 65536, WRING_CODEC_OWN},
        {"union:block=96", "union:block=96", 96, WRING_CODEC_UNBIASED},
        {"randk>randk", "randk", 4096, WRING_CODEC_UNBIASED | WRING_CODEC_FIXED | WRING_CODEC_OWN},
        {"randk+ef>bf16", "randk+ef>bf16", 4096,
         WRING_CODEC_FEEDBACK | WRING_CODEC_TWO_WAYS | WRING_CODEC_OWN},
        {"onebit+ef>int8", "onebit+ef>int8", 1024, WRING_CODEC_FEEDBACK | WRING_CODEC_TWO_WAYS},
        {"fp16>int8:block=512+ef", "fp16>int8+ef", 512,
         WRING_CODEC_FEEDBACK | WRING_CODEC_TWO_WAYS},
        {"int8>none", "int8>none", 512, WRING_CODEC_TWO_WAYS},
        {"int8:block=512>int8", "int8", 512, WRING_CODEC_FIXED},
        {"topk:ratio=.01+ef>topk+ef", "topk+ef", 65536, WRING_CODEC_FEEDBACK},
        {"qsgd:norm=max:bits=4", "qsgd", 256, WRING_CODEC_FIXED | WRING_CODEC_UNBIASED},
        {"qsgd:block=64:partition=natural:norm=l2:bits=8",
         "qsgd:bits=8:norm=l2:partition=natural:block=64", 64,
         WRING_CODEC_FIXED | WRING_CODEC_UNBIASED},
        {"natural:bits=9", "natural", 32, WRING_CODEC_FIXED | WRING_CODEC_UNBIASED},
        {"natural:bits=8+ef", "natural:bits=8+ef", 32, WRING_CODEC_FIXED | WRING_CODEC_FEEDBACK},
        {"terngrad:clip=2.50", "terngrad", 1024, 0},
        {"terngrad:bits=8:block=512", "terngrad:bits=8:block=512", 512,
         WRING_CODEC_FIXED | WRING_CODEC_SUMMABLE},
        {"terngrad:block=2048:clip=3+ef", "terngrad:clip=3:block=2048+ef", 2048,
         WRING_CODEC_FEEDBACK},
        {"topk/int8:block=512+ef", "topk/int8+ef", 65536, WRING_CODEC_FEEDBACK},
        {"topk:ratio=.01:block=256/fp16>topk:block=256/fp16", "topk:block=256/fp16", 256, 0},
        {"topk+warmup:steps=1000", "topk+warmup", 65536, 0},
        {"randk+ef+warmup:steps=8", "randk+warmup:steps=8+ef", 4096,
         WRING_CODEC_FEEDBACK | WRING_CODEC_OWN},
        {"onebit+ef+momentum:beta=.90", "onebit+momentum+ef", 1024,
         WRING_CODEC_FEEDBACK | WRING_CODEC_FIXED | WRING_CODEC_ALTERS},
        {"topk/bf16+ef+nesterov:beta=.5+warmup", "topk/bf16+warmup+nesterov:beta=0.5+ef", 65536,
         WRING_CODEC_FEEDBACK | WRING_CODEC_ALTERS},
        {"onebit+ef:residual=f32", "onebit+ef", 1024, WRING_CODEC_FEEDBACK | WRING_CODEC_FIXED},
        {"int8+ef:residual=bf16+momentum", "int8+momentum+ef:residual=bf16", 512,
         WRING_CODEC_FEEDBACK | WRING_CODEC_FIXED | WRING_CODEC_ALTERS},
        {"onebit+ef:residual=int8>int8+ef:residual=int8",
         "onebit+ef:residual=int8>int8+ef:residual=int8", 1024,
         WRING_CODEC_FEEDBACK | WRING_CODEC_TWO_WAYS},
        {"topk+ef:residual=bf16>int8", "topk+ef:residual=bf16>int8", 65536,
         WRING_CODEC_FEEDBACK | WRING_CODEC_TWO_WAYS},
        {"topk+ef21+momentum", "topk+momentum+ef21", 65536,
         WRING_CODEC_FEEDBACK | WRING_CODEC_ALTERS | WRING_CODEC_TWO_WAYS},
        {"topk+ef21>int8+ef", "topk+ef21>int8+ef", 65536,
         WRING_CODEC_FEEDBACK | WRING_CODEC_ALTERS | WRING_CODEC_TWO_WAYS},
        {"qsgd+momentum", "qsgd+momentum", 256, WRING_CODEC_FIXED | WRING_CODEC_ALTERS},
        {"onebit+momentum+ef>int8", "onebit+momentum+ef>int8", 1024,
         WRING_CODEC_FEEDBACK | WRING_CODEC_TWO_WAYS | WRING_CODEC_ALTERS},
        {"qsgd+ef", "qsgd+ef", 256, WRING_CODEC_FIXED | WRING_CODEC_FEEDBACK},
        {"bf16:round=random", "bf16:round=random", 1, WRING_CODEC_FIXED | WRING_CODEC_UNBIASED},
        {"fp16:round=random+ef", "fp16:round=random+ef", 1,
         WRING_CODEC_FIXED | WRING_CODEC_FEEDBACK},
        {"bf16:round=nearest", "bf16", 1, WRING_CODEC_FIXED},
        {"bounded:error=.0001", "bounded", 256, 0},
        {"bounded:error=20.010", "bounded:error=20.01", 256, 0},
        {"bounded:error=123456.000000001", "bounded:error=123456.000000001", 256, 0},
        {"bounded:block=64:error=0.000000001+ef", "bounded:error=0.000000001:block=64+ef", 64,
         WRING_CODEC_FEEDBACK},
        {"int4:range=absmax", "int4", 128, WRING_CODEC_FIXED},
        {"int2:range=minmax:block=64+ef", "int2:block=64:range=minmax+ef", 64,
         WRING_CODEC_FIXED | WRING_CODEC_FEEDBACK},
        {"int8:range=minmax", "int8:range=minmax", 512, WRING_CODEC_FIXED},
        {"fp8:block=512:round=even:format=e4m3", "fp8", 512, WRING_CODEC_FIXED},
        {"fp8:block=64:round=random:format=e5m2", "fp8:format=e5m2:round=random:block=64", 64,
         WRING_CODEC_FIXED | WRING_CODEC_UNBIASED},
        {"mxfp8:round=random+ef", "mxfp8:round=random+ef", 128,
         WRING_CODEC_FIXED | WRING_CODEC_FEEDBACK},
        {"mxfp4:round=random", "mxfp4:round=random", 128, WRING_CODEC_FIXED | WRING_CODEC_UNBIASED},
        {"nvfp4:block=1024>mxfp8", "nvfp4>mxfp8", 1024, WRING_CODEC_TWO_WAYS},
        {"none>none", "none", 1,
         WRING_CODEC_RAW | WRING_CODEC_SUMMABLE | WRING_CODEC_UNBIASED | WRING_CODEC_FIXED |
             WRING_CODEC_EXACT},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct wring_codec *codec = NULL;
        char why[400] = "";
        wring_codec_create(good[i].spec, NULL, NULL, why, sizeof(why), &codec);
        REQUIRE(codec != NULL, "%s: %s", good[i].spec, why);
        const struct wring_codec_info *info = wring_codec_info(codec);
        CHECK(strcmp(info->spec, good[i].canonical) == 0, "%s became %s", good[i].spec, info->spec);
        CHECK(info->unit == good[i].unit, "%s: unit %zu", good[i].spec, (size_t)info->unit);
        CHECK(info->flags == good[i].flags, "%s: flags %x", good[i].spec, info->flags);
        wring_codec_destroy(codec);
    }
}

static void refusals(void)
{
    static const struct {
        const char *spec, *why;
    } bad[] = {
        {"", "no codec ''; there are " CODECS},
        {"int9", "no codec 'int9'; there are " CODECS},
        {"int8>int9", "no codec 'int9'; there are " CODECS},
        {"none+ef", "none+ef: none loses nothing that could be fed back; leave +ef away"},
        {"lossless+ef",
         "lossless+ef: lossless loses nothing that could be fed back; leave +ef away"},
        {"sharedint:width=12", "sharedint:width=12: needs one of 4|8|16"},
        {"int8>sharedint", "int8>sharedint: only the way in has rounds; name another way back"},
        {"thc:block=96", "thc:block=96: needs a power of two from 32 to 2048"},
        {"thc:block=64:rotate=128",
         "thc:rotate=128: needs 0 or a power of two from 32 to the block's 64"},
        {"thc:width=16:sums=saturate",
         "thc:width=16:sums=saturate: only sums of 4 and 8 bits saturate"},
        {"thc:rotate=96", "thc:rotate=96: needs 0 or a power of two from 32 to the block's 1024"},
        {"signum+ef",
         "signum+ef: signs alone have no scale that a residual could have; use onebit+ef"},
        {"signum:beta=2", "signum:beta=2: needs a decimal number from 0 to 1"},
        {"signsgd+ef",
         "signsgd+ef: signs alone have no scale that a residual could have; use onebit+ef"},
        {"signsgd:block=4128", "signsgd:block=4128: needs a multiple of 32 from 32 to 4096"},
        {"topkc:block=96:chunk=64", "topkc: blocks of 96 elements have no whole chunks of 64; make "
                                    "block a multiple of chunk"},
        {"none>topkc", "none>topkc: only the way in has rounds; name another way back"},
        {"dgc+ef", "dgc+ef: dgc keeps what it has not sent in a state of its own; leave +ef away"},
        {"union+ef", "union+ef: union loses nothing that could be fed back; leave +ef away"},
        {"lossless:block=4128", "lossless:block=4128: needs a multiple of 32 from 32 to 4096"},
        {"bf16:x=1", "bf16: no parameter 'x'; it takes round"},
        {"none:x=1", "none: no parameter 'x'; it takes none"},
        {"bounded:error=0", "bounded:error=0: needs a decimal number from 0.000000001 to 1000000"},
        {"bf16:round=up", "bf16:round=up: needs one of nearest|random"},
        {"topk:k=1", "topk: no parameter 'k'; it takes ratio, block, select, index"},
        {"int8:", "int8:: a parameter is written name=value"},
        {"int8:block", "int8:block: a parameter is written name=value"},
        {"int8:block=", "int8:block=: needs a multiple of 32 from 32 to 65536"},
        {"int8:block=100", "int8:block=100: needs a multiple of 32 from 32 to 65536"},
        {"int8:block=0", "int8:block=0: needs a multiple of 32 from 32 to 65536"},
        {"int8:block=-32", "int8:block=-32: needs a multiple of 32 from 32 to 65536"},
        {"int8:block=512.5", "int8:block=512.5: needs a multiple of 32 from 32 to 65536"},
        {"int8:block=64:block=64", "int8: block is given twice"},
        {"onebit:means=3", "onebit:means=3: needs a whole number from 1 to 2"},
        {"topk:ratio=0", "topk:ratio=0: needs a decimal number from 0.000001 to 1"},
        {"topk:ratio=1e-3", "topk:ratio=1e-3: needs a decimal number from 0.000001 to 1"},
        {"topk:ratio=.", "topk:ratio=.: needs a decimal number from 0.000001 to 1"},
        {"topk:ratio=0.1444404444444441",
         "topk:ratio=0.1444404444444441: needs a decimal number from 0.000001 to 1"},
        {"topk:ratio=nan", "topk:ratio=nan: needs a decimal number from 0.000001 to 1"},
        {"topk:ratio=0,5", "topk:ratio=0,5: needs a decimal number from 0.000001 to 1"},
        {"topk:select=best", "topk:select=best: needs one of sampled|exact"},
        {"terngrad:clip=0.5", "terngrad:clip=0.5: needs a decimal number from 1 to 1000"},
        {"qsgd:bits=3", "qsgd:bits=3: needs one of 2|4|8"},
        {"fp8:format=e3m4", "fp8:format=e3m4: needs one of e4m3|e5m2"},
        {"nvfp4:block=2048", "nvfp4:block=2048: needs a multiple of 64 from 64 to 1024"},
        {"onebit+more", "onebit: no suffix '+more'; there are " SUFFIXES},
        {"onebit+", "onebit: no suffix '+'; there are " SUFFIXES},
        {"onebit+momentum+momentum", "onebit: +momentum is given twice"},
        {"onebit+momentum+nesterov", "onebit: one momentum is enough; take +momentum or +nesterov"},
        {"onebit+momentum:beta=1", "+momentum:beta=1: needs a decimal number from 0 to 0.9999"},
        {"onebit+momentum:means=2",
         "+momentum: no parameter 'means'; it takes beta, and those of onebit stand before it"},
        {"onebit+momentum:beta", "+momentum:beta: a parameter is written name=value"},
        {"onebit+momentum:beta=0:beta=0", "+momentum: it takes one parameter, beta"},
        {"onebit+ef+ef21", "onebit: one feedback is enough; take +ef or +ef21"},
        {"none+ef21", "none+ef21: none loses nothing that could be fed back; leave +ef21 away"},
        {"randk+ef21", "randk+ef21: " NO_DIFFERENCES},
        {"powersgd:rank=3", "powersgd:rank=3: needs one of 1|2|4|8"},
        {"powersgd+ef21", "powersgd+ef21: " NO_DIFFERENCES},
        {"topk+ef21>int8", "topk+ef21>int8: differences come back as differences, of which nothing "
                           "may be lost; name a way back with +ef"},
        {"topk+ef21>int8+ef:residual=bf16",
         "topk+ef21>int8+ef:residual=bf16: results add up all differences, and so what this "
         "residual rounds, step after step; leave :residual= away"},
        {"topk+ef21>int8+ef:residual=int8",
         "topk+ef21>int8+ef:residual=int8: results add up all differences, and so what this "
         "residual rounds, step after step; leave :residual= away"},
        {"topk>int8+ef21", "topk>int8+ef21: only the way in has state; name another way back"},
        {"none+momentum",
         "none+momentum: raw data runs no codec that could keep momentum; take lossless+momentum"},
        {"dgc+nesterov", "dgc+nesterov: dgc keeps momentum of its own; leave +nesterov away"},
        {"int8>onebit+momentum",
         "int8>onebit+momentum: only the way in has state; name another way back"},
        {"topk+warmup:steps=0", "+warmup:steps=0: needs a whole number from 1 to 1000000000"},
        {"dgc+warmup", "dgc+warmup: dgc has a parameter for that; write dgc:warmup=STEPS"},
        {"int8+warmup", "int8+warmup: int8 has no ratio; topk, randk, topkc and hashed have one"},
        {"threshold+warmup",
         "threshold+warmup: threshold has no ratio; topk, randk, topkc and hashed have one"},
        {"threshold+ef21", "threshold+ef21: " NO_DIFFERENCES},
        {"threshold:value=0",
         "threshold:value=0: needs a decimal number from 0.000000001 to 1000000"},
        {"threshold:cap=1.5", "threshold:cap=1.5: needs a decimal number from 0.000001 to 1"},
        {"threshold:block=128", "threshold:block=128: needs a multiple of 32 from 256 to 65536"},
        {"threshold:index=long", "threshold:index=long: needs one of short|packed"},
        {"threshold/topk", "threshold/topk: " NO_VALUES},
        {"topk/", "topk/: needs the codec of its values, as in topk/int8"},
        {"topk/int9", "no codec 'int9'; there are " CODECS},
        {"topk+ef/int8", "topk: '/int8' stands behind a suffix; the order is "
                         "name:param=value/values+suffix"},
        {"randk/int8",
         "randk/int8: randk sends no values that another codec could code; topk and threshold do"},
        {"topk/int8/bf16",
         "int8/bf16: int8 sends no values that another codec could code; topk and threshold do"},
        {"topk/none", "topk/none: " NO_VALUES},
        {"topk/int8:block=2048", "topk/int8:block=2048: " NO_VALUES},
        {"topk/sharedint", "topk/sharedint: " NO_VALUES},
        {"onebit+ef+ef", "onebit: +ef is given twice"},
        {"onebit+ef:means=2",
         "+ef: no parameter 'means'; it takes residual, and those of onebit stand before it"},
        {"onebit+ef21:means=2", "onebit: parameters stand before +ef21"},
        {"int8+ef:residual=int4", "+ef:residual=int4: needs one of f32|bf16|int8"},
        {"topk+momentum+ef:residual=int8",
         "topk+momentum+ef:residual=int8: what owners hold back of sums, apart from contributions, "
         "is kept as f32 or bf16; write :residual=bf16"},
        {"bf16+ef:residual=bf16", "bf16+ef:residual=bf16: " NO_SHORT},
        {"sharedint+ef:residual=bf16", "sharedint+ef:residual=bf16: " NO_SHORT},
        {"topk+ef:residual=bf16>int8+ef",
         "topk+ef:residual=bf16>int8+ef: both ways share one residual; write the same :residual "
         "behind both"},
        {">int8", ">int8: needs a codec on both sides of '>'"},
        {"int8>", "int8>: needs a codec on both sides of '>'"},
        {">", ">: needs a codec on both sides of '>'"},
        {"int8>bf16>fp16", "int8>bf16>fp16: there is one way in and one back; name two codecs"},
        {"int8:block=1>bf16", "int8:block=1: needs a multiple of 32 from 32 to 65536"},
        {"bf16>none+ef", "none+ef: none loses nothing that could be fed back; leave +ef away"},
        {"int8:block=96>onebit",
         "int8:block=96>onebit: blocks of 96 and 1024 elements; make one a multiple of the other"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct wring_codec *codec = NULL;
        char why[400] = "";
        enum wring_status status =
            wring_codec_create(bad[i].spec, NULL, NULL, why, sizeof(why), &codec);
        CHECK(status == WRING_ERR_INVALID && codec == NULL, "'%s' was taken", bad[i].spec);
        CHECK(strcmp(why, bad[i].why) == 0, "'%s' is refused with: %s", bad[i].spec, why);
    }
}

/** The library's codecs of which a spec is made that is taken, in the order of documentation.
 *  @param before, behind  what stands around the name @param taken  out, [room] */
static void list_taken(const char *before, const char *behind, char *taken, size_t room)
{
    taken[0] = '\0';
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        struct wring_codec *codec = NULL;
        char spec[WRING_CODEC_SPEC_MAX];

        snprintf(spec, sizeof(spec), "%s%s%s", before, (*ops)->name, behind);
        if (wring_codec_create(spec, NULL, NULL, NULL, 0, &codec) == WRING_OK)
            snprintf(taken + strlen(taken), room - strlen(taken), "%s ", (*ops)->name);
        wring_codec_destroy(codec);
    }
}

/** What the texts of refusals call a rule. A new codec belongs in a list here, or in none. */
static void who_may_code_values_and_differences(void)
{
    static const struct {
        const char *before, *behind, *taken;
    } rules[] = {
        {"topk/", "", "bf16 fp16 int8 onebit qsgd natural int4 int2 fp8 mxfp8 mxfp4 nvfp4 "},
        {"threshold/", "", "bf16 fp16 int8 onebit qsgd natural int4 int2 fp8 mxfp8 mxfp4 nvfp4 "},
        {"", "+ef21",
         "bf16 fp16 int8 onebit topk qsgd natural int4 int2 bounded fp8 mxfp8 mxfp4 nvfp4 "},
        {"", "+ef:residual=int8",
         "int8 onebit topk randk hashed threshold qsgd natural int4 int2 bounded fp8 mxfp8 mxfp4 "
         "nvfp4 "},
        {"", "+warmup", "topk randk topkc hashed "},
        {"", "+warmup+ef21", "topk "},
    };

    for (size_t r = 0; r < sizeof(rules) / sizeof(rules[0]); r++) {
        char taken[400];
        list_taken(rules[r].before, rules[r].behind, taken, sizeof(taken));
        CHECK(strcmp(taken, rules[r].taken) == 0, "%sCODEC%s: %s", rules[r].before, rules[r].behind,
              taken);
    }
}

/** Each way of a pair is the codec that its side names. */
static void two_ways(void)
{
    const struct wring_codec_context in = {.ranks = 1}, back = {.ranks = 1, .phase = 1};
    const float x[4] = {1, -2, 3, -4};
    float y[4];
    unsigned char code[16];
    struct wring_codec *pair = NULL, *plain = NULL;

    wring_codec_create("onebit+ef>fp16", NULL, NULL, NULL, 0, &pair);
    wring_codec_create("int8+ef", NULL, NULL, NULL, 0, &plain);
    REQUIRE(pair != NULL && plain != NULL, "not made");
    const struct wring_codec *ways[] = {wring_codec_way(pair, 0), wring_codec_way(pair, 1)};
    CHECK(strcmp(wring_codec_info(ways[0])->spec, "onebit+ef") == 0, "in is another");
    CHECK(strcmp(wring_codec_info(ways[1])->spec, "fp16") == 0, "back is another");
    CHECK(wring_codec_info(ways[1])->flags == WRING_CODEC_FIXED, "back has other flags");
    CHECK(wring_codec_bound(pair, 4) == 8 && wring_codec_bound(pair, 0) == 0, "bound of a pair");
    CHECK(wring_codec_encode(pair, &in, x, 4, NULL, code) == 5, "in: other bytes");
    CHECK(wring_codec_decode(pair, &in, code, 5, y, 4, false) == WRING_OK && y[3] == -2.5f, "in");
    CHECK(wring_codec_encode(pair, &back, x, 4, NULL, code) == 8, "back: other bytes");
    CHECK(wring_codec_decode(pair, &back, code, 8, y, 4, false) == WRING_OK && y[3] == -4, "back");
    CHECK(wring_codec_decode(pair, &back, code, 5, y, 4, false) == WRING_ERR_FRAME, "mixed up");
    CHECK(wring_codec_way(plain, 0) == plain && wring_codec_way(plain, 1) == plain, "plain codec");
    wring_codec_destroy(pair);
    wring_codec_destroy(plain);
}

/** A codec may name who takes its sums back: nothing is fed back there. */
static void named_way_back(void)
{
    struct wring_codec *codec = NULL, *pair = NULL, *other = NULL;

    wring_codec_create("randk:block=96:seed=private+ef", NULL, NULL, NULL, 0, &other);
    REQUIRE(other != NULL, "not made");
    CHECK(strcmp(wring_codec_info(wring_codec_way(other, 1))->spec, "union:block=96") == 0,
          "it is %s", wring_codec_info(wring_codec_way(other, 1))->spec);
    CHECK(wring_codec_bound(other, 96) == 4 + 4 * 96, "bound is that of both ways");
    wring_codec_destroy(other);
    wring_codec_create("randk:ratio=0.5+ef", NULL, NULL, NULL, 0, &codec);
    wring_codec_create("none>randk:ratio=0.5", NULL, NULL, NULL, 0, &pair);
    REQUIRE(codec != NULL && pair != NULL, "not made");
    const struct wring_codec *back = wring_codec_way(codec, 1);
    CHECK(wring_codec_way(codec, 0) == codec && back != codec, "one codec for both ways");
    CHECK(strcmp(wring_codec_info(back)->spec, "randk:ratio=0.5") == 0, "it is %s",
          wring_codec_info(back)->spec);
    CHECK((wring_codec_info(back)->flags & WRING_CODEC_FEEDBACK) == 0, "it feeds back");
    CHECK(wring_codec_way(back, 1) == back, "it has a way back itself");
    const struct wring_codec *named = wring_codec_way(pair, 1);
    CHECK(wring_codec_way(named, 1) == named, "a way back that the user names has another");
    wring_codec_destroy(codec);
    wring_codec_destroy(pair);
}

static void long_and_silent(void)
{
    char spec[400];
    struct wring_codec *codec = NULL;

    memset(spec, 'x', sizeof(spec) - 1);
    spec[sizeof(spec) - 1] = '\0';
    CHECK(wring_codec_create(spec, NULL, NULL, NULL, 0, &codec) == WRING_ERR_INVALID,
          "long text taken");
    spec[4] = '>';
    CHECK(wring_codec_create(spec, NULL, NULL, NULL, 0, &codec) == WRING_ERR_INVALID,
          "long pair taken");
    CHECK(wring_codec_create("none", "sse9", NULL, NULL, 0, &codec) == WRING_ERR_INVALID,
          "tier taken");
    CHECK(wring_codec_create("none", "scalar", NULL, NULL, 0, &codec) == WRING_OK,
          "scalar refused");
    CHECK(strcmp(wring_codec_info(codec)->tier, "scalar") == 0, "other tier");
    wring_codec_destroy(codec);
    wring_codec_destroy(NULL);
}

/** A decimal comma in the application's locale must not reach us. */
static void foreign_locale(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "nl_NL.UTF-8"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (setlocale(LC_NUMERIC, names[i]) != NULL) {
            canonical_form();
            refusals();
            setlocale(LC_NUMERIC, "C");
            return;
        }
    puts("no locale with a decimal comma is installed here: nothing to check");
}

static const struct wring_test_case cases[] = {
    {"canonical_form", canonical_form},
    {"refusals", refusals},
    {"who_may_code_values_and_differences", who_may_code_values_and_differences},
    {"two_ways", two_ways},
    {"named_way_back", named_way_back},
    {"long_and_silent", long_and_silent},
    {"foreign_locale", foreign_locale},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
