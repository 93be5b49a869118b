/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Every encoder on any floats: no more bytes than the bound, alike by every tier; the code decodes,
 * and under error feedback what it lost is what stays, or one of its neighbours where residuals
 * have fewer bits. One that takes elements of 16 bits as they are has them of the same bytes.
 *
 * Input: codec (1 byte), flags (1: bit 0 way back, others rows of a matrix), then the elements;
 * with feedback the second half of them is the residual.
 */
#include <float.h>
#include <math.h>

#include "base/fpenv.h"
#include "compress/codec.h"
#include "compress/residual.h"
#include "compress/solo.h"
#include "tests/fuzz/codecs.h"

struct subject {
    const float *input, *residual; /* residual: as the codec can have it; NULL without feedback */
    uint64_t elems;
    struct wring_codec_context context;
    struct wring_solo *solo; /* of which the context is; each tier begins with the first step */
};

/** What one tier makes of it. */
struct outcome {
    uint8_t *code;
    size_t bytes;
    float *kept;     /* in the form that the codec keeps it in; NULL without feedback */
    float *residual; /* the same as f32 */
};

/** In the form that the codec keeps it in. @return to be freed */
static float *keep(const struct wring_codec *codec, const float *residual, uint64_t elems)
{
    float *kept = calloc(1, wring_residual_size(codec, elems) + (elems == 0));

    FUZZ_CHECK(kept != NULL, "out of memory");
    wring_residual_write(codec, kept, 0, elems, residual);
    return kept;
}

/** As f32. @return to be freed */
static float *read_kept(const struct wring_codec *codec, const float *kept, uint64_t elems)
{
    float *residual = malloc(elems * sizeof(*residual) + (elems == 0));

    FUZZ_CHECK(residual != NULL, "out of memory");
    wring_residual_read(codec, kept, 0, elems, residual);
    return residual;
}

static struct outcome encode(const struct wring_codec *codec, const struct subject *subject)
{
    const struct wring_codec_info *info = wring_codec_info(codec);
    size_t bound = wring_codec_bound(codec, subject->elems);
    struct outcome outcome = {.code = malloc(bound + (bound == 0))};

    FUZZ_CHECK(outcome.code != NULL, "out of memory");
    wring_solo_restart(subject->solo, &subject->context);
    wring_solo_rounds(subject->solo, &subject->context, subject->input, subject->residual);
    if (subject->residual != NULL)
        outcome.kept = keep(codec, subject->residual, subject->elems);
    outcome.bytes = wring_codec_encode(codec, &subject->context, subject->input, subject->elems,
                                       outcome.kept, outcome.code);
    if (outcome.kept != NULL)
        outcome.residual = read_kept(codec, outcome.kept, subject->elems);
    FUZZ_CHECK(info->flags & WRING_CODEC_FIXED ? outcome.bytes == bound : outcome.bytes <= bound,
               "%s: %zu bytes of %zu", info->spec, outcome.bytes, bound);
    return outcome;
}

static void drop(struct outcome *outcome)
{
    free(outcome->code);
    free(outcome->kept);
    free(outcome->residual);
}

static bool same_bytes(const void *a, const void *b, size_t bytes)
{
    return bytes == 0 || memcmp(a, b, bytes) == 0;
}

/** What goes into the codec: behind a momentum that was +0, -0 has become +0. */
static float encoded(const struct subject *subject, const char *spec, uint64_t i)
{
    bool moved = subject->context.phase == 0 && strstr(spec, "+momentum") != NULL;
    return moved ? 0 + subject->input[i] : subject->input[i];
}

/** What a code leaves of an element, before that is rounded. */
static float left_of(const struct subject *subject, float decoded, const char *spec, uint64_t i)
{
    float input = encoded(subject, spec, i), left = input + subject->residual[i] - decoded;

    if (decoded != decoded) /* the unit was not sent */
        return subject->residual[i];
    if (subject->context.phase == 0 && strstr(spec, "+ef21") != NULL)
        return fmaxf(-FLT_MAX, fminf(FLT_MAX, left - input));
    return left;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/** Is it the number of 16 bits below or above, by magnitude? */
static bool is_beside_16(float got, float want)
{
    const uint32_t most = 0x7F7F;
    uint32_t bits = bits_of(want), low = (bits & 0x7FFFFFFF) >> 16,
             high = low + ((bits & 0xFFFF) != 0);

    low = low < most ? low : most, high = high < most ? high : most;
    return bits_of(got) == (low << 16 | (bits & 0x80000000)) ||
           bits_of(got) == (high << 16 | (bits & 0x80000000));
}

/** Is it the number of steps below or above, in a block whose largest is so large? */
static bool is_beside_8(float got, float want, float peak)
{
    uint32_t exponent = (bits_of(peak) + 0x1FFFF) >> 23;

    if (exponent < 22 || isinf(peak))
        return bits_of(got) == 0;
    double step = ldexp(1, (int)(exponent < 254 ? exponent : 254) - 133);
    double low = fmin(floor(fabs((double)want) / step), 127), size = fabs((double)got) / step;
    return (got == 0 || signbit(got) == signbit(want)) &&
           (size == low || size == fmin(low + 1, 127));
}

/** @param want, got  of a block, at most 32 */
static void check_left(const struct wring_codec *codec, const float *want, const float *got,
                       uint64_t n)
{
    float peak = 0;

    for (uint64_t i = 0; i < n; i++)
        peak = fmaxf(peak, fabsf(want[i]));
    for (uint64_t i = 0; i < n; i++) {
        bool right = same_bytes(&want[i], &got[i], sizeof(*want)) ||
                     (want[i] != want[i] && got[i] != got[i]);
        if (codec->residual_form == WRING_RESIDUAL_BF16)
            right = is_beside_16(got[i], want[i]);
        else if (codec->residual_form == WRING_RESIDUAL_INT8)
            right = is_beside_8(got[i], want[i], peak);
        FUZZ_CHECK(right, "%s: %a is left, not %a", wring_codec_info(codec)->spec, (double)got[i],
                   (double)want[i]);
    }
}

static void check_feedback(const struct wring_codec *codec, const struct subject *subject,
                           const struct outcome *outcome, const float *decoded)
{
    const char *spec = wring_codec_info(codec)->spec;
    float want[WRING_RESIDUAL_BLOCK];

    for (uint64_t at = 0; at < subject->elems; at += WRING_RESIDUAL_BLOCK) {
        uint64_t n = wring_codec_unit_length(WRING_RESIDUAL_BLOCK, subject->elems - at);
        for (uint64_t i = 0; i < n; i++)
            want[i] = left_of(subject, decoded[at + i], spec, at + i);
        check_left(codec, want, outcome->residual + at, n);
    }
}

/** Every bit comes back; none alone makes each NaN the one NaN. */
static void check_exact(const struct subject *subject, const float *decoded, const char *spec)
{
    bool one_nan = strcmp(spec, "none") == 0;
    for (uint64_t i = 0; i < subject->elems; i++)
        FUZZ_CHECK(same_bytes(&subject->input[i], &decoded[i], sizeof(*decoded)) ||
                       (one_nan && subject->input[i] != subject->input[i]),
                   "%s: element %zu is %a, not %a", spec, (size_t)i, decoded[i], subject->input[i]);
}

static void check_decodes(const struct wring_codec *codec, const struct subject *subject,
                          const struct outcome *outcome)
{
    const char *spec = wring_codec_info(codec)->spec;
    float *decoded = malloc(subject->elems * sizeof(float) + (subject->elems == 0));
    FUZZ_CHECK(decoded != NULL, "out of memory");
    FUZZ_CHECK(wring_codec_decode(codec, &subject->context, outcome->code, outcome->bytes, decoded,
                                  subject->elems, false) == WRING_OK,
               "%s: its own code is refused", spec);
    if (subject->residual != NULL)
        check_feedback(codec, subject, outcome, decoded);
    if (wring_codec_info(codec)->flags & WRING_CODEC_EXACT)
        check_exact(subject, decoded, spec);
    free(decoded);
}

static void check_decodes_16(const struct wring_codec *way, const struct subject *subject,
                             enum wring_dtype dtype, uint64_t n, const struct outcome *outcome)
{
    uint16_t *decoded = malloc((n + 1) * sizeof(*decoded));

    FUZZ_CHECK(decoded != NULL, "out of memory");
    FUZZ_CHECK(way->ops->decode16(way, &subject->context, dtype, outcome->code, outcome->bytes,
                                  decoded, n) == WRING_OK &&
                   same_bytes(decoded, subject->input, n * sizeof(*decoded)),
               "%s: %s gives 16 bits otherwise", wring_codec_info(way)->spec,
               wring_codec_info(way)->tier);
    free(decoded);
}

/** @param way  by one tier; it takes them */
static struct outcome encode_16(const struct wring_codec *way, const struct subject *subject,
                                enum wring_dtype dtype, uint64_t n)
{
    size_t bound = wring_codec_bound(way, n);
    struct outcome outcome = {.code = malloc(bound + 1)};
    void *scratch = malloc(way->ops->scratch_bytes + 1);

    FUZZ_CHECK(outcome.code != NULL && scratch != NULL, "out of memory");
    outcome.bytes =
        way->ops->encode16(way, &subject->context, dtype, subject->input, n, outcome.code, scratch);
    free(scratch);
    FUZZ_CHECK(outcome.bytes <= bound && outcome.bytes <= n * sizeof(uint16_t) + n + 1,
               "%s: %zu bytes of %zu elements of 16 bits", wring_codec_info(way)->spec,
               outcome.bytes, (size_t)n);
    return outcome;
}

static void run_16(const struct fuzz_codec *codec, const struct subject *subject,
                   enum wring_dtype dtype)
{
    uint64_t n = 2 * subject->elems;
    struct outcome want = {0};

    for (int tier = 0; tier < WRING_CPU_TIERS; tier++) {
        if (codec->tiers[tier] == NULL)
            continue;
        const struct wring_codec *way = wring_codec_way(codec->tiers[tier], subject->context.phase);
        if (way->ops->encode16 == NULL)
            return;
        struct outcome got = encode_16(way, subject, dtype, n);
        check_decodes_16(way, subject, dtype, n, &got);
        FUZZ_CHECK(want.code == NULL ||
                       (got.bytes == want.bytes && same_bytes(got.code, want.code, got.bytes)),
                   "%s: %s writes other bytes of 16 bits", wring_codec_info(way)->spec,
                   wring_codec_info(way)->tier);
        drop(&want);
        want = got;
    }
    drop(&want);
}

static void run(const struct fuzz_codec *codec, const struct subject *subject)
{
    struct outcome want = encode(codec->tiers[0], subject);

    check_decodes(codec->tiers[0], subject, &want);
    for (int tier = 1; tier < WRING_CPU_TIERS; tier++) {
        if (codec->tiers[tier] == NULL)
            continue;
        const struct wring_codec_info *info = wring_codec_info(codec->tiers[tier]);
        struct outcome got = encode(codec->tiers[tier], subject);
        FUZZ_CHECK(got.bytes == want.bytes && same_bytes(got.code, want.code, got.bytes),
                   "%s: %s writes other bytes", info->spec, info->tier);
        FUZZ_CHECK(got.kept == NULL ||
                       same_bytes(got.kept, want.kept,
                                  wring_residual_size(codec->tiers[tier], subject->elems)),
                   "%s: %s leaves another residual", info->spec, info->tier);
        drop(&got);
    }
    drop(&want);
    run_16(codec, subject, WRING_BF16);
    run_16(codec, subject, WRING_F16);
}

/** Any floats, or what the codec can have that is nearest. @return to be freed */
static float *take_residual(const struct wring_codec *codec, const uint8_t *data, uint64_t elems)
{
    void *allocation;
    const float *any = (const float *)(void *)fuzz_copy(data, elems * sizeof(*any), 0, &allocation);
    float *kept = keep(codec, any, elems), *residual = read_kept(codec, kept, elems);

    free(kept);
    free(allocation);
    return residual;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    const struct fuzz_codec *codec = fuzz_codec(fuzz_take(&input, 1) % FUZZ_CODECS);
    uint32_t flags = fuzz_take(&input, 1), rows = flags >> 1;
    struct subject subject = {.context = {.ranks = 2, .phase = flags & 1}};
    void *allocations[2] = {NULL, NULL};

    if (codec == NULL)
        return 0;
    if (codec->tiers[0]->ops->code_sum != NULL)
        subject.context.phase = 0; /* what goes back is a sum, which nobody encodes */
    const struct wring_codec *way = wring_codec_way(codec->tiers[0], subject.context.phase);
    bool fed = (wring_codec_info(way)->flags & WRING_CODEC_FEEDBACK) != 0;
    subject.elems = input.left / sizeof(float) / (fed ? 2 : 1);
    size_t bytes = subject.elems * sizeof(float);
    subject.input = (const float *)(void *)fuzz_copy(input.data, bytes, 0, &allocations[0]);
    if (fed)
        subject.residual = allocations[1] =
            take_residual(codec->tiers[0], input.data + bytes, subject.elems);
    struct wring_solo solo;
    subject.context.elems = subject.elems;
    if (rows > 0 && subject.elems % rows == 0) {
        subject.context.rows = rows;
        subject.context.columns = subject.elems / rows;
    }
    FUZZ_CHECK(wring_solo_init(&solo, codec->tiers[0], &subject.context) == WRING_OK, "memory");
    subject.solo = &solo;
    uint64_t mode = wring_fp_enter();
    run(codec, &subject);
    wring_fp_leave(mode);
    wring_solo_finish(&solo);
    free(allocations[0]);
    free(allocations[1]);
    return 0;
}
