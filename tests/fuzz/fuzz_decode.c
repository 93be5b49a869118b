/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Every decoder on hostile bytes: refused or decoded, alike by every tier, alike within a sum.
 *
 * Input: codec (1 byte), flags (1: bit 0 way back, bits 4..5 alignment), elements (2), the code.
 */
#include "base/fpenv.h"
#include "compress/codec.h"
#include "compress/solo.h"
#include "tests/fuzz/codecs.h"
#include <wring/executor.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float *new_floats(uint64_t n)
{
    float *floats = aligned_alloc(64, (n * sizeof(float) + 127) / 64 * 64);
    FUZZ_CHECK(floats != NULL, "out of memory");
    return floats;
}

/** Exactly n floats, so that a write past them is seen. */
static float *exact_floats(uint64_t n)
{
    float *floats = malloc(n * sizeof(float) + (n == 0));
    FUZZ_CHECK(floats != NULL, "out of memory");
    for (uint64_t i = 0; i < n; i++)
        floats[i] = (float)(i % 7) - 3;
    return floats;
}

struct subject {
    const uint8_t *code;
    size_t bytes;
    uint64_t elems;
    struct wring_codec_context context;
};

static enum wring_status decode(const struct wring_codec *codec, const struct subject *subject,
                                bool add, float *dst)
{
    enum wring_status status = wring_codec_decode(codec, &subject->context, subject->code,
                                                  subject->bytes, dst, subject->elems, add);
    const char *spec = wring_codec_info(codec)->spec;
    FUZZ_CHECK(status == WRING_OK || status == WRING_ERR_FRAME, "%s: status %d", spec, status);
    return status;
}

static void check_sum(const float *decoded, const float *sum, uint64_t n, const char *spec)
{
    for (uint64_t i = 0; i < n; i++) {
        float want = (float)(i % 7) - 3 + decoded[i];
        FUZZ_CHECK(want == sum[i] || (want != want && sum[i] != sum[i]),
                   "%s: element %zu: sum %a, not %a", spec, (size_t)i, sum[i], want);
    }
}

/** A reduction of the code and raw data, as an owner of a shard makes it. */
static void check_reduction(const struct wring_codec *codec, const struct subject *subject,
                            enum wring_status status, const float *decoded)
{
    float *own = exact_floats(subject->elems), *scratch = new_floats(subject->elems);
    const struct wring_codec *way = wring_codec_way(codec, subject->context.phase);
    struct wring_source sources[] = {
        {own, subject->elems * sizeof(float), NULL, {0}},
        {subject->code, subject->bytes, way, {0}},
    };
    struct wring_job job = {.kind = WRING_JOB_REDUCE,
                            .elems = subject->elems,
                            .context = subject->context,
                            .sources = sources,
                            .n_sources = 2,
                            .divisor = 1,
                            .dst = own};

    wring_job_run(&job, scratch);
    FUZZ_CHECK(job.result.status == status && (status == WRING_OK || job.result.bad_source == 1),
               "%s: reduction says %d, source %u; decoding says %d", wring_codec_info(way)->spec,
               job.result.status, job.result.bad_source, status);
    if (status == WRING_OK)
        check_sum(decoded, own, subject->elems, wring_codec_info(way)->spec);
    free(own);
    free(scratch);
}

static void check_tier(const struct wring_codec *codec, const struct subject *subject,
                       enum wring_status status, const float *want)
{
    float *dst = exact_floats(subject->elems), *sum = exact_floats(subject->elems);
    const struct wring_codec_info *info = wring_codec_info(codec);

    FUZZ_CHECK(decode(codec, subject, false, dst) == status &&
                   decode(codec, subject, true, sum) == status,
               "%s: %s disagrees about the code", info->spec, info->tier);
    if (status == WRING_OK) {
        FUZZ_CHECK(subject->elems == 0 || memcmp(dst, want, subject->elems * sizeof(float)) == 0,
                   "%s: %s decodes otherwise", info->spec, info->tier);
        check_sum(want, sum, subject->elems, info->spec);
    }
    free(dst);
    free(sum);
}

/** The same bytes as elements of 16 bits, where the codec takes these as they are. */
static void check_16(const struct fuzz_codec *codec, const struct subject *subject,
                     enum wring_dtype dtype)
{
    enum wring_status first = WRING_OK;
    uint16_t *want = NULL;

    for (int tier = 0; tier < WRING_CPU_TIERS; tier++) {
        if (codec->tiers[tier] == NULL)
            continue;
        const struct wring_codec *way = wring_codec_way(codec->tiers[tier], subject->context.phase);
        if (way->ops->decode16 == NULL)
            return;
        uint16_t *dst = calloc(subject->elems + 1, sizeof(*dst));
        enum wring_status status = way->ops->decode16(way, &subject->context, dtype, subject->code,
                                                      subject->bytes, dst, subject->elems);
        FUZZ_CHECK(want == NULL || status == first, "%s: %s disagrees about the code of 16 bits",
                   wring_codec_info(way)->spec, wring_codec_info(way)->tier);
        FUZZ_CHECK(want == NULL || status != WRING_OK ||
                       memcmp(dst, want, subject->elems * sizeof(*dst)) == 0,
                   "%s: %s decodes 16 bits otherwise", wring_codec_info(way)->spec,
                   wring_codec_info(way)->tier);
        first = status;
        free(want);
        want = dst;
    }
    free(want);
}

/** Added twice to a sum of codes, if they add up: every tier makes the same of it. */
static void check_added(const struct fuzz_codec *codec, const struct subject *subject)
{
    size_t bytes = wring_codec_piece_bytes(codec->tiers[0], subject->elems);
    unsigned char *want = calloc(bytes + 1, 1), *got = calloc(bytes + 1, 1);
    bool first = true;

    FUZZ_CHECK(want != NULL && got != NULL, "out of memory");
    for (int tier = 0; tier < WRING_CPU_TIERS; tier++) {
        const struct wring_codec *way = codec->tiers[tier];
        if (way == NULL || way->ops->code_sum == NULL)
            continue;
        memset(got, 0, bytes);
        for (int i = 0; i < 2; i++)
            if (way->ops->code_sum(way, &subject->context, got, subject->code, subject->bytes,
                                   subject->elems) != WRING_OK)
                got[bytes] = 1;
        uint64_t cut = 0;
        if (way->ops->sum_end != NULL)
            way->ops->sum_end(way, &subject->context, got, subject->elems, &cut);
        FUZZ_CHECK(first || memcmp(want, got, bytes + 1) == 0, "%s: %s adds otherwise",
                   wring_codec_info(way)->spec, wring_codec_info(way)->tier);
        memcpy(want, got, bytes + 1);
        got[bytes] = 0, first = false;
    }
    free(want);
    free(got);
}

static void run(const struct fuzz_codec *codec, const struct subject *subject)
{
    float *want = exact_floats(subject->elems);
    enum wring_status status = decode(codec->tiers[0], subject, false, want);

    const char *name = wring_codec_info(codec->tiers[0])->name;
    bool one_nan = strcmp(name, "lossless") != 0; /* that one brings each NaN as it was */
    for (uint64_t i = 0; status == WRING_OK && one_nan && i < subject->elems; i++)
        FUZZ_CHECK(want[i] == want[i] || bits_of(want[i]) == 0x7FC00000, "element %zu: NaN %x",
                   (size_t)i, bits_of(want[i]));
    for (int tier = 0; tier < WRING_CPU_TIERS; tier++)
        if (codec->tiers[tier] != NULL)
            check_tier(codec->tiers[tier], subject, status, want);
    check_16(codec, subject, WRING_BF16);
    check_16(codec, subject, WRING_F16);
    check_added(codec, subject);
    bool sum = subject->context.phase == 1 && codec->tiers[0]->ops->code_sum != NULL;
    if (subject->elems > 0 && !sum) /* of nothing no source is looked at, and no source is a sum */
        check_reduction(codec->tiers[0], subject, status, want);
    free(want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    const struct fuzz_codec *codec = fuzz_codec(fuzz_take(&input, 1) % FUZZ_CODECS);
    uint32_t flags = fuzz_take(&input, 1);
    struct subject subject = {
        .elems = fuzz_take(&input, 2),
        .context = {.rank = 1, .ranks = 2, .phase = flags & 1}, /* the place in check_reduction() */
    };
    void *allocation;

    if (codec == NULL)
        return 0;
    subject.bytes = input.left;
    subject.code = fuzz_copy(input.data, input.left, flags >> 4 & 3, &allocation);
    struct wring_solo solo;
    float *some = exact_floats(subject.elems);
    subject.context.elems = subject.elems;
    FUZZ_CHECK(wring_solo_init(&solo, codec->tiers[0], &subject.context) == WRING_OK, "memory");
    uint64_t mode = wring_fp_enter();
    wring_solo_rounds(&solo, &subject.context, some, NULL);
    run(codec, &subject);
    wring_fp_leave(mode);
    wring_solo_finish(&solo);
    free(some);
    free(allocation);
    return 0;
}
