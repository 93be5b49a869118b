/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/configs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <wring/codec.h>

#include "compress/codec.h"
#include "tools/values.h"

static const struct preset {
    struct demo_config config;
    bool usual; /* where nobody chooses */
} presets[] = {
    {{"fp32", "fp32, uncompressed", "none", WRING_SCHEME_DIVISIBLE,
      "the honest baseline: nothing lost", 1, false},
     true},
    {{"bf16", "bf16", "bf16", WRING_SCHEME_DIVISIBLE, "what most jobs would use anyway", 1, false},
     true},
    {{"int8", "int8, block of 512", "int8", WRING_SCHEME_DIVISIBLE, "a quarter of the bytes", 1,
      false},
     true},
    {{"onebit+ef", "one bit + error feedback", "onebit:block=128+ef", WRING_SCHEME_INDIVISIBLE,
      "sign and mean; what is left out is sent later", 1, false},
     true},
    {{"topk+ef", "top 1 % + error feedback", "topk:ratio=0.01+ef", WRING_SCHEME_INDIVISIBLE,
      "the largest hundredth; the rest is sent later", 1, false},
     true},
    {{"onebit", "one bit, no error feedback", "onebit:block=128", WRING_SCHEME_INDIVISIBLE,
      "negative control: as fast, and wrong", 1, false},
     true},
    {{"fp16", "fp16", "fp16", WRING_SCHEME_DIVISIBLE, "half the bytes, a narrower range", 1, false},
     false},
    {{"onebit:means=2+ef", "one bit with two means + error feedback", "onebit:means=2:block=128+ef",
      WRING_SCHEME_INDIVISIBLE, "1-bit SGD", 1, false},
     false},
    {{"topk-two-way+ef", "top 0.1 % both ways + error feedback", "topk:ratio=0.001+ef",
      WRING_SCHEME_DIVISIBLE, "error feedback at worker and owner", 1, false},
     false},
    {{"randk+ef", "1 % at random + error feedback", "randk:ratio=0.01+ef", WRING_SCHEME_AUTO,
      "elements that all ranks draw alike", 1, false},
     false},
    {{"topkc+ef", "top 1 % of chunks + error feedback", "topkc:ratio=0.01+ef", WRING_SCHEME_AUTO,
      "chunks whose norms are largest on all ranks together", 1, false},
     false},
    {{"dgc", "deep gradient compression, 1 %", "dgc:ratio=0.01", WRING_SCHEME_AUTO,
      "momentum that collects until it is sent", 1, true},
     false},
    {{"hashed+ef", "hashed 1 % + error feedback", "hashed:ratio=0.01+ef", WRING_SCHEME_AUTO,
      "large elements in a table by their hash", 1, false},
     false},
    {{"threshold+ef", "from 0.1 on + error feedback", "threshold:value=0.1+ef", WRING_SCHEME_AUTO,
      "what reaches a value; the rest is sent later", 1, false},
     false},
    {{"qsgd", "QSGD, 4 bits", "qsgd:bits=4", WRING_SCHEME_AUTO,
      "levels rounded at random: right on average", 1, false},
     false},
    {{"qsgd+ef", "QSGD, 2 bits + error feedback", "qsgd:bits=2+ef", WRING_SCHEME_AUTO,
      "the same with a residual", 1, false},
     false},
    {{"natural", "natural compression", "natural:bits=8", WRING_SCHEME_AUTO,
      "powers of two, rounded at random", 1, false},
     false},
    {{"terngrad", "TernGrad", "terngrad", WRING_SCHEME_AUTO, "-1, 0 or 1 of a shared scale", 1,
      false},
     false},
    {{"fp8", "FP8, e4m3", "fp8", WRING_SCHEME_AUTO, "floats of 8 bits", 1, false}, false},
    {{"mxfp8", "MXFP8, e4m3", "mxfp8", WRING_SCHEME_AUTO, "8 bits, and a power of two for each 32",
      1, false},
     false},
    {{"mxfp4", "MXFP4, rounded at random", "mxfp4:round=random", WRING_SCHEME_AUTO,
      "4 bits, right on average", 1, false},
     false},
    {{"nvfp4", "NVFP4, rounded at random", "nvfp4:round=random", WRING_SCHEME_AUTO,
      "4 bits, and a step for each 16", 1, false},
     false},
    {{"signsgd", "signSGD, majority vote", "signsgd", WRING_SCHEME_AUTO,
      "the sum's sign alone: it needs a rate of its own", 0.01, false},
     false},
    {{"signum", "Signum, majority vote", "signum", WRING_SCHEME_AUTO, "the sign of momentum", 0.01,
      true},
     false},
    {{"sharedint", "8-bit steps of a shared scale", "sharedint", WRING_SCHEME_AUTO,
      "codes add up exactly", 1, false},
     false},
    {{"thc", "THC, 8 bits", "thc", WRING_SCHEME_AUTO, "blocks rotated at random; codes add up", 1,
      false},
     false},
    {{"powersgd+ef", "PowerSGD, rank 4 + error feedback", "powersgd+ef", WRING_SCHEME_AUTO,
      "matrices of low rank", 1, false},
     false},
    {{"bf16-random", "bf16, rounded at random", "bf16:round=random", WRING_SCHEME_DIVISIBLE,
      "right on average", 1, false},
     false},
    {{"bounded", "no error above 0.00001", "bounded:error=0.00001", WRING_SCHEME_AUTO,
      "as few bits as that takes", 1, false},
     false},
    {{"int4+ef", "int4, block of 128 + error feedback", "int4+ef", WRING_SCHEME_AUTO,
      "an eighth of the bytes", 1, false},
     false},
    {{"int2+ef", "int2, block of 128 + error feedback", "int2:range=minmax+ef", WRING_SCHEME_AUTO,
      "four values from a block's least to its largest", 1, false},
     false},
    {{"lossless", "lossless", "lossless", WRING_SCHEME_AUTO, "nothing lost, fewer bytes", 1, false},
     false},
    {{"topk-int8+ef", "top 1 %, their values in int8 + error feedback", "topk:ratio=0.01/int8+ef",
      WRING_SCHEME_AUTO, "half of topk's bytes", 1, false},
     false},
    {{"topk-warmup+ef", "top 1 % after a warm-up + error feedback",
      "topk:ratio=0.01+warmup:steps=100+ef", WRING_SCHEME_AUTO,
      "a quarter at first, then fewer in four stages", 1, false},
     false},
    {{"topk+momentum+ef21", "EF21 of momentum, top 1 %", "topk:ratio=0.01+momentum+ef21",
      WRING_SCHEME_AUTO, "differences to what all ranks hold", 1, true},
     false},
    {{"onebit-short+ef", "one bit + error feedback in int8", "onebit:block=128+ef:residual=int8",
      WRING_SCHEME_AUTO, "a residual of a quarter of the memory", 1, false},
     false},
    {{"onebit-bf16+ef", "one bit to the owner, bf16 back", "onebit:block=128+ef>bf16",
      WRING_SCHEME_AUTO, "another codec on the way back", 1, false},
     false},
};

#define PRESETS (sizeof(presets) / sizeof(presets[0]))

/** Codecs that keep a momentum of their own. */
static bool has_momentum(const char *spec)
{
    static const char *const names[] = {"dgc", "signum"};
    size_t name = strcspn(spec, ":+>");

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == name && strncmp(spec, names[i], name) == 0)
            return true;
    return strstr(spec, "+momentum") != NULL || strstr(spec, "+nesterov") != NULL;
}

static void add_config(struct demo_options *options, const struct demo_config *config)
{
    for (uint32_t i = 0; i < options->n_configs; i++)
        if (strcmp(options->configs[i].name, config->name) == 0)
            return;
    options->configs[options->n_configs++] = *config;
}

static bool add_presets(struct demo_options *options, const char *name, bool all)
{
    bool found = false;

    for (size_t i = 0; i < PRESETS; i++)
        if (name != NULL ? strcmp(presets[i].config.name, name) == 0 : all || presets[i].usual) {
            add_config(options, &presets[i].config);
            found = true;
        }
    return found;
}

static bool add_spec(struct demo_options *options, const char *spec, char *why, size_t bytes)
{
    struct wring_codec *codec;

    if (wring_codec_create(spec, NULL, NULL, why, bytes, &codec) != WRING_OK)
        return false;
    wring_codec_destroy(codec);
    add_config(options, &(struct demo_config){.name = spec,
                                              .label = spec,
                                              .codec = spec,
                                              .scheme = WRING_SCHEME_AUTO,
                                              .note = "",
                                              .rate_factor = 1,
                                              .momentum = has_momentum(spec)});
    return true;
}

/** Of one way's codec: its suffix's steps, or those that it has as a parameter. */
static double warmup_of_way(const struct wring_codec *way)
{
    if (wring_codec_has_suffix(way, WRING_SUFFIX_WARMUP))
        return way->suffix_params[WRING_SUFFIX_WARMUP];
    for (size_t i = 0; i < way->ops->n_params; i++)
        if (strcmp(way->ops->params[i].name, "warmup") == 0)
            return wring_codec_param(way, i);
    return 0;
}

uint32_t demo_config_warmup(const struct demo_config *config)
{
    struct wring_codec *codec;
    char why[256];
    double steps;

    if (wring_codec_create(config->codec, NULL, NULL, why, sizeof(why), &codec) != WRING_OK)
        return 0; /* "none" is no codec */
    steps =
        fmax(warmup_of_way(wring_codec_way(codec, 0)), warmup_of_way(wring_codec_way(codec, 1)));
    wring_codec_destroy(codec);
    return (uint32_t)steps;
}

bool demo_configs_choose(char *list, struct demo_options *options, char *why, size_t bytes)
{
    char *items[DEMO_CONFIGS_MAX];

    options->n_configs = 0;
    if (list == NULL)
        return add_presets(options, NULL, false);
    size_t n = wring_value_list(list, items, DEMO_CONFIGS_MAX - PRESETS);
    if (n == 0 || n == SIZE_MAX) {
        snprintf(why, bytes, "needs 1 to %zu names or specs", DEMO_CONFIGS_MAX - PRESETS);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        bool all = strcmp(items[i], "all") == 0;
        if (!add_presets(options, all ? NULL : items[i], all) &&
            !add_spec(options, items[i], why, bytes))
            return false;
    }
    return true;
}
