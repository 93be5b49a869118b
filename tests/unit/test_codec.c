/* SPDX-License-Identifier: Apache-2.0 */
/** Properties of the codecs, each held against a plain reference in double precision. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/fpenv.h"
#include "tests/lib/test.h"
#include <wring/codec.h>

static const char *const specs[] = {
    "none",
    "bf16",
    "fp16",
    "int8",
    "int8:block=32",
    "int8:block=65536",
    "onebit",
    "onebit:block=32",
    "onebit:means=2",
    "topk",
    "topk:block=256",
    "topk:block=256:ratio=0.3",
    "topk:select=exact",
    "topk:block=32768:ratio=0.05",
    "topk:ratio=1",
};
#define SPECS (sizeof(specs) / sizeof(specs[0]))

static const uint64_t lengths[] = {0,    1,    2,    31,   32,    33,    255,   257,   511,
                                   1023, 1024, 1025, 4096, 10007, 65535, 65537, 140001};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static struct wring_codec *make(const char *spec, const char *tier)
{
    struct wring_codec *codec = NULL;
    char why[200] = "";
    enum wring_status status = wring_codec_create(spec, tier, why, sizeof(why), &codec);
    CHECK(status == WRING_OK, "%s: %s", spec, why);
    return codec;
}

/** Call a function for every codec of the list and every tier that runs here. */
static void for_each(void (*check)(const struct wring_codec *codec, uint64_t n), bool all_lengths)
{
    for (int tier = 0; tier < WRING_CPU_TIERS; tier++) {
        if (!wring_cpu_has((enum wring_cpu_tier)tier))
            continue;
        for (size_t s = 0; s < SPECS; s++) {
            struct wring_codec *codec = make(specs[s], wring_cpu_tier_name(tier));
            for (size_t l = 0; l < LENGTHS; l++)
                if (all_lengths || lengths[l] == 10007)
                    check(codec, lengths[l]);
            wring_codec_destroy(codec);
            wring_test_free_guarded();
        }
    }
}

static const struct wring_codec_context context = {.ranks = 1};

static float *gradient(uint64_t n, uint32_t seed)
{
    float *data = wring_test_guarded(n * sizeof(*data));
    for (uint64_t i = 0; i < n; i++) { /* a sum of three: denser near zero, as gradients are */
        float sum = wring_test_random_float(&seed) + wring_test_random_float(&seed);
        data[i] = (sum + wring_test_random_float(&seed)) * 0.01f;
    }
    return data;
}

static float *copy_of(const float *data, uint64_t n)
{
    float *copy = wring_test_guarded(n * sizeof(*copy));
    memcpy(copy, data, n * sizeof(*copy));
    return copy;
}

/** Encode into a buffer that ends at an unmapped page right behind the bound. */
static unsigned char *encode(const struct wring_codec *codec, const float *src, uint64_t n,
                             float *residual, size_t *bytes)
{
    size_t bound = wring_codec_bound(codec, n);
    unsigned char *code = wring_test_guarded(bound);
    *bytes = wring_codec_encode(codec, &context, src, n, residual, code);
    const struct wring_codec_info *info = wring_codec_info(codec);
    CHECK(info->flags & WRING_CODEC_FIXED ? *bytes == bound : *bytes <= bound,
          "%s n=%zu: %zu bytes, bound %zu", info->spec, (size_t)n, *bytes, bound);
    unsigned char *tight = wring_test_guarded(*bytes);
    memcpy(tight, code, *bytes);
    return tight;
}

static float *decode(const struct wring_codec *codec, const void *code, size_t bytes, uint64_t n)
{
    float *out = wring_test_guarded(n * sizeof(*out));
    enum wring_status status = wring_codec_decode(codec, &context, code, bytes, out, n, false);
    CHECK(status == WRING_OK, "%s n=%zu: %s", wring_codec_info(codec)->spec, (size_t)n,
          wring_status_text(status));
    return out;
}

static bool is_canonical_nan(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits == 0x7FC00000;
}

static bool is_named(const struct wring_codec *codec, const char *name)
{
    return strcmp(wring_codec_info(codec)->name, name) == 0;
}

/* ---- what a unit decodes to ---- */

static double peak_of(const float *x, uint64_t n)
{
    double peak = 0;
    for (uint64_t i = 0; i < n; i++)
        peak = fmax(peak, fabs((double)x[i]));
    return peak;
}

static void check_onebit(const struct wring_codec *codec, const float *x, const float *y,
                         uint64_t n)
{
    double sums[2] = {0}, counts[2] = {0};
    bool split = strstr(wring_codec_info(codec)->spec, "means=2") != NULL;
    for (uint64_t i = 0; i < n; i++) {
        sums[split && signbit(x[i])] += fabs((double)x[i]);
        counts[split && signbit(x[i])]++;
    }
    for (uint64_t i = 0; i < n; i++) {
        int side = split && signbit(x[i]);
        double want = sums[side] / counts[side];
        CHECK(!signbit(x[i]) == !signbit(y[i]) && fabs(fabs((double)y[i]) - want) <= want * 1e-5,
              "%s i=%zu: %g became %g, mean %g", wring_codec_info(codec)->spec, (size_t)i, x[i],
              y[i], want);
    }
}

/** Chosen elements travel exactly, and none left behind is larger than one that was chosen. */
static void check_topk(const struct wring_codec *codec, const float *x, const float *y, uint64_t n)
{
    const char *spec = wring_codec_info(codec)->spec;
    double least = INFINITY, left = 0;
    uint64_t count = 0;

    for (uint64_t i = 0; i < n; i++) {
        CHECK(y[i] == 0 || y[i] == x[i], "%s i=%zu: %g became %g", spec, (size_t)i, x[i], y[i]);
        if (y[i] != 0) {
            least = fmin(least, fabs((double)y[i]));
            count++;
        } else {
            left = fmax(left, fabs((double)x[i]));
        }
    }
    CHECK(count == 0 || left <= least, "%s n=%zu: %g stayed, %g was sent", spec, (size_t)n, left,
          least);
    const char *text = strstr(spec, "ratio=");
    double ratio = text != NULL ? strtod(text + 6, NULL) : 0.01;
    double k = fmax(1, ceil(ratio * (double)n));
    bool exact = n < 16384 || strstr(spec, "exact") != NULL;
    CHECK((double)count <= (exact ? k : floor(k * 1.25) + 8), "%s n=%zu: %zu sent, wanted %g", spec,
          (size_t)n, (size_t)count, k);
    CHECK((double)count >= (exact ? k : k / 2), "%s n=%zu: only %zu sent, wanted %g", spec,
          (size_t)n, (size_t)count, k);
}

static void check_unit(const struct wring_codec *codec, const float *x, const float *y, uint64_t n)
{
    if (is_named(codec, "topk")) {
        check_topk(codec, x, y, n);
    } else if (is_named(codec, "onebit")) {
        check_onebit(codec, x, y, n);
    } else {
        double step = is_named(codec, "int8") ? peak_of(x, n) / 127 * 0.50001 : 0;
        for (uint64_t i = 0; i < n; i++) {
            double size = fabs((double)x[i]), near = step;
            if (is_named(codec, "bf16"))
                near = size * 0x1p-8;
            if (is_named(codec, "fp16"))
                near = fmax(size * 0x1p-11, 0x1p-25);
            double error = fabs((double)x[i] - (double)y[i]);
            CHECK(error <= near, "%s i=%zu: %g became %g", wring_codec_info(codec)->spec, (size_t)i,
                  x[i], y[i]);
        }
    }
}

static void check_error_bound(const struct wring_codec *codec, uint64_t n)
{
    size_t bytes;
    float *x = gradient(n, 7);
    unsigned char *code = encode(codec, x, n, NULL, &bytes);
    float *y = decode(codec, code, bytes, n);
    uint64_t unit = wring_codec_info(codec)->unit == 1 ? n : wring_codec_info(codec)->unit;

    for (uint64_t at = 0; at < n; at += unit)
        check_unit(codec, x + at, y + at, n - at < unit ? n - at : unit);
}

static void error_bounds(void)
{
    for_each(check_error_bound, true);
}

/* ---- units stand alone ---- */

static void check_concatenation(const struct wring_codec *codec, uint64_t n)
{
    float *x = gradient(n, 99);
    size_t whole_bytes, at = 0;
    unsigned char *whole = encode(codec, x, n, NULL, &whole_bytes);
    uint64_t unit = wring_codec_info(codec)->unit;
    uint64_t step = unit < 64 ? unit * 129 : unit;

    for (uint64_t done = 0; done < n; done += step) {
        size_t bytes;
        uint64_t length = n - done < step ? n - done : step;
        unsigned char *part = encode(codec, x + done, length, NULL, &bytes);
        REQUIRE(at + bytes <= whole_bytes && memcmp(whole + at, part, bytes) == 0,
                "%s n=%zu: unit at %zu differs", wring_codec_info(codec)->spec, (size_t)n,
                (size_t)done);
        at += bytes;
    }
    CHECK(at == whole_bytes, "%s n=%zu: %zu of %zu bytes", wring_codec_info(codec)->spec, (size_t)n,
          at, whole_bytes);
}

static void concatenation(void)
{
    for_each(check_concatenation, true);
}

/* ---- error feedback ---- */

static void check_feedback(const struct wring_codec *codec, uint64_t n)
{
    float *x = gradient(n, 3), *residual = gradient(n, 5), *before = copy_of(residual, n);
    size_t bytes;
    unsigned char *code = encode(codec, x, n, residual, &bytes);
    float *y = decode(codec, code, bytes, n);

    if (is_named(codec, "none"))
        return; /* it has no feedback: the parser says so */
    for (uint64_t i = 0; i < n; i++) {
        float value = x[i] + before[i], want = value - y[i];
        REQUIRE(memcmp(&residual[i], &want, sizeof(want)) == 0, "%s n=%zu i=%zu: %a - %a left %a",
                wring_codec_info(codec)->spec, (size_t)n, (size_t)i, value, y[i], residual[i]);
        before[i] = value;
    }
    size_t plain_bytes;
    unsigned char *plain = encode(codec, before, n, NULL, &plain_bytes);
    CHECK(plain_bytes == bytes && memcmp(plain, code, bytes) == 0,
          "%s n=%zu: fused and plain encode differ", wring_codec_info(codec)->spec, (size_t)n);
}

static void feedback(void)
{
    for_each(check_feedback, true);
}

/* ---- values that are not finite ---- */

static void poison(const struct wring_codec *codec, uint64_t n, uint64_t where, float what,
                   bool in_residual)
{
    uint64_t unit = wring_codec_info(codec)->unit;
    float *x = gradient(n, 11), *residual = gradient(n, 13);
    (in_residual ? residual : x)[where] = what;
    float *before = copy_of(residual, n);
    size_t bytes;
    unsigned char *code = encode(codec, x, n, residual, &bytes);
    float *y = decode(codec, code, bytes, n), *sum = gradient(n, 17);
    wring_codec_decode(codec, &context, code, bytes, sum, n, true);

    for (uint64_t i = 0; i < n; i++) {
        bool hit = i / unit == where / unit;
        REQUIRE(is_canonical_nan(y[i]) == hit && is_canonical_nan(sum[i]) == hit,
                "%s i=%zu, %g at %zu: decoded to %a", wring_codec_info(codec)->spec, (size_t)i,
                what, (size_t)where, y[i]);
        REQUIRE(!hit || memcmp(&residual[i], &before[i], sizeof(*before)) == 0,
                "%s i=%zu: residual changed", wring_codec_info(codec)->spec, (size_t)i);
    }
}

static void check_poison(const struct wring_codec *codec, uint64_t n)
{
    if (is_named(codec, "none"))
        return;
    poison(codec, n, 0, NAN, false);
    poison(codec, n, n - 1, INFINITY, false);
    poison(codec, n, n / 2, -INFINITY, false);
    poison(codec, n, n / 3, -NAN, true);
    poison(codec, n, n / 3, INFINITY, true);
}

static void not_finite(void)
{
    for_each(check_poison, false);
}

/* ---- odd but ordinary input ---- */

static void check_constant(const struct wring_codec *codec, uint64_t n, float value)
{
    float *x = wring_test_guarded(n * sizeof(*x)), *residual = wring_test_guarded(n * sizeof(*x));
    for (uint64_t i = 0; i < n; i++) {
        x[i] = i % 3 == 0 ? -value : value;
        residual[i] = 0;
    }
    size_t bytes;
    unsigned char *code = encode(codec, x, n, residual, &bytes);
    float *y = decode(codec, code, bytes, n);
    for (uint64_t i = 0; i < n; i++) {
        REQUIRE(isfinite(y[i]) && isfinite(residual[i]), "%s n=%zu: %a became %a, left %a",
                wring_codec_info(codec)->spec, (size_t)n, x[i], y[i], residual[i]);
        REQUIRE(value != 0 || y[i] == 0, "%s: zero became %a", wring_codec_info(codec)->spec, y[i]);
        REQUIRE(is_named(codec, "none") || x[i] - y[i] == residual[i], "%s: %a - %a left %a",
                wring_codec_info(codec)->spec, x[i], y[i], residual[i]);
    }
}

static void check_odd(const struct wring_codec *codec, uint64_t n)
{
    static const float values[] = {0, 0x1p-149f, 0x1p-127f, 0x1p-119f, 0x0.fffp-119f, 1, 0x1p96f};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        check_constant(codec, n, values[i]);
    if (!is_named(codec, "onebit")) /* there the sum of magnitudes overflows: a NaN unit */
        check_constant(codec, n, 0x1.fffffep127f);
}

static void odd_input(void)
{
    for_each(check_odd, false);
}

/** fp16 from its denormals to its largest number, over which the plain bound holds too. */
static void check_half_range(const struct wring_codec *codec, uint64_t n)
{
    if (!is_named(codec, "fp16"))
        return;
    uint32_t random = 71;
    float *x = wring_test_guarded(n * sizeof(*x));
    for (uint64_t i = 0; i < n; i++)
        x[i] =
            wring_test_random_float(&random) * exp2f((float)(wring_test_random(&random) % 46) - 30);
    size_t bytes;
    unsigned char *code = encode(codec, x, n, NULL, &bytes);
    check_unit(codec, x, decode(codec, code, bytes, n), n);
}

/** What is too large for binary16: infinite on the way in, the largest number elsewhere. */
static void check_half_overflow(const struct wring_codec *codec, uint64_t n)
{
    static const float large[] = {65520, -65536, 1e9f, -0x1.fffffep127f};
    const struct wring_codec_context back = {.ranks = 1, .phase = 1};
    unsigned char code[8];
    float y[4], residual[4] = {0};

    (void)n;
    if (!is_named(codec, "fp16"))
        return;
    wring_codec_encode(codec, &context, large, 4, NULL, code);
    wring_codec_decode(codec, &context, code, sizeof(code), y, 4, false);
    for (int i = 0; i < 4; i++)
        CHECK(isinf(y[i]) && (y[i] < 0) == (large[i] < 0), "%g became %g", large[i], y[i]);
    wring_codec_encode(codec, &back, large, 4, NULL, code);
    wring_codec_decode(codec, &back, code, sizeof(code), y, 4, false);
    for (int i = 0; i < 4; i++)
        CHECK(y[i] == copysignf(65504, large[i]), "the sum %g became %g", large[i], y[i]);
    wring_codec_encode(codec, &context, large, 4, residual, code);
    wring_codec_decode(codec, &context, code, sizeof(code), y, 4, false);
    for (int i = 0; i < 4; i++)
        CHECK(y[i] == copysignf(65504, large[i]) && residual[i] == large[i] - y[i],
              "fed %g became %g and left %g", large[i], y[i], residual[i]);
}

static void half_limits(void)
{
    for_each(check_half_range, false);
    for_each(check_half_overflow, false);
}

/* ---- adding ---- */

static void check_add(const struct wring_codec *codec, uint64_t n)
{
    float *x = gradient(n, 23), *sum = gradient(n, 29);
    size_t bytes;
    unsigned char *code = encode(codec, x, n, NULL, &bytes);
    float *y = decode(codec, code, bytes, n), *before = copy_of(sum, n);

    CHECK(wring_codec_decode(codec, &context, code, bytes, sum, n, true) == WRING_OK, "add failed");
    for (uint64_t i = 0; i < n; i++) {
        float want = before[i] + y[i];
        REQUIRE(memcmp(&sum[i], &want, sizeof(want)) == 0, "%s n=%zu i=%zu: %a + %a gave %a",
                wring_codec_info(codec)->spec, (size_t)n, (size_t)i, before[i], y[i], sum[i]);
    }
}

static void adding(void)
{
    for_each(check_add, true);
}

/* ---- every tier writes the same bytes ---- */

static void check_same_bytes(const struct wring_codec *codec, uint64_t n)
{
    struct wring_codec *reference = make(wring_codec_info(codec)->spec, "scalar");
    float *x = gradient(n, 31), *residual = gradient(n, 37), *other = copy_of(residual, n);
    size_t bytes, want_bytes;
    unsigned char *got = encode(codec, x, n, residual, &bytes);
    unsigned char *want = encode(reference, x, n, other, &want_bytes);

    CHECK(bytes == want_bytes && memcmp(got, want, bytes) == 0, "%s n=%zu tier %s: other bytes",
          wring_codec_info(codec)->spec, (size_t)n, wring_codec_info(codec)->tier);
    CHECK(memcmp(residual, other, n * sizeof(*other)) == 0, "%s n=%zu tier %s: other residual",
          wring_codec_info(codec)->spec, (size_t)n, wring_codec_info(codec)->tier);
    wring_codec_destroy(reference);
}

static void same_bytes(void)
{
    for_each(check_same_bytes, true);
}

/* ---- bytes that no encoder wrote ---- */

static void check_wrong_length(const struct wring_codec *codec, uint64_t n)
{
    float *x = gradient(n, 43), *out = wring_test_guarded(n * sizeof(*out));
    size_t bytes;
    unsigned char *code = encode(codec, x, n, NULL, &bytes);
    unsigned char *longer = wring_test_guarded(bytes + 1);
    memcpy(longer, code, bytes);

    CHECK(wring_codec_decode(codec, &context, longer, bytes + 1, out, n, false) == WRING_ERR_FRAME,
          "%s n=%zu: a byte too many is taken", wring_codec_info(codec)->spec, (size_t)n);
    for (size_t cut = 1; cut <= bytes; cut += 1 + cut / 2) {
        unsigned char *shorter = wring_test_guarded(bytes - cut);
        memcpy(shorter, code, bytes - cut);
        CHECK(wring_codec_decode(codec, &context, shorter, bytes - cut, out, n, true) ==
                  WRING_ERR_FRAME,
              "%s n=%zu: %zu bytes short are taken", wring_codec_info(codec)->spec, (size_t)n, cut);
    }
}

static void wrong_length(void)
{
    for_each(check_wrong_length, true);
}

/** Valid codes with random damage: refused or decoded, never out of bounds. */
static void check_damage(const struct wring_codec *codec, uint64_t n)
{
    float *x = gradient(n, 47), *out = wring_test_guarded(n * sizeof(*out));
    size_t bytes;
    unsigned char *code = encode(codec, x, n, NULL, &bytes);
    unsigned char *damaged = wring_test_guarded(bytes);
    uint32_t random = 53;

    for (int round = 0; round < 200; round++) {
        memcpy(damaged, code, bytes);
        for (uint32_t flips = wring_test_random(&random) % 8 + 1; flips > 0; flips--) {
            size_t at = wring_test_random(&random) % (round % 2 == 0 ? bytes : (bytes + 7) / 8);
            damaged[at] = (unsigned char)wring_test_random(&random);
        }
        enum wring_status status =
            wring_codec_decode(codec, &context, damaged, bytes, out, n, round % 3 == 0);
        CHECK(status == WRING_OK || status == WRING_ERR_FRAME, "%s: %s",
              wring_codec_info(codec)->spec, wring_status_text(status));
    }
}

static void damage(void)
{
    for_each(check_damage, false);
}

/** One unit's code by hand; what a peer must not get away with. */
static void refuse(const char *spec, uint64_t n, const uint32_t *words, size_t n_words,
                   const char *what)
{
    struct wring_codec *codec = make(spec, NULL);
    size_t bytes = strcmp(wring_codec_info(codec)->name, "topk") == 0 ? n_words * sizeof(*words)
                                                                      : wring_codec_bound(codec, n);
    unsigned char *code = wring_test_guarded(bytes);
    float *out = wring_test_guarded(n * sizeof(*out));

    memset(code, 0, bytes);
    memcpy(code, words, n_words * sizeof(*words));
    CHECK(wring_codec_decode(codec, &context, code, bytes, out, n, false) == WRING_ERR_FRAME,
          "%s: %s is taken", spec, what);
    wring_codec_destroy(codec);
}

#define REFUSE(spec, n, what, ...)                   \
    refuse(spec, n, (const uint32_t[]){__VA_ARGS__}, \
           sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), what)

static void malformed(void)
{
    REFUSE("int8", 32, "a negative scale", 0xBF800000);
    REFUSE("int8", 32, "an infinite scale", 0x7F800000);
    REFUSE("int8", 32, "another NaN", 0x7FC00001);
    REFUSE("int8", 32, "a scale that overflows", 0x7C010204);
    REFUSE("onebit", 32, "a negative mean", 0x80000000);
    REFUSE("onebit", 32, "an infinite mean", 0x7F800000);
    REFUSE("onebit:means=2", 32, "one NaN of two means", 0x7FC00000, 0x3F800000);
    REFUSE("topk:block=256", 256, "a count above the bound", 4, 1, 1, 1, 1, 0x00020001, 0x00040003);
    REFUSE("topk:block=256", 256, "a huge count", 0xFFFFFFFE);
    REFUSE("topk:block=256", 256, "equal indices", 2, 1, 1, 0x00050005);
    REFUSE("topk:block=256", 256, "descending indices", 2, 1, 1, 0x00050006);
    REFUSE("topk:block=256", 256, "an index outside the unit", 2, 1, 1, 0x01000005);
    REFUSE("topk:block=256", 100, "an index outside a short unit", 1, 1, 0x00000064);
    REFUSE("topk:block=256", 256, "an infinite value", 1, 0x7F800000, 5);
    REFUSE("topk:block=256", 256, "a NaN value", 1, 0xFFC00000, 5);
}

/* ---- the worked bytes of FORMAT.md ---- */

static void worked(const char *spec, const float *x, uint64_t n, const unsigned char *want,
                   size_t want_bytes)
{
    struct wring_codec *codec = make(spec, NULL);
    size_t bytes;
    unsigned char *code = encode(codec, x, n, NULL, &bytes);
    CHECK(bytes >= want_bytes && memcmp(code, want, want_bytes) == 0,
          "%s: other bytes than FORMAT.md says", spec);
    wring_codec_destroy(codec);
}

#define WORKED(spec, x, n, ...)                              \
    worked(spec, x, n, (const unsigned char[]){__VA_ARGS__}, \
           sizeof((const unsigned char[]){__VA_ARGS__}))

static void worked_bytes(void)
{
    static const float thirds[] = {1.0f / 3, -65519.99609375f, 1e-7f, 65520};
    static const float halves[] = {1, 1.00390625f, -1.01171875f};
    static const float steps[32] = {127, -64, 0.5f, 1.5f};
    static const float signs[32] = {1, -3};
    static const float sparse[256] = {[5] = 1, [9] = -2};

    WORKED("bf16", halves, 3, 0x80, 0x3F, 0x80, 0x3F, 0x82, 0xBF);
    WORKED("fp16", thirds, 4, 0x55, 0x35, 0xFF, 0xFB, 0x02, 0x00, 0x00, 0x7C);
    WORKED("int8:block=32", steps, 32, 0, 0, 0x80, 0x3F, 0x7F, 0xC0, 0x00, 0x02, 0x00);
    WORKED("onebit:block=32", signs, 32, 0, 0, 0, 0x3E, 2, 0, 0, 0);
    WORKED("topk:block=256", sparse, 256, 2, 0, 0, 0, 0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0, 5, 0, 9, 0);
}

/** What is not in the list above has no property tested. */
static void every_codec_is_listed(void)
{
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        bool found = false;
        for (size_t s = 0; s < SPECS; s++)
            found |= strcmp(specs[s], (*ops)->name) == 0;
        CHECK(found, "codec %s is not among the specs of this test", (*ops)->name);
    }
}

static const struct wring_test_case cases[] = {
    {"every_codec_is_listed", every_codec_is_listed},
    {"error_bounds", error_bounds},
    {"concatenation", concatenation},
    {"feedback", feedback},
    {"half_limits", half_limits},
    {"not_finite", not_finite},
    {"odd_input", odd_input},
    {"adding", adding},
    {"same_bytes", same_bytes},
    {"wrong_length", wrong_length},
    {"damage", damage},
    {"malformed", malformed},
    {"worked_bytes", worked_bytes},
    {0},
};

int main(int argc, char **argv)
{
    uint64_t mode = wring_fp_enter();
    int code = wring_test_main(argc, argv, cases);
    wring_fp_leave(mode);
    return code;
}
