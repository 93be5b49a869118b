/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Momentum before a codec, whose residual then keeps what its codes lose of that:
 *
 *     +momentum   m = beta * m + input                  m is encoded
 *     +nesterov   m = beta * m + input                  input + beta * m is encoded
 *
 * Momentum before compression and not after it: Lin and others, Deep Gradient Compression
 * (arXiv:1712.01887); Zheng and others (arXiv:1905.10936) for Nesterov's. FORMAT.md, "Momentum".
 *
 * For +nesterov the state holds input + beta * m while codes are made, and beta * m between steps.
 */
#include "compress/compose.h"

#include <stdio.h>
#include <string.h>

#include "compress/codecs/values.h"
#include "compress/kernels/momentum.h"
#include "compress/kernels/sparse.h"

#define TILE_ELEMS 4096 /* 16 KiB of float32 stay in the first cache */
#define STATE_NAME "momentum"

static bool has_momentum(const struct wring_codec *codec)
{
    return wring_codec_has_suffix(codec, WRING_SUFFIX_MOMENTUM) ||
           wring_codec_has_suffix(codec, WRING_SUFFIX_NESTEROV);
}

static const char *momentum_name(const struct wring_codec *codec)
{
    return wring_codec_has_suffix(codec, WRING_SUFFIX_MOMENTUM) ? "+momentum" : "+nesterov";
}

/* ---- parts of a run ---- */

/** Units that follow each other, all of them finite, or just one that is not. */
struct part {
    uint64_t begin, n;
    uint64_t single_until; /* there is something that is not finite before that element */
    bool finite;
};

static bool is_finite(const struct wring_codec *codec, const float *src, uint64_t n)
{
    return codec->composed.sparse->peak(src, NULL, n) < WRING_INF_BITS;
}

static uint64_t tile_of(const struct wring_codec *codec, uint64_t elems)
{
    uint64_t tile = codec->info.unit;

    if (tile == 0)
        return elems;
    while (tile < TILE_ELEMS)
        tile *= 2;
    return tile;
}

/** Go on to the next part, from the first one, which is all zeros. @return false: there is none */
static bool next_part(const struct wring_codec *codec, const float *src, uint64_t elems,
                      struct part *part)
{
    uint64_t unit = codec->info.unit != 0 ? codec->info.unit : elems;

    part->begin += part->n;
    if (part->begin >= elems)
        return false;
    bool single = part->begin < part->single_until;
    part->n = wring_codec_unit_length(single ? unit : tile_of(codec, elems), elems - part->begin);
    part->finite = is_finite(codec, src + part->begin, part->n);
    if (part->finite || part->n <= unit)
        return true;
    part->single_until = part->begin + part->n;
    part->n = unit;
    part->finite = is_finite(codec, src + part->begin, unit);
    return true;
}

/* ---- momentum ---- */

/** The state of the run that begins at that element of the bucket. */
static float *momentum_at(const struct wring_codec *codec,
                          const struct wring_codec_context *context)
{
    return (float *)context->states[codec->base->n_states] + context->element;
}

static void advance(const struct wring_codec *codec, float *momentum, const float *src, uint64_t n)
{
    const struct wring_momentum_kernels *kernels = codec->composed.momentum;

    if (wring_codec_has_suffix(codec, WRING_SUFFIX_MOMENTUM))
        kernels->advance(momentum, src, n, (float)codec->suffix_params[WRING_SUFFIX_MOMENTUM]);
    else
        kernels->look_ahead(momentum, src, n, (float)codec->suffix_params[WRING_SUFFIX_NESTEROV]);
}

/** What is not finite is encoded as it is, and leaves its momentum. A codec with rounds has taken
 *  the step in the first of them. */
static size_t encode_part(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          const struct part *part, float *residual, void *code, void *scratch)
{
    float *momentum = momentum_at(codec, context);

    if (!part->finite)
        return codec->base->encode(codec, context, src, part->n, residual, code, scratch);
    if (codec->base->n_rounds == 0)
        advance(codec, momentum, src, part->n);
    size_t bytes = codec->base->encode(codec, context, momentum, part->n, residual, code, scratch);
    if (wring_codec_has_suffix(codec, WRING_SUFFIX_NESTEROV))
        codec->composed.momentum->step_back(momentum, src, part->n);
    return bytes;
}

static size_t momentum_encode(const struct wring_codec *codec,
                              const struct wring_codec_context *context, const float *src,
                              uint64_t elems, float *residual, void *code, void *scratch)
{
    struct wring_codec_context at = *context;
    struct part part = {0};
    size_t bytes = 0;

    if (context->phase != 0)
        return codec->base->encode(codec, context, src, elems, residual, code, scratch);
    while (next_part(codec, src, elems, &part)) {
        at.element = context->element + part.begin;
        bytes += encode_part(codec, &at, src + part.begin, &part,
                             residual != NULL ? residual + part.begin : NULL,
                             (unsigned char *)code + bytes, scratch);
    }
    return bytes;
}

/** A round sees what is going to be encoded. */
static void fold(const struct wring_codec *codec, const struct wring_codec_context *context,
                 const float *src, uint64_t elems, const float *residual, void *statistics,
                 void *scratch, unsigned round)
{
    struct wring_codec_context at = *context;
    struct part part = {0};

    while (next_part(codec, src, elems, &part)) {
        at.element = context->element + part.begin;
        float *momentum = momentum_at(codec, &at);
        if (part.finite && round == 0)
            advance(codec, momentum, src + part.begin, part.n);
        codec->base->rounds[round].begin(codec, &at, part.finite ? momentum : src + part.begin,
                                         part.n, residual != NULL ? residual + part.begin : NULL,
                                         statistics, scratch);
    }
}

#define FOLD(index)                                                                               \
    static void fold_##index(                                                                     \
        const struct wring_codec *codec, const struct wring_codec_context *context,               \
        const float *src, uint64_t elems, const float *residual, void *statistics, void *scratch) \
    {                                                                                             \
        fold(codec, context, src, elems, residual, statistics, scratch, index);                   \
    }
FOLD(0)
FOLD(1)
FOLD(2)
FOLD(3)

static void (*const folds[WRING_CODEC_ROUNDS_MAX])(const struct wring_codec *,
                                                   const struct wring_codec_context *,
                                                   const float *, uint64_t, const float *, void *,
                                                   void *) = {fold_0, fold_1, fold_2, fold_3};

static const struct wring_codec_state momentum_state = {
    .name = STATE_NAME,
    .doc = "momentum of the rank's contributions",
    .holder = WRING_CODEC_PRIVATE,
    .dtype = WRING_F32,
};

static bool has_state(const struct wring_codec_ops *ops, const char *name)
{
    bool has = false;

    for (size_t i = 0; i < ops->n_states; i++)
        has |= strcmp(ops->states[i].name, name) == 0;
    return has;
}

static enum wring_status check_momentum(const struct wring_codec *codec, char *why,
                                        size_t why_bytes)
{
    const struct wring_codec_ops *base = codec->base;
    const char *name = base->name, *suffix = momentum_name(codec);

    if (wring_codec_has_suffix(codec, WRING_SUFFIX_MOMENTUM) &&
        wring_codec_has_suffix(codec, WRING_SUFFIX_NESTEROV))
        snprintf(why, why_bytes, "%s: one momentum is enough; take +momentum or +nesterov", name);
    else if (base->flags & WRING_CODEC_RAW)
        snprintf(why, why_bytes,
                 "%s%s: raw data runs no codec that could keep momentum; take "
                 "lossless%s",
                 name, suffix, suffix);
    else if ((base->flags & WRING_CODEC_ALTERS && base->n_states > 0) ||
             has_state(base, STATE_NAME))
        snprintf(why, why_bytes, "%s%s: %s keeps momentum of its own; leave %s away", name, suffix,
                 name, suffix);
    else if (base->n_states == WRING_CODEC_STATES_MAX)
        snprintf(why, why_bytes, "%s%s: %s has %d states already; leave %s away", name, suffix,
                 name, WRING_CODEC_STATES_MAX, suffix);
    else
        return WRING_OK;
    return WRING_ERR_INVALID;
}

static void put_momentum_around(struct wring_codec *codec)
{
    struct wring_composition *composed = &codec->composed;
    const struct wring_codec_ops *base = codec->base;

    const struct wring_momentum_tier *momentum =
        wring_kernels_pick(wring_momentum_tiers, sizeof(wring_momentum_tiers[0]), codec->tier);
    const struct wring_sparse_tier *sparse =
        wring_kernels_pick(wring_sparse_tiers, sizeof(wring_sparse_tiers[0]), codec->tier);
    composed->momentum = momentum->kernels;
    composed->sparse = sparse->kernels;
    for (size_t i = 0; i < base->n_states; i++)
        composed->states[i] = base->states[i];
    composed->states[base->n_states] = momentum_state;
    for (size_t i = 0; i < base->n_rounds; i++) {
        composed->rounds[i] = base->rounds[i];
        composed->rounds[i].begin = folds[i];
    }
    composed->ops.encode = momentum_encode;
    composed->ops.states = composed->states;
    composed->ops.n_states = base->n_states + 1;
    composed->ops.rounds = composed->rounds;
    codec->info.flags |= WRING_CODEC_ALTERS;
    codec->info.flags &= ~(unsigned)WRING_CODEC_UNBIASED;
}

/* ---- values ---- */

static bool may_code_values(const struct wring_codec *codec)
{
    unsigned unlike = WRING_CODEC_RAW | WRING_CODEC_FEEDBACK | WRING_CODEC_TWO_WAYS |
                      WRING_CODEC_ALTERS | WRING_CODEC_OWN;

    return codec->info.flags & WRING_CODEC_FIXED && !(codec->info.flags & unlike) &&
           codec->ops->n_rounds == 0 && codec->ops->n_states == 0 &&
           codec->ops->scratch_bytes == 0 && codec->info.unit != 0 &&
           codec->info.unit <= WRING_VALUES_PIECE;
}

static enum wring_status check_values(const struct wring_codec *codec, char *why, size_t why_bytes)
{
    const char *name = codec->base->name, *values = codec->values->spec;

    if (codec->base != &wring_codec_topk)
        snprintf(why, why_bytes,
                 "%s/%s: %s sends no values that another codec could code; topk does", name, values,
                 name);
    else if (!may_code_values(codec->values))
        snprintf(
            why, why_bytes,
            "%s/%s: values need a codec of fixed size, with blocks of at most %d and no rounds "
            "or state: bf16, fp16, int8, onebit, qsgd or natural",
            name, values, WRING_VALUES_PIECE);
    else
        return WRING_OK;
    return WRING_ERR_INVALID;
}

/** The codec of "/values", if the spec has one. Under feedback it has feedback, too, so that it
 *  codes as is right where nothing is lost. */
enum wring_status wring_compose_values(struct wring_codec *codec, const char *tier,
                                       const struct wring_codec_ops *const *own, char *why,
                                       size_t why_bytes)
{
    const char *spec = codec->values_spec;
    char fed[WRING_CODEC_SPEC_MAX + 4];

    if (spec[0] == '\0')
        return WRING_OK;
    enum wring_status status =
        wring_codec_create_way(spec, tier, own, false, why, why_bytes, &codec->values);
    if (status == WRING_OK)
        status = check_values(codec, why, why_bytes);
    if (status != WRING_OK || !(codec->info.flags & WRING_CODEC_FEEDBACK))
        return status;
    wring_codec_destroy(codec->values);
    codec->values = NULL;
    snprintf(fed, sizeof(fed), "%s+ef", spec);
    return wring_codec_create_way(fed, tier, own, false, why, why_bytes, &codec->values);
}

/* ---- all ---- */

static enum wring_status check_warmup(const struct wring_codec *codec, char *why, size_t why_bytes)
{
    static const struct wring_codec_ops *const warm[] = {
        &wring_codec_topk, &wring_codec_randk, &wring_codec_topkc, &wring_codec_hashed, NULL,
    };

    for (const struct wring_codec_ops *const *ops = warm; *ops != NULL; ops++)
        if (codec->base == *ops)
            return WRING_OK;
    if (codec->base == &wring_codec_dgc)
        snprintf(why, why_bytes,
                 "dgc+warmup: dgc has a parameter for that; write dgc:warmup=STEPS");
    else
        snprintf(why, why_bytes,
                 "%s+warmup: %s has no ratio; topk, randk, topkc and hashed have one",
                 codec->base->name, codec->base->name);
    return WRING_ERR_INVALID;
}

enum wring_status wring_compose_check(const struct wring_codec *codec, char *why, size_t why_bytes)
{
    return wring_codec_has_suffix(codec, WRING_SUFFIX_WARMUP) ? check_warmup(codec, why, why_bytes)
                                                              : WRING_OK;
}

enum wring_status wring_compose(struct wring_codec *codec, char *why, size_t why_bytes)
{
    if (wring_codec_has_suffix(codec, WRING_SUFFIX_WARMUP)) /* later codes are shorter */
        codec->info.flags &= ~(unsigned)WRING_CODEC_FIXED;
    if (!has_momentum(codec))
        return WRING_OK;
    enum wring_status status = check_momentum(codec, why, why_bytes);
    if (status != WRING_OK)
        return status;
    codec->composed.ops = *codec->base;
    put_momentum_around(codec);
    codec->ops = &codec->composed.ops;
    return WRING_OK;
}

/* ---- residual of sums ---- */

#define OWED_NAME "owed"

static const struct wring_codec_state owed_state = {
    .name = OWED_NAME,
    .doc = "what codes of sums have not sent",
    .holder = WRING_CODEC_OWNER,
    .dtype = WRING_F32,
};

/** Codecs that may be bypassed keep nothing that a bypassed step could not send. */
static bool needs_owed(const struct wring_codec *codec)
{
    const struct wring_codec *in = wring_codec_way(codec, 0), *back = wring_codec_way(codec, 1);

    return in->info.flags & WRING_CODEC_ALTERS && in->ops->code_sum == NULL &&
           in->info.flags & back->info.flags & WRING_CODEC_FEEDBACK;
}

enum wring_status wring_compose_owed(struct wring_codec *codec, char *why, size_t why_bytes)
{
    struct wring_codec *in = codec->ways[0] != NULL ? codec->ways[0] : codec;
    struct wring_composition *composed = &in->composed;
    size_t n = in->ops->n_states;

    if (!needs_owed(codec))
        return WRING_OK;
    if (n == WRING_CODEC_STATES_MAX || has_state(in->ops, OWED_NAME)) {
        snprintf(
            why, why_bytes,
            "%s: its states leave no room for a residual of sums; name a way back without +ef, "
            "as in %s>none",
            codec->spec, in->spec);
        return WRING_ERR_INVALID;
    }
    for (size_t i = 0; i < n && in->ops == in->base; i++)
        composed->states[i] = in->base->states[i];
    if (in->ops == in->base)
        composed->ops = *in->base;
    composed->states[n] = owed_state;
    composed->ops.states = composed->states;
    composed->ops.n_states = n + 1;
    in->ops = &composed->ops;
    in->owed = (unsigned)n + 1;
    in->info.states = codec->info.states = (unsigned)n + 1;
    return WRING_OK;
}
