/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The suite for codecs finds what is wrong with one. Each codec here is "cut", which keeps the
 * upper halves of float32, and breaks one rule.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "tests/lib/codec_conform.h"
#include "tests/lib/momentum.h"
#include "tests/lib/odd_mode.h"
#include "tests/lib/test.h"

#define UNIT 32
#define NAN_CODE 0x7FC0
#define HALF sizeof(uint16_t)

static uint64_t cut_unit(const struct wring_codec *codec)
{
    (void)codec;
    return UNIT;
}

static size_t cut_bound(const struct wring_codec *codec, uint64_t elems)
{
    (void)codec;
    return elems * HALF;
}

static float widen(uint16_t code)
{
    uint32_t bits = (uint32_t)code << 16;
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/** Towards zero, so that what is finite stays so. */
static uint16_t cut(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

/** @return the unit's elements from there on */
static uint64_t length(uint64_t elems, uint64_t at)
{
    return elems - at < UNIT ? elems - at : UNIT;
}

static bool all_finite(const float *src, const float *residual, uint64_t n)
{
    bool finite = true;
    for (uint64_t i = 0; i < n; i++)
        finite &= isfinite(residual != NULL ? src[i] + residual[i] : src[i]) != 0;
    return finite;
}

static void cut_one(const float *src, uint64_t n, float *residual, unsigned char *code)
{
    bool finite = all_finite(src, residual, n);

    for (uint64_t i = 0; i < n; i++) {
        float x = residual != NULL ? src[i] + residual[i] : src[i];
        uint16_t half = finite ? cut(x) : NAN_CODE;
        memcpy(code + i * HALF, &half, HALF);
        if (finite && residual != NULL)
            residual[i] = x - widen(half);
    }
}

static size_t cut_encode(const struct wring_codec *codec, const struct wring_codec_context *context,
                         const float *src, uint64_t elems, float *residual, void *code,
                         void *scratch)
{
    (void)codec, (void)context, (void)scratch;
    for (uint64_t at = 0; at < elems; at += UNIT)
        cut_one(src + at, length(elems, at), residual != NULL ? residual + at : NULL,
                (unsigned char *)code + at * HALF);
    return elems * HALF;
}

static enum wring_status cut_decode(const struct wring_codec *codec,
                                    const struct wring_codec_context *context, const void *code,
                                    size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    (void)codec, (void)context;
    if (code_bytes != elems * HALF)
        return WRING_ERR_FRAME;
    for (uint64_t i = 0; i < elems; i++) {
        uint16_t half;
        memcpy(&half, (const unsigned char *)code + i * HALF, HALF);
        dst[i] = add ? dst[i] + widen(half) : widen(half);
    }
    return WRING_OK;
}

#define ENCODE                                                                                    \
    const struct wring_codec *codec, const struct wring_codec_context *context, const float *src, \
        uint64_t elems, float *residual, void *code, void *scratch
#define DECODE                                                                                    \
    const struct wring_codec *codec, const struct wring_codec_context *context, const void *code, \
        size_t code_bytes, float *dst, uint64_t elems, bool add

/* ---- the four of them that matter most ---- */

static size_t encode_past_bound(ENCODE)
{
    size_t bytes = cut_encode(codec, context, src, elems, residual, code, scratch);
    ((unsigned char *)code)[bytes] = 0;
    return bytes;
}

static enum wring_status decode_past_code(DECODE)
{
    const volatile unsigned char *bytes = code;
    unsigned char next = bytes[code_bytes];
    (void)next;
    return cut_decode(codec, context, code, code_bytes, dst, elems, add);
}

static size_t encode_by_tier(ENCODE)
{
    size_t bytes = cut_encode(codec, context, src, elems, residual, code, scratch);
    if (bytes > 0 && strcmp(wring_codec_info(codec)->tier, "scalar") != 0)
        ((unsigned char *)code)[0] ^= 1;
    return bytes;
}

static enum wring_status decode_without_adding(DECODE)
{
    (void)add;
    return cut_decode(codec, context, code, code_bytes, dst, elems, false);
}

/* ---- one for each other rule ---- */

static size_t encode_before_code(ENCODE)
{
    ((unsigned char *)code)[-1] = 0;
    return cut_encode(codec, context, src, elems, residual, code, scratch);
}

static size_t encode_short(ENCODE)
{
    size_t bytes = cut_encode(codec, context, src, elems, residual, code, scratch);
    return bytes > 1000 ? bytes - 1 : bytes;
}

/** The first element of a call stays behind. */
static size_t encode_by_call(ENCODE)
{
    float first = elems == 0 ? 0 : residual != NULL ? src[0] + residual[0] : src[0];
    size_t bytes = cut_encode(codec, context, src, elems, residual, code, scratch);
    if (bytes > 0)
        memset(code, 0, HALF);
    if (bytes > 0 && residual != NULL)
        residual[0] = first;
    return bytes;
}

static size_t encode_and_keep(ENCODE)
{
    (void)residual;
    return cut_encode(codec, context, src, elems, NULL, code, scratch);
}

static enum wring_status decode_any_length(DECODE)
{
    (void)code_bytes;
    return cut_decode(codec, context, code, elems * HALF, dst, elems, add);
}

/** What encode makes of no gradient is taken for a place. */
static enum wring_status decode_trusting(DECODE)
{
    const volatile unsigned char *bytes = code;
    for (size_t i = 1; i < code_bytes; i += HALF)
        if ((bytes[i] & 0x70) == 0x70 && bytes[i - 1] != 0xC0 && bytes[i - 1] != 0x7F) {
            unsigned char there = bytes[code_bytes + bytes[i - 1]];
            (void)there;
        }
    return cut_decode(codec, context, code, code_bytes, dst, elems, add);
}

static enum wring_status decode_to_error(DECODE)
{
    enum wring_status status = cut_decode(codec, context, code, code_bytes, dst, elems, add);
    for (uint64_t i = 0; i < elems && status == WRING_OK; i++)
        if (fabsf(dst[i]) > 0x1p100f)
            status = WRING_ERR_INVALID;
    return status;
}

static size_t encode_nan_away(ENCODE)
{
    float *clean = malloc((elems + 1) * sizeof(*clean));
    for (uint64_t i = 0; i < elems; i++)
        clean[i] = isfinite(src[i]) ? src[i] : 0;
    size_t bytes = cut_encode(codec, context, clean, elems, residual, code, scratch);
    free(clean);
    return bytes;
}

/** Small numbers are made the smallest that is not denormal. */
static size_t encode_zero_away(ENCODE)
{
    float *large = malloc((elems + 1) * sizeof(*large));
    for (uint64_t i = 0; i < elems; i++)
        large[i] = src[i] == 0 ? 0x1p-126f : src[i];
    size_t bytes = cut_encode(codec, context, large, elems, residual, code, scratch);
    free(large);
    return bytes;
}

/** What a codec must not have: memory that is nobody's. */
static uint16_t hidden;

static size_t encode_by_memory(ENCODE)
{
    float *more = malloc((elems + 1) * sizeof(*more));
    if (elems > 10000 && context->step == 2)
        hidden++;
    for (uint64_t i = 0; i < elems; i++)
        more[i] = context->step == 2 ? src[i] + hidden : src[i];
    size_t bytes = cut_encode(codec, context, more, elems, residual, code, scratch);
    free(more);
    return bytes;
}

static size_t encode_in_mode(ENCODE)
{
    size_t bytes = cut_encode(codec, context, src, elems, residual, code, scratch);
    wring_test_odd_mode();
    return bytes;
}

/* ---- rounds, sums and state ---- */

static uint64_t one(const struct wring_codec *codec, const struct wring_codec_context *context)
{
    (void)codec, (void)context;
    return 1;
}

/** Only the last run counts. */
static void begin_last(const struct wring_codec *codec, const struct wring_codec_context *context,
                       const float *src, uint64_t elems, const float *residual, void *statistics,
                       void *scratch)
{
    (void)codec, (void)context, (void)residual, (void)scratch;
    *(float *)statistics = elems > 0 ? src[0] : 0;
}

static void end_by_rank(const struct wring_codec *codec, const struct wring_codec_context *context,
                        void *statistics, uint64_t count)
{
    (void)codec, (void)count;
    *(float *)statistics = (float)context->rank;
}

static void begin_past(const struct wring_codec *codec, const struct wring_codec_context *context,
                       const float *src, uint64_t elems, const float *residual, void *statistics,
                       void *scratch)
{
    begin_last(codec, context, src, elems, residual, statistics, scratch);
    ((float *)statistics)[1] = 0;
}

static const struct wring_codec_round last_run = {
    .name = "last", .dtype = WRING_F32, .op = WRING_MAX, .count = one, .begin = begin_last};
static const struct wring_codec_round by_rank = {.name = "rank",
                                                 .dtype = WRING_F32,
                                                 .op = WRING_MAX,
                                                 .count = one,
                                                 .begin = begin_last,
                                                 .end = end_by_rank};
static const struct wring_codec_round past_round = {
    .name = "past", .dtype = WRING_F32, .op = WRING_MAX, .count = one, .begin = begin_past};

/** The first one's, or the other's where that is larger by its bits. */
static enum wring_status sum_wrong(const struct wring_codec *codec,
                                   const struct wring_codec_context *context, void *code,
                                   const void *other, size_t code_bytes, uint64_t elems)
{
    (void)codec, (void)context;
    if (code_bytes != elems * HALF)
        return WRING_ERR_FRAME;
    for (size_t i = 0; i < code_bytes; i++)
        ((unsigned char *)code)[i] |= ((const unsigned char *)other)[i];
    return WRING_OK;
}

static enum wring_status sum_in_order(const struct wring_codec *codec,
                                      const struct wring_codec_context *context, void *code,
                                      const void *other, size_t code_bytes, uint64_t elems)
{
    (void)codec, (void)context;
    if (code_bytes == elems * HALF && elems > 0)
        memcpy(code, other, code_bytes);
    return code_bytes == elems * HALF ? WRING_OK : WRING_ERR_FRAME;
}

/** By where the run begins. */
static size_t end_by_place(const struct wring_codec *codec,
                           const struct wring_codec_context *context, void *sum, uint64_t elems,
                           uint64_t *cut)
{
    if (elems > 0)
        *(unsigned char *)sum ^= context->element > 0;
    (void)codec;
    *cut += 1;
    return elems * HALF;
}

static size_t end_past_bound(const struct wring_codec *codec,
                             const struct wring_codec_context *context, void *sum, uint64_t elems,
                             uint64_t *cut)
{
    (void)codec, (void)context, (void)sum, (void)cut;
    return elems * HALF + 1;
}

static const struct wring_codec_state count_state = {.name = "count",
                                                     .doc = "calls",
                                                     .holder = WRING_CODEC_SHARED,
                                                     .dtype = WRING_I32,
                                                     .count = one};

/** Runs side by side would race for it. */
static size_t encode_and_count(ENCODE)
{
    int32_t *count = context->states[0];
    (*count)++;
    return cut_encode(codec, context, src, elems, residual, code, scratch);
}

static size_t encode_past_state(ENCODE)
{
    int32_t *count = context->states[0];
    count[1] = 0;
    return cut_encode(codec, context, src, elems, residual, code, scratch);
}

static void init_by_rank(const struct wring_codec *codec, const struct wring_codec_context *context,
                         void *state, uint64_t count)
{
    (void)codec, (void)count;
    *(int32_t *)state = (int32_t)context->rank;
}

static const struct wring_codec_state rank_state = {.name = "rank",
                                                    .doc = "whose",
                                                    .holder = WRING_CODEC_SHARED,
                                                    .dtype = WRING_I32,
                                                    .count = one,
                                                    .init = init_by_rank};

static enum wring_status decode_and_count(DECODE)
{
    int32_t *count = context->states[0];
    *count += context->step == 0;
    return cut_decode(codec, context, code, code_bytes, dst, elems, add);
}

/* ---- elements of 16 bits as they are ---- */

static size_t whole_bound(const struct wring_codec *codec, uint64_t elems)
{
    (void)codec;
    return elems * sizeof(float);
}

static size_t whole_encode(ENCODE)
{
    (void)codec, (void)context, (void)residual, (void)scratch;
    if (elems > 0)
        memcpy(code, src, elems * sizeof(*src));
    return elems * sizeof(*src);
}

static enum wring_status whole_decode(DECODE)
{
    (void)codec, (void)context;
    if (code_bytes != elems * sizeof(*dst))
        return WRING_ERR_FRAME;
    for (uint64_t i = 0; i < elems; i++) {
        float x;
        memcpy(&x, (const unsigned char *)code + i * sizeof(x), sizeof(x));
        dst[i] = add ? dst[i] + x : x;
    }
    return WRING_OK;
}

static size_t whole_encode16(const struct wring_codec *codec,
                             const struct wring_codec_context *context, enum wring_dtype dtype,
                             const void *src, uint64_t elems, void *code, void *scratch)
{
    (void)codec, (void)context, (void)dtype, (void)scratch;
    if (elems > 0)
        memcpy(code, src, elems * HALF);
    return elems * HALF;
}

static enum wring_status whole_decode16(const struct wring_codec *codec,
                                        const struct wring_codec_context *context,
                                        enum wring_dtype dtype, const void *code, size_t code_bytes,
                                        void *dst, uint64_t elems)
{
    (void)codec, (void)context, (void)dtype;
    if (code_bytes != elems * HALF)
        return WRING_ERR_FRAME;
    if (elems > 0)
        memcpy(dst, code, code_bytes);
    return WRING_OK;
}

static enum wring_status decode16_another(const struct wring_codec *codec,
                                          const struct wring_codec_context *context,
                                          enum wring_dtype dtype, const void *code,
                                          size_t code_bytes, void *dst, uint64_t elems)
{
    enum wring_status status = whole_decode16(codec, context, dtype, code, code_bytes, dst, elems);
    if (status == WRING_OK && elems > 0)
        ((unsigned char *)dst)[0] ^= 1;
    return status;
}

static enum wring_status decode16_longer(const struct wring_codec *codec,
                                         const struct wring_codec_context *context,
                                         enum wring_dtype dtype, const void *code,
                                         size_t code_bytes, void *dst, uint64_t elems)
{
    bool longer = code_bytes > elems * HALF;
    return whole_decode16(codec, context, dtype, code, longer ? elems * HALF : code_bytes, dst,
                          elems);
}

/* ---- one that is right as long as it is made in the mode of jobs ---- */

static enum wring_status init_tiny(struct wring_codec *codec, char *why, size_t why_bytes)
{
    volatile float least = 0x1p-126f;

    (void)why, (void)why_bytes;
    *(float *)wring_codec_own(codec) = least / 2;
    return WRING_OK;
}

static size_t encode_if_tiny(ENCODE)
{
    size_t bytes = cut_encode(codec, context, src, elems, residual, code, scratch);
    if (*(const float *)wring_codec_own(codec) == 0)
        memset(code, 0, bytes);
    return bytes;
}

/* ---- what is said of them ---- */

static const struct wring_codec_ops right = {
    .struct_bytes = sizeof(struct wring_codec_ops),
    .name = "cut",
    .doc = "upper halves of float32",
    .flags = WRING_CODEC_FIXED,
    .unit = cut_unit,
    .bound = cut_bound,
    .encode = cut_encode,
    .decode = cut_decode,
};

static const struct wring_codec_ops right_whole = {
    .struct_bytes = sizeof(struct wring_codec_ops),
    .name = "cut",
    .doc = "float32 as they are, and elements of 16 bits",
    .flags = WRING_CODEC_EXACT,
    .unit = cut_unit,
    .bound = whole_bound,
    .encode = whole_encode,
    .decode = whole_decode,
    .encode16 = whole_encode16,
    .decode16 = whole_decode16,
};

static uint64_t whole_bucket(const struct wring_codec *codec)
{
    (void)codec;
    return 0;
}

static bool try(const struct wring_codec_ops *ops, char *why, size_t why_bytes)
{
    static const uint64_t lengths[] = {0, 1, 33, 4129};
    static const struct codec_conform_limits limits = {
        .lengths = lengths, .n_lengths = 4, .deep = 10007, .seed = 5};
    const struct wring_codec_ops *const own[] = {ops, NULL};

    return codec_conform(own, ops->name, &limits, why, why_bytes);
}

/** @param line  how the line begins, after the name */
static void refuse(struct wring_codec_ops ops, const char *line)
{
    char why[400] = "";
    unsigned failures = wring_test_failures();

    CHECK(!try(&ops, why, sizeof(why)), "taken, where this was to be said: %s", line);
    CHECK(strncmp(why, "cut: ", 5) == 0 && strncmp(why + 5, line, strlen(line)) == 0,
          "'%s' was to be said: %s", line, why);
    CHECK(strstr(why, " elements, phase ") != NULL && strstr(why, ", tier ") != NULL &&
              strstr(why, ", seed 5") != NULL,
          "length, phase, tier or seed is missing: %s", why);
    CHECK(failures == wring_test_failures(), "more is told than the line");
}

static struct wring_codec_ops with_encode(size_t (*encode)(ENCODE))
{
    struct wring_codec_ops ops = right;
    ops.encode = encode;
    return ops;
}

static struct wring_codec_ops with_decode(enum wring_status (*decode)(DECODE))
{
    struct wring_codec_ops ops = right;
    ops.decode = decode;
    return ops;
}

static void right_ones(void)
{
    struct wring_codec_ops tiny = with_encode(encode_if_tiny);
    char why[400] = "";

    CHECK(try(&right, why, sizeof(why)), "%s", why);
    CHECK(try(&right_whole, why, sizeof(why)), "%s", why);
    tiny.init = init_tiny, tiny.own_bytes = sizeof(float);
    CHECK(try(&tiny, why, sizeof(why)), "%s", why);
    struct wring_codec_ops whole = *momentum_codecs[0];
    whole.unit = whole_bucket;
    CHECK(try(&whole, why, sizeof(why)), "%s", why);
}

static void strays(void)
{
    refuse(with_encode(encode_past_bound), "stray: encode goes past the end of its code, at byte");
    refuse(with_decode(decode_past_code), "stray: decode goes past the end of its code, at byte");
    refuse(with_encode(encode_before_code), "stray: 1 bytes before a buffer are written");
}

static void tiers(void)
{
    if (wring_cpu_best() != WRING_CPU_SCALAR) /* else there is nothing that could differ */
        refuse(with_encode(encode_by_tier), "tiers: the code is another one than by the scalar");
}

static void runs(void)
{
    refuse(with_decode(decode_without_adding), "adding: element 0: ");
    refuse(with_encode(encode_short), "bound: 8257 bytes of 4129 elements, bound is 8258");
    refuse(with_encode(encode_by_call), "units: elements 32 to 33 alone have another code");
    refuse(with_encode(encode_and_keep), "feedback: element 0: ");
    refuse(with_decode(decode_any_length), "length: a code is taken that is a byte too long");
    struct wring_codec_ops exact = right;
    exact.flags |= WRING_CODEC_EXACT;
    refuse(exact, "exact: element 0: ");
}

static void values(void)
{
    refuse(with_decode(decode_trusting), "stray: decode goes past the end of its code, at byte");
    refuse(with_decode(decode_to_error), "finite: decode ends with: ");
    refuse(with_encode(encode_nan_away), "nan: ");
    refuse(with_encode(encode_zero_away), "finite: zero became ");
}

static void groups(void)
{
    struct wring_codec_ops ops = right;

    ops.n_rounds = 1;
    ops.rounds = &last_run;
    refuse(ops, "rounds: round last finds something else run by run");
    ops.rounds = &by_rank;
    refuse(ops, "rounds: round rank comes to something else on another rank");
    ops.rounds = &past_round;
    refuse(ops, "stray: a job goes past the end of its statistics, at byte 4 of 4");
    ops = right;
    ops.code_sum = sum_in_order;
    refuse(ops, "sums: another order of codes has another sum");
    ops.code_sum = sum_wrong;
    refuse(ops, "sums: element 0: codes of ");
    ops.sum_bound = ops.bound;
    refuse(ops, "sums: element 0: codes of ");
    ops.sum_end = end_by_place;
    refuse(ops, "sums: the sum of elements ");
    ops.sum_end = end_past_bound;
    refuse(ops, "sums: sum_end makes ");
}

static void steps(void)
{
    struct wring_codec_ops ops = with_encode(encode_and_count);

    refuse(with_encode(encode_by_memory), "states: a step that is taken back and made again");
    refuse(with_encode(encode_in_mode), "mode: encode leaves another floating-point mode");
    ops.states = &count_state, ops.n_states = 1;
    refuse(ops, "units: runs alone leave another state count");
    ops.encode = encode_past_state;
    refuse(ops, "stray: encode writes past the end of state count");
    ops.encode = cut_encode, ops.decode = decode_and_count;
    refuse(ops, "states: decode changes state count");
    ops.decode = cut_decode, ops.states = &rank_state;
    refuse(ops, "states: shared state rank differs between ranks");
}

static void halves(void)
{
    struct wring_codec_ops ops = right_whole;

    ops.decode16 = decode16_another;
    refuse(ops, "halves: f16: other bits come back");
    ops.decode16 = decode16_longer;
    refuse(ops, "halves: f16: a code is taken that is a byte too long");
}

/** A pair is not one codec, and what cannot be made is not tried. */
static void refused(void)
{
    char why[400];

    CHECK(!codec_conform(NULL, "int8>bf16", NULL, why, sizeof(why)) &&
              strcmp(why, "int8>bf16: two codecs; name each by itself") == 0,
          "%s", why);
    CHECK(!codec_conform(NULL, "cut", NULL, why, sizeof(why)) &&
              strncmp(why, "no codec 'cut'", 14) == 0,
          "%s", why);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"right_ones", right_ones}, {"strays", strays}, {"tiers", tiers}, {"runs", runs},
        {"values", values},         {"groups", groups}, {"steps", steps}, {"halves", halves},
        {"refused", refused},       {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
