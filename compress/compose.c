/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Momentum before a codec, whose residual then keeps what its codes lose of that, and differences:
 *
 *     +momentum   m = beta * m + input                  m is encoded
 *     +nesterov   m = beta * m + input                  input + beta * m is encoded
 *     +ef21       input - g is encoded                  g = g + what that decodes to
 *
 * Each rank's g approaches its input. An owner adds up what comes in, as the sum of all g does, and
 * sends it on with error feedback: that is the difference between this sum and what all ranks hold
 * of it. Richtarik, Sokolov and Fatkhullin, EF21 (arXiv:2106.05203); both ways, Fatkhullin and
 * others (arXiv:2110.03294). g begins with 0: so the first step sends the code of the input, with
 * which that paper's Algorithm 2 initialises g, and not all of it. Of a sparse code g lacks most
 * elements then.
 *
 * Momentum before compression and not after it: Lin and others, Deep Gradient Compression
 * (arXiv:1712.01887); Zheng and others (arXiv:1905.10936) for Nesterov's. FORMAT.md, "Momentum".
 *
 * For +nesterov the state holds input + beta * m while codes are made, and beta * m between steps.
 */
#include "compress/compose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/codecs/values.h"
#include "compress/kernels/momentum.h"
#include "compress/kernels/sparse.h"
#include "compress/residual.h"

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

static bool has_differences(const struct wring_codec *codec)
{
    return wring_codec_has_suffix(codec, WRING_SUFFIX_EF21);
}

/* ---- parts of a run ---- */

/** Units that follow each other, all of them finite, or just one that is not. */
struct part {
    uint64_t begin, n;
    uint64_t single_until; /* something before that element is large, or not finite */
    bool finite;
    bool large; /* sums of that many might not be finite: it is just one unit then, too */
};

#define LARGE (UINT32_C(0x7F800000) - (UINT32_C(18) << 23)) /* 2^110: 2^16 times that is finite */

static bool is_finite(const struct wring_codec *codec, const float *src, const float *residual,
                      uint64_t n)
{
    return codec->composed.sparse->peak(src, residual, n) < WRING_INF_BITS;
}

/** Find the largest number of a part. @return whether it is neither large nor less than finite */
static bool measure_part(const struct wring_codec *codec, const float *src, const float *residual,
                         struct part *part)
{
    uint32_t peak = codec->composed.sparse->peak(src, residual, part->n);

    part->finite = peak < WRING_INF_BITS;
    part->large = part->finite && peak >= LARGE;
    return part->finite && !part->large;
}

static float *run_of(float *residual, uint64_t begin)
{
    return residual != NULL ? residual + begin : NULL;
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

/** Go on to the next part, from the first one, which is all zeros. @param residual  or NULL: src
 *  alone is looked at. @return false: there is none */
static bool next_part(const struct wring_codec *codec, const float *src, const float *residual,
                      uint64_t elems, struct part *part)
{
    uint64_t unit = codec->info.unit != 0 ? codec->info.unit : elems;

    part->begin += part->n;
    if (part->begin >= elems)
        return false;
    const float *kept = residual != NULL ? residual + part->begin : NULL;
    bool single = part->begin < part->single_until;
    part->n = wring_codec_unit_length(single ? unit : tile_of(codec, elems), elems - part->begin);
    if (measure_part(codec, src + part->begin, kept, part) || part->n <= unit)
        return true;
    part->single_until = part->begin + part->n;
    part->n = unit;
    measure_part(codec, src + part->begin, kept, part);
    return true;
}

/* ---- residuals of 16 bits ---- */

#define SHORT_UNIT_MAX 65536
#define SHORT_UNIT_STEP 32 /* of noise */

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/** By a residual of f32, in the scratch memory behind the codec's own. */
static size_t encode_by_wide(const struct wring_codec *codec,
                             const struct wring_codec_context *context, const float *src,
                             uint64_t elems, float *residual, unsigned char *code, void *scratch)
{
    struct wring_codec_context at = *context;
    float *wide = (float *)(void *)((char *)scratch + round_up(codec->base->scratch_bytes));
    uint64_t tile = tile_of(codec, elems);
    size_t bytes = 0;

    for (uint64_t done = 0; done < elems; done += tile) {
        uint64_t n = wring_codec_unit_length(tile, elems - done);
        at.element = context->element + done;
        wring_residual_read(codec, residual, done, n, wide);
        bytes += codec->base->encode(codec, &at, src + done, n, wide, code + bytes, scratch);
        wring_residual_round(codec, &at, wring_residual_run(codec, residual, done), wide, n);
    }
    return bytes;
}

/** Encode by the codec's own table. */
static size_t encode_base(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          uint64_t elems, float *residual, void *code, void *scratch)
{
    return codec->residual_form != WRING_RESIDUAL_F32 && residual != NULL
               ? encode_by_wide(codec, context, src, elems, residual, code, scratch)
               : codec->base->encode(codec, context, src, elems, residual, code, scratch);
}

/* ---- differences ---- */

/** Is a unit marked as not finite, though all of it is? Its means or scales may be too large.
 *  @param decoded  [unit], scratch memory */
static bool is_marked(const struct wring_codec *codec, const struct wring_codec_context *context,
                      const struct part *part, const unsigned char *code, size_t bytes,
                      float *decoded)
{
    return part->large && codec->info.unit - 1 < SHORT_UNIT_MAX &&
           codec->base->decode(codec, context, code, bytes, decoded, part->n, false) == WRING_OK &&
           isnan(decoded[0]);
}

/** The residual is -g. It becomes src - g less what that decodes to, which is src less the new g.
 */
static size_t encode_difference(const struct wring_codec *codec,
                                const struct wring_codec_context *context, const float *src,
                                uint64_t elems, float *residual, unsigned char *code, void *scratch)
{
    struct wring_codec_context at = *context;
    float *decoded = (float *)(void *)((char *)scratch + round_up(codec->base->scratch_bytes));
    struct part part = {0};
    size_t bytes = 0;

    while (next_part(codec, src, residual, elems, &part)) {
        at.element = context->element + part.begin;
        size_t some = codec->base->encode(codec, &at, src + part.begin, part.n,
                                          run_of(residual, part.begin), code + bytes, scratch);
        if (part.finite && residual != NULL &&
            !is_marked(codec, &at, &part, code + bytes, some, decoded))
            codec->composed.momentum->step_back(residual + part.begin, src + part.begin, part.n);
        bytes += some;
    }
    return bytes;
}

/** What is sent of a contribution, behind its momentum. */
static size_t encode_sent(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          uint64_t elems, float *residual, void *code, void *scratch)
{
    return has_differences(codec)
               ? encode_difference(codec, context, src, elems, residual, code, scratch)
               : encode_base(codec, context, src, elems, residual, code, scratch);
}

bool wring_compose_hold(const struct wring_codec *codec, const struct wring_codec_context *context,
                        float *sum, uint64_t n)
{
    const struct wring_codec *back = wring_codec_way(codec, 1);

    if (back->held == 0 || context->phase == 0 || context->states == NULL)
        return true;
    float *held = (float *)context->states[back->held - 1] + context->element;
    if (is_finite(back, sum, NULL, n)) {
        back->composed.momentum->advance(held, sum, n, 1);
        memcpy(sum, held, n * sizeof(*sum));
        return true;
    }
    for (uint64_t i = 0; i < n; i++)
        if (isfinite(sum[i])) {
            back->composed.momentum->advance(&held[i], &sum[i], 1, 1);
            sum[i] = held[i];
        }
    return false;
}

void wring_compose_keep(const struct wring_codec *codec, float *residual, const float *sum,
                        const float *source, uint64_t n, float divisor)
{
    float kept[WRING_RESIDUAL_PIECE];

    for (uint64_t done = 0, some; done < n; done += some) {
        some = wring_codec_unit_length(WRING_RESIDUAL_PIECE, n - done);
        wring_residual_read(codec, residual, done, some, kept);
        for (uint64_t i = 0; i < some; i++)
            if (!isfinite(sum[done + i]) && isfinite(source[done + i])) {
                float share = source[done + i] / divisor;
                codec->composed.momentum->advance(&kept[i], &share, 1, 1);
            }
        wring_residual_write(codec, residual, done, some, kept);
    }
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
        return encode_sent(codec, context, src, part->n, residual, code, scratch);
    if (codec->base->n_rounds == 0)
        advance(codec, momentum, src, part->n);
    size_t bytes = encode_sent(codec, context, momentum, part->n, residual, code, scratch);
    if (wring_codec_has_suffix(codec, WRING_SUFFIX_NESTEROV))
        codec->composed.momentum->step_back(momentum, src, part->n);
    return bytes;
}

static size_t encode_composed(const struct wring_codec *codec,
                              const struct wring_codec_context *context, const float *src,
                              uint64_t elems, float *residual, void *code, void *scratch)
{
    struct wring_codec_context at = *context;
    struct part part = {0};
    size_t bytes = 0;

    if (context->phase != 0) /* differences of sums have an ordinary residual */
        return encode_base(codec, context, src, elems, residual, code, scratch);
    if (!has_momentum(codec))
        return encode_sent(codec, context, src, elems, residual, code, scratch);
    while (next_part(codec, src, NULL, elems, &part)) {
        at.element = context->element + part.begin;
        float *kept = residual != NULL ? wring_residual_run(codec, residual, part.begin) : NULL;
        bytes += encode_part(codec, &at, src + part.begin, &part, kept,
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

    while (next_part(codec, src, NULL, elems, &part)) {
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

static void add_state(struct wring_codec *codec, const struct wring_codec_state *state)
{
    struct wring_composition *composed = &codec->composed;

    composed->states[composed->ops.n_states++] = *state;
    composed->ops.states = composed->states;
}

static void put_momentum_around(struct wring_codec *codec)
{
    struct wring_composition *composed = &codec->composed;
    const struct wring_codec_ops *base = codec->base;

    add_state(codec, &momentum_state);
    for (size_t i = 0; i < base->n_rounds; i++) {
        composed->rounds[i] = base->rounds[i];
        composed->rounds[i].begin = folds[i];
    }
    composed->ops.rounds = composed->rounds;
}

static const struct wring_codec_state held_state = {
    .name = "held",
    .doc = "the sum that the rank has, to which differences are added",
    .holder = WRING_CODEC_PRIVATE,
    .dtype = WRING_F32,
};

static void put_differences_around(struct wring_codec *codec)
{
    uint64_t unit = codec->info.unit;

    add_state(codec, &held_state);
    if (unit - 1 < SHORT_UNIT_MAX)
        codec->composed.ops.scratch_bytes =
            round_up(codec->base->scratch_bytes) + unit * sizeof(float);
    codec->held = (unsigned)codec->composed.ops.n_states;
    codec->info.flags |= WRING_CODEC_TWO_WAYS; /* sums come back as differences, or not at all */
}

static enum wring_residual_form form_wanted(const struct wring_codec *codec)
{
    return wring_codec_has_suffix(codec, WRING_SUFFIX_EF)
               ? (enum wring_residual_form)codec->suffix_params[WRING_SUFFIX_EF]
               : WRING_RESIDUAL_F32;
}

static bool wants_short_residual(const struct wring_codec *codec)
{
    return form_wanted(codec) != WRING_RESIDUAL_F32;
}

static const char *form_name(const struct wring_codec *codec)
{
    return form_wanted(codec) == WRING_RESIDUAL_BF16 ? "bf16" : "int8";
}

static enum wring_status check_short_residual(const struct wring_codec *codec, char *why,
                                              size_t why_bytes)
{
    uint64_t unit = codec->info.unit;

    if (unit != 0 && unit % SHORT_UNIT_STEP == 0 && unit <= SHORT_UNIT_MAX &&
        codec->base->n_rounds == 0)
        return WRING_OK;
    snprintf(why, why_bytes,
             "%s+ef:residual=%s: needs a codec without rounds, whose blocks are multiples of %d "
             "elements, such as int8, onebit and topk; leave :residual=%s away",
             codec->base->name, form_name(codec), SHORT_UNIT_STEP, form_name(codec));
    return WRING_ERR_INVALID;
}

static void put_short_residual_around(struct wring_codec *codec)
{
    codec->residual_form = form_wanted(codec);
    codec->composed.ops.scratch_bytes =
        round_up(codec->base->scratch_bytes) + tile_of(codec, TILE_ELEMS) * sizeof(float);
}

/** A copy of the codec's table, to which suffixes are added. */
static void begin_composed(struct wring_codec *codec)
{
    struct wring_composition *composed = &codec->composed;
    const struct wring_momentum_tier *momentum =
        wring_kernels_pick(wring_momentum_tiers, sizeof(wring_momentum_tiers[0]), codec->tier);
    const struct wring_sparse_tier *sparse =
        wring_kernels_pick(wring_sparse_tiers, sizeof(wring_sparse_tiers[0]), codec->tier);

    composed->momentum = momentum->kernels;
    composed->sparse = sparse->kernels;
    composed->ops = *codec->base;
    for (size_t i = 0; i < codec->base->n_states; i++)
        composed->states[i] = codec->base->states[i];
    codec->ops = &composed->ops;
}

/* ---- values ---- */

static bool may_code_values(const struct wring_codec *codec)
{
    unsigned unlike = WRING_CODEC_RAW | WRING_CODEC_FEEDBACK | WRING_CODEC_TWO_WAYS |
                      WRING_CODEC_ALTERS | WRING_CODEC_OWN | WRING_CODEC_VOTES;

    return codec->info.flags & WRING_CODEC_FIXED && !(codec->info.flags & unlike) &&
           codec->ops->n_rounds == 0 && codec->ops->n_states == 0 &&
           codec->ops->scratch_bytes == 0 && codec->info.unit != 0 &&
           codec->info.unit <= WRING_VALUES_PIECE;
}

static enum wring_status check_values(const struct wring_codec *codec, char *why, size_t why_bytes)
{
    const char *name = codec->base->name, *values = codec->values->spec;

    if (codec->base != &wring_codec_topk && codec->base != &wring_codec_threshold)
        snprintf(why, why_bytes,
                 "%s/%s: %s sends no values that another codec could code; topk and threshold do",
                 name, values, name);
    else if (!may_code_values(codec->values))
        snprintf(
            why, why_bytes,
            "%s/%s: values need a codec that shortens all of them to a fixed size, in blocks of at "
            "most %d, without rounds, state or votes, such as bf16, int8 or onebit",
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

/** Sums of differences are differences: whoever takes them back must lose nothing. */
static enum wring_status check_differences(const struct wring_codec *codec, char *why,
                                           size_t why_bytes)
{
    const struct wring_codec_ops *base = codec->base;
    unsigned unlike =
        WRING_CODEC_ALTERS | WRING_CODEC_TWO_WAYS | WRING_CODEC_OWN | WRING_CODEC_VOTES;

    if (!(base->flags & unlike) && base->way_back == NULL && base->code_sum == NULL &&
        base->n_rounds == 0 && base->n_states == 0)
        return WRING_OK;
    snprintf(why, why_bytes,
             "%s+ef21: needs a codec without rounds, state, votes, code sums or another way back, "
             "such as bf16, int8, onebit or topk",
             base->name);
    return WRING_ERR_INVALID;
}

enum wring_status wring_compose_check(const struct wring_codec *codec, char *why, size_t why_bytes)
{
    enum wring_status status = WRING_OK;

    if (wring_codec_has_suffix(codec, WRING_SUFFIX_WARMUP))
        status = check_warmup(codec, why, why_bytes);
    if (status == WRING_OK && has_differences(codec))
        status = check_differences(codec, why, why_bytes);
    return status;
}

enum wring_status wring_compose(struct wring_codec *codec, char *why, size_t why_bytes)
{
    enum wring_status status = WRING_OK;

    if (wring_codec_has_suffix(codec, WRING_SUFFIX_WARMUP)) /* later codes are shorter */
        codec->info.flags &= ~(unsigned)WRING_CODEC_FIXED;
    if (has_momentum(codec))
        status = check_momentum(codec, why, why_bytes);
    if (status == WRING_OK && wants_short_residual(codec))
        status = check_short_residual(codec, why, why_bytes);
    if (status != WRING_OK ||
        !(has_momentum(codec) || has_differences(codec) || wants_short_residual(codec)))
        return status;
    begin_composed(codec);
    codec->composed.ops.encode = encode_composed;
    if (has_momentum(codec))
        put_momentum_around(codec);
    if (has_differences(codec))
        put_differences_around(codec);
    if (wants_short_residual(codec))
        put_short_residual_around(codec);
    if (!has_momentum(codec) && !has_differences(codec))
        return WRING_OK;
    codec->composed.ops.encode16 = NULL; /* the suffixes work on f32 */
    codec->composed.ops.decode16 = NULL;
    codec->info.flags |= WRING_CODEC_ALTERS;
    codec->info.flags &= ~(unsigned)WRING_CODEC_UNBIASED;
    return WRING_OK;
}

/* ---- both ways ---- */

#define OWED_NAME "owed"

static const struct wring_codec_state owed_state = {
    .name = OWED_NAME,
    .doc = "what codes of sums have not sent",
    .holder = WRING_CODEC_OWNER,
    .dtype = WRING_F32,
};

/** Codecs that may be bypassed keep nothing that a bypassed step could not send. */
static bool needs_owed(const struct wring_codec *in, const struct wring_codec *back)
{
    return in->info.flags & WRING_CODEC_ALTERS && in->ops->code_sum == NULL &&
           in->info.flags & back->info.flags & WRING_CODEC_FEEDBACK;
}

static enum wring_status add_owed(struct wring_codec *in, const struct wring_codec *back, char *why,
                                  size_t why_bytes)
{
    if (in->ops->n_states == WRING_CODEC_STATES_MAX || has_state(in->ops, OWED_NAME)) {
        snprintf(
            why, why_bytes,
            "%s: its states leave no room for a residual of sums; name a way back without +ef, "
            "as in %s>none",
            in->spec, in->spec);
        return WRING_ERR_INVALID;
    }
    if (back->residual_form == WRING_RESIDUAL_INT8) {
        snprintf(why, why_bytes,
                 "%s: what owners hold back of sums, apart from contributions, is kept as f32 or "
                 "bf16; write :residual=bf16",
                 back->spec);
        return WRING_ERR_INVALID;
    }
    if (in->ops == in->base)
        begin_composed(in);
    struct wring_codec_state owed = owed_state;
    owed.dtype = back->residual_form == WRING_RESIDUAL_BF16 ? WRING_BF16 : WRING_F32;
    add_state(in, &owed);
    in->owed = in->info.states = (unsigned)in->ops->n_states;
    return WRING_OK;
}

/** The other codec of a pair takes differences back. */
static enum wring_status share_held(const struct wring_codec *in, struct wring_codec *back,
                                    char *why, size_t why_bytes)
{
    if (!(back->info.flags & WRING_CODEC_FEEDBACK) || has_differences(back)) {
        snprintf(
            why, why_bytes,
            "%s>%s: differences come back as differences, of which nothing may be lost; name a "
            "way back with +ef",
            in->spec, back->spec);
        return WRING_ERR_INVALID;
    }
    if (back->residual_form != WRING_RESIDUAL_F32) {
        snprintf(why, why_bytes,
                 "%s>%s: results add up all differences, and so what this residual rounds, step "
                 "after step; leave :residual= away",
                 in->spec, back->spec);
        return WRING_ERR_INVALID;
    }
    back->held = in->held;
    back->composed.momentum = in->composed.momentum;
    back->composed.sparse = in->composed.sparse;
    return WRING_OK;
}

static enum wring_status refuse_residuals(const struct wring_codec *in,
                                          const struct wring_codec *back, char *why,
                                          size_t why_bytes)
{
    snprintf(why, why_bytes,
             "%s>%s: both ways share one residual; write the same :residual behind both", in->spec,
             back->spec);
    return WRING_ERR_INVALID;
}

enum wring_status wring_compose_ways(struct wring_codec *codec, char *why, size_t why_bytes)
{
    struct wring_codec *in = codec->ways[0] != NULL ? codec->ways[0] : codec;
    struct wring_codec *back = codec->ways[1] != NULL ? codec->ways[1] : codec;
    enum wring_status status = WRING_OK;

    if (in != back && has_differences(in))
        status = share_held(in, back, why, why_bytes);
    if (status == WRING_OK && needs_owed(in, back))
        status = add_owed(in, back, why, why_bytes);
    else if (status == WRING_OK && in->info.flags & back->info.flags & WRING_CODEC_FEEDBACK &&
             in->residual_form != back->residual_form)
        status = refuse_residuals(in, back, why, why_bytes);
    codec->residual_form = in->residual_form != WRING_RESIDUAL_F32 || in->owed != 0
                               ? in->residual_form
                               : back->residual_form;
    codec->info.states = in->info.states;
    return status;
}
