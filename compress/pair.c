/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/pair.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct wring_codec *way_of(const struct wring_codec *codec,
                                        const struct wring_codec_context *context)
{
    return wring_codec_way(codec, context->phase);
}

static uint64_t pair_unit(const struct wring_codec *codec)
{
    uint64_t in = codec->ways[0]->info.unit, out = codec->ways[1]->info.unit;
    return in > out ? in : out;
}

static size_t pair_bound(const struct wring_codec *codec, uint64_t elems)
{
    size_t in = wring_codec_bound(codec->ways[0], elems);
    size_t out = wring_codec_bound(codec->ways[1], elems);
    return in > out ? in : out;
}

static size_t pair_encode(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          uint64_t elems, float *residual, void *code, void *scratch)
{
    return wring_codec_encode_in(way_of(codec, context), context, src, elems, residual, code,
                                 scratch);
}

static enum wring_status pair_decode(const struct wring_codec *codec,
                                     const struct wring_codec_context *context, const void *code,
                                     size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    return wring_codec_decode(way_of(codec, context), context, code, code_bytes, dst, elems, add);
}

static const struct wring_codec_ops pair_ops = {
    .name = "in>out",
    .doc = "one codec on the way in, another on the sum's way back",
    .unit = pair_unit,
    .bound = pair_bound,
    .encode = pair_encode,
    .decode = pair_decode,
};

/** The codec that spec[0, length) names. */
static enum wring_status create_way(const char *spec, size_t length, const char *tier,
                                    const struct wring_codec_ops *const *own, char *why,
                                    size_t why_bytes, struct wring_codec **out)
{
    char text[WRING_CODEC_SPEC_MAX];
    memcpy(text, spec, length);
    text[length] = '\0';
    return wring_codec_create(text, tier, own, why, why_bytes, out);
}

/** What only the way in has. */
static enum wring_status check_back(const struct wring_codec *codec, char *why, size_t why_bytes)
{
    const struct wring_codec_info *in = &codec->ways[0]->info, *out = &codec->ways[1]->info;

    if (out->rounds == 0 && out->states == 0)
        return WRING_OK;
    snprintf(why, why_bytes, "%s>%s: only the way in has %s; name another way back", in->spec,
             out->spec, out->rounds > 0 ? "rounds" : "state");
    return WRING_ERR_INVALID;
}

/** Shards and chunks begin at units of both. */
static enum wring_status check_units(const struct wring_codec *codec, char *why, size_t why_bytes)
{
    const struct wring_codec_info *in = &codec->ways[0]->info, *out = &codec->ways[1]->info;
    uint64_t large = in->unit > out->unit ? in->unit : out->unit;

    if (in->unit == 0 || out->unit == 0) {
        snprintf(why, why_bytes, "%s>%s: a codec of whole buckets has no second way; name just one",
                 in->spec, out->spec);
        return WRING_ERR_INVALID;
    }
    if (large % in->unit != 0 || large % out->unit != 0) {
        snprintf(why, why_bytes,
                 "%s>%s: blocks of %" PRIu64 " and %" PRIu64
                 " elements; make one a multiple of the other",
                 in->spec, out->spec, in->unit, out->unit);
        return WRING_ERR_INVALID;
    }
    return WRING_OK;
}

static void describe(struct wring_codec *codec)
{
    const struct wring_codec *in = codec->ways[0], *out = codec->ways[1];
    unsigned both = in->info.flags & out->info.flags, either = in->info.flags | out->info.flags;

    codec->ops = &pair_ops;
    codec->tier = in->tier < out->tier ? in->tier : out->tier;
    codec->info.name = pair_ops.name;
    codec->info.spec = codec->spec;
    codec->info.identity = codec->identity;
    codec->info.tier = wring_cpu_tier_name(codec->tier);
    codec->info.flags = WRING_CODEC_TWO_WAYS | (both & WRING_CODEC_UNBIASED) |
                        (either & WRING_CODEC_FEEDBACK) | (in->info.flags & WRING_CODEC_ALTERS);
    codec->info.rounds = in->info.rounds;
    codec->info.states = in->info.states;
    codec->info.unit = pair_unit(codec);
}

/** Both ways, each owned by the pair. */
static enum wring_status set_up(struct wring_codec *codec, const char *spec, const char *tier,
                                const struct wring_codec_ops *const *own, char *why,
                                size_t why_bytes)
{
    size_t length = strcspn(spec, ">");
    const char *back = spec + length + 1;

    enum wring_status status = create_way(spec, length, tier, own, why, why_bytes, &codec->ways[0]);
    if (status == WRING_OK)
        status = create_way(back, strlen(back), tier, own, why, why_bytes, &codec->ways[1]);
    if (status == WRING_OK && strcmp(codec->ways[0]->spec, codec->ways[1]->spec) != 0)
        status = check_back(codec, why, why_bytes);
    if (status == WRING_OK)
        status = check_units(codec, why, why_bytes);
    if (status != WRING_OK)
        return status;
    int bytes = snprintf(codec->spec, sizeof(codec->spec), "%s>%s", codec->ways[0]->spec,
                         codec->ways[1]->spec);
    int identity = snprintf(codec->identity, sizeof(codec->identity), "%s>%s",
                            codec->ways[0]->identity, codec->ways[1]->identity);
    if ((size_t)bytes < sizeof(codec->spec) && (size_t)identity < sizeof(codec->identity))
        return WRING_OK;
    snprintf(why, why_bytes, "codec: longer than %d bytes", WRING_CODEC_SPEC_MAX - 1);
    return WRING_ERR_INVALID;
}

static enum wring_status check_form(const char *spec, char *why, size_t why_bytes)
{
    const char *mark = strchr(spec, '>');
    const char *fault = NULL;

    if (strlen(spec) >= WRING_CODEC_SPEC_MAX) {
        snprintf(why, why_bytes, "codec: longer than %d bytes", WRING_CODEC_SPEC_MAX - 1);
        return WRING_ERR_INVALID;
    }
    if (mark == spec || mark[1] == '\0')
        fault = "needs a codec on both sides of '>'";
    else if (strchr(mark + 1, '>') != NULL)
        fault = "there is one way in and one back; name two codecs";
    if (fault == NULL)
        return WRING_OK;
    snprintf(why, why_bytes, "%s: %s", spec, fault);
    return WRING_ERR_INVALID;
}

enum wring_status wring_pair_create(const char *spec, const char *tier,
                                    const struct wring_codec_ops *const *own, char *why,
                                    size_t why_bytes, struct wring_codec **out)
{
    enum wring_status status = check_form(spec, why, why_bytes);
    if (status != WRING_OK)
        return status;
    struct wring_codec *codec = calloc(1, sizeof(*codec));
    if (codec == NULL) {
        snprintf(why, why_bytes, "%s", wring_status_text(WRING_ERR_NO_MEMORY));
        return WRING_ERR_NO_MEMORY;
    }
    status = set_up(codec, spec, tier, own, why, why_bytes);
    if (status == WRING_OK && strcmp(codec->ways[0]->spec, codec->ways[1]->spec) != 0) {
        describe(codec);
        *out = codec;
        return WRING_OK;
    }
    if (status == WRING_OK) { /* the same both ways */
        *out = codec->ways[0];
        codec->ways[0] = NULL;
    }
    wring_codec_destroy(codec);
    return status;
}

void wring_pair_finish(struct wring_codec *codec)
{
    wring_codec_destroy(codec->ways[0]);
    wring_codec_destroy(codec->ways[1]);
}
