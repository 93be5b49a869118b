/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Every encoder on any floats: no more bytes than the bound, alike by every tier; the code decodes,
 * and under error feedback what it lost is what stays. One that takes elements of 16 bits as they
 * are has them of the same bytes.
 *
 * Input: codec (1 byte), flags (1: bit 0 way back, others rows of a matrix), then the elements;
 * with feedback the second half of them is the residual.
 */
#include <float.h>
#include <math.h>

#include "base/fpenv.h"
#include "compress/codec.h"
#include "compress/solo.h"
#include "tests/fuzz/codecs.h"

struct subject {
    const float *input, *residual; /* residual: NULL without feedback */
    uint64_t elems;
    struct wring_codec_context context;
    struct wring_solo *solo; /* of which the context is; each tier begins with the first step */
};

/** What one tier makes of it. */
struct outcome {
    uint8_t *code;
    size_t bytes;
    float *residual;
    void *allocations[2];
};

static struct outcome encode(const struct wring_codec *codec, const struct subject *subject)
{
    const struct wring_codec_info *info = wring_codec_info(codec);
    size_t bound = wring_codec_bound(codec, subject->elems);
    struct outcome outcome = {.code = malloc(bound + (bound == 0))};

    FUZZ_CHECK(outcome.code != NULL, "out of memory");
    wring_solo_restart(subject->solo, &subject->context);
    wring_solo_rounds(subject->solo, &subject->context, subject->input, subject->residual);
    if (subject->residual != NULL)
        outcome.residual = (float *)(void *)fuzz_copy(
            subject->residual, subject->elems * sizeof(float), 0, &outcome.allocations[0]);
    outcome.bytes = wring_codec_encode(codec, &subject->context, subject->input, subject->elems,
                                       outcome.residual, outcome.code);
    FUZZ_CHECK(info->flags & WRING_CODEC_FIXED ? outcome.bytes == bound : outcome.bytes <= bound,
               "%s: %zu bytes of %zu", info->spec, outcome.bytes, bound);
    return outcome;
}

static void drop(struct outcome *outcome)
{
    free(outcome->code);
    free(outcome->allocations[0]);
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

static void check_feedback(const struct subject *subject, const struct outcome *outcome,
                           const float *decoded, const char *spec)
{
    for (uint64_t i = 0; i < subject->elems; i++) {
        float input = encoded(subject, spec, i), want = input + subject->residual[i] - decoded[i];
        if (subject->context.phase == 0 && strstr(spec, "+ef21") != NULL)
            want = fmaxf(-FLT_MAX, fminf(FLT_MAX, want - input));
        if (decoded[i] != decoded[i]) /* the unit was not sent */
            want = subject->residual[i];
        FUZZ_CHECK(same_bytes(&want, &outcome->residual[i], sizeof(want)) ||
                       (want != want && outcome->residual[i] != outcome->residual[i]),
                   "%s: element %zu leaves %a, not %a", spec, (size_t)i, outcome->residual[i],
                   want);
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
        check_feedback(subject, outcome, decoded, spec);
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
        FUZZ_CHECK(got.residual == NULL ||
                       same_bytes(got.residual, want.residual, subject->elems * sizeof(float)),
                   "%s: %s leaves another residual", info->spec, info->tier);
        drop(&got);
    }
    drop(&want);
    run_16(codec, subject, WRING_BF16);
    run_16(codec, subject, WRING_F16);
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
        subject.residual =
            (const float *)(void *)fuzz_copy(input.data + bytes, bytes, 0, &allocations[1]);
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
